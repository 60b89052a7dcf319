"""Rules that give a job exactly one Workload, the matching one. Parity: E-181, E-182."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from multiqueue.api.conditions import Reason
from multiqueue.api.names import IMPORTED_AT
from multiqueue.api.slices import counts_of
from multiqueue.api.v1beta2 import Workload, WorkloadStatus
from multiqueue.api.v1beta2.meta import parse_time
from multiqueue.api.workload_state import evict, has_quota, is_evicted
from multiqueue.jobs.framework.compose import (
    build_spec,
    compose_slice,
    compose_workload,
    workload_class,
)
from multiqueue.jobs.framework.plan import (
    ChangeStatus,
    CreateJobWorkload,
    DeleteWorkload,
    EventNote,
    JobPlan,
    PatchWorkload,
    Wait,
)
from multiqueue.jobs.framework.priority import JobPriority, refuse_pod_priority, resolve_priority
from multiqueue.jobs.framework.rules.stopping import stop
from multiqueue.jobs.framework.view import JobView

IMPORT_SETTLES = timedelta(minutes=5)
"""The longest time by which the watch of Workloads is expected to be behind that of jobs."""
NO_MATCH = "No matching Workload; restoring pod templates according to existent Workload"
MISSING = "Missing Workload; unable to restore pod templates"


def stop_on_worker(view: JobView) -> JobPlan | None:
    """Stop a changed dispatched job on its worker before its Workload is changed.

    The Workload is evicted, so it holds its quota until nothing runs on the worker.

    Deviates: upstream stops the job here, and waits for ever for pods that run on a worker.
    """
    if view.workload is not None or not view.dispatched:
        return None
    known = next((w for w in view.live_workloads if _is_in_use(w)), None)
    if known is None:
        return None
    message = _describe_change(view, known)

    def change(newest: Workload) -> WorkloadStatus:
        if not _is_in_use(newest):
            return newest.status
        return evict(
            newest.status,
            Reason.NO_MATCHING_WORKLOAD,
            message,
            now=view.now,
            generation=newest.metadata.generation,
        )

    return ChangeStatus(workload=known, change=change)


def _is_in_use(workload: Workload) -> bool:
    return has_quota(workload.status) and not is_evicted(workload.status)


def _describe_change(view: JobView, workload: Workload) -> str:
    asked, admitted = counts_of(view.pod_sets), counts_of(workload.spec.pod_sets)
    if asked == admitted:
        return "The job was changed: it asks for other pods than were admitted"
    wanted, had = _list_counts(asked), _list_counts(admitted)
    return f"The job was changed: it asks for {wanted} pods, {had} were admitted"


def _list_counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f'{count} "{name}"' for name, count in counts.items())


def stop_without_match(view: JobView) -> JobPlan | None:
    """Stop a job that runs something else than was admitted, before its Workload is deleted."""
    if view.workload is not None or view.is_at_rest:
        return None
    if not view.live_workloads and (left := _import_seconds(view)) > 0:
        return Wait(requeue_after=left)
    known = view.live_workloads[0] if len(view.live_workloads) == 1 else None
    return stop(view, NO_MATCH if known else MISSING, known)


def _import_seconds(view: JobView) -> float:
    """Return for how long an imported job may still run before its Workload is seen here.

    Its Workload was written before its label, but each kind of object has its own watch.
    """
    annotations = view.job["metadata"].get("annotations") or {}
    try:
        imported_at = parse_time(annotations.get(IMPORTED_AT))
    except ValueError:
        return 0.0
    if imported_at is None or imported_at > view.now + IMPORT_SETTLES:
        return 0.0
    return (imported_at + IMPORT_SETTLES - view.now).total_seconds()


def delete_extra(view: JobView) -> JobPlan | None:
    """Delete all Workloads of a job but one."""
    extra = view.matching.extra
    if not extra:
        return None
    if view.workload is None and view.dispatched and has_quota(extra[0].status):
        # It is evicted; dispatch reports when nothing of it runs any more.
        return stop(view, NO_MATCH, extra[0]) or Wait()
    return DeleteWorkload(
        workload=extra[0],
        note=EventNote(
            reason="DeletedWorkload",
            message=f"Deleted not matching Workload: {extra[0].metadata.key}",
        ),
    )


def update_pending(view: JobView) -> JobPlan | None:
    """Update a Workload without quota in place when its job changes."""
    workload = view.matching.update
    if workload is None:
        return None
    # The fields that an earlier start added are not part of the job's request.
    restoring = stop(view, NO_MATCH, workload) if view.dispatched else None
    if restoring is not None:
        return restoring
    spec = build_spec(view.job, view.pod_sets, _priority(view))
    spec.setdefault("maximumExecutionTimeSeconds", None)
    spec.setdefault("priorityClassRef", None)
    return PatchWorkload(
        workload=workload,
        patch={"spec": spec},
        note=EventNote(
            reason="UpdatedWorkload",
            message=f"Updated not matching Workload for suspended job: {workload.metadata.key}",
        ),
    )


def create_missing(view: JobView) -> JobPlan | None:
    """Create the Workload of a job that has none, once nothing of the job runs any more."""
    if view.workload is not None:
        return None
    if view.ended:
        return Wait()
    # Jobs of MultiKueue have no pods on this cluster; their status may never change again.
    if view.integration.is_active(view.job) and not view.integration.managed_by(view.job):
        return Wait()
    if view.is_elastic:
        return create_slice(view, _priority(view))
    body = compose_workload(
        view.job,
        view.integration.gvk,
        view.pod_sets,
        _priority(view),
        label_keys=view.options.label_keys,
        more_labels=view.chargeback_labels,
        name_limit=view.options.name_limit,
    )
    keys = view.options.label_keys
    return CreateJobWorkload(body=view.integration.complete_workload(view.job, body, keys))


def create_slice(view: JobView, priority: JobPriority, replaced: Workload | None = None) -> JobPlan:
    """Create the next slice of a chain; the first one replaces none (E-165)."""
    return CreateJobWorkload(
        body=compose_slice(
            view.job,
            view.integration.gvk,
            view.pod_sets,
            priority,
            label_keys=view.options.label_keys,
            more_labels=view.chargeback_labels,
            name_limit=view.options.name_limit,
            taken=frozenset(known.metadata.name for known in view.workloads),
            replaced=replaced,
        )
    )


def _priority(view: JobView) -> JobPriority:
    if not view.integration.is_composed:  # members exist, so the API server took their priority
        refuse_pod_priority(view.pod_sets, view.classes)
    return resolve_priority(
        workload_class(view.job), view.integration.priority_class(view.job), view.classes
    )
