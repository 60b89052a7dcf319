"""Preemption with fair sharing: from the largest share, while that stays fair (E-96 to E-101).

Which queue is next is decided anew after each victim, in `fair_ranking`; here are the rules by
which a victim may be taken from it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from multiqueue.api.conditions import Reason
from multiqueue.api.disruptions import StopCause
from multiqueue.engine.cache.cached_queue import CachedQueue
from multiqueue.engine.cache.drs import Share, share_of
from multiqueue.engine.cache.quota_node import FlavorResource, QuotaNode
from multiqueue.engine.disruption.search_rules import SearchRules
from multiqueue.engine.options import FairSharing, FairStrategy
from multiqueue.engine.pending_reasons import ShareLoss
from multiqueue.engine.preemption.candidates import (
    Eligible,
    QuotaHolder,
    find_candidates,
    is_within_nominal,
    rank_limit,
    sort_candidates,
)
from multiqueue.engine.preemption.context import SearchContext
from multiqueue.engine.preemption.fair_ranking import Ranking
from multiqueue.engine.preemption.room import can_make_room, fill_back, fits_in_use
from multiqueue.engine.preemption.simulation import Simulation
from multiqueue.engine.preemption.target import PreemptionRequest, Target
from multiqueue.lib.amount import Amount


def find_fair_targets(request: PreemptionRequest, context: SearchContext) -> list[Target]:
    """Find workloads after whose preemption the request fits; none if that would not be fair.

    Borrowing is always allowed. The tree is left as it was.
    """
    sharing = context.options.fair_sharing or FairSharing()
    needed = request.needed()
    rules = context.rules
    if rules is not None and not _reclaims(request, sharing, needed):
        rules.others = StopCause.FAIR_SHARE
    candidates = find_fair_candidates(request, context, needed)
    if not can_make_room(request, needed, _totals(candidates)):
        return []
    simulation = Simulation(request.tree)
    search = _Search(request, sharing, simulation, rules)
    try:
        with in_use(request):
            found = search.make_room(_by_queue(candidates), needed)
        if not found:
            return []
        return fill_back(request, simulation, search.targets, may_borrow=True)
    finally:
        simulation.restore()


def find_fair_candidates(
    request: PreemptionRequest, context: SearchContext, needed: frozenset[FlavorResource]
) -> dict[str, Eligible]:
    """Find the workloads that the policies allow to preempt: own, and of borrowers (E-96).

    Shape: by queue, in the order of preemption.
    """
    policies, own = request.queue.spec.preemption, request.queue
    own_limit = rank_limit(policies.within_cluster_queue, request.workload)
    limit = rank_limit(policies.reclaim_within_cohort, request.workload)
    found: dict[str, Eligible] = {}
    for name, queue in request.tree.queues.items():
        rank = own_limit if queue is own else limit
        if rank is None or not queue.is_active:
            continue
        if queue is own or not is_within_nominal(queue.node, needed):
            eligible = find_candidates(
                context.holders, name, needed, limit=rank, excluded=context.excluded
            )
            if context.rules is not None:
                eligible = context.rules.narrow(eligible, name)
            if eligible.candidates:
                found[name] = eligible
    if context.past_usage is None:
        return found
    return {
        name: eligible._replace(candidates=sort_candidates(eligible.candidates, context.past_usage))
        for name, eligible in found.items()
    }


def _reclaims(
    request: PreemptionRequest, sharing: FairSharing, needed: frozenset[FlavorResource]
) -> bool:
    """Whether the queue takes back what it lent, instead of comparing shares (E-99)."""
    with in_use(request):
        return sharing.preempt_within_nominal and is_within_nominal(request.queue.node, needed)


def _by_queue(found: Mapping[str, Eligible]) -> dict[str, Sequence[QuotaHolder]]:
    return {name: eligible.candidates for name, eligible in found.items()}


def _totals(found: Mapping[str, Eligible]) -> Iterator[Mapping[FlavorResource, Amount]]:
    return (eligible.totals for eligible in found.values())


@contextmanager
def in_use(request: PreemptionRequest) -> Iterator[None]:
    """Count the request as used inside the block (E-97)."""
    node = request.queue.node
    for slot, amount in request.usage.items():
        node.add_usage(slot, amount)
    try:
        yield
    finally:
        for slot, amount in request.usage.items():
            node.remove_usage(slot, amount)


class _Search:
    """Takes victims until the request fits. ``targets`` are those taken so far."""

    __slots__ = ("_below", "_request", "_retry", "_rules", "_sharing", "_simulation", "targets")

    def __init__(
        self,
        request: PreemptionRequest,
        sharing: FairSharing,
        simulation: Simulation,
        rules: SearchRules | None,
    ) -> None:
        self._rules = rules
        self._request = request
        self._sharing = sharing
        self._simulation = simulation
        self._retry: dict[str, list[QuotaHolder]] = {}
        self._below = _children_on_path(request.queue.node)
        self.targets: list[Target] = []

    def make_room(
        self, candidates: Mapping[str, Sequence[QuotaHolder]], needed: frozenset[FlavorResource]
    ) -> bool:
        """Return whether the request fits without the targets; its usage counts meanwhile."""
        strategies = self._sharing.strategies
        if self._first_pass(Ranking(self._request, candidates), strategies[0], needed):
            return True
        return len(strategies) > 1 and self._second_pass(Ranking(self._request, self._retry))

    def _first_pass(
        self, ranking: Ranking, strategy: FairStrategy, needed: frozenset[FlavorResource]
    ) -> bool:
        """Take what the first strategy allows, and remember the rest (E-99)."""
        own = self._request.queue
        reclaims = self._sharing.preempt_within_nominal and is_within_nominal(own.node, needed)
        for queue in ranking:
            if queue is own:
                found = self._take(ranking.take(queue), Reason.IN_CLUSTER_QUEUE)
            elif reclaims:
                found = self._take(ranking.take(queue), Reason.IN_COHORT_RECLAMATION)
            else:
                found = self._take_fairly(ranking, queue, strategy)
            if found:
                return True
        return False

    def _take_fairly(self, ranking: Ranking, queue: CachedQueue, strategy: FairStrategy) -> bool:
        """Take the first candidate of a queue that may be taken; keep those before it for later."""
        own, other = _compared(self._below, queue)
        share, before = share_of(own), share_of(other)
        left, retry = ranking.left(queue), self._retry.setdefault(queue.name, [])
        if share > before:
            # No strategy allows this, as nobody's share grows when a workload leaves.
            retry += left
            left.clear()
            return False
        while left:
            candidate = left.popleft()
            if strategy is FairStrategy.LESS_THAN_INITIAL_SHARE:
                is_fair = share < before
            else:
                is_fair = share <= self._share_without(queue, other, candidate)
            if is_fair:
                return self._take(candidate, Reason.IN_COHORT_FAIR_SHARING)
            retry.append(candidate)
        return False

    def _second_pass(self, ranking: Ranking) -> bool:
        """Take one of each queue that had more than the preemptor's will have (E-100)."""
        for queue in ranking:
            own, other = _compared(self._below, queue)
            if share_of(own) < share_of(other) and self._take(
                ranking.take(queue), Reason.IN_COHORT_FAIR_SHARING
            ):
                return True
            ranking.drop(queue)
        return False

    def _take(self, candidate: QuotaHolder, reason: Reason) -> bool:
        """Take a workload out if budgets allow it, and say whether the request fits now."""
        if self._rules is not None and not self._rules.takes(candidate.entry):
            return False
        self._simulation.remove(candidate.entry)
        self.targets.append(Target(candidate.entry, reason))
        return fits_in_use(self._request)

    def _share_without(
        self, queue: CachedQueue, compared: QuotaNode, candidate: QuotaHolder
    ) -> Share:
        node = queue.node
        if compared is node:
            usage = candidate.entry.usage.items()
            return share_of(node, {node.slot(pair): -amount for pair, amount in usage})
        self._simulation.remove(candidate.entry)
        share = share_of(compared)
        self._simulation.put_back(candidate.entry)
        return share


def _compared(
    below: Mapping[QuotaNode, QuotaNode], queue: CachedQueue
) -> tuple[QuotaNode, QuotaNode]:
    """Return the subtrees whose shares are compared, of the preemptor and of the queue.

    They are the children of the lowest cohort that the two have in common.
    """
    child, cohort = queue.node, queue.node.parent
    while cohort is not None and cohort not in below:
        child, cohort = cohort, cohort.parent
    assert cohort is not None, "all queues of a tree have the root in common"
    return below[cohort], child


def _children_on_path(node: QuotaNode) -> dict[QuotaNode, QuotaNode]:
    """Return, by each cohort above a node, its child that the node is in or is."""
    children = {}
    while node.parent is not None:
        children[node.parent] = node
        node = node.parent
    return children


def find_share_loss(request: PreemptionRequest, context: SearchContext) -> ShareLoss | None:
    """Return the shares that leave a request waiting, where a search found nobody.

    None if shares are not the reason: nobody may be taken from, or all together are too few.
    """
    needed = request.needed()
    candidates = find_fair_candidates(request, context, needed)
    if not can_make_room(request, needed, _totals(candidates)):
        return None
    own = request.queue
    candidates.pop(own.name, None)
    below = _children_on_path(own.node)
    with in_use(request):
        queue = next(iter(Ranking(request, _by_queue(candidates))), None) if candidates else None
        if queue is None:
            return None
        mine, theirs = _compared(below, queue)
        return ShareLoss(mine.name, share_of(mine).reported, theirs.name, share_of(theirs).reported)
