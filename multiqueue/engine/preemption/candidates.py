"""Candidates for preemption, and their order (E-87, E-90).

The holders of a queue are sorted and summed up when somebody first asks after a change of them; the
searches only filter and merge what is sorted already. What depends on the moment (usage, past
usage, who is preempted in this cycle already) is looked at by every search anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cmp_to_key
from typing import Any, NamedTuple, TypeAlias

from multiqueue.engine.cache.quota_node import FlavorResource, QuotaNode
from multiqueue.engine.queues.entry import Entry, micros
from multiqueue.engine.quota_usage import QuotaUsage
from multiqueue.lib.amount import Amount
from multiqueue.model.cluster_queue import PreemptionPolicy
from multiqueue.model.workload import Workload

Order: TypeAlias = tuple[Any, ...]
"""(not evicted, priority, reservation time descending, uid, key): whom to preempt first (E-90).

A DisruptionPolicy may put its own preference behind the priority."""

RankLimit: TypeAlias = tuple[int, ...]
"""The beginning of a `Rank`; who ranks behind it may be preempted."""

PastUsage: TypeAlias = Callable[[str, str], float | None]
"""(ClusterQueue, key of the LocalQueue) -> usage by E-120, None if it does not count (E-127)."""


class QuotaHolder(NamedTuple):
    """A holder of quota; ``order`` differs between any two, so candidates sort by it alone."""

    order: Order
    entry: Entry


class Eligible(NamedTuple):
    """The holders of one queue that may be preempted, in the order of preemption.

    Shape: ``totals`` is what they use together of the needed flavor-resources.
    """

    candidates: Sequence[QuotaHolder]
    totals: Mapping[FlavorResource, Amount]


NOBODY = Eligible((), {})


class HolderIndex:
    """The holders of each ClusterQueue by what they use, in the order of preemption.

    Lists are made when asked for and kept until the holders of that queue change; a queue without
    holders keeps none.
    """

    __slots__ = ("_known", "_quota_usage")

    def __init__(self, quota_usage: QuotaUsage) -> None:
        self._quota_usage = quota_usage
        self._known: dict[str, _SortedHolders] = {}

    def using(
        self, cluster_queue: str, needed: frozenset[FlavorResource], limit: RankLimit
    ) -> Eligible:
        """Return the holders behind a rank with at least one of these, whatever the amount."""
        holders = self._quota_usage.holders.get(cluster_queue)
        if holders is None:
            self._known.pop(cluster_queue, None)
            return NOBODY
        version = self._quota_usage.holders_version[cluster_queue]
        known = self._known.get(cluster_queue)
        if known is None or known.version != version:
            known = self._known[cluster_queue] = _SortedHolders(version, holders.values())
        return known.using(needed, limit)


class _SortedHolders:
    """All holders of one queue at one version of them.

    Lists by limit are kept only for limits by priority alone: those by time are as many as heads.
    """

    __slots__ = ("_all", "_behind", "_using", "version")

    def __init__(self, version: int, holders: Iterable[Entry]) -> None:
        self.version = version
        self._all = sorted(QuotaHolder(order_of(entry), entry) for entry in holders)
        self._using: dict[frozenset[FlavorResource], Eligible] = {}
        self._behind: dict[tuple[frozenset[FlavorResource], RankLimit], Eligible] = {}

    def using(self, needed: frozenset[FlavorResource], limit: RankLimit) -> Eligible:
        found = self._using.get(needed)
        if found is None:
            found = self._using[needed] = summed_up(
                (c for c in self._all if not needed.isdisjoint(c.entry.usage.keys())), needed
            )
        if not limit:
            return found
        behind = self._behind.get((needed, limit))
        if behind is None:
            behind = summed_up((c for c in found.candidates if c.entry.rank > limit), needed)
            if len(limit) == 1:
                self._behind[needed, limit] = behind
        return behind


def summed_up(found: Iterable[QuotaHolder], needed: frozenset[FlavorResource]) -> Eligible:
    """Return candidates with what they use together of what is needed."""
    candidates = list(found)
    totals = {
        pair: sum(candidate.entry.usage.get(pair, 0) for candidate in candidates) for pair in needed
    }
    return Eligible(candidates, totals)


def order_of(entry: Entry) -> Order:
    """Return where a holder stands among those of its queue, without past usage (E-90).

    Who leaves anyway comes first, then lower priority, then the younger reservation.
    """
    workload, evicted = entry.workload, entry.workload.evicted
    is_evicted = evicted is not None and evicted.status == "True"
    is_told = is_evicted or (workload.notice is not None and entry.notice is not None)
    return (not is_told, workload.priority, -entry.reserved_at, workload.uid, entry.key)


def rank_limit(policy: PreemptionPolicy, workload: Workload) -> RankLimit | None:
    """Return the rank behind which a workload may preempt; None if it may preempt nobody (E-87).

    A rank begins with the priority, descending, and the queue-order time, so every policy is one
    comparison with the beginning of a rank. A tuple is greater than its own beginning, which is why
    the last number is one more than that of the workload.
    """
    if policy is PreemptionPolicy.NEVER:
        return None
    if policy is PreemptionPolicy.ANY:
        return ()
    if policy is PreemptionPolicy.LOWER_PRIORITY:
        return (-workload.priority + 1,)
    return (-workload.priority, micros(workload.queue_order_at) + 1)


def find_candidates(
    holders: HolderIndex,
    cluster_queue: str,
    needed: frozenset[FlavorResource],
    *,
    limit: RankLimit,
    excluded: frozenset[str] = frozenset(),
) -> Eligible:
    """Find the holders of a queue that a workload may preempt, sorted but for past usage.

    Args:
        holders: of all queues.
        cluster_queue: whose holders to look at.
        needed: what the candidates must have some of.
        limit: the policy's, see `rank_limit`.
        excluded: keys of workloads that cannot be preempted any more, because they are already.
    """
    found = holders.using(cluster_queue, needed, limit)
    if not excluded:
        return found
    return summed_up((c for c in found.candidates if c.entry.key not in excluded), needed)


def sort_candidates(
    candidates: Iterable[QuotaHolder], past_usage: PastUsage | None = None
) -> list[QuotaHolder]:
    """Sort candidates, of one or several queues, into the order of preemption (E-90).

    Past usage counts only between LocalQueues of the same ClusterQueue, and is no order over all:
    sorting by the rest first gives the same result for the same candidates.
    """
    in_order = sorted(candidates)
    if past_usage is None:
        return in_order
    usages: dict[tuple[str, str], float | None] = {}

    def usage_of(entry: Entry) -> float | None:
        queues = (entry.charged, entry.workload.queue)
        if queues not in usages:
            usages[queues] = past_usage(*queues)
        return usages[queues]

    def compare(one: QuotaHolder, other: QuotaHolder) -> int:
        if one.order[0] == other.order[0] and one.entry.charged == other.entry.charged:
            used, also_used = usage_of(one.entry), usage_of(other.entry)
            if used is not None and also_used is not None and used != also_used:
                return -1 if used > also_used else 1
        return -1 if one.order < other.order else 1

    return sorted(in_order, key=cmp_to_key(compare))


def is_within_nominal(node: QuotaNode, needed: frozenset[FlavorResource]) -> bool:
    """Whether a node borrows nothing of the needed resources (E-36)."""
    for flavor_resource in needed:
        slot = node.slot_by_flavor_resource.get(flavor_resource)
        if slot is not None and node.subtree_quota[slot] < node.usage[slot]:
            return False
    return True
