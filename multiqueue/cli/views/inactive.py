"""Why a queue admits nothing, in words that name the cause. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from multiqueue.api import names
from multiqueue.api.conditions import ACTIVE, find_condition

if TYPE_CHECKING:
    from multiqueue.api.v1beta2 import ClusterQueue
    from multiqueue.cli.queue_objects import QueueObjects

_STOPPED = ("Hold", "HoldAndDrain")


def explain_cluster_queue(queue: ClusterQueue) -> str:
    """Return why a ClusterQueue admits nothing; empty if it does, or has no condition yet."""
    title = f"ClusterQueue {queue.metadata.name}"
    if queue.spec.stop_policy in _STOPPED:
        return f"{title} is stopped (stopPolicy {queue.spec.stop_policy})"
    active = find_condition(queue.status.conditions, ACTIVE)
    if active is None or active.status == "True":
        return ""
    return f"{title} is inactive: {active.message or active.reason}"


def explain_local_queue(objects: QueueObjects, key: str) -> str:
    """Return why a LocalQueue admits nothing; empty if it can, or its queues may not be read."""
    queue = objects.local_queues.get(key)
    if queue is None and "localqueues" in objects.hidden:
        return ""
    if queue is None:
        return f"LocalQueue {names.split_key(key)[1]} doesn't exist"
    if queue.spec.stop_policy in _STOPPED:
        return f"LocalQueue {queue.metadata.name} is stopped (stopPolicy {queue.spec.stop_policy})"
    name = queue.spec.cluster_queue
    cluster_queue = objects.cluster_queues.get(name)
    if cluster_queue is None and "clusterqueues" in objects.hidden:
        return ""
    if cluster_queue is None:
        return f"ClusterQueue {name} doesn't exist"
    return explain_cluster_queue(cluster_queue)
