"""When a Workload would start: the queue played forward in a number of possible futures. Pure.

A light model of the worker: who holds quota ends when its sample says so; at each end those that
wait are tried by rank, and who fits starts, whoever is before it (in a StrictFIFO queue nobody
passes). Quotas are those of the replica's own tree, borrowing and all; nodes are those of `sites`.
Nobody new arrives, and nobody preempts. The tree is used as a slate and left as it was found.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence
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
from multiqueue.multikueue.foresight.sites import Gang, Sites, Taken
from multiqueue.multikueue.foresight.slate import slate
from multiqueue.plugins.forecast import StartEstimate

TRIES = 4000
"""Ends and starts that one estimate may look at, over all samples: some milliseconds."""
QUICK = 300
"""The same for one that has to do for now."""
LEAST, FEWEST = 9, 3
"""Samples at least, and where one has to do for now."""
SHORTEST = 40
"""Ends that each sample may look at, at least."""

Gate = tuple[tuple[int, int], ...]
Started = tuple[float, str, str, list[tuple[int, int]], list[Taken]]
"""When it ends, its key, its queue, what it took of quotas and of nodes."""


@dataclass(frozen=True, slots=True)
class Waiter:
    """A Workload that waits; ``shares`` are the quantiles of its runtime by sample.

    Shape: ``gangs`` are its pods, where they need places in a topology, and ``flavors`` those that
    these may get.
    """

    key: str
    rank: Rank
    queue: str
    needs: Needs
    curve: Curve
    shares: Sequence[float]
    gangs: tuple[Gang, ...] = ()
    flavors: tuple[str, ...] = ()


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
    samples = max(LEAST if tries > QUICK else FEWEST, min(SAMPLES, tries // (3 * ahead + SHORTEST)))
    limit = max(SHORTEST, tries // samples)
    gates = [_gate(scene, line) for line in scene.lines]
    starts: list[tuple[float, int]] = []
    used = 0
    sites = Sites(scene.tree, _scarce(scene.asked)[1])
    with slate(scene.tree) as wipe:
        for index in range(samples):
            future = _Future(scene, gates, sites, index * SAMPLES // samples)
            found = future.play(limit, ahead)
            wipe()
            sites.put_back()
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

    def __init__(self, scene: Scene, gates: Sequence[Gate], sites: Sites, sample: int) -> None:
        self._scene = scene
        self._gates = gates
        self._sites = sites
        self._sample = sample
        self._next = [0] * len(scene.lines)
        self._heads = sorted((line[0].rank, index) for index, line in enumerate(scene.lines))
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
        return began + (now - began) * max(1.0, self._missing() / max(1, self._freed)), ahead

    def _missing(self) -> int:
        """How much of what is scarce must become free in all, for those ahead and who asks."""
        scene, asked = self._scene, self._scene.asked
        node = self._nodes[asked.queue]
        left = self._freed + max(
            0, _amount(asked, self._scarce) - node.available(node.slot(self._scarce))
        )
        for line, place in zip(scene.lines, self._next, strict=True):
            before = bisect_left(line, asked.rank, key=attrgetter("rank")) - place
            left += max(0, before) * _amount(line[0], self._scarce)
        return left

    def _ends(self) -> Iterator[tuple[float, Run]]:
        found = [runs.ends(self._sample) for runs in self._scene.runs]
        return found[0] if len(found) == 1 else heapq.merge(*found, key=itemgetter(0))

    def _end(self, run: Run) -> None:
        node = self._nodes[run.queue]
        for pair, amount in run.usage:
            node.remove_usage(node.slot(pair), amount)
            if pair == self._scarce:
                self._freed += amount
        if self._sites.are_any:
            self._sites.end(run.key)

    def _start_all(self, now: float) -> bool:
        """Start who fits, by rank; whether who asks did. What failed once fails until an end."""
        scene, heads, place = self._scene, self._heads, 0
        closed: set[str] = set()
        room: dict[tuple[str, int], int] = {}
        self.tries += 1
        while place < len(heads):
            _, index = heads[place]
            waiter = scene.lines[index][self._next[index]]
            node = self._nodes[waiter.queue]
            taken = None
            if waiter.queue not in closed and self._may_fit(waiter.queue, node, index, room):
                self.tries += 1
                taken = self._try(waiter, node)
            if taken is None:
                if waiter.queue in scene.strict:
                    closed.add(waiter.queue)
                place += 1
                continue
            if waiter is scene.asked:
                return True
            room.clear()
            end = now + waiter.curve.quantile(waiter.shares[self._sample])
            heapq.heappush(self._started, (end, waiter.key, waiter.queue, *taken))
            self._count += 1
            self._advance(place)
        return False

    def _try(
        self, waiter: Waiter, node: QuotaNode
    ) -> tuple[list[tuple[int, int]], list[Taken]] | None:
        """Have a Workload take quota, and places where its pods need some."""
        if not waiter.gangs or not self._sites.are_any:
            taken = try_to_take(waiter.needs, node)
            return None if taken is None else (taken, [])
        if not self._sites.may_hold(waiter.gangs, waiter.flavors):
            return None
        taken = try_to_take(waiter.needs, node)
        if taken is None:
            return None
        slots = {slot for slot, _ in taken}
        flavors = {
            name for (name, _), slot in node.slot_by_flavor_resource.items() if slot in slots
        }
        places = self._sites.take(waiter.gangs, sorted(flavors))
        if places is None:
            give_back(taken, node)
            return None
        return taken, places

    def _may_fit(
        self, queue: str, node: QuotaNode, index: int, room: dict[tuple[str, int], int]
    ) -> bool:
        """Whether there may be room for the first of a line: all that most tries come to."""
        for slot, amount in self._gates[index]:
            left = room.get((queue, slot))
            if left is None:
                left = room[queue, slot] = node.available(slot)
            if left >= amount:
                return True
        return not self._gates[index]

    def _advance(self, place: int) -> None:
        """Have the next of a line come forward."""
        _, index = self._heads.pop(place)
        self._next[index] += 1
        line = self._scene.lines[index]
        if self._next[index] < len(line):
            insort(self._heads, (line[self._next[index]].rank, index), lo=place)


def _gate(scene: Scene, line: Sequence[Waiter]) -> Gate:
    """Return what the Workloads of a line need most of, by option: slots and amounts."""
    first = line[0]
    if not first.needs:
        return ()
    node = scene.tree.queues[first.queue].node
    most = (max(option, key=_weight) for option in first.needs[0] if option)
    return tuple((node.slot(pair), amount) for pair, amount in most)


def _weight(item: tuple[FlavorResource, int]) -> tuple[bool, int]:
    (_, resource), amount = item
    return "/" in resource, amount


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


def _quantile(values: Sequence[float], share: float) -> float:
    """Return a quantile of sorted values, between two of them where need be."""
    position = max(0.0, min(len(values) - 1.0, share * len(values) - 0.5))
    index = int(position)
    after = values[min(index + 1, len(values) - 1)]
    return values[index] + (after - values[index]) * (position - index)


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
