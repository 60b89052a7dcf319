"""What a victim is told (E-102); tools read this, so it is upstream's wording."""

from __future__ import annotations

from collections.abc import Mapping

from multiqueue.api.conditions import Reason
from multiqueue.engine.cache.cached_queue import CachedQueue
from multiqueue.engine.cache.quota_node import QuotaNode
from multiqueue.engine.preemption.target import Target
from multiqueue.model.workload import Workload

HUMAN_REASONS: Mapping[Reason, str] = {
    Reason.IN_CLUSTER_QUEUE: "prioritization in the ClusterQueue",
    Reason.IN_COHORT_RECLAMATION: "reclamation within the cohort",
    Reason.IN_COHORT_FAIR_SHARING: "Fair Sharing within the cohort",
    Reason.IN_COHORT_RECLAIM_WHILE_BORROWING: "reclamation within the cohort while borrowing",
}
"""By the reason of the Preempted condition, which is that of a `Target`."""

_UNKNOWN = "UNKNOWN"


def preemption_message(
    preemptor: Workload, queue: CachedQueue, target: Target, queues: Mapping[str, CachedQueue]
) -> str:
    """Say for whom a workload has to leave, and why.

    Args:
        preemptor: who gets the room.
        queue: in which it waits.
        target: who leaves.
        queues: all ClusterQueues by name.
    """
    if target.reason is Reason.FLAVOR_MIGRATION:
        return f"Migrates to a more favorable flavor with variant {preemptor.key}"
    uid, job_uid = preemptor.uid or _UNKNOWN, preemptor.job_uid or _UNKNOWN
    return (
        f"Preempted to accommodate a workload (UID: {uid}, JobUID: {job_uid})"
        f" due to {HUMAN_REASONS[target.reason]}"
        f"; preemptor path: {path_of(queue.node)}"
        f"; preemptee path: {path_of(queues[target.entry.charged].node)}"
    )


def path_of(node: QuotaNode) -> str:
    """Return the names from the root of the tree down to a node."""
    above = "" if node.parent is None else path_of(node.parent)
    return f"{above}/{node.name}"
