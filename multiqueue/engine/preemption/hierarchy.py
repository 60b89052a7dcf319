"""Candidates of the classical search by how strong the claim on them is (E-88, E-91).

A queue may take back what its own subtree lent: from everybody who borrows inside the smallest
subtree whose quota holds the request by priority, and from those outside by right.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from heapq import merge
from itertools import chain

from multiqueue.engine.cache.quota_node import FlavorResource, QuotaNode
from multiqueue.engine.cache.tree import Tree
from multiqueue.engine.preemption.candidates import (
    Eligible,
    QuotaHolder,
    RankLimit,
    find_candidates,
    is_within_nominal,
    rank_limit,
    sort_candidates,
)
from multiqueue.engine.preemption.context import SearchContext
from multiqueue.engine.preemption.target import PreemptionRequest
from multiqueue.lib.amount import UNLIMITED, Amount
from multiqueue.model.cluster_queue import PreemptionPolicy


class CandidateClaim(Enum):
    """Why a candidate is one."""

    BY_RIGHT = "the preemptor's subtree has the quota for the request"
    BY_PRIORITY = "it borrows where the preemptor could too"
    OWN = "it is in the preemptor's queue"


class Candidates:
    """All candidates of one request that any attempt could take, by queue.

    Shape: ``by_right``, ``by_priority`` and ``own`` are in the order of preemption within each
    queue. ``lowest_common`` is, by queue, the cohort that it shares with the preemptor.
    ``could_stop_borrowing`` means that the own queue would hold the request in its quota if its
    candidates left; else no attempt without borrowing succeeds, and whom only such an attempt may
    take is not looked for.
    """

    __slots__ = (
        "_past_usage",
        "_takes_while_borrowing",
        "by_priority",
        "by_right",
        "could_stop_borrowing",
        "lowest_common",
        "own",
    )

    def __init__(
        self,
        request: PreemptionRequest,
        context: SearchContext,
        needed: frozenset[FlavorResource],
    ) -> None:
        preemption = request.queue.spec.preemption
        self._past_usage = context.past_usage
        self._takes_while_borrowing = preemption.borrow_within_cohort is not PreemptionPolicy.NEVER
        self.lowest_common: dict[str, QuotaNode] = {}
        self.by_right: list[Eligible] = []
        self.by_priority: list[Eligible] = []
        self.own: list[Eligible] = []
        limit = rank_limit(preemption.within_cluster_queue, request.workload)
        if limit is not None:
            self._collect(context, request.queue.name, needed, limit, self.own)
        self.could_stop_borrowing = _could_stop_borrowing(request, needed, self.own)
        limit = rank_limit(preemption.reclaim_within_cohort, request.workload)
        if limit is not None:
            self._walk_up(request, context, needed, limit)

    def in_order(self, *, may_borrow: bool) -> Iterator[tuple[QuotaHolder, CandidateClaim]]:
        """Iterate in the order of an attempt: all that leave anyway come first (E-91)."""
        lists = [
            (self._merge([eligible.candidates for eligible in found]), claim)
            for found, claim in self._classes(may_borrow=may_borrow)
        ]
        put_off: list[tuple[Iterable[QuotaHolder], CandidateClaim]] = []
        for candidates, claim in lists:
            for candidate in candidates:
                if candidate.order[0]:
                    put_off.append((chain((candidate,), candidates), claim))
                    break
                yield candidate, claim
        for rest, claim in put_off:
            for candidate in rest:
                yield candidate, claim

    def totals(self, *, may_borrow: bool) -> Iterator[Mapping[FlavorResource, Amount]]:
        """Iterate over what the candidates of an attempt use together, queue by queue."""
        for found, _ in self._classes(may_borrow=may_borrow):
            for eligible in found:
                yield eligible.totals

    def _classes(self, *, may_borrow: bool) -> Iterator[tuple[list[Eligible], CandidateClaim]]:
        yield self.by_right, CandidateClaim.BY_RIGHT
        if self._takes_while_borrowing or not may_borrow:
            yield self.by_priority, CandidateClaim.BY_PRIORITY
        yield self.own, CandidateClaim.OWN

    def _merge(self, sorted_lists: Sequence[Sequence[QuotaHolder]]) -> Iterator[QuotaHolder]:
        """Merge what is sorted already; most attempts end after the first few."""
        if self._past_usage is not None:
            return iter(sort_candidates(chain(*sorted_lists), self._past_usage))
        return iter(sorted_lists[0]) if len(sorted_lists) == 1 else merge(*sorted_lists)

    def _walk_up(
        self,
        request: PreemptionRequest,
        context: SearchContext,
        needed: frozenset[FlavorResource],
        limit: RankLimit,
    ) -> None:
        """Collect from the queues that borrow, cohort by cohort on the way to the root."""
        node, below = request.queue.node, None
        has_advantage, remaining = _fit_in_quota(node, request.usage)
        cohort = node.parent
        while cohort is not None:
            if has_advantage or self.could_stop_borrowing or self._takes_while_borrowing:
                found = self.by_right if has_advantage else self.by_priority
                for name in _borrowers(request.tree, cohort, needed, without=(node, below)):
                    if self._collect(context, name, needed, limit, found):
                        self.lowest_common[name] = cohort
            if cohort.parent is None:
                return
            fit, remaining = _fit_in_quota(cohort, remaining)
            has_advantage = has_advantage or fit
            below, cohort = cohort, cohort.parent

    def _collect(
        self,
        context: SearchContext,
        cluster_queue: str,
        needed: frozenset[FlavorResource],
        limit: RankLimit,
        found: list[Eligible],
    ) -> bool:
        eligible = find_candidates(
            context.holders, cluster_queue, needed, limit=limit, excluded=context.excluded
        )
        if context.rules is not None:
            eligible = context.rules.narrow(eligible, cluster_queue)
        if eligible.candidates:
            found.append(eligible)
        return bool(eligible.candidates)


def _could_stop_borrowing(
    request: PreemptionRequest, needed: frozenset[FlavorResource], own: Iterable[Eligible]
) -> bool:
    """Whether the quota of the own queue would hold what is needed if its candidates left."""
    node = request.queue.node
    for pair in needed:
        slot = node.slot_by_flavor_resource[pair]
        borrowed = node.usage[slot] + request.usage[slot] - node.nominal[slot]
        if borrowed > 0 and borrowed > sum(eligible.totals[pair] for eligible in own):
            return False
    return True


def _fit_in_quota(
    node: QuotaNode, requests: Mapping[int, Amount]
) -> tuple[bool, Mapping[int, Amount]]:
    """Return whether the quota of a subtree holds the requests, and what is left for its parent."""
    fit = True
    remaining: dict[int, Amount] = {}
    for slot, amount in requests.items():
        quota, usage = node.subtree_quota[slot], node.usage[slot]
        if quota < UNLIMITED and quota < usage + amount:
            fit = False
        unused = max(0, node.local_quota[slot] - usage)
        remaining[node.up[slot]] = max(0, amount - unused)
    return fit, remaining


def _borrowers(
    tree: Tree,
    cohort: QuotaNode,
    needed: frozenset[FlavorResource],
    *,
    without: tuple[QuotaNode, QuotaNode | None],
) -> Iterator[str]:
    """Iterate over the active queues below a cohort that borrow, where all above them do too.

    ``without`` are the queue and the subtree that were left on the way up.
    """
    for child in tree.child_cohorts.get(cohort.name, ()):
        if child is not without[1] and not is_within_nominal(child, needed):
            yield from _borrowers(tree, child, needed, without=without)
    for queue in tree.child_queues.get(cohort.name, ()):
        if (
            queue.node is not without[0]
            and queue.is_active
            and not is_within_nominal(queue.node, needed)
        ):
            yield queue.name
