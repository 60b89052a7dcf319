"""Moves workloads into and out of the pending queues, and wakes them for free quota (E-27).

Shared by `WorkloadChanges`, which follows workloads, and queue activation, which follows queues.

Newcomers are Workloads that arrived a moment ago. A user who ends one job and submits another
expects the second to get the room of the first. The end takes a few more requests to arrive here
than the creation, which must not matter, so a newcomer sees that room without a wake.
"""

from __future__ import annotations

from collections import deque
from datetime import UTC, datetime, timedelta

from multiqueue.engine.cache.cache import Cache
from multiqueue.engine.cycle_schedule import CycleSchedule
from multiqueue.engine.queues.entry import Entry, QueuePlace, is_queueable
from multiqueue.engine.queues.pending_queue import PendingQueue
from multiqueue.engine.quota_usage import QuotaUsage

_NEVER = datetime.fromtimestamp(0, UTC)


class Waiting:
    """The way into the pending queues and out. Mutable; owned by the engine.

    ``now`` is the time of the last workload event.

    Args:
        cache: the ClusterQueues, Cohorts and flavors.
        pending: waiting workloads, by ClusterQueue.
        quota_usage: the workloads that hold quota, and their usage.
        schedule: the trees that need a cycle.
    """

    def __init__(
        self,
        cache: Cache,
        pending: dict[str, PendingQueue],
        quota_usage: QuotaUsage,
        schedule: CycleSchedule,
    ) -> None:
        self.now = _NEVER
        self._cache = cache
        self._pending = pending
        self._quota_usage = quota_usage
        self._schedule = schedule
        self._newcomers = Newcomers()

    def welcome(self, entry: Entry, now: datetime) -> None:
        """Remember that a workload has just arrived."""
        self._newcomers.add(self._cache.tree_by_queue[entry.queue].key, entry, now)

    def enter(
        self, entry: Entry, now: datetime, *, anyway: bool, held_until: datetime | None = None
    ) -> None:
        """Put a workload into the pending queue that its LocalQueue leads to, if it may enter."""
        record = self._quota_usage.local_queue(entry.workload.queue)
        pending = self._pending.get(record.cluster_queue)
        if pending is None or not record.is_open or not is_queueable(entry.workload):
            return
        has_variants = self._cache.queues[pending.name].spec.concurrent is not None
        if has_variants and not (entry.workload.family or entry.workload.is_elastic):
            return  # it will be marked as a parent, whose variants queue in its place (E-170)
        if held_until is not None:
            pending.push_held(entry)
            self._schedule.hold_until(entry, held_until)
        elif anyway:
            pending.push_anyway(entry, now)
        else:
            pending.push(entry, now)
        self._quota_usage.enter_queue(entry)
        if held_until is None and entry.place is QueuePlace.HELD:
            self._schedule.hold(entry)
        self.poke(entry)

    def leave(self, entry: Entry) -> None:
        """Take a workload out of its pending queue."""
        self.poke(entry)
        self._quota_usage.leave_queue(entry, self._pending[entry.queue])

    def poke(self, entry: Entry) -> None:
        """Schedule a cycle for the queue of a workload."""
        key = self._cache.tree_by_queue[entry.queue].key
        self._schedule.poke(key, (entry.queue,))
        if entry.is_parked:
            self._schedule.tree(key).park(entry)

    def notify(self, cluster_queue: str, now: datetime) -> None:
        """Wake parked workloads and let waiting heads try again, because quota became free."""
        tree = self._cache.tree_by_queue.get(cluster_queue)
        if tree is not None:
            self._schedule.notify(tree.key, now)
            self._schedule.poke(tree.key)
        self.notify_freed(now)

    def follow_end(self, cluster_queue: str, now: datetime) -> None:
        """Let newcomers try quota that became free for nobody in particular; they need no wake."""
        tree = self._cache.tree_by_queue.get(cluster_queue)
        if tree is not None:
            self._schedule.note_end(tree.key, now)
            for entry in self._newcomers.take(tree.key, now):
                self._pending[entry.queue].look_again(entry)
                self.poke(entry)  # its queue may be in another tree now

    def reconsider_successors(self, key: str) -> None:
        """Judge anew the workloads that wait to replace a holder which has changed (E-167).

        They need no wake, because no quota becomes free. If the holder is gone altogether, they are
        woken like all others.
        """
        successor_slices = self._quota_usage.successor_slices.get(key)
        if successor_slices is None:
            return
        for entry in tuple(successor_slices.values()):
            replaced_slice = self._quota_usage.replaced_slice(entry.workload, entry.queue)
            knew = None if entry.memo is None else entry.memo.replaced_slice
            if entry.awaits_wake and replaced_slice is not None and replaced_slice != knew:
                self._pending[entry.queue].look_again(entry)
                self.poke(entry)

    def notify_freed(self, now: datetime) -> None:
        """Wake the parked workloads of every tree that lacked nodes of those with new room."""
        for key in self._quota_usage.take_freed():  # nodes are shared by trees
            schedule = self._schedule.tree(key)
            if schedule.lacks_nodes:
                schedule.lacks_nodes = False  # all that lack nodes are judged anew
                self._schedule.notify(key, now)
                self._schedule.poke(key)


GRACE = timedelta(milliseconds=500)
"""Time for several requests to an API server under load; wakes are batched for one second."""


class Newcomers:
    """Arrivals of the last `GRACE`, by tree. Mutable; owned by `WorkloadChanges`."""

    def __init__(self) -> None:
        self._arrivals: dict[str, deque[tuple[datetime, Entry]]] = {}

    def add(self, tree: str, entry: Entry, now: datetime) -> None:
        """Remember an arrival; drop the older ones."""
        arrivals = self._arrivals.setdefault(tree, deque())
        while arrivals and arrivals[0][0] < now - GRACE:
            arrivals.popleft()
        arrivals.append((now, entry))

    def take(self, tree: str, now: datetime) -> list[Entry]:
        """Return the recent arrivals that are parked; each is returned once."""
        arrivals = self._arrivals.pop(tree, ())
        return [entry for at, entry in arrivals if at >= now - GRACE and entry.awaits_wake]
