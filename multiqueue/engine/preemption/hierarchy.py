"""Candidates of the classical search by how strong the claim on them is (E-88, E-91).

A queue may take back what its own subtree lent: from everybody who borrows inside the smallest
subtree whose quota holds the request by priority, and from those outside by right.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum

from multiqueue.engine.cache.quota_node import FlavorResource, QuotaNode
from multiqueue.engine.cache.tree import Tree
from multiqueue.engine.preemption.candidates import (
    Candidate,
    RankLimit,
    find_candidates,
    is_within_nominal,
    rank_limit,
    sort_candidates,
)
from multiqueue.engine.preemption.context import SearchContext
from multiqueue.engine.preemption.target import PreemptionRequest
from multiqueue.lib.amount import UNLIMITED, Amount


class Claim(Enum):
    """Why a candidate is one."""

    BY_RIGHT = "the preemptor's subtree has the quota for the request"
    BY_PRIORITY = "it borrows where the preemptor could too"
    OWN = "it is in the preemptor's queue"


class Candidates:
    """All candidates of one request, each class in the order of preemption.

    Shape: ``lowest_common`` is, by queue, the cohort that it shares with the preemptor.
    """

    __slots__ = ("by_priority", "by_right", "lowest_common", "own")

    def __init__(
        self,
        request: PreemptionRequest,
        context: SearchContext,
        needed: frozenset[FlavorResource],
    ) -> None:
        preemption = request.queue.spec.preemption
        self.lowest_common: dict[str, QuotaNode] = {}
        self.by_right: list[Candidate] = []
        self.by_priority: list[Candidate] = []
        self.own: list[Candidate] = []
        limit = rank_limit(preemption.within_cluster_queue, request.workload)
        if limit is not None:
            self._collect(context, request.queue.name, needed, limit, self.own)
        limit = rank_limit(preemption.reclaim_within_cohort, request.workload)
        if limit is not None:
            self._walk_up(request, context, needed, limit)
        for found in (self.by_right, self.by_priority, self.own):
            found[:] = sort_candidates(found, context.past_usage)

    def __iter__(self) -> Iterator[tuple[Candidate, Claim]]:
        """Iterate in the order in which they are preempted: all that leave anyway come first."""
        classes = (
            (self.by_right, Claim.BY_RIGHT),
            (self.by_priority, Claim.BY_PRIORITY),
            (self.own, Claim.OWN),
        )
        for is_not_evicted in (False, True):
            for candidates, claim in classes:
                for candidate in candidates:
                    if candidate.order[0] is is_not_evicted:
                        yield candidate, claim

    def everybody(self) -> list[Candidate]:
        """Return the candidates of all classes, in no order that means anything."""
        return [*self.by_right, *self.by_priority, *self.own]

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
            found = self.by_right if has_advantage else self.by_priority
            for name in _borrowers(request.tree, cohort, needed, without=(node, below)):
                if self._collect(context, name, needed, limit, found):
                    self.lowest_common[name] = cohort
            fit, remaining = _fit_in_quota(cohort, remaining)
            has_advantage = has_advantage or fit
            below, cohort = cohort, cohort.parent

    def _collect(
        self,
        context: SearchContext,
        cluster_queue: str,
        needed: frozenset[FlavorResource],
        limit: RankLimit,
        found: list[Candidate],
    ) -> bool:
        candidates = find_candidates(
            context.holders, cluster_queue, needed, limit=limit, excluded=context.excluded
        )
        found += candidates
        return bool(candidates)


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
