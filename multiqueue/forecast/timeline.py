"""Estimate when a Workload starts by simulating a number of possible futures. Pure.

A simple model of the worker: running Workloads end when their sample says so. At each end, waiting
Workloads are tried in the order of their rank, and those that fit start, even if earlier ones do
not (except in StrictFIFO queues). Quotas, with borrowing, are those of the replica's own tree. The
nodes are those of `sites`. No new Workloads arrive, and none is preempted. The tree is changed
during the simulation and restored at its end.
"""

from __future__ import annotations

import heapq
from bisect import insort
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from operator import itemgetter
from statistics import median_low

from multiqueue.engine.cache.quota_node import QuotaNode
from multiqueue.engine.cache.tree import Tree
from multiqueue.forecast.forecast_input import ForecastInput, ForecastStage, ShapeDemand
from multiqueue.forecast.needs import give_back, try_to_take
from multiqueue.forecast.runs import SAMPLES, RunningWorkload, draw_shares
from multiqueue.forecast.sites import Taken
from multiqueue.plugins.forecast import StartEstimate

TRIES = 4000
"""Most ends and starts that one estimate may try, over all samples: some milliseconds."""
QUICK = 300
"""The same limit for a quick estimate."""
LEAST, FEWEST = 9, 3
"""Fewest samples of an estimate, and of a quick one."""
SHORTEST = 40
"""Fewest ends that each sample may try."""
CHECKS = 16
"""Checking so many lines without room costs as much as one try."""

Started = tuple[float, str, str, list[tuple[int, int]], list[Taken]]
"""When it ends, its key, its queue, and what it took of quotas and of nodes."""


def estimate(forecast_input: ForecastInput, tries: int = TRIES) -> tuple[StartEstimate | None, int]:
    """Return when the asking Workload would start, and how many tries that took.

    None if it starts in no future. Longer queues get fewer samples, and what happens after the last
    tried end is extrapolated.
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
    """The simulation of one sample."""

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
        """Return when the asking Workload starts, how many start before it, and what stays free."""
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
        """Return how much of the scarce resource is left once the asking Workload has started."""
        node = self._nodes[self._stage.asked.queue]
        slot = node.slot_by_flavor_resource.get(self._scarce)
        return max(0, node.available(slot)) if slot is not None else 0

    def _missing(self) -> int:
        """Return how much of the scarce resource must become free for it and those before it."""
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
        """Start what fits, by rank; return whether the asking Workload started.

        What fails once is not tried again until the next end.
        """
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
                taken = self._try(waiter.queue, line.demand)
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

    def _try(
        self, queue: str, demand: ShapeDemand
    ) -> tuple[list[tuple[int, int]], list[Taken]] | None:
        """Take quota for a Workload, and places if its pods need some; None if it does not fit."""
        node, needs_places = self._nodes[queue], bool(demand.gangs) and self._sites.are_any
        if needs_places and not self._sites.may_hold(demand.gangs, demand.flavors):
            return None
        taken = try_to_take(demand.needs, node)
        if taken is None or not needs_places:
            return None if taken is None else (taken, [])
        slots = {slot for slot, _ in taken}
        names = (name for (name, _), slot in node.slot_by_flavor_resource.items() if slot in slots)
        places = self._sites.take(demand.gangs, sorted(set(names)))
        if places is None:
            give_back(taken, node)
            return None
        return taken, places

    def _may_fit(self, queue: str, index: int, room: dict[tuple[str, int], int]) -> bool:
        """Whether the first of a line may have room: a cheap check before most tries."""
        gates = self._stage.gates[index]
        for slot, amount in gates:
            left = room.get((queue, slot))
            if left is None:
                left = room[queue, slot] = self._nodes[queue].available(slot)
            if left >= amount:
                return True
        return not gates

    def _advance(self, place: int) -> None:
        """Advance a line to its next Workload."""
        _, index = self._heads.pop(place)
        self._next[index] += 1
        waiters = self._lines[index].waiters
        if self._next[index] < len(waiters):
            insort(self._heads, (waiters[self._next[index]].rank, index), lo=place)


def _quantile(values: Sequence[float], share: float) -> float:
    """Estimate a quantile of the distribution from which the sorted values were drawn.

    It is at rank ``share * (n + 1)``. A few values say nothing about rarer events than one of them:
    beyond the ends, the average distance between two values is added.
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


@contextmanager
def rolled_back(tree: Tree) -> Iterator[Callable[[], None]]:
    """Allow changes of usage in the block; they are undone at its end, or by the yielded call."""
    nodes = [*tree.cohorts.values(), *(queue.node for queue in tree.queues.values())]
    before = [(node, tuple(node.usage)) for node in nodes]

    def wipe() -> None:
        for node, usage in before:
            _restore(node, usage)

    try:
        yield wipe
    finally:
        wipe()


def _restore(node: QuotaNode, usage: tuple[int, ...]) -> None:
    node.usage[: len(usage)] = usage
    node.usage[len(usage) :] = [0] * (len(node.usage) - len(usage))
    node.ratio = None
