"""Rules about whether the framework manages a job at all. Parity: E-181, first steps."""

from __future__ import annotations

from multiqueue.api.conditions import Reason
from multiqueue.api.names import ELASTIC_JOB, RESOURCE_IN_USE
from multiqueue.api.v1beta2 import Workload, WorkloadStatus
from multiqueue.api.workload_state import finish, is_admitted, is_evicted, is_finished
from multiqueue.jobs.framework.integration import Job
from multiqueue.jobs.framework.plan import (
    ChangeStatus,
    EventNote,
    JobPlan,
    ReleaseWorkload,
    Wait,
    WriteJob,
)
from multiqueue.jobs.framework.view import JobView

OWNER_GONE = "The workload's owner no longer exists"


def release_with_job(view: JobView) -> JobPlan | None:
    """End and release the Workloads of a job under deletion, for the garbage collector (J-138).

    Deviates: the Workload of a dispatched job is released only; dispatch ends its copies first.
    """
    if not view.job["metadata"].get("deletionTimestamp"):
        return None
    held = [w for w in view.workloads if RESOURCE_IN_USE in w.metadata.finalizers]
    if not held:
        return Wait()
    workload = held[0]
    is_over = is_finished(workload.status) or bool(workload.metadata.deletion_timestamp)
    if is_over or view.dispatched or not view.options.finish_orphans:
        return ReleaseWorkload(workload=workload)

    def change(newest: Workload) -> WorkloadStatus:
        generation = newest.metadata.generation
        reason = Reason.OWNER_NOT_FOUND
        return finish(newest.status, reason, OWNER_GONE, now=view.now, generation=generation)

    return ChangeStatus(workload=workload, change=change)


def leave_skipped(view: JobView) -> JobPlan | None:
    """Leave jobs alone that their kind does not want to have managed."""
    return Wait() if view.integration.is_skipped(view.job) else None


def ignore_unmanaged(view: JobView) -> JobPlan | None:
    """Leave jobs alone that are in unmanaged namespaces or request no queue (J-19, J-20)."""
    if not view.options.namespaces.matches(view.namespace_labels):
        return Wait()
    if view.ancestor is not None:
        return None
    return None if view.queue or view.options.manage_all else Wait()


def follow_ancestor(view: JobView) -> JobPlan | None:
    """Let a job of a queued job run only while that one may; it gets no Workload (J-29, J-30)."""
    if view.ancestor is None:
        return None
    if view.ended or view.suspended or _may_run(view, view.ancestor):
        return Wait()
    patch = view.integration.stop_patch(view.job, ())
    if patch is None:
        return Wait()
    return WriteJob(
        patch=patch,
        strict=False,
        note=EventNote(reason="Suspended", message="Kueue managed child job suspended"),
    )


def _may_run(view: JobView, ancestor: Job) -> bool:
    workload = view.ancestor_workload
    if workload is None:
        return False
    if view.options.elastic_jobs and any(map(_is_elastic, (view.job, ancestor))):
        # While a larger slice waits, no slice of the job may be admitted.
        return not is_evicted(workload.status)
    return is_admitted(workload.status)


def _is_elastic(job: Job) -> bool:
    return bool((job["metadata"].get("annotations") or {}).get(ELASTIC_JOB) == "true")
