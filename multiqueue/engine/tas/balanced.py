"""Balanced placement: as even a number of slices per domain as possible (E-145).

Only for ``preferred``. Parity: KEP-2724, gate TASBalancedPlacement. Works on copies of the counts,
of the domains at the requested level and of their children if slices are wider than they.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import log2
from typing import NamedTuple

from multiqueue.engine.tas.counts import CountTable
from multiqueue.engine.tas.request import PlacementRequest
from multiqueue.engine.tas.select import DomainSelection
from multiqueue.engine.tas.spread import DomainShare
from multiqueue.engine.tas.tree import DomainTree


class _Room(NamedTuple):
    """What a domain holds, after pruning; ``parts`` are its children where slices go there."""

    domain: int
    pods: int
    slices: int
    pods_led: int
    slices_led: int
    leaders: int
    parts: tuple[_Room, ...] = ()


class _Greedy(NamedTuple):
    """How many domains a greedy placement takes, and the last ones it takes."""

    domains: int
    last_led: _Room | None
    last: _Room | None


def select_balanced(
    tree: DomainTree, table: CountTable, request: PlacementRequest, need: int, leaders: int
) -> DomainSelection | None:
    """Choose domains and the slices of each; None if BestFit has to be used."""
    goes_below = request.level < request.slice_level
    best: tuple[int, int, list[_Room]] | None = None
    for siblings in _sibling_groups(tree, table, request, goes_below=goes_below):
        found = _try_group(siblings, need, leaders, goes_below=goes_below)
        if found is not None and (best is None or (found[0], -found[1]) > (best[0], -best[1])):
            best = found
    if best is None:
        return None
    threshold, _, rooms = best
    level = request.level
    if goes_below:
        chosen = _fewest(_by_entropy(rooms), need, leaders, request.slice_size)
        if chosen is None:
            return None
        rooms = [part for room in chosen for part in room.parts]
        level += 1
    shares = _place(rooms, need, leaders, request.slice_size, threshold)
    return None if shares is None else DomainSelection(level, shares)


def _sibling_groups(
    tree: DomainTree, table: CountTable, request: PlacementRequest, *, goes_below: bool
) -> list[list[_Room]]:
    if request.level == 0:
        groups: Iterable[Iterable[int]] = [range(len(tree.values[0]))]
    else:
        groups = tree.children[request.level - 1]
    if not goes_below and request.level < tree.lowest:
        return []  # slices end here, so what the children hold cannot be balanced
    return [
        [_room(tree, table, request.level, domain, with_parts=goes_below) for domain in group]
        for group in groups
    ]


def _room(
    tree: DomainTree, table: CountTable, level: int, domain: int, *, with_parts: bool
) -> _Room:
    counts = table.levels[level]
    parts: tuple[_Room, ...] = ()
    if with_parts:
        children = tree.children[level][domain]
        parts = tuple(_room(tree, table, level + 1, child, with_parts=False) for child in children)
    return _Room(
        domain,
        counts.pods[domain],
        counts.slices[domain],
        counts.pods_led[domain],
        counts.slices_led[domain],
        counts.leaders[domain],
        parts,
    )


# -------------------------------------------------------------------- threshold


def _try_group(
    siblings: Sequence[_Room], need: int, leaders: int, *, goes_below: bool
) -> tuple[int, int, list[_Room]] | None:
    """Return (slices that each domain gets at least, domains used, what is left of the rooms)."""
    fine = [part for room in siblings for part in room.parts] if goes_below else siblings
    greedy = _evaluate(fine, need, leaders)
    if greedy is None or greedy.domains == 0:
        return None
    threshold = need // greedy.domains
    if greedy.last_led is not None:
        threshold = min(threshold, greedy.last_led.slices_led)
    if greedy.last is not None:
        threshold = min(threshold, greedy.last.slices)
    reserving = threshold
    if leaders and greedy.last is not None:
        reserving = min(threshold, greedy.last.slices_led)
    for least in dict.fromkeys((threshold, reserving)):
        if least <= 0:
            continue
        pruned = [_prune(room, least, leaders=leaders) for room in siblings]
        used = _evaluate(pruned, need, leaders)
        if used is not None:
            return least, used.domains, pruned
    return None


def _evaluate(rooms: Sequence[_Room], need: int, leaders: int) -> _Greedy | None:
    """Place greedily, the largest first; None if it does not fit."""
    rest = list(rooms)
    used, last_led, last = 0, None, None
    if leaders:
        rest = _sorted_led(rooms)
        while leaders > 0 and rest and rest[0].leaders:
            last_led = rest.pop(0)
            used += 1
            leaders -= last_led.leaders
            need -= last_led.slices_led
        if leaders > 0:
            return None
    for room in sorted(rest, key=lambda room: (-room.slices, room.pods, room.domain)):
        if need <= 0 or room.slices == 0:
            break
        last = room
        used += 1
        need -= room.slices
    return None if need > 0 else _Greedy(used, last_led, last)


def _prune(room: _Room, least: int, *, leaders: int) -> _Room:
    """Leave out what holds fewer slices than each domain shall get."""
    if room.parts:
        parts = tuple(_prune(part, least, leaders=leaders) for part in room.parts)
        room = _sum_up(room.domain, parts, leaders=leaders)
    if room.slices < least:
        return _Room(room.domain, 0, 0, 0, 0, 0, room.parts)
    if leaders and room.leaders and room.slices_led < least:
        parts = tuple(part._replace(pods_led=0, slices_led=0, leaders=0) for part in room.parts)
        return room._replace(pods_led=0, slices_led=0, leaders=0, parts=parts)
    return room


def _sum_up(domain: int, parts: tuple[_Room, ...], *, leaders: int) -> _Room:
    pods, slices = sum(part.pods for part in parts), sum(part.slices for part in parts)
    capable = [part for part in parts if part.leaders or not leaders]
    if not capable:
        return _Room(domain, pods, slices, 0, 0, 0, parts)
    return _Room(
        domain,
        pods,
        slices,
        pods - min(part.pods - part.pods_led for part in capable),
        slices - min(part.slices - part.slices_led for part in capable),
        max(part.leaders for part in parts),
        parts,
    )


# -------------------------------------------------------------------- choice


def _fewest(rooms: Sequence[_Room], need: int, leaders: int, size: int) -> list[_Room] | None:
    """Return as few rooms as a greedy placement takes, with the least room left over.

    ``found[used][leaders, pods]`` is the first choice, in the order of the rooms, of that many
    rooms after which so much is left to place.
    """
    greedy = _evaluate(rooms, need, leaders)
    if greedy is None:
        return None
    found: list[dict[tuple[int, int], list[_Room]]] = [{} for _ in range(greedy.domains + 1)]
    found[0][leaders, need * size] = []
    for room in rooms:
        for used in range(greedy.domains, 0, -1):
            for (heads, pods), chosen in sorted(found[used - 1].items(), key=lambda item: item[0]):
                if heads <= 0 and pods <= 0:
                    continue
                if heads > 0 and room.leaders:
                    left = (heads - room.leaders, pods - room.pods_led)
                    found[used].setdefault(left, [*chosen, room])
                if room.slices:
                    found[used].setdefault((heads, pods - room.pods), [*chosen, room])
    complete = [left for left in found[greedy.domains] if left[0] == 0 and left[1] <= 0]
    return found[greedy.domains][max(complete)] if complete else None


def _by_entropy(rooms: Sequence[_Room]) -> list[_Room]:
    return sorted(
        rooms, key=lambda room: (-room.leaders, -room.slices_led, -_entropy(room), room.domain)
    )


def _entropy(room: _Room) -> float:
    """Return how evenly the pods are spread over the children."""
    total = sum(part.pods for part in room.parts)
    shares = [part.pods / total for part in room.parts if part.pods]
    return -sum(share * log2(share) for share in shares)


def _place(
    rooms: Sequence[_Room], need: int, leaders: int, size: int, threshold: int
) -> list[DomainShare] | None:
    """Give each chosen room its threshold of slices, and the first ones what is left."""
    chosen = _fewest(sorted(rooms, key=lambda room: room.domain), need, leaders, size)
    if chosen is None or need < len(chosen) * threshold:
        return None
    extra = need - len(chosen) * threshold
    shares: list[DomainShare] = []
    for room in _sorted_led(chosen):
        led = 1 if leaders and room.leaders else 0
        most = (room.slices_led if led else room.slices) - threshold
        if most < 0:
            return None
        more = min(most, extra)
        shares.append(DomainShare(room.domain, threshold + more, led))
        extra -= more
        leaders -= led
    return None if extra or leaders else shares


def _sorted_led(rooms: Iterable[_Room]) -> list[_Room]:
    return sorted(
        rooms, key=lambda room: (-room.leaders, -room.slices_led, room.pods_led, room.domain)
    )
