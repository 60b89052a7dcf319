"""Rules for kinds with a state of their own: on hold, or with further conditions."""

from __future__ import annotations

from multiqueue.api.conditions import Reason, WorkloadCondition
from multiqueue.api.v1beta2 import Workload, WorkloadStatus
from multiqueue.api.workload_state import (
    has_quota,
    is_on_hold,
    release_quota,
    set_pending,
    with_condition,
)
from multiqueue.jobs.framework.plan import ChangeStatus, JobPlan, Wait
from multiqueue.jobs.framework.view import JobView

ON_HOLD = "Job is on hold"
OFF_HOLD = "Job is no longer on hold"


def hold(view: JobView) -> JobPlan | None:
    """Take back the quota of a job on hold, and let it queue again afterwards (J-130)."""
    workload = view.workload
    holds = view.integration.on_hold(view.job)
    if workload is None:
        return Wait() if holds else None
    if not holds:
        # A job that runs without quota is stopped first.
        is_quiet = view.suspended and not view.integration.is_active(view.job)
        rests = is_quiet and is_on_hold(workload.status)
        return end_hold(view, workload, OFF_HOLD) if rests else None
    if not has_quota(workload.status):
        return Wait()

    def change(newest: Workload) -> WorkloadStatus:
        if not has_quota(newest.status):
            return newest.status
        return release_quota(
            newest.status,
            reason=Reason.ON_HOLD,
            message=ON_HOLD,
            now=view.now,
            generation=newest.metadata.generation,
        )

    return ChangeStatus(workload=workload, change=change)


def end_hold(view: JobView, workload: Workload, message: str) -> JobPlan:
    """Let a Workload on hold queue again."""

    def change(newest: Workload) -> WorkloadStatus:
        if not is_on_hold(newest.status):
            return newest.status
        return set_pending(
            newest.status,
            reason=view.options.pending_reason,
            message=message,
            now=view.now,
            generation=newest.metadata.generation,
        )

    return ChangeStatus(workload=workload, change=change)


def follow_conditions(view: JobView) -> JobPlan | None:
    """Write the conditions that only this kind has."""
    workload = view.workload
    if workload is None:
        return None

    def change(newest: Workload) -> WorkloadStatus:
        status = newest.status
        for wanted in view.integration.more_conditions(view.job, newest):
            status = with_condition(
                status,
                WorkloadCondition(wanted.type),
                value=wanted.status == "True",
                reason=wanted.reason,
                message=wanted.message,
                now=view.now,
                generation=newest.metadata.generation,
            )
        return status

    if change(workload) == workload.status:
        return None
    return ChangeStatus(workload=workload, change=change)
