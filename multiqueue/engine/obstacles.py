"""What is in the way of a waiting workload: who is ahead of it, and why nobody is preempted.

Read-only, and only for people's questions: cycles decide without it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from multiqueue.engine.cache.cached_queue import CachedQueue
from multiqueue.engine.cache.drs import share_of
from multiqueue.engine.cache.quota_node import FlavorResource
from multiqueue.engine.preemption.candidates import (
    find_candidates,
    is_within_nominal,
    rank_limit,
)
from multiqueue.engine.preemption.search import may_preempt
from multiqueue.engine.queue_states import requests_by_flavor
from multiqueue.engine.queues.entry import Entry
from multiqueue.engine.world import EngineParts
from multiqueue.model.cluster_queue import PreemptionPolicy, QueueingStrategy
from multiqueue.model.workload import Workload


class QueueShare(NamedTuple):
    """The weighted share of one ClusterQueue, as in its status."""

    cluster_queue: str
    share: int


def find_ahead(world: EngineParts, key: str) -> Entry | None:
    """Return the head that keeps a workload from being tried; None if none does.

    In a StrictFIFO queue that is the first one, until it starts. In a BestEffortFIFO queue it is
    the one for which others are being preempted.
    """
    entry = world.entries.get(key)
    pending = None if entry is None else world.pending.get(entry.queue)
    if entry is None or pending is None or entry.is_parked:
        return None
    first = pending.first()
    if first is None or first is entry:
        return None
    if pending.strategy is QueueingStrategy.STRICT_FIFO:
        return first
    return first if entry.explanation is None and first is pending.sticky else None


def list_shares(world: EngineParts, cluster_queue: str) -> list[QueueShare]:
    """Return the shares of all ClusterQueues of a tree, the least first.

    Empty without fair sharing. Cost: the queues of the tree.
    """
    tree = world.cache.tree_by_queue.get(cluster_queue)
    if tree is None or world.options.fair_sharing is None:
        return []
    shares = [QueueShare(name, share_of(q.node).reported) for name, q in tree.queues.items()]
    return sorted(shares, key=lambda row: (row.share, row.cluster_queue))


def list_local_queues(world: EngineParts, cluster_queue: str) -> list[str]:
    """Return the keys of the LocalQueues of a ClusterQueue. Cost: all LocalQueues."""
    return [
        key
        for key, record in world.quota_usage.local_queues.items()
        if record.spec is not None and record.cluster_queue == cluster_queue
    ]


def explain_no_preemption(world: EngineParts, key: str, needed: frozenset[FlavorResource]) -> str:
    """Return why no running workload leaves for a waiting one, in a sentence.

    Args:
        world: the engine.
        key: the workload that waits for quota.
        needed: the resources that it has too little quota of, by flavor.
    """
    entry = world.entries.get(key)
    queue = None if entry is None else world.cache.queues.get(entry.queue)
    if entry is None or queue is None or not needed:
        return ""
    if not may_preempt(queue):
        return (
            f"ClusterQueue {queue.name} preempts nobody: its preemption.withinClusterQueue and "
            "preemption.reclaimWithinCohort are Never"
        )
    if _has_to_borrow(world, entry, queue, needed):
        return (
            f"it needs more than the nominal quota of ClusterQueue {queue.name}, and a Workload "
            "that borrows preempts nobody while preemption.borrowWithinCohort is Never"
        )
    rules = queue.spec.preemption
    own = _count(world, [queue], needed, entry.workload, rules.within_cluster_queue)
    borrowing = _borrowers(world, queue, needed)
    others = _count(world, borrowing, needed, entry.workload, rules.reclaim_within_cohort)
    if count := own + others:
        whom, whose = (
            ("Workload", "its queue is")
            if count == 1
            else (f"{count} Workloads", "their queues are")
        )
        within = f", or {whose} within the nominal quota" if others else ""
        return f"the {whom} that it may preempt would not make enough room{within}"
    within = _within(queue, entry.workload, rules.within_cluster_queue)
    reclaim = _reclaim(queue, borrowing, rules.reclaim_within_cohort, entry.workload)
    return f"it may preempt nobody: {within}; {reclaim}"


def _has_to_borrow(
    world: EngineParts, entry: Entry, queue: CachedQueue, needed: frozenset[FlavorResource]
) -> bool:
    """Whether a workload preempts nobody because it would borrow in every flavor (E-48)."""
    rules, node = queue.spec.preemption, queue.node
    if rules.borrow_within_cohort is not PreemptionPolicy.NEVER or (
        world.options.fair_sharing is not None
        and rules.reclaim_within_cohort is not PreemptionPolicy.NEVER
    ):
        return False
    requests = requests_by_flavor(world, entry)
    for flavor, resource in needed:
        slot, asked = node.slot_by_flavor_resource[flavor, resource], requests[flavor][resource]
        if node.nominal[slot] >= asked or node.borrow_height(slot, asked)[1]:
            return False
    return True


def _borrowers(
    world: EngineParts, queue: CachedQueue, needed: frozenset[FlavorResource]
) -> list[CachedQueue]:
    """Return the other queues of the tree that borrow what is needed."""
    tree = world.cache.tree_by_queue[queue.name]
    others = (each for each in tree.queues.values() if each is not queue)
    return [each for each in others if not is_within_nominal(each.node, needed)]


def _count(
    world: EngineParts,
    queues: Sequence[CachedQueue],
    needed: frozenset[FlavorResource],
    workload: Workload,
    policy: PreemptionPolicy,
) -> int:
    limit = rank_limit(policy, workload)
    if limit is None:
        return 0
    holders = world.context.holders
    found = (find_candidates(holders, q.name, needed, limit=limit) for q in queues)
    return sum(len(each.candidates) for each in found)


_RANKS = {
    PreemptionPolicy.LOWER_PRIORITY: "a lower priority than {}",
    PreemptionPolicy.LOWER_OR_NEWER_EQUAL_PRIORITY: "a lower priority than {}, or the same and a "
    "later submission",
}


def _within(queue: CachedQueue, workload: Workload, policy: PreemptionPolicy) -> str:
    if policy is PreemptionPolicy.NEVER:
        return "withinClusterQueue is Never"
    rank = _RANKS.get(policy, "any priority").format(workload.priority)
    return f"no Workload that runs in {queue.name} has {rank}"


def _reclaim(
    queue: CachedQueue,
    borrowing: Sequence[CachedQueue],
    policy: PreemptionPolicy,
    workload: Workload,
) -> str:
    if queue.node.parent is None:
        return "the queue is in no cohort"
    if policy is PreemptionPolicy.NEVER:
        return "reclaimWithinCohort is Never"
    if not borrowing:
        return "no other queue of the cohort borrows what it needs"
    rank = _RANKS.get(policy, "any priority").format(workload.priority)
    return f"no Workload of a queue that borrows has {rank}"
