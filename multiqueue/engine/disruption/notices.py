"""Who was told to save its work before it is stopped, and when that is over (P-50 to P-53, P-56).

The state of a notice is in its Workload. Kept here is only who wants whose room by the decisions of
this process: a notice that a new leader finds counts as wanted until its preemptor was judged.

Units: times are whole seconds since the epoch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from multiqueue.api.conditions import NoticeEnd
from multiqueue.api.notices import Notice
from multiqueue.engine.disruption.cost import started_at
from multiqueue.engine.disruption.governance import Governance
from multiqueue.engine.disruption.losses import Losses
from multiqueue.engine.disruption.non_preemptible import NonPreemptibles
from multiqueue.engine.disruption.protection import HoldOff, find_protection
from multiqueue.engine.disruption.search_rules import cause_of
from multiqueue.engine.queues.entry import Entry, QueuePlace
from multiqueue.engine.quota_usage import QuotaUsage
from multiqueue.model.disruption_policy import CLOCK_SKEW

_WAITING = frozenset({QueuePlace.QUEUED, QueuePlace.PARKED})


class NoticeOver(NamedTuple):
    """A notice that is over.

    Shape: ``preemptor`` is None, and ``why`` says why, if the holder runs on.
    """

    entry: Entry
    notice: Notice
    end: NoticeEnd
    preemptor: Entry | None = None
    why: str = ""


class Notices:
    """The holders of quota that were told to save their work. Mutable; owned by the engine.

    Args:
        quota_usage: who holds quota, and who waits.
        governance: who is governed by which policy.
        losses: the checkpoints that jobs reported.
    """

    def __init__(
        self,
        quota_usage: QuotaUsage,
        governance: Governance,
        losses: Losses,
        non_preemptibles: NonPreemptibles,
    ) -> None:
        self._quota_usage = quota_usage
        self._governance = governance
        self._losses = losses
        self._non_preemptibles = non_preemptibles
        self._noticed: dict[str, Entry] = {}
        self._gone: set[str] = set()
        self._wanted: dict[Entry, frozenset[Entry]] = {}
        self._preemptors: dict[str, Entry] = {}

    @property
    def is_used(self) -> bool:
        """Whether anybody may have a notice."""
        return bool(self._noticed)

    def follow(self, key: str, entry: Entry | None) -> None:
        """Take over the newest state of a Workload; None once it is gone."""
        if entry is not None and entry.notice is not None:
            self._noticed[key] = entry
        elif self._noticed and (entry is None or not entry.preempted):
            self._noticed.pop(key, None)

    def want(self, head: Entry, victims: Iterable[Entry], *, told: Iterable[Entry] = ()) -> None:
        """Note whom a head was judged to need; ``told`` are those that get notice now."""
        self._noticed.update((entry.key, entry) for entry in told)
        if self._noticed:
            self._wanted[head] = frozenset(victims)

    def in_force(self) -> Iterator[tuple[Entry, Notice]]:
        """Iterate over the notices that are not over, by key of the Workload."""
        for key in sorted(self._noticed):
            entry = self._noticed[key]
            if entry.preempted:
                continue  # a write is on its way
            if entry.notice is None or entry.place is not QueuePlace.HOLDING:
                del self._noticed[key]
            else:
                yield entry, entry.notice

    def next_end(self) -> int | None:
        """Return when the first notice ends at the latest; None if there is none."""
        return min((notice.by for _, notice in self.in_force()), default=None)

    def ends_by_report(self, job_uid: str) -> bool:
        """Whether somebody with a notice belongs to this job."""
        return any(entry.workload.job_uid == job_uid for entry in self._noticed.values())

    def note_gone(self, key: str, uid: str) -> bool:
        """Note that all pods of a Workload are gone; return whether it was told to leave."""
        entry = self._noticed.get(key)
        if entry is None or entry.workload.uid != uid:
            return False
        self._gone.add(key)
        return True

    def is_gone(self, entry: Entry) -> bool:
        """Whether a Workload that was told to leave has no pods any more."""
        return entry.key in self._gone

    def list_over(self, now: int) -> list[NoticeOver]:
        """Return the notices that are over now, by key of the Workload."""
        self._gone &= self._noticed.keys()
        if not self._noticed:
            self._wanted.clear()
            self._preemptors.clear()
            return []
        self._wanted = {h: wanted for h, wanted in self._wanted.items() if h.place in _WAITING}
        judged = (self._judge(entry, notice, now) for entry, notice in self.in_force())
        return [over for over in judged if over is not None]

    def find_preemptor(self, notice: Notice) -> Entry | None:
        """Return for whom a notice was given; None if it is gone."""
        uid = notice.preemptor
        found = self._preemptors.get(uid)
        if found is None:
            records = self._quota_usage.local_queues.values()
            everybody = (entry for record in records for entry in record.entries.values())
            found = next((each for each in everybody if each.workload.uid == uid), None)
            if found is not None:
                self._preemptors[uid] = found
        if found is None or self._is_gone(found):
            return None
        return found

    def _is_gone(self, entry: Entry) -> bool:
        record = self._quota_usage.local_queues.get(entry.workload.queue)
        return record is None or record.entries.get(entry.key) is not entry

    def _judge(self, entry: Entry, notice: Notice, now: int) -> NoticeOver | None:
        first = self.find_preemptor(notice)
        wanting = self._find_wanting(entry, first)
        if not notice.by:
            why = "its notice cannot be read any more"
        elif wanting is None:
            why = _describe_lack_of_need(first)
        else:
            off = self._find_protection(entry, notice, wanting, now)
            why = "" if off is None else off.words
        if why or wanting is None:
            return NoticeOver(entry, notice, NoticeEnd.RESCINDED, why=why)
        if self._has_saved(entry, notice, now):
            return NoticeOver(entry, notice, NoticeEnd.SAVED, wanting)
        if self.is_gone(entry):
            return NoticeOver(entry, notice, NoticeEnd.ENDED, wanting)
        if now >= notice.by or self._is_exempt(entry, wanting):
            return NoticeOver(entry, notice, NoticeEnd.TIMED_OUT, wanting)
        return None

    def _find_wanting(self, entry: Entry, first: Entry | None) -> Entry | None:
        """Return who waits for the room of a holder: for whom it was told, else another one."""
        if (
            first is not None
            and first.place in _WAITING
            and (first not in self._wanted or entry in self._wanted[first])
        ):
            return first
        others = [head for head, wanted in self._wanted.items() if entry in wanted]
        return min(others, key=lambda head: head.rank, default=None)

    def _has_saved(self, entry: Entry, notice: Notice, now: int) -> bool:
        saved_at = self._losses.saved_at.get(entry.workload.job_uid)
        return saved_at is not None and notice.given_at <= saved_at <= now + CLOCK_SKEW

    def _is_exempt(self, entry: Entry, preemptor: Entry) -> bool:
        rules = self._governance.of_queue(entry.charged).rules
        return rules.exempts(preemptor.workload.priority)

    def _find_protection(
        self, entry: Entry, notice: Notice, preemptor: Entry, now: int
    ) -> HoldOff | None:
        """Return what protects a holder by now; its policy may have changed."""
        rules = self._governance.of_queue(entry.charged).rules
        if (off := self._non_preemptibles.find_hold_off(entry)) is not None:
            return off
        if rules.problem or rules.exempts(preemptor.workload.priority):
            return None
        return find_protection(
            started_at(entry),
            entry.workload.stops,
            cause_of(notice.reason),
            rules.protection,
            concede=self._governance.of_queue(preemptor.queue).rules.protection.concede,
            now=now,
        )


def _describe_lack_of_need(preemptor: Entry | None) -> str:
    if preemptor is None:
        return "the workload that it was to leave for is gone"
    if preemptor.place is QueuePlace.HOLDING:
        return "the workload that it was to leave for was admitted"
    return "the workload that it was to leave for does not need its room any more"
