"""Phase 2, second half: from the chosen domains down to the leaves (E-142)."""

from __future__ import annotations

from collections.abc import Sequence

from multiqueue.engine.tas.counts import CountTable
from multiqueue.engine.tas.request import PlacementRequest
from multiqueue.engine.tas.select import DomainSelection, slice_measure
from multiqueue.engine.tas.spread import DomainShare, Measure, order_domains, spread
from multiqueue.engine.tas.tree import DomainTree


def descend(
    tree: DomainTree,
    table: CountTable,
    request: PlacementRequest,
    selection: DomainSelection,
    *,
    least_free: bool,
    keeps_parents: bool = False,
) -> list[DomainShare] | None:
    """Return the shares of the leaves, in pods; None if the leader leaves too little room.

    Above the slice level the children of all chosen domains compete; from there on, and with
    ``keeps_parents``, what a domain was given stays within it.

    Args:
        tree: the domains.
        table: their counts.
        request: where the pods want to be.
        selection: the domains to begin with.
        least_free: profile LeastFreeCapacity, else BestFit.
        keeps_parents: balanced placement has decided on the domains already.
    """
    level, slices = selection.level, selection.shares
    while level < request.slice_level:
        groups = [(slices, slices)] if not keeps_parents else [([s], [s]) for s in slices]
        below: list[DomainShare] = []
        for parents, shares in groups:
            found = _spread_slices(
                tree, table, level, parents, _total(shares), least_free=least_free
            )
            if found is None:
                return None
            below += found
        level, slices = level + 1, below
    pods = [DomainShare(s.domain, s.units * request.slice_size, s.leaders) for s in slices]
    while level < tree.lowest:
        pods_below: list[DomainShare] = []
        for share in pods:
            size = request.inner_sizes[level + 1]
            leaves = _spread_pods(tree, table, level, share, size, least_free=least_free)
            if leaves is None:
                return None
            pods_below += leaves
        level, pods = level + 1, pods_below
    return pods


def _total(shares: Sequence[DomainShare]) -> tuple[int, int]:
    return sum(share.units for share in shares), sum(share.leaders for share in shares)


def _spread_slices(
    tree: DomainTree,
    table: CountTable,
    level: int,
    parents: Sequence[DomainShare],
    total: tuple[int, int],
    *,
    least_free: bool,
) -> list[DomainShare] | None:
    counts = table.levels[level + 1]
    scores = table.scores[level + 1] if table.scores else None
    children = [child for share in parents for child in tree.children[level][share.domain]]
    order = order_domains(counts, children, scores=scores, least_free=least_free)
    return spread(order, slice_measure(counts, scores), *total, best_fit=not least_free)


def _spread_pods(
    tree: DomainTree,
    table: CountTable,
    level: int,
    share: DomainShare,
    size: int,
    *,
    least_free: bool,
) -> list[DomainShare] | None:
    """Spread the pods of one domain over its children, in slices of ``size`` pods."""
    if not share.units and not share.leaders:
        return []
    counts = table.levels[level + 1]
    scores = table.scores[level + 1] if table.scores else None
    children = tree.children[level][share.domain]
    order = order_domains(counts, children, scores=scores, least_free=least_free)
    measure = Measure(counts.pods, counts.pods_led, counts.leaders, scores)
    if size > 1:
        measure = Measure(
            {child: counts.pods[child] // size for child in children},
            {child: counts.pods_led[child] // size for child in children},
            counts.leaders,
            scores,
        )
    shares = spread(order, measure, share.units // size, share.leaders, best_fit=not least_free)
    if shares is None:
        return None
    return [DomainShare(child, units * size, leaders) for child, units, leaders in shares]
