"""When a Workload would start: the queue played forward in a number of possible futures. Pure.

A light model of the worker: who holds quota ends when its sample says so; at each end those that
wait are tried by rank, and who fits starts, whoever is before it (in a StrictFIFO queue nobody
passes). Quotas are those of the replica's own tree, borrowing and all. Nobody new arrives, and
nobody preempts. The tree is used as a slate and left as it was found.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from operator import attrgetter, itemgetter
from statistics import median_low

from multiqueue.engine.cache.quota_node import FlavorResource, QuotaNode
from multiqueue.engine.cache.tree import Tree
from multiqueue.engine.queues.entry import Rank
from multiqueue.multikueue.foresight.curve import Curve
from multiqueue.multikueue.foresight.needs import Needs, give_back, try_to_take
from multiqueue.multikueue.foresight.runs import SAMPLES, Run, Runs
from multiqueue.plugins.forecast import StartEstimate

TRIES = 6000
"""Workloads that one estimate may try to start, over all samples: some milliseconds."""
QUICK = 600
"""The same for one that has to do for now."""
LEAST = 7
"""Samples at least."""
SHORTEST = 40
"""Ends that each sample may look at, at least."""

Started = tuple[float, str, str, list[tuple[int, int]]]
"""When it ends, its key, its queue, what it took there."""


@dataclass(frozen=True, slots=True)
class Waiter:
    """A Workload that waits; ``shares`` are the quantiles of its runtime by sample."""

    key: str
    rank: Rank
    queue: str
    needs: Needs
    curve: Curve
    shares: Sequence[float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """The state that futures begin at.

    Attributes:
        tree: Of the queue that is asked.
        runs: What holds quota in each queue of the tree.
        lines: Who waits in the tree: equals of one queue together, by rank. If the first does not
            fit, no other does.
        asked: Who asks; the last line is his.
        strict: Queues in which nobody passes.
        now: Seconds since the epoch.
    """

    tree: Tree
    runs: Sequence[Runs]
    lines: Sequence[Sequence[Waiter]]
    asked: Waiter
    strict: frozenset[str]
    now: float


def estimate(scene: Scene, tries: int = TRIES) -> tuple[StartEstimate | None, int]:
    """Return when who asks would start, and how many tries that took.

    None: no future has it start. The longer the queue, the fewer samples, and what is beyond the
    last end that is looked at is extrapolated.
    """
    for runs in scene.runs:
        runs.settle(scene.now)
    rank = scene.asked.rank
    ahead = sum(bisect_left(line, rank, key=attrgetter("rank")) for line in scene.lines)
    samples = max(LEAST, min(SAMPLES, tries // (2 * ahead + 4 * len(scene.lines))))
    limit = max(SHORTEST, tries // samples // len(scene.lines))
    starts: list[tuple[float, int]] = []
    used = 0
    with _slate(scene.tree) as wipe:
        for index in range(samples):
            future = _Future(scene, index * SAMPLES // samples)
            found = future.play(limit, ahead)
            wipe()
            used += future.tries
            if found is not None:
                starts.append(found)
    if not starts:
        return None, used
    times = sorted(start for start, _ in starts)
    found_start = StartEstimate(
        at=_time(_quantile(times, 0.5)),
        earliest=_time(_quantile(times, 0.1)),
        latest=_time(_quantile(times, 0.9)),
        ahead=median_low(count for _, count in starts),
    )
    return found_start, used


class _Future:
    """One sample being played."""

    def __init__(self, scene: Scene, sample: int) -> None:
        self._scene = scene
        self._sample = sample
        self._next = [0] * len(scene.lines)
        self._nodes = {name: queue.node for name, queue in scene.tree.queues.items()}
        self._started: list[Started] = []
        self.tries = 0
        self._count = 0
        self._freed = 0
        self._scarce = _scarce(scene.asked)

    def play(self, limit: int, ahead: int) -> tuple[float, int] | None:
        """Return when who asks starts, and how many start before it."""
        began = now = self._scene.now
        ends = self._ends()
        following = next(ends, None)
        for _ in range(limit):
            if self._start_all(now):
                return now, self._count
            started = self._started
            if started and (following is None or started[0][0] < following[0]):
                now, _, queue, taken = heapq.heappop(started)
                give_back(taken, self._nodes[queue])
                slot = self._nodes[queue].slot_by_flavor_resource.get(self._scarce)
                self._freed += sum(amount for taken_slot, amount in taken if taken_slot == slot)
            elif following is not None:
                now, run = following
                self._end(run)
                following = next(ends, None)
            else:
                return None
        return began + (now - began) * max(1.0, self._missing() / max(1, self._freed)), ahead

    def _missing(self) -> int:
        """How much of what is scarce must become free in all, for those ahead and who asks."""
        scene, asked = self._scene, self._scene.asked
        node = self._nodes[asked.queue]
        left = self._freed + max(
            0, _amount(asked, self._scarce) - node.available(node.slot(self._scarce))
        )
        waiting = (
            waiter
            for line, place in zip(scene.lines, self._next, strict=True)
            for waiter in line[place:]
            if waiter.rank < asked.rank
        )
        return left + sum(_amount(waiter, self._scarce) for waiter in waiting)

    def _ends(self) -> Iterator[tuple[float, Run]]:
        found = [runs.ends(self._sample) for runs in self._scene.runs]
        return found[0] if len(found) == 1 else heapq.merge(*found, key=itemgetter(0))

    def _end(self, run: Run) -> None:
        node = self._nodes[run.queue]
        for pair, amount in run.usage:
            node.remove_usage(node.slot(pair), amount)
            if pair == self._scarce:
                self._freed += amount

    def _start_all(self, now: float) -> bool:
        """Start who fits, by rank; whether who asks did. What failed once fails until an end."""
        scene = self._scene
        heads = [
            (line[place].rank, index)
            for index, (line, place) in enumerate(zip(self._scene.lines, self._next, strict=True))
            if place < len(line)
        ]
        heapq.heapify(heads)
        closed: set[str] = set()
        while heads:
            _, index = heapq.heappop(heads)
            waiter = self._scene.lines[index][self._next[index]]
            if waiter.queue in closed:
                continue
            self.tries += 1
            taken = try_to_take(waiter.needs, self._nodes[waiter.queue])
            if taken is None:
                if waiter.queue in scene.strict:
                    closed.add(waiter.queue)
                continue
            if waiter is scene.asked:
                return True
            end = now + waiter.curve.quantile(waiter.shares[self._sample])
            heapq.heappush(self._started, (end, waiter.key, waiter.queue, taken))
            self._count += 1
            self._next[index] += 1
            if self._next[index] < len(self._scene.lines[index]):
                heapq.heappush(heads, (self._scene.lines[index][self._next[index]].rank, index))
        return False


def _scarce(asked: Waiter) -> FlavorResource:
    """Return what its first choice takes most of: devices, where there are any."""
    options = [options[0] for options in asked.needs if options]
    amounts = [("/" in pair[1], amount, pair) for option in options for pair, amount in option]
    return max(amounts)[2] if amounts else ("", "")


def _amount(waiter: Waiter, scarce: FlavorResource) -> int:
    return sum(
        amount
        for options in waiter.needs
        if options
        for pair, amount in options[0]
        if pair == scarce
    )


@contextmanager
def _slate(tree: Tree) -> Iterator[Callable[[], None]]:
    """Have usage changed at will inside the block; its end undoes it, and so does what it gives."""
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


def _quantile(values: Sequence[float], share: float) -> float:
    """Return a quantile of sorted values, between two of them where need be."""
    position = max(0.0, min(len(values) - 1.0, share * len(values) - 0.5))
    index = int(position)
    after = values[min(index + 1, len(values) - 1)]
    return values[index] + (after - values[index]) * (position - index)


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
