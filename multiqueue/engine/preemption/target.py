"""Input and result of a search for victims (E-86, E-95), and the message to a victim (E-102).

Tools read this message, so it has upstream's wording.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from multiqueue.api.conditions import Reason
from multiqueue.engine.cache.cached_queue import CachedQueue
from multiqueue.engine.cache.quota_node import FlavorResource, QuotaNode
from multiqueue.engine.cache.tree import Tree
from multiqueue.engine.queues.entry import Entry
from multiqueue.engine.value import Value
from multiqueue.lib.amount import Amount
from multiqueue.model.workload import Workload


class Target(NamedTuple):
    """A workload that has to leave, and by which rule.

    ``reason`` is one of the ``IN_C…`` ones, or FLAVOR_MIGRATION for a variant of the same job.
    """

    entry: Entry
    reason: Reason


class PreemptionRequest(Value, frozen=True, kw_only=True, gc=False):
    """What would fit if others left.

    Shape: ``usage`` is everything asked for, by slot of the queue's node; ``contested`` are the
    slots that need a preemption (E-86). ``is_placeable`` is asked at the usage of the moment, after
    quota fits, whether the pods find their topology domains too; None if no topology is asked.
    """

    tree: Tree
    queue: CachedQueue
    workload: Workload
    usage: Mapping[int, Amount]
    contested: frozenset[int]
    is_placeable: Callable[[], bool] | None = None

    def needed(self) -> frozenset[FlavorResource]:
        """Return what is contested by name, as other queues number their slots differently."""
        slots = self.queue.node.slot_by_flavor_resource
        return frozenset(pair for pair, slot in slots.items() if slot in self.contested)


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
