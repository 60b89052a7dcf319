"""Phase 2, first half: which domains of which level take the pods (E-139 to E-141)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from multiqueue.engine.tas.counts import CountTable, LevelCounts
from multiqueue.engine.tas.request import PlacementRequest
from multiqueue.engine.tas.spread import (
    DomainShare,
    Measure,
    find_tightest,
    lead_first,
    order_domains,
    spread,
)


class DomainSelection(NamedTuple):
    """Domains of one level; the shares are in slices."""

    level: int
    shares: list[DomainShare]


class NoRoom(NamedTuple):
    """How many slices would fit, and the level that was tried last."""

    fit: int
    level: int


def select(
    table: CountTable, request: PlacementRequest, need: int, leaders: int, *, least_free: bool
) -> DomainSelection | NoRoom:
    """Choose the domains for that many slices and leaders.

    The requested level is tried first; if no domain of it holds everything, ``preferred`` goes
    one level up, and takes several domains at the top.
    """
    level = request.level
    while True:
        counts = table.levels[level]
        scores = table.scores[level] if table.scores else None
        single = _find_single(counts, scores, request, need, leaders, least_free=least_free)
        if single is not None:
            return DomainSelection(level, [DomainShare(single, need, leaders)])
        if request.required or not counts.slices:
            return NoRoom(
                _top_slices(counts, scores, least_free=least_free, leaders=leaders), level
            )
        if level == 0 or request.unconstrained:
            return _take_several(table, level, need, leaders, least_free=least_free)
        level -= 1


def slice_measure(counts: LevelCounts, scores: Sequence[int] | None) -> Measure:
    """Measure domains by the slices that they hold."""
    return Measure(counts.slices, counts.slices_led, counts.leaders, scores)


def _find_single(
    counts: LevelCounts,
    scores: Sequence[int] | None,
    request: PlacementRequest,
    need: int,
    leaders: int,
    *,
    least_free: bool,
) -> int | None:
    """Return the tightest domain that holds everything, None without one."""
    if scores is not None:
        return _find_wanted(counts, scores, request, need, leaders, least_free=least_free)
    slices, pods = counts.slices, counts.pods
    if leaders:
        slices, pods = counts.slices_led, counts.pods_led
        found = [
            (held, pods[domain], domain)
            for domain, held in enumerate(slices)
            if held >= need and counts.leaders[domain] >= leaders
        ]
    else:
        found = [(held, pods[domain], domain) for domain, held in enumerate(slices) if held >= need]
    return min(found)[2] if found else None


def _find_wanted(
    counts: LevelCounts,
    scores: Sequence[int],
    request: PlacementRequest,
    need: int,
    leaders: int,
    *,
    least_free: bool,
) -> int | None:
    """As `_find_single`, where wishes for nodes come before a tight fit.

    With BestFit the best liked domain has to do, or else the level above is looked at; only
    ``required``, which has no level above, takes a domain that is liked less.
    """
    measure = slice_measure(counts, scores)
    order = order_domains(
        counts, range(len(scores)), scores=scores, least_free=least_free, with_leader=leaders > 0
    )
    units = measure.led if leaders else measure.plain
    for position, domain in enumerate(order):
        if units[domain] >= need and counts.leaders[domain] >= leaders:
            if least_free:
                return domain
            return find_tightest(order[position:], measure, need, leaders)
        if not (least_free or request.required):
            return None
    return None


def _top_slices(
    counts: LevelCounts, scores: Sequence[int] | None, *, least_free: bool, leaders: int
) -> int:
    domains = range(len(counts.slices))
    order = order_domains(
        counts, domains, scores=scores, least_free=least_free, with_leader=leaders > 0
    )
    return counts.slices[order[0]] if order else 0


def _take_several(
    table: CountTable, level: int, need: int, leaders: int, *, least_free: bool
) -> DomainSelection | NoRoom:
    counts = table.levels[level]
    scores = table.scores[level] if table.scores else None
    measure = slice_measure(counts, scores)
    order: Sequence[int] = order_domains(
        counts,
        range(len(counts.slices)),
        scores=scores,
        least_free=least_free,
        with_leader=leaders > 0,
    )
    chosen: list[int] = []
    rest_need, rest_leaders = need, leaders
    for domain in lead_first(order, measure, need, leaders):
        if rest_leaders <= 0 or counts.leaders[domain] == 0:
            break
        chosen.append(domain)
        rest_leaders -= counts.leaders[domain]
        rest_need -= counts.slices_led[domain]
    if rest_leaders > 0:
        return NoRoom(leaders - rest_leaders, level)
    remaining = [domain for domain in order if domain not in chosen]
    order = order_domains(counts, remaining, scores=scores, least_free=least_free)
    for position, first in enumerate(order):
        if rest_need <= 0:
            break
        domain = first
        if not least_free and counts.slices[first] >= rest_need:
            domain = find_tightest(order[position:], measure, rest_need, 0)
        chosen.append(domain)
        rest_need -= counts.slices[domain]
    if rest_need > 0:
        return NoRoom(need - rest_need, level)
    shares = spread(chosen, measure, need, leaders, best_fit=not least_free)
    return NoRoom(0, level) if shares is None else DomainSelection(level, shares)
