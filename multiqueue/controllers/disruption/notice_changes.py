"""What writes of notices change in the status of a Workload. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from multiqueue.api.conditions import NoticeEnd, Reason
from multiqueue.api.notices import Notice, end_notice, give_notice, parse_notice
from multiqueue.api.v1beta2 import Workload, WorkloadStatus
from multiqueue.api.workload_state import has_quota, is_evicted, is_finished


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenNotice:
    """A Workload may save its work until ``by`` (seconds since the epoch), and is stopped then."""

    workload: str
    uid: str
    reason: Reason
    message: str
    by: int

    def change(self, newest: Workload, now: datetime) -> WorkloadStatus:
        """Return the status with the notice; one that is in force is never made longer (P-52).

        That of a drain becomes that of this preemption, so that the preemptor's room is counted.
        """
        status = newest.status
        known = parse_notice(status.conditions)
        if not can_leave(newest, self.uid) or not (known is None or known.is_of_drain):
            return status
        end = self.by if known is None else min(self.by, known.by)
        by, generation = datetime.fromtimestamp(end, UTC), newest.metadata.generation
        return give_notice(status, self.reason, self.message, by=by, now=now, generation=generation)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rescission:
    """A Workload that was told to leave runs on."""

    workload: str
    uid: str
    notice: Notice
    message: str

    def change(self, newest: Workload, now: datetime) -> WorkloadStatus:
        """Return the status without this notice; the unchanged status if it has another one."""
        status, generation = newest.status, newest.metadata.generation
        is_it = parse_notice(status.conditions) == self.notice
        if newest.metadata.uid != self.uid or not is_it:
            return status
        return end_notice(status, NoticeEnd.RESCINDED, self.message, now=now, generation=generation)


def can_leave(newest: Workload, uid: str) -> bool:
    """Whether this very Workload still runs, and was not told to stop."""
    status = newest.status
    is_there = newest.metadata.uid == uid and has_quota(status)
    return is_there and not is_finished(status) and not is_evicted(status)
