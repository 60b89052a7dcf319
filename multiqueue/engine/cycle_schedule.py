"""Which trees need a cycle, and when: changed trees, batched wakes, ended backoffs (E-27, E-29).

A tree gets cycles only after something in it changed, and no more once its cycles repeat
themselves. So an idle engine costs nothing, however many workloads it holds.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import TypeAlias

from multiqueue.engine.queues.entry import Entry, QueuePlace, micros
from multiqueue.lib.heap import KeyedHeap

Fingerprint: TypeAlias = tuple[object, ...]

_EPOCH = datetime.fromtimestamp(0, UTC)
LOADED = timedelta(seconds=10)
"""How long a tree stays under load: a slow API server makes ends come in bursts."""
_NOBODY = 2**31
"""More than any negated priority, an int32."""


class TreeSchedule:
    """The pending work for one tree.

    Shape: ``heads`` and ``parked`` are names of ClusterQueues that may have a head, or parked
    workloads; both may name too many. ``parked_rank`` is the least of the negated priorities that
    were parked since the last wake. ``seen`` has the cycles since the last change, to notice
    repetitions. ``served`` is the round in which the tree last had a cycle. ``ended_at`` is the
    time of the last end of a workload, and ``loaded_until`` the one until which the tree is under
    load. ``lacks_nodes`` says that a workload was judged since the last wake by freed nodes which
    might fit if nodes became free.
    """

    __slots__ = (
        "ended_at",
        "heads",
        "lacks_nodes",
        "loaded_until",
        "parked",
        "parked_rank",
        "seen",
        "served",
    )

    def __init__(self) -> None:
        self.heads: set[str] = set()
        self.parked: set[str] = set()
        self.parked_rank = _NOBODY
        self.seen: set[Fingerprint] = set()
        self.served = 0
        self.lacks_nodes = False
        self.ended_at = self.loaded_until = _EPOCH

    def park(self, entry: Entry) -> None:
        """Note that a workload waits for a wake."""
        self.parked.add(entry.queue)
        self.parked_rank = min(self.parked_rank, entry.rank[0])

    def take_parked(self) -> list[str]:
        """Return the queues that may have parked workloads, by name; they are being woken."""
        queues = sorted(self.parked)
        self.parked.clear()
        self.parked_rank = _NOBODY
        return queues


class CycleSchedule:
    """When each tree needs a cycle. Mutable; owned by the engine."""

    def __init__(self, wake_batch: timedelta, busy_wake_batch: timedelta) -> None:
        self._wake_batch = wake_batch
        self._busy_wake_batch = min(wake_batch, busy_wake_batch)
        self._woken_at: dict[str, datetime] = {}
        self._trees: dict[str, TreeSchedule] = {}
        self._ready: set[str] = set()
        self._unstamped: set[str] = set()
        self._wakes: KeyedHeap[str] = KeyedHeap()
        self.backoffs: KeyedHeap[Entry] = KeyedHeap()
        self._pauses: KeyedHeap[str] = KeyedHeap()
        self._ends: KeyedHeap[str] = KeyedHeap()
        self._round = 0

    def tree(self, key: str) -> TreeSchedule:
        """Return the schedule of a tree."""
        found = self._trees.get(key)
        if found is None:
            found = self._trees[key] = TreeSchedule()
        return found

    def forget_tree(self, key: str) -> None:
        """Drop everything about a tree that is gone."""
        self._trees.pop(key, None)
        self._ready.discard(key)
        self._unstamped.discard(key)
        self._wakes.remove(key)
        self._woken_at.pop(key, None)
        self._pauses.remove(key)
        self._ends.remove(key)

    # ---------------------------------------------------------------- cycles

    def poke(self, key: str, queues: Iterable[str] = ()) -> None:
        """Schedule a cycle of a tree: something changed, or these queues may have new heads."""
        schedule = self.tree(key)
        schedule.heads.update(queues)
        schedule.seen.clear()
        self._ready.add(key)

    def settle(self, key: str) -> None:
        """Schedule no further cycle of a tree until it is poked again."""
        self._ready.discard(key)

    def pause(self, key: str, until: datetime) -> None:
        """Run no cycle of a tree until it is poked again, or until this time at the latest."""
        self.settle(key)
        self.poke_at(key, until)

    def poke_at(self, key: str, at: datetime) -> None:
        """Schedule a cycle of a tree at this time."""
        self._pauses.push(key, (micros(at), key))

    def next_round(self) -> list[str]:
        """Return the trees that need a cycle; the longest waiting first, then by name."""
        self._round += 1
        return sorted(self._ready, key=lambda key: (self._trees[key].served, key))

    def serve(self, key: str) -> TreeSchedule:
        """Note that a tree gets its cycle now."""
        schedule = self._trees[key]
        schedule.served = self._round
        return schedule

    @property
    def is_busy(self) -> bool:
        """Whether some tree needs a cycle now."""
        return bool(self._ready)

    # ---------------------------------------------------------------- wakes and backoffs

    def notify(self, key: str, now: datetime | None = None) -> None:
        """Wake the parked workloads of a tree, one batch after the first notification.

        Without a time, the batch begins at the next time that the engine gets.

        Deviates: from E-27, which always waits for the batch. A tree that was woken within the last
        batch is busy and waits less, so that freed quota is used sooner.
        """
        if key in self._wakes:
            return
        if now is None:
            self._unstamped.add(key)
        else:
            self._unstamped.discard(key)
            woken_at = self._woken_at.get(key)
            is_busy = woken_at is not None and now - woken_at < self._wake_batch
            batch = self._busy_wake_batch if is_busy else self._wake_batch
            self._wakes.push(key, (micros(now + batch), key))

    def note_end(self, key: str, now: datetime) -> None:
        """Remember that a workload of a tree ended; with two in one batch, it is under load."""
        schedule = self.tree(key)
        if now - schedule.ended_at < self._wake_batch:
            schedule.loaded_until = now + LOADED
        schedule.ended_at = now

    def wake_at(self, key: str, seconds: int) -> None:
        """Wake the parked workloads of a tree at this time, in seconds since the epoch.

        Somebody waits for the end of a protection or of a budget's window. The earliest one counts;
        who is refused again then names the next.
        """
        at = seconds * 1_000_000
        if key not in self._ends or at < self._ends.rank(key)[0]:
            self._ends.push(key, (at, key))

    def wake_ends(self, now: datetime | None = None) -> list[str]:
        """Wake who waits for the end of a protection or of a budget's window; return the trees.

        Args:
            now: Only ends until now count; None: all, because a stop counts no more.
        """
        woken = []
        while (key := self._ends.peek()) is not None:
            if now is not None and self._ends.rank(key)[0] > micros(now):
                break
            self._ends.pop()
            if key in self._trees:
                self.hasten(key)
                woken.append(key)
        return woken

    def hasten(self, key: str) -> None:
        """Deliver the wake of a tree with the next ones that are due."""
        self._wakes.push(key, (0, key))

    def list_hastenable(self, now: datetime) -> list[str]:
        """Return the trees under load that need a cycle now and a wake later, by name."""
        ready = (key for key in sorted(self._ready) if now < self._trees[key].loaded_until)
        return [key for key in ready if key in self._wakes]

    def stamp(self, now: datetime) -> None:
        """Give this time to the notifications that have none."""
        for key in sorted(self._unstamped):
            self.notify(key, now)

    def hold(self, entry: Entry) -> None:
        """Remember when the backoff of a held workload ends, if only time ends it."""
        requeued, at = entry.workload.requeued, entry.workload.requeue_at
        if at is not None and (requeued is None or requeued.status != "False"):
            self.hold_until(entry, at)
        else:
            self.backoffs.remove(entry)

    def hold_until(self, entry: Entry, at: datetime) -> None:
        """Release a held workload at this time."""
        self.backoffs.push(entry, (micros(at), entry.key))

    def take_due_wakes(self, now: datetime) -> list[str]:
        """Return the trees whose batch is over, in order of time."""
        self.wake_ends(now)
        due = []
        while (key := self._wakes.peek()) is not None and self._wakes.rank(key)[0] <= micros(now):
            self._wakes.pop()
            self._woken_at[key] = now
            due.append(key)
        return due

    def take_due_backoffs(self, now: datetime) -> list[Entry]:
        """Return the held workloads whose backoff is over."""
        due = []
        while (entry := self._first_backoff()) is not None:
            if self.backoffs.rank(entry)[0] > micros(now):
                break
            self.backoffs.pop()
            due.append(entry)
        return due

    def end_due_pauses(self, now: datetime) -> None:
        """Schedule cycles of the trees whose pause is over."""
        while (key := self._pauses.peek()) is not None:
            if self._pauses.rank(key)[0] > micros(now):
                break
            self._pauses.pop()
            self.poke(key)

    def next_timer(self) -> datetime | None:
        """Return when the next wake, backoff or pause ends."""
        times = [
            heap.rank(key)[0]
            for heap in (self._wakes, self._pauses, self._ends)
            if (key := heap.peek()) is not None
        ]
        if (entry := self._first_backoff()) is not None:
            times.append(self.backoffs.rank(entry)[0])
        return _EPOCH + timedelta(microseconds=min(times)) if times else None

    def _first_backoff(self) -> Entry | None:
        while (entry := self.backoffs.peek()) is not None and entry.place is not QueuePlace.HELD:
            self.backoffs.pop()
        return entry
