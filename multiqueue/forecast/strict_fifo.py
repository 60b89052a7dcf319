"""Count Workloads before another in StrictFIFO queues, without reading all of them. Pure.

The queues are those of workers, whose policies are not known, so nobody has a turn.
"""

from __future__ import annotations

from bisect import bisect_left, insort

from multiqueue.engine.queues.entry import Rank, rank_of
from multiqueue.engine.queues.pending_queue import PendingQueue
from multiqueue.model.workload import Workload

MOST_CHANGES = 1000
"""A queue with more changes than this since the last question is read again in full."""


class _Line:
    """The sorted ranks of the Workloads that wait in one queue, and the changes since."""

    def __init__(self, pending: PendingQueue) -> None:
        self.changed: set[str] = set()
        self._revision = pending.revision
        self._rank_of = {key: entry.rank for key, entry in pending.members.items()}
        self._ranks: list[Rank] = sorted(self._rank_of.values())

    def catch_up(self, pending: PendingQueue) -> None:
        """Apply the changes; cost: O(log n) each, plus shifting the list."""
        for key in self.changed if self._revision is not pending.revision else ():
            rank = self._rank_of.pop(key, None)
            if rank is not None:
                del self._ranks[bisect_left(self._ranks, rank)]
            entry = pending.members.get(key)
            if entry is not None:
                self._rank_of[key] = entry.rank
                insort(self._ranks, entry.rank)
        self.changed.clear()
        self._revision = pending.revision

    def count_before(self, workload: Workload) -> int:
        """Return how many other Workloads come before a Workload."""
        rank, own = rank_of(workload), self._rank_of.get(workload.key)
        return bisect_left(self._ranks, rank) - (own is not None and own < rank)


class StrictFifoQueues:
    """The queues that were asked about; each is updated when it is asked about again."""

    def __init__(self) -> None:
        self._lines: dict[str, _Line] = {}

    def note(self, key: str) -> None:
        """Record that a Workload may have appeared, disappeared or changed."""
        for name, line in list(self._lines.items()):
            line.changed.add(key)
            if len(line.changed) > MOST_CHANGES:
                del self._lines[name]

    def forget(self) -> None:
        """Forget everything, since anything may have changed."""
        self._lines.clear()

    def count_before(self, pending: PendingQueue, workload: Workload) -> int:
        """Return how many other Workloads wait before a Workload."""
        line = self._lines.get(pending.name)
        if line is None:
            line = self._lines[pending.name] = _Line(pending)
        line.catch_up(pending)
        return line.count_before(workload)
