"""Converts API objects into the values that the rules use. Pure."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from multiqueue.api import names
from multiqueue.api import v1beta2 as api
from multiqueue.api.conditions import CheckState, Reason, WorkloadCondition, find_condition
from multiqueue.api.v1beta2.meta import Condition, parse_time, read_time
from multiqueue.api.workload_state import OPEN, has_quota, is_finished
from multiqueue.capacity.checks import other_checks_ready
from multiqueue.dispatch.decide.cluster_state import Finish, Priority, RemoteWorkload
from multiqueue.dispatch.decide.copy import digest_of, epoch_of
from multiqueue.dispatch.decide.view import Check, LocalJob, LocalWorkload
from multiqueue.jobs.framework.integration import Finished

Json = dict[str, Any]
NEVER = datetime.fromtimestamp(0, UTC)


def build_local(
    workload: api.Workload,
    check: api.AdmissionCheckState | None,
    job: LocalJob | None,
    *,
    elastic: bool = False,
    earlier: tuple[str, ...] = (),
) -> LocalWorkload:
    """Return the Workload on the manager as the rules see it."""
    status = workload.status
    evicted = _true(status.conditions, WorkloadCondition.EVICTED)
    return LocalWorkload(
        uid=workload.metadata.uid,
        deleting=bool(workload.metadata.deletion_timestamp),
        finished=is_finished(status),
        has_quota=has_quota(status),
        epoch=epoch_of(workload),
        digest=digest_of(workload),
        evicted_at=evicted.transitioned_at if evicted is not None else None,
        was_evicted=evicted is not None
        or (status.scheduling_stats is not None and bool(status.scheduling_stats.evictions)),
        cluster_name=status.cluster_name,
        nominated=status.nominated_cluster_names,
        check=Check(
            name=check.name,
            state=CheckState(check.state),
            message=check.message,
            retry_count=check.retry_count or 0,
        )
        if check is not None
        else None,
        other_checks_ready=check is None or other_checks_ready(workload, check.name),
        priority=_priority(workload),
        job=job,
        elastic=elastic,
        earlier=earlier,
    )


def build_copy(workload: api.Workload | None) -> RemoteWorkload | None:
    """Return a copy as the rules see it."""
    if workload is None:
        return None
    conditions, annotations = workload.status.conditions, workload.metadata.annotations
    admitted = _true(conditions, WorkloadCondition.ADMITTED)
    evicted = _true(conditions, WorkloadCondition.EVICTED)
    finished = _true(conditions, WorkloadCondition.FINISHED)
    blocked = _true(conditions, WorkloadCondition.BLOCKED_ON_PREEMPTION_GATES)
    return RemoteWorkload(
        uid=workload.metadata.uid,
        epoch=annotations.get(names.DISPATCH_EPOCH, ""),
        digest=annotations.get(names.DISPATCH_DIGEST, ""),
        deleting=bool(workload.metadata.deletion_timestamp),
        quota_reserved=has_quota(workload.status),
        admitted_at=admitted.transitioned_at if admitted is not None else None,
        evicted_at=evicted.transitioned_at if evicted is not None else None,
        evicted_why=evicted.message if evicted is not None else "",
        finished=Finish(
            success=finished.reason == Reason.SUCCEEDED,
            reason=finished.reason,
            message=finished.message,
            at=finished.transitioned_at,
        )
        if finished is not None
        else None,
        deactivating=not workload.spec.active
        or _true(conditions, WorkloadCondition.DEACTIVATION_TARGET) is not None,
        had_job=admitted is not None
        or bool(workload.metadata.owner_references)
        or find_condition(conditions, WorkloadCondition.EVICTED) is not None,
        priority=_priority(workload),
        offered_at=read_time(annotations.get(names.OFFERED_AT)),
        is_gated=any(g.name == names.MULTIKUEUE_GATE for g in workload.spec.preemption_gates),
        gate_opened_at=_gate_opened_at(workload),
        blocked_at=blocked.transitioned_at if blocked is not None else None,
    )


def build_job_end(job: Json, end: Finished) -> Finish:
    """Return how a remote job ended, as the end of a Workload."""
    return Finish(
        success=end.success,
        reason=Reason.SUCCEEDED if end.success else Reason.FAILED,
        message=end.message,
        at=_end_of(job),
    )


def _priority(workload: api.Workload) -> Priority:
    reference = workload.spec.priority_class_ref
    return Priority(
        value=workload.spec.priority,
        kind=reference.kind if reference is not None else "",
        name=reference.name if reference is not None else "",
        boost=workload.metadata.annotations.get(names.PRIORITY_BOOST, ""),
    )


def _gate_opened_at(workload: api.Workload) -> datetime | None:
    """Return when the worker was told to open our gate (M-22); `NEVER` if the time is invalid."""
    for gate in workload.status.preemption_gates:
        if gate.name == names.MULTIKUEUE_GATE and gate.position == OPEN:
            return read_time(gate.last_transition_time) or NEVER
    return None


def _true(conditions: tuple[Condition, ...], type_: str) -> Condition | None:
    condition = find_condition(conditions, type_)
    return condition if condition is not None and condition.status == "True" else None


def _end_of(job: Json) -> datetime:
    """When a job ended, according to its status."""
    status = job.get("status") or {}
    times = [condition.get("lastTransitionTime") for condition in status.get("conditions") or ()]
    found = [moment for text in times if (moment := parse_time(text)) is not None]
    created = parse_time(job["metadata"].get("creationTimestamp"))
    return max(found, default=created or NEVER)
