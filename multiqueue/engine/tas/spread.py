"""The greedy step of phase 2: give pods to as few domains as possible, in a given order (E-142)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

from multiqueue.engine.tas.counts import LevelCounts

ByDomain: TypeAlias = Sequence[int] | Mapping[int, int]


class DomainShare(NamedTuple):
    """What a domain gets: pods or slices, and leaders."""

    domain: int
    units: int
    leaders: int


class Measure(NamedTuple):
    """How much fits, in the unit that is given out; ``scores`` is None without wishes for nodes."""

    plain: ByDomain
    led: ByDomain
    leaders: ByDomain
    scores: Sequence[int] | None = None


def order_domains(
    counts: LevelCounts,
    domains: Sequence[int],
    *,
    scores: Sequence[int] | None,
    least_free: bool,
    with_leader: bool = False,
) -> list[int]:
    """Sort domains of a level (E-140).

    Args:
        counts: those of the level.
        domains: numbers of domains.
        scores: affinity by domain; None if it does not count.
        least_free: profile LeastFreeCapacity, else BestFit.
        with_leader: prefer domains that the leader fits in, by what fits beside it.
    """
    sign = 1 if least_free else -1
    slices, pods, leaders = counts.slices, counts.pods, counts.leaders
    if with_leader:
        slices, pods = counts.slices_led, counts.pods_led
    if with_leader or scores is not None:
        score = scores or [0] * len(pods)
        lead = -1 if with_leader else 0
        return sorted(
            domains,
            key=lambda d: (lead * leaders[d], -score[d], sign * slices[d], pods[d], d),
        )
    return sorted(domains, key=lambda d: (sign * slices[d], pods[d], d))


def lead_first(order: Sequence[int], measure: Measure, need: int, leaders: int) -> Sequence[int]:
    """Move the domain to the front in which the leader leaves room for all that is needed.

    The sums of phase 1 reckon with the domain in which the leader costs least; without it there may
    be too little room.
    """
    if leaders == 0 or len(order) < 2:
        return order
    room = sum(measure.plain[domain] for domain in order)
    for position, domain in enumerate(order):
        if measure.leaders[domain] < leaders:
            continue
        if room - (measure.plain[domain] - measure.led[domain]) < need:
            continue
        return [domain, *order[:position], *order[position + 1 :]]
    return order


def find_tightest(order: Sequence[int], measure: Measure, need: int, leaders: int) -> int:
    """Return the domain with the least room that suffices, the first of equals.

    If node preferences count, only domains that meet them as well as the first are used.
    """
    units = measure.led if leaders else measure.plain
    best, least = order[0], -1
    for domain in order:
        if measure.scores is not None and measure.scores[domain] != measure.scores[order[0]]:
            break
        count = units[domain]
        if count >= need and measure.leaders[domain] >= leaders and (least < 0 or count < least):
            best, least = domain, count
    return best


def spread(
    order: Sequence[int], measure: Measure, need: int, leaders: int, *, best_fit: bool
) -> list[DomainShare] | None:
    """Give out units, and leaders with the first of them; None if they do not all fit.

    Each domain is filled up, but for the last: with ``best_fit`` that is the tightest one that can
    hold the rest.
    """
    order = lead_first(order, measure, need, leaders)
    shares: list[DomainShare] = []
    for position, first in enumerate(order):
        units = measure.led if leaders else measure.plain
        domain = first
        if best_fit and units[first] >= need and measure.leaders[first] >= leaders:
            domain = find_tightest(order[position:], measure, need, leaders)
        capable = measure.leaders[domain]
        if units[domain] >= need and capable >= leaders:
            shares.append(DomainShare(domain, need, leaders))
            return shares
        share = DomainShare(domain, min(units[domain], need), min(capable, leaders))
        shares.append(share)
        need -= share.units
        leaders -= share.leaders
    return None
