"""Rules that start and stop a job according to its admission. Parity: E-104, E-181, E-184."""

from __future__ import annotations

from collections.abc import Sequence

from multiqueue.api.alternatives import forget_reclaimed
from multiqueue.api.conditions import Reason, WorkloadCondition
from multiqueue.api.v1beta2 import Workload, WorkloadStatus
from multiqueue.api.workload_state import (
    complete_eviction,
    find,
    finish,
    has_quota,
    is_admitted,
    is_evicted,
)
from multiqueue.jobs.framework.integration import InvalidJobError, PodSetInfo
from multiqueue.jobs.framework.plan import (
    ChangeStatus,
    EventNote,
    JobPlan,
    Wait,
    WriteJob,
    WriteMembers,
)
from multiqueue.jobs.framework.pod_set_info import (
    FlavorNotFoundError,
    StartConflictError,
    build_infos,
)
from multiqueue.jobs.framework.rules.ending import finished_note
from multiqueue.jobs.framework.rules.stopping import stop
from multiqueue.jobs.framework.view import JobView

RETRY_SECONDS = 5.0
"""Delay before a start with a missing flavor is tried again; the flavor is not watched."""


def complete(view: JobView) -> JobPlan | None:
    """Stop an evicted job; release its quota once nothing of it runs.

    Deviates: for a dispatched job, upstream relies on the job's status, too (M-175).
    """
    workload = view.workload
    if workload is None or not is_evicted(workload.status) or view.slices.runs_on:
        return None
    evicted = find(workload.status, WorkloadCondition.EVICTED)
    stopping = stop(view, evicted.message if evicted else "", workload)
    if stopping is not None:
        return stopping
    if not has_quota(workload.status):
        return None
    # Dispatch ends it: the status here is the last one from workers, not what they run now.
    if view.dispatched:
        return Wait()
    if view.integration.is_active(view.job):
        overdue_at = view.integration.overdue_at(view.job)
        if overdue_at is None:
            return Wait()
        if overdue_at > view.now:
            return Wait(requeue_after=(overdue_at - view.now).total_seconds())

    def change(newest: Workload) -> WorkloadStatus:
        status = complete_eviction(
            newest.status,
            now=view.now,
            generation=newest.metadata.generation,
            reason=view.options.pending_reason,
        )
        return forget_reclaimed(newest, status)

    return ChangeStatus(workload=workload, change=change)


def start(view: JobView) -> JobPlan | None:
    """Start an admitted job with the fields of its flavors."""
    workload = view.slices.running or view.workload
    if workload is None or not view.suspended or not is_admitted(workload.status):
        return None
    try:
        infos = build_infos(workload, view.find_flavor, view.options.info)
        if view.integration.is_composed:
            return _start_members(view, workload, infos)
        patch = view.integration.start_patch(view.job, infos)
    except FlavorNotFoundError as error:
        return Wait(
            requeue_after=RETRY_SECONDS,
            note=EventNote(reason="StartFailed", message=str(error), warning=True),
        )
    except (StartConflictError, InvalidJobError) as error:
        return fail_to_start(view, workload, str(error))
    assert workload.status.admission is not None
    # A job on a worker starts there; MultiKueue reports that here.
    starts = patch.completes and workload.status.cluster_name is None
    return WriteJob(
        patch=patch,
        note=EventNote(
            reason="Started",
            message=f"Admitted by clusterQueue {workload.status.admission.cluster_queue}",
        )
        if starts
        else None,
        start_of=workload,
    )


def _start_members(
    view: JobView, workload: Workload, infos: Sequence[PodSetInfo]
) -> JobPlan | None:
    """Start the members that wait; members of a dispatched job wait for ever (J-229)."""
    writes = () if view.dispatched else view.integration.start_writes(view.job, infos)
    assert workload.status.admission is not None
    message = f"Admitted by clusterQueue {workload.status.admission.cluster_queue}"
    note = EventNote(reason="Started", message=message)
    return WriteMembers(writes=writes, note=note, start_of=workload) if writes else None


def fail_to_start(view: JobView, workload: Workload, message: str) -> JobPlan:
    """End a Workload whose job can never start as admitted (E-153)."""

    def change(newest: Workload) -> WorkloadStatus:
        return finish(
            newest.status,
            Reason.FAILED_TO_START,
            message,
            now=view.now,
            generation=newest.metadata.generation,
        )

    return ChangeStatus(workload=workload, change=change, note=finished_note(workload, message))


def stop_unadmitted(view: JobView) -> JobPlan | None:
    """Stop a job that is not admitted."""
    workload = view.workload
    if workload is None or view.is_at_rest or is_admitted(workload.status):
        return None
    if view.slices.runs_on:
        return None
    return stop(view, "Not admitted by cluster queue", workload)
