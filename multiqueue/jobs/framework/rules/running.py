"""Rules that start and stop a job with its admission. Parity: E-104, E-181, E-184."""

from __future__ import annotations

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
from multiqueue.jobs.framework.integration import InvalidJobError
from multiqueue.jobs.framework.plan import ChangeStatus, EventNote, JobPlan, Wait, WriteJob
from multiqueue.jobs.framework.pod_set_info import (
    FlavorNotFoundError,
    StartConflictError,
    build_infos,
)
from multiqueue.jobs.framework.rules.stopping import stop
from multiqueue.jobs.framework.view import JobView

RETRY_SECONDS = 5.0
"""How soon a start is tried again whose flavor is missing; the flavor's return is not awaited."""


def complete(view: JobView) -> JobPlan | None:
    """An evicted job stops; the quota goes back once nothing of it runs.

    Deviates: upstream believes the status of a dispatched job, too (M-175).
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
    # Who dispatched it ends it: the status here is what workers last said, not what they run.
    if view.dispatched or view.integration.is_active(view.job):
        return Wait()

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
    """An admitted job is given its flavors and let go."""
    workload = view.slices.running or view.workload
    if workload is None or not view.suspended or not is_admitted(workload.status):
        return None
    try:
        infos = build_infos(workload, view.find_flavor, name_queues=view.options.name_queues)
        patch = view.integration.start_patch(view.job, infos)
    except FlavorNotFoundError as error:
        return Wait(
            requeue_after=RETRY_SECONDS,
            note=EventNote(reason="StartFailed", message=str(error), warning=True),
        )
    except (StartConflictError, InvalidJobError) as error:
        return fail_to_start(view, workload, str(error))
    assert workload.status.admission is not None
    # One that runs on a worker starts there: MultiKueue tells so here.
    starts = patch.subresource is None and workload.status.cluster_name is None
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

    return ChangeStatus(
        workload=workload,
        change=change,
        note=EventNote(reason="FinishedWorkload", message=message, warning=True),
    )


def stop_unadmitted(view: JobView) -> JobPlan | None:
    """What is not admitted does not run."""
    workload = view.workload
    if workload is None or view.suspended or is_admitted(workload.status):
        return None
    if view.slices.runs_on:
        return None
    return stop(view, "Not admitted by cluster queue", workload)
