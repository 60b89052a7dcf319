"""Rules for the end of a job or of its Workload. Parity: E-181, E-190, E-116."""

from __future__ import annotations

from multiqueue.api.conditions import Reason, WorkloadCondition
from multiqueue.api.names import RESOURCE_IN_USE
from multiqueue.api.v1beta2 import Workload, WorkloadStatus
from multiqueue.api.workload_state import (
    DEACTIVATED_DUE_TO,
    eviction_reason,
    find,
    finish,
    is_finished,
)
from multiqueue.jobs.framework.plan import (
    ChangeStatus,
    DeleteJob,
    EventNote,
    JobPlan,
    ReleaseWorkload,
    Wait,
)
from multiqueue.jobs.framework.rules.stopping import stop
from multiqueue.jobs.framework.view import JobView

NEVER_RAN = frozenset({Reason.OUT_OF_SYNC, Reason.FAILED_TO_START, Reason.OWNER_NOT_FOUND})
"""Ends of a Workload after which its job may not run without one."""


def release_deleted(view: JobView) -> JobPlan | None:
    """Stop the job of a Workload that is being deleted, then release the Workload."""
    workload = view.workload
    if workload is None or not workload.metadata.deletion_timestamp:
        return None
    if RESOURCE_IN_USE not in workload.metadata.finalizers:
        return stop(view, "Workload is deleted", workload) or Wait()
    return stop(view, "Workload is deleted", workload) or ReleaseWorkload(workload=workload)


def leave_finished(view: JobView) -> JobPlan | None:
    """Release a finished Workload and leave it as it is: it is final (J-135).

    The slices of an elastic job are released with their job.
    """
    workload = view.workload
    if workload is None or not is_finished(workload.status):
        return None
    finished = find(workload.status, WorkloadCondition.FINISHED)
    stopping = None
    if finished is not None and finished.reason in NEVER_RAN:
        stopping = stop(view, finished.message, workload)
    if stopping is not None:
        return stopping
    is_held = RESOURCE_IN_USE in workload.metadata.finalizers and not view.is_elastic
    return ReleaseWorkload(workload=workload) if is_held else _delete_expired(view, workload)


def _delete_expired(view: JobView, workload: Workload) -> JobPlan:
    """Delete a job that ran on a worker once its time to live is over (J-148).

    Deviates: upstream copies the time to live, so that the remote job may be gone before its end
    was read, and never deletes the local job.
    """
    seconds = view.integration.time_to_live(view.job) if view.ended else None
    finished = find(workload.status, WorkloadCondition.FINISHED)
    if seconds is None or finished is None:
        return Wait()
    left = seconds - (view.now - finished.transitioned_at).total_seconds()
    if left > 0:
        return Wait(requeue_after=left)
    return DeleteJob(
        note=EventNote(reason="Deleted", message="Deleted job: its time to live is over")
    )


def finish_workload(view: JobView) -> JobPlan | None:
    """Finish the Workload when its job ends."""
    ending = view.integration.finished(view.job)
    workload = view.workload
    if ending is None or workload is None:
        return None
    reason = Reason.SUCCEEDED if ending.success else Reason.FAILED

    def change(newest: Workload) -> WorkloadStatus:
        return finish(
            newest.status,
            reason,
            ending.message,
            now=view.now,
            generation=newest.metadata.generation,
        )

    return ChangeStatus(workload=workload, change=change, note=finished_note(workload))


def finished_note(workload: Workload, message: str = "") -> EventNote:
    """Return the Event of a job whose Workload ends, once per end (J-134)."""
    why = f": {message}" if message else ""
    return EventNote(
        reason="FinishedWorkload",
        message=f"Workload '{workload.metadata.key}' is declared finished{why}",
    )


def delete_deactivated(view: JobView) -> JobPlan | None:
    """Delete a deactivated job after a while, if a retention policy says so."""
    retention, workload = view.options.delete_deactivated_after, view.workload
    if retention is None or workload is None:
        return None
    if not (eviction_reason(workload.status) or "").startswith(DEACTIVATED_DUE_TO):
        return None
    evicted = find(workload.status, WorkloadCondition.EVICTED)
    assert evicted is not None
    left = (evicted.transitioned_at + retention - view.now).total_seconds()
    if workload.spec.active:
        return None
    if left > 0:
        return Wait(requeue_after=left) if view.suspended else None
    return DeleteJob(
        note=EventNote(
            reason="Deleted", message="Deleted job: deactivation retention period expired"
        )
    )
