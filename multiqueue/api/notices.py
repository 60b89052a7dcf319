"""The notice that a Workload gets before it is stopped: ``multiqueue.dev/PreemptionNotice``.

The condition is the only state of a notice, so a new leader goes on where the old one stopped.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

import msgspec

from multiqueue.api.conditions import (
    PREEMPTION_NOTICE,
    NoticeEnd,
    Reason,
    find_condition,
    set_condition,
)
from multiqueue.api.v1beta2 import Condition, WorkloadStatus, format_time
from multiqueue.api.v1beta2.meta import parse_time

_BY, _AT_THE_LATEST = "will be stopped at ", " at the latest; save your work now. "
_REASONS = frozenset(
    {
        Reason.IN_CLUSTER_QUEUE,
        Reason.IN_COHORT_RECLAMATION,
        Reason.IN_COHORT_FAIR_SHARING,
        Reason.IN_COHORT_RECLAIM_WHILE_BORROWING,
    }
)


class Notice(NamedTuple):
    """A notice in force.

    Shape: ``given_at`` and ``by`` are in seconds since the epoch; ``by`` is 0 if somebody changed
    the message so that it cannot be read. ``reason`` and ``message`` are those of the Preempted
    condition to come, and ``preemptor`` is the uid of the Workload that the room is for. In a
    drain they are those of the Evicted condition to come, and nobody is the preemptor.
    """

    given_at: int
    by: int
    reason: Reason
    message: str
    preemptor: str

    @property
    def is_of_drain(self) -> bool:
        """Whether the Workload leaves because its worker is drained."""
        return self.reason == Reason.ADMISSION_CHECK


def parse_notice(conditions: Iterable[Condition]) -> Notice | None:
    """Return the notice that a Workload was given; None without one."""
    condition = find_condition(conditions, PREEMPTION_NOTICE)
    if condition is None or condition.status != "True":
        return None
    when, _, message = condition.message.removeprefix(_BY).partition(_AT_THE_LATEST)
    _, _, after = message.partition("(UID: ")
    preemptor = after.partition(",")[0]
    given_at = int(condition.transitioned_at.timestamp())
    try:
        is_known = condition.reason in _REASONS and bool(preemptor)
        is_known = is_known or condition.reason == Reason.ADMISSION_CHECK
        by = parse_time(when) if is_known else None
    except ValueError:
        by = None
    if by is None:
        return Notice(given_at, 0, Reason.PREEMPTED, "", "")
    reason = Reason(condition.reason)
    return Notice(given_at, int(by.timestamp()), reason, message, preemptor)


def give_notice(
    status: WorkloadStatus,
    reason: Reason,
    message: str,
    *,
    by: datetime,
    now: datetime,
    generation: int = 0,
) -> WorkloadStatus:
    """Return the status with a notice (P-50).

    Args:
        status: The status to change.
        reason: The reason of the Preempted condition to come.
        message: Its message.
        by: When the Workload is stopped at the latest.
        now: The time.
        generation: Generation of the Workload.
    """
    words = f"{_BY}{format_time(by)}{_AT_THE_LATEST}{message}"
    return _set(status, value=True, reason=reason, message=words, now=now, generation=generation)


def end_notice(
    status: WorkloadStatus, end: NoticeEnd, message: str, *, now: datetime, generation: int = 0
) -> WorkloadStatus:
    """Return the status with the notice over; the unchanged status if none was in force."""
    if parse_notice(status.conditions) is None:
        return status
    return _set(status, value=False, reason=end, message=message, now=now, generation=generation)


def _set(
    status: WorkloadStatus,
    *,
    value: bool,
    reason: str,
    message: str,
    now: datetime,
    generation: int,
) -> WorkloadStatus:
    conditions = set_condition(
        status.conditions,
        type_=PREEMPTION_NOTICE,
        status=value,
        reason=reason,
        message=message,
        now=now,
        observed_generation=generation,
    )
    return msgspec.structs.replace(status, conditions=conditions)
