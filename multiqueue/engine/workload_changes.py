"""Assign workloads to queues and quotas as the API changes (E-9, E-16 to E-19, E-118).

Owns the entries. The facade calls it for every event. It judges no workload; the cycle does.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from multiqueue.api.conditions import Reason
from multiqueue.engine.cache.cache import Cache
from multiqueue.engine.cycle_schedule import CycleSchedule
from multiqueue.engine.queues.entry import (
    Entry,
    QueuePlace,
    as_admitted,
    is_backoff_over,
    is_evicted,
    is_queueable,
    rank_of,
    wakes_itself,
)
from multiqueue.engine.queues.pending_queue import PendingQueue
from multiqueue.engine.quota_usage import QuotaUsage
from multiqueue.engine.waiting import Waiting
from multiqueue.model.workload import Workload

PREEMPTION_PAUSE = timedelta(seconds=1)
"""Delay before a preemption that could not be written is decided on again."""


class WorkloadChanges:
    """Follows Workload objects. Mutable; owned by the engine.

    ``entries`` are all unfinished workloads by key.

    Args:
        cache: the ClusterQueues, Cohorts and flavors.
        pending: waiting workloads, by ClusterQueue.
        quota_usage: the workloads that hold quota, and their usage.
        schedule: the trees that need a cycle.
        waiting: puts workloads into the pending queues and takes them out.
        keeps_scan: whether an updated workload continues its search for flavors (E-41).
    """

    def __init__(
        self,
        cache: Cache,
        pending: dict[str, PendingQueue],
        quota_usage: QuotaUsage,
        schedule: CycleSchedule,
        waiting: Waiting,
        *,
        keeps_scan: bool = True,
    ) -> None:
        self.entries: dict[str, Entry] = {}
        self._cache = cache
        self._pending = pending
        self._quota_usage = quota_usage
        self._schedule = schedule
        self._waiting = waiting
        self._keeps_scan = keeps_scan

    def upsert_workload(self, workload: Workload, now: datetime) -> None:
        """Put a workload into the place that its newest object calls for."""
        self._waiting.now = now
        entry = self.entries.get(workload.key)
        if entry is not None and is_other_object(entry.workload, workload):
            self.delete_workload(workload.key, now)
            entry = None
        if workload.finished:
            if entry is not None:
                self.delete_workload(workload.key, now)
        elif entry is None:
            entry = self.entries[workload.key] = Entry(workload)
            self._quota_usage.add_entry(entry)
            self._place(entry, now)
            if entry.queue:
                self._waiting.welcome(entry, now)
            self._begin_epoch(entry.queue or entry.charged)
        elif entry.place is QueuePlace.HOLDING:
            self._update_holder(entry, workload, now)
        elif entry.queue:
            self._update_waiting(entry, workload, now)
        else:
            entry.replace(workload)
            self._place(entry, now)
        self._waiting.reconsider_successors(workload.key)

    def delete_workload(self, key: str, now: datetime) -> None:
        """Forget a workload and release its quota."""
        entry = self.entries.pop(key, None)
        if entry is None:
            return
        entry.forget_others()
        self._begin_epoch(entry.queue or entry.charged)
        if entry.place is QueuePlace.HOLDING:
            self._release(entry, now, for_good=True)
        elif entry.queue:
            self._waiting.leave(entry)
        self._quota_usage.remove_entry(entry)

    def confirm(self, key: str) -> None:
        """Note that an assumed admission was written."""
        entry = self.entries.get(key)
        if entry is not None:
            entry.assumed = False

    def forget(self, key: str, now: datetime, retry_at: datetime | None = None) -> None:
        """Undo an assumed admission that could not be written; try the workload again."""
        entry = self.entries.get(key)
        if entry is None or not entry.assumed:
            return
        self._release(entry, now)
        is_free = is_backoff_over(entry.workload, now)
        self._waiting.enter(entry, now, anyway=is_free, held_until=retry_at if is_free else None)

    def set_aside(self, key: str, now: datetime) -> None:
        """Undo an assumed admission that the object forbids; wait for the object's next version."""
        entry = self.entries.get(key)
        if entry is not None and entry.assumed:
            self._release(entry, now)

    def preemption_failed(self, key: str, now: datetime) -> None:
        """Note that the preemption of a workload could not be written; decide on it again."""
        entry = self.entries.get(key)
        if entry is None or not (entry.preempted or entry.spared):
            return
        entry.preempted, entry.spared = False, None
        self._quota_usage.reorder(entry)
        self._begin_epoch(entry.charged)  # repeated attempts do not count for the limit
        self._waiting.reconsider_successors(key)
        tree = self._cache.tree_by_queue.get(entry.charged)
        if tree is not None:
            self._schedule.poke_at(tree.key, now + PREEMPTION_PAUSE)

    def roll_back(self, entries: Iterable[Entry], now: datetime) -> None:
        """Queue these heads as they were before a failed cycle."""
        for entry in entries:
            if entry.place is QueuePlace.HOLDING:
                self._quota_usage.release(entry)
            if entry.place is QueuePlace.NOWHERE:
                self._waiting.enter(entry, now, anyway=is_backoff_over(entry.workload, now))

    def _place(self, entry: Entry, now: datetime) -> None:
        """Place a workload that has no place yet."""
        workload = entry.workload
        if workload.stands_aside:
            return
        if workload.reservation is None:
            self._waiting.enter(entry, now, anyway=False)
        elif workload.active:
            self._hold_quota(entry)

    def _update_holder(self, entry: Entry, workload: Workload, now: datetime) -> None:
        old, reservation = entry.workload, workload.reservation
        if reservation is None and entry.assumed and workload.active:
            self._quota_usage.replace_holder(
                entry, as_admitted(workload)
            )  # the write is on its way
            return
        if reservation is None or not workload.active:
            if not is_preempted(workload):
                self._begin_epoch(entry.charged)
            self._release(entry, now, for_good=not workload.active)
            entry.replace(workload)
            self._place(entry, now)
            return
        entry.assumed = False
        is_unseen = not is_evicted(workload) and workload.notice == old.notice
        expects_eviction = entry.preempted and is_unseen
        queue = self._cache.queues.get(entry.charged)
        if queue is not None:
            queue.generation += 1  # as if the workload were removed and added again (E-38)
        admission = reservation.admission
        same_quota = admission.cluster_queue == entry.charged and admission.usage() == entry.usage
        same_slice = entry.took_from == workload.replaces
        if not same_quota or not same_slice or reservation.admitted != entry.admitted:
            held = entry.usage
            self._quota_usage.release(entry)
            entry.replace(workload)
            self._hold_quota(entry)
            if held != entry.usage:
                self._waiting.notify(entry.charged, now)
        else:
            self._quota_usage.replace_holder(entry, workload)
        self._waiting.notify_freed(now)
        entry.preempted = expects_eviction
        if workload.notice != entry.spared:
            entry.spared = None
        if old.priority != workload.priority:
            self._waiting.notify(entry.charged, now)

    def _update_waiting(self, entry: Entry, workload: Workload, now: datetime) -> None:
        old = entry.workload
        if not self._keeps_scan and old != workload:
            entry.resume = None
        stays = is_queueable(workload) and workload.reservation is None
        if not stays:
            self._waiting.leave(entry)
            entry.replace(workload)
            self._place(entry, now)
        elif entry.is_parked:
            if not wakes_itself(old, workload):
                entry.workload = workload
                return
            self._enter_again(entry, workload, now, anyway=False)
        elif rank_of(workload, entry.head_start) == entry.rank and old.shape == workload.shape:
            entry.workload = workload
            self._waiting.poke(entry)
        else:
            self._enter_again(entry, workload, now, anyway=True)

    def _enter_again(
        self, entry: Entry, workload: Workload, now: datetime, *, anyway: bool
    ) -> None:
        """Put a waiting workload into the place that its newer object calls for, in the same queue.

        Its victims continue to leave for it (E-15).
        """
        pending = self._pending[entry.queue]
        was_sticky = pending.sticky is entry
        self._waiting.leave(entry)
        entry.replace(workload)
        self._waiting.enter(entry, now, anyway=anyway)
        if was_sticky and entry.queue == pending.name:
            pending.stick(entry)

    def _hold_quota(self, entry: Entry) -> None:
        reservation = entry.workload.reservation
        assert reservation is not None, "only workloads with a reservation hold quota"
        entry.resume = entry.memo = entry.explanation = None
        self._quota_usage.charge(
            entry,
            reservation.admission,
            at=reservation.reserved_at,
            admitted=reservation.admitted,
        )

    def _release(self, entry: Entry, now: datetime, *, for_good: bool = False) -> None:
        name = entry.charged
        self._quota_usage.release(entry)
        self._waiting.notify(name, now)
        if for_good:  # not for a preempted victim: its room is reserved for its preemptor
            self._waiting.follow_end(name, now)

    def _begin_epoch(self, cluster_queue: str) -> None:
        """Start an engine epoch: the tree changed from outside, so preemptions count anew."""
        tree = self._cache.tree_by_queue.get(cluster_queue)
        if tree is not None:
            tree.epoch += 1


def is_preempted(workload: Workload) -> bool:
    """Whether the workload lost its quota to another one."""
    return (
        is_evicted(workload)
        and workload.evicted is not None
        and workload.evicted.reason == Reason.PREEMPTED
    )


def is_other_object(old: Workload, new: Workload) -> bool:
    """Whether the object was deleted and created again, or moved to another LocalQueue."""
    return old.uid != new.uid or old.queue != new.queue
