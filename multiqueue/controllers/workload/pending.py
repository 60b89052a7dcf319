"""Rules for Workloads without quota: write the reason once, then only new ones. Parity: E-114.

A new Workload without an obstacle is not written: the scheduler may be about to admit it. A message
in which only numbers change is rewritten at most every few seconds.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import msgspec

from multiqueue.api.conditions import MAX_MESSAGE, Reason, WorkloadCondition
from multiqueue.api.v1beta2 import WorkloadStatus
from multiqueue.api.workload_state import (
    find,
    has_quota,
    is_on_hold,
    set_pending,
    with_condition,
)
from multiqueue.controllers.workload.plan import WorkloadPlan, WriteStatus
from multiqueue.controllers.workload.view import WorkloadSituation

_NUMBER = re.compile(r"\d+(?:\.\d+)?(?:[numkKMGTPE]i?)?")
SILENT_SECONDS = 2.0
"""Time until an untried Workload gets a reason; creation times are whole seconds."""
_BLOCKERS = frozenset(
    {
        Reason.SUSPENDED,
        Reason.MISCONFIGURED,
        Reason.ADMISSION_GATED,
        Reason.DEACTIVATED,
        Reason.INADMISSIBLE,
    }
)
"""Reasons that only this rule replaces."""
GATED = "Workload requires preemption, but it's gated"
"""Message of BlockedOnPreemptionGates."""


class PendingReason(NamedTuple):
    """Reason and message of QuotaReserved=False."""

    reason: Reason
    message: str


def explain_pending(view: WorkloadSituation) -> WorkloadPlan | None:
    """Write why the Workload waits, if that differs from the status."""
    if view.admitting or has_quota(view.workload.status) or is_on_hold(view.workload.status):
        return None
    if pending_status(view) == view.workload.status:
        return None
    return WriteStatus(
        change=pending_status, minor=_is_only_figures(view), explains=_is_about_quota(view)
    )


def _is_about_quota(view: WorkloadSituation) -> bool:
    """Whether only the scheduler's reason changed."""
    wanted = find_reason(view)
    present = find(view.workload.status, WorkloadCondition.QUOTA_RESERVED)
    written = present.reason if present is not None else None
    return wanted is not None and not {wanted.reason, written} & _BLOCKERS


def _is_only_figures(view: WorkloadSituation) -> bool:
    """Whether a rewrite would change only numbers in the message."""
    wanted = find_reason(view)
    present = find(view.workload.status, WorkloadCondition.QUOTA_RESERVED)
    if wanted is None or present is None:
        return False
    return present.reason == wanted.reason and _gist(present.message) == _gist(wanted.message)


def _gist(message: str) -> str:
    """Return the message without its numbers."""
    return _NUMBER.sub("#", message)


def pending_status(view: WorkloadSituation) -> WorkloadStatus:
    """Return the status with the reason; with checks and requests if it is written anyway."""
    status = view.workload.status
    if has_quota(status) or is_on_hold(status):
        return status
    wanted = find_reason(view)
    if wanted is not None:
        status = set_pending(
            status,
            reason=wanted.reason,
            message=wanted.message[:MAX_MESSAGE],
            now=view.now,
            generation=view.generation,
        )
    if view.explanation is not None and view.explanation.is_gated:
        status = with_condition(
            status,
            WorkloadCondition.BLOCKED_ON_PREEMPTION_GATES,
            value=True,
            reason=Reason.PREEMPTION_GATED,
            message=GATED,
            now=view.now,
            generation=view.generation,
        )
    evaluated = find(status, WorkloadCondition.QUOTA_RESERVED) is not None
    if view.options.explicit_status or evaluated:
        status = view.complete(status)
    if evaluated:
        status = view.list_checks(status)
    if status == view.workload.status:
        return status
    return msgspec.structs.replace(status, resource_requests=view.requests)


def find_reason(view: WorkloadSituation) -> PendingReason | None:
    """Return why the Workload waits; None while no reason has to be written."""
    explained = view.explanation
    if explained is None:
        return None
    wanted = PendingReason(view.options.word(explained.reason), explained.message)
    if explained.reason is not Reason.PENDING_EVALUATION:
        return wanted
    # It was not tried yet. That is written if the present reason is outdated, or if it takes long,
    # as behind a head that blocks its queue.
    present = find(view.workload.status, WorkloadCondition.QUOTA_RESERVED)
    is_late = silence_left(view) <= 0 or view.options.explicit_status
    is_news = is_late if present is None else present.reason in _BLOCKERS
    return wanted if is_news else None


def silence_left(view: WorkloadSituation) -> float:
    """Return the seconds during which a new Workload that was not tried yet is not written."""
    age = (view.now - view.workload.metadata.created_at).total_seconds()
    return SILENT_SECONDS - age


def recheck_after(view: WorkloadSituation) -> float | None:
    """Return the seconds until a Workload without a reason gets one."""
    written = find(view.workload.status, WorkloadCondition.QUOTA_RESERVED) is not None
    return None if written or view.explanation is None else max(0.1, silence_left(view))
