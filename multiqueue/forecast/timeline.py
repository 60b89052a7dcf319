"""When a Workload would start: the queue played forward in a number of possible futures. Pure.

A light model of the worker: who holds quota ends when its sample says so; at each end those that
wait are tried by rank, and who fits starts, whoever is before it (in a StrictFIFO queue nobody
passes). Quotas are those of the replica's own tree, borrowing and all; nodes are those of `sites`.
Nobody new arrives, and nobody preempts. The tree is used as a slate and left as it was found.
"""

from __future__ import annotations

import heapq
from bisect import insort
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from operator import itemgetter
from statistics import median_low

from multiqueue.forecast.forecast_input import ForecastInput, ForecastStage
from multiqueue.forecast.needs import give_back, try_to_take
from multiqueue.forecast.runs import SAMPLES, RunningWorkload, draw_shares
from multiqueue.forecast.sites import Taken
from multiqueue.forecast.usage_rollback import rolled_back
from multiqueue.forecast.wants import Wants
from multiqueue.plugins.forecast import StartEstimate

TRIES = 4000
"""Ends and starts that one estimate may look at, over all samples: some milliseconds."""
QUICK = 300
"""The same for one that has to do for now."""
LEAST, FEWEST = 9, 3
"""Samples at least, and where one has to do for now."""
SHORTEST = 40
"""Ends that each sample may look at, at least."""
CHECKS = 16
"""As many lines whose first has no room cost as much as a try."""

Started = tuple[float, str, str, list[tuple[int, int]], list[Taken]]
"""When it ends, its key, its queue, what it took of quotas and of nodes."""


def estimate(forecast_input: ForecastInput, tries: int = TRIES) -> tuple[StartEstimate | None, int]:
    """Return when who asks would start, and how many tries that took.

    None: no future has it start. The longer the queue, the fewer samples, and what is beyond the
    last end that is looked at is extrapolated.
    """
    for runs in forecast_input.runs:
        runs.settle(forecast_input.now)
    stage = ForecastStage(forecast_input)
    cost = 1 + len(forecast_input.lines) // CHECKS
    most = tries // (cost * (3 * stage.ahead + SHORTEST))
    samples = max(LEAST if tries > QUICK else FEWEST, min(SAMPLES, most))
    limit = max(SHORTEST, tries // (cost * samples))
    starts: list[tuple[float, int, int]] = []
    used = 0
    with rolled_back(forecast_input.tree) as wipe:
        for index in range(samples):
            future = _Future(stage, index * SAMPLES // samples)
            found = future.play(limit)
            wipe()
            stage.sites.put_back()
            used += future.tries
            if found is not None:
                starts.append(found)
    if not starts:
        return None, used
    times = sorted(start for start, _, _ in starts)
    found_start = StartEstimate(
        at=_time(_quantile(times, 0.5)),
        earliest=_time(max(forecast_input.now, _quantile(times, 0.1))),
        latest=_time(_quantile(times, 0.9)),
        ahead=median_low(count for _, count, _ in starts),
        spare=median_low(spare for _, _, spare in starts),
    )
    return found_start, used


class _Future:
    """One sample being played."""

    def __init__(self, stage: ForecastStage, sample: int) -> None:
        self._stage = stage
        self._lines = stage.forecast_input.lines
        self._nodes = stage.nodes
        self._sites = stage.sites
        self._sample = sample
        self._next = [0] * len(self._lines)
        self._heads = sorted(
            (line.waiters[0].rank, index) for index, line in enumerate(self._lines)
        )
        self._started: list[Started] = []
        self.tries = 0
        self._count = 0
        self._freed = 0
        self._scarce = stage.scarce

    def play(self, limit: int) -> tuple[float, int, int] | None:
        """Return when who asks starts, how many start before it, and what it leaves free."""
        began = now = self._stage.forecast_input.now
        ends = self._ends()
        following = next(ends, None)
        for _ in range(limit):
            if self._start_all(now):
                return now, self._count, self._spare()
            started = self._started
            if started and (following is None or started[0][0] < following[0]):
                now, _, queue, taken, places = heapq.heappop(started)
                give_back(taken, self._nodes[queue])
                self._sites.give(places)
                slot = self._nodes[queue].slot_by_flavor_resource.get(self._scarce)
                self._freed += sum(amount for taken_slot, amount in taken if taken_slot == slot)
            elif following is not None:
                now, run = following
                self._end(run)
                following = next(ends, None)
            else:
                return None
        share = max(1.0, self._missing() / max(1, self._freed))
        return began + (now - began) * share, self._stage.ahead, 0

    def _spare(self) -> int:
        """Return how much of what is scarce is left once who asks has started."""
        node = self._nodes[self._stage.asked.queue]
        slot = node.slot_by_flavor_resource.get(self._scarce)
        return max(0, node.available(slot)) if slot is not None else 0

    def _missing(self) -> int:
        """How much of what is scarce must become free in all, for those ahead and who asks."""
        stage = self._stage
        node = self._nodes[stage.asked.queue]
        free = node.available(node.slot(self._scarce))
        left = self._freed + max(0, stage.amounts[-1] - free)
        for amount, before, started in zip(stage.amounts, stage.before, self._next, strict=True):
            left += max(0, before - started) * amount
        return left

    def _ends(self) -> Iterator[tuple[float, RunningWorkload]]:
        found = [runs.ends(self._sample) for runs in self._stage.forecast_input.runs]
        return found[0] if len(found) == 1 else heapq.merge(*found, key=itemgetter(0))

    def _end(self, run: RunningWorkload) -> None:
        node = self._nodes[run.queue]
        for pair, amount in run.usage:
            node.remove_usage(node.slot(pair), amount)
            if pair == self._scarce:
                self._freed += amount
        if self._sites.are_any:
            self._sites.end(run.key)

    def _start_all(self, now: float) -> bool:
        """Start who fits, by rank; whether who asks did. What failed once fails until an end."""
        heads, place, strict = self._heads, 0, self._stage.forecast_input.strict
        closed: set[str] = set()
        room: dict[tuple[str, int], int] = {}
        self.tries += 1 + len(heads) // CHECKS
        while place < len(heads):
            _, index = heads[place]
            line = self._lines[index]
            waiter = line.waiters[self._next[index]]
            taken = None
            if waiter.queue not in closed and self._may_fit(waiter.queue, index, room):
                self.tries += 1
                taken = self._try(waiter.queue, line.wants)
            if taken is None:
                if waiter.queue in strict:
                    closed.add(waiter.queue)
                place += 1
                continue
            if waiter is self._stage.asked:
                return True
            room.clear()
            (runtime,) = waiter.curve.ends(0.0, (draw_shares(waiter.key)[self._sample],))
            end = now + runtime
            heapq.heappush(self._started, (end, waiter.key, waiter.queue, *taken))
            self._count += 1
            self._advance(place)
        return False

    def _try(self, queue: str, wants: Wants) -> tuple[list[tuple[int, int]], list[Taken]] | None:
        """Have a Workload take quota, and places where its pods need some."""
        node, needs_places = self._nodes[queue], bool(wants.gangs) and self._sites.are_any
        if needs_places and not self._sites.may_hold(wants.gangs, wants.flavors):
            return None
        taken = try_to_take(wants.needs, node)
        if taken is None or not needs_places:
            return None if taken is None else (taken, [])
        slots = {slot for slot, _ in taken}
        names = (name for (name, _), slot in node.slot_by_flavor_resource.items() if slot in slots)
        places = self._sites.take(wants.gangs, sorted(set(names)))
        if places is None:
            give_back(taken, node)
            return None
        return taken, places

    def _may_fit(self, queue: str, index: int, room: dict[tuple[str, int], int]) -> bool:
        """Whether there may be room for the first of a line: all that most tries come to."""
        gates = self._stage.gates[index]
        for slot, amount in gates:
            left = room.get((queue, slot))
            if left is None:
                left = room[queue, slot] = self._nodes[queue].available(slot)
            if left >= amount:
                return True
        return not gates

    def _advance(self, place: int) -> None:
        """Have the next of a line come forward."""
        _, index = self._heads.pop(place)
        self._next[index] += 1
        waiters = self._lines[index].waiters
        if self._next[index] < len(waiters):
            insort(self._heads, (waiters[self._next[index]].rank, index), lo=place)


def _quantile(values: Sequence[float], share: float) -> float:
    """Return what the next value is below with that probability, of sorted values that were drawn.

    That is the rank ``share * (n + 1)``. Few values know nothing of what is rarer than one of them:
    there, as much again is added as lies between two of them on average.
    """
    last = len(values) - 1
    position = share * (len(values) + 1) - 1.0
    step = (values[-1] - values[0]) / last if last else 0.0
    if position <= 0:
        return values[0] + position * step
    if position >= last:
        return values[-1] + (position - last) * step
    index = int(position)
    return values[index] + (values[index + 1] - values[index]) * (position - index)


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
