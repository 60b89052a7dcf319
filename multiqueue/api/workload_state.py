"""The states of a Workload as pure functions that take a status and return the changed one.

Controllers, the job framework and dispatch call them and write the difference. No function reads a
clock or another object. If ``new == old``, no write is needed. Transition times change only with a
condition's status.

`workload_checks` has the functions for the list of admission checks.
"""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec

from multiqueue.api.conditions import (
    PREEMPTION_NOTICE,
    CheckState,
    Reason,
    WorkloadCondition,
    find_condition,
    is_true,
    set_condition,
)
from multiqueue.api.v1beta2 import (
    Admission,
    Condition,
    RequeueState,
    SchedulingStats,
    SchedulingStatsEviction,
    Workload,
    WorkloadSpec,
    WorkloadStatus,
)
from multiqueue.api.v1beta2.meta import format_time, read_time
from multiqueue.api.workload_checks import reset_checks

CREATE_AGAIN = "create it again"
"""In the message of a rejected check: only another job can start, this one cannot be changed so."""
DEACTIVATED_DUE_TO = f"{Reason.DEACTIVATED}DueTo"
"""Prefix of the eviction reason of a deactivation with a cause (E-103)."""
NOT_READY = "Not all pods are ready or succeeded"
"""Message of PodsReady=False."""
_QUEUES_AT_ONCE = frozenset(
    {
        Reason.PREEMPTED,
        Reason.NODE_FAILURES,
        Reason.NO_MATCHING_WORKLOAD,
        Reason.MISCONFIGURED,
        Reason.FLAVOR_MIGRATION,
        Reason.VARIANT_EVICTED,
        Reason.CONCURRENT_ADMISSION,
    }
)
"""Reasons of evictions that need no wait before the Workload queues again."""
OPEN, CLOSED = "Open", "Closed"
"""Positions of a preemption gate."""
DELAYED_PENDING = "Pending"
DELAYED_READY = "Ready"
"""Values of ``delayedTopologyRequest``."""


def is_finished(status: WorkloadStatus) -> bool:
    """Whether the Workload has ended, with success or failure; this is final."""
    return is_true(status.conditions, WorkloadCondition.FINISHED)


def has_quota(status: WorkloadStatus) -> bool:
    """Whether quota is reserved."""
    return is_true(status.conditions, WorkloadCondition.QUOTA_RESERVED)


def is_admitted(status: WorkloadStatus) -> bool:
    """Whether the job may run."""
    return is_true(status.conditions, WorkloadCondition.ADMITTED)


def is_evicted(status: WorkloadStatus) -> bool:
    """Whether an eviction has begun that no later reservation has undone."""
    return is_true(status.conditions, WorkloadCondition.EVICTED)


def is_active(spec: WorkloadSpec) -> bool:
    """Whether the Workload may be admitted at all."""
    return spec.active


def is_on_hold(status: WorkloadStatus) -> bool:
    """Whether the job took itself out of the queue for now (E-115)."""
    condition = find_condition(status.conditions, WorkloadCondition.QUOTA_RESERVED)
    return (
        condition is not None and condition.status == "False" and condition.reason == Reason.ON_HOLD
    )


def find(status: WorkloadStatus, type_: WorkloadCondition) -> Condition | None:
    """Return the condition of that type, or None."""
    return find_condition(status.conditions, type_)


def all_checks_ready(status: WorkloadStatus) -> bool:
    """Whether every listed check is Ready; true if none is listed."""
    return all(check.state == CheckState.READY for check in status.admission_checks)


def has_pending_topology(status: WorkloadStatus) -> bool:
    """Whether a pod set still waits for its delayed topology assignment (E-110, E-134)."""
    return status.admission is not None and any(
        assignment.topology_assignment is None
        and assignment.delayed_topology_request == DELAYED_PENDING
        for assignment in status.admission.pod_set_assignments
    )


def requeue_at(status: WorkloadStatus) -> datetime | None:
    """Return the end of the backoff of an evicted Workload; None if it is no valid time."""
    return read_time(status.requeue_state.requeue_at) if status.requeue_state else None


def closed_gates(workload: Workload) -> tuple[str, ...]:
    """Return the closed preemption gates of the Workload, in the spec's order.

    A gate is closed until the status marks it as open (E-174).
    """
    if not workload.spec.preemption_gates:
        return ()
    opened = {gate.name for gate in workload.status.preemption_gates if gate.position == OPEN}
    return tuple(gate.name for gate in workload.spec.preemption_gates if gate.name not in opened)


def eviction_reason(status: WorkloadStatus) -> str | None:
    """Return the reason of the eviction in force, or None."""
    condition = find_condition(status.conditions, WorkloadCondition.EVICTED)
    return condition.reason if condition is not None and condition.status == "True" else None


def execution_time_left(workload: Workload, now: datetime) -> timedelta | None:
    """Return how long the Workload may still run; None without limit or admission (E-107)."""
    limit = workload.spec.maximum_execution_time_seconds
    admitted = find_condition(workload.status.conditions, WorkloadCondition.ADMITTED)
    if limit is None or admitted is None or admitted.status != "True":
        return None
    past = workload.status.accumulated_past_execution_time_seconds or 0
    return timedelta(seconds=limit - past) - (now - admitted.transitioned_at)


# ---------------------------------------------------------------- transitions


def with_condition(
    status: WorkloadStatus,
    type_: str,
    *,
    value: bool,
    reason: str,
    message: str,
    now: datetime,
    generation: int = 0,
) -> WorkloadStatus:
    """Set one condition."""
    conditions = set_condition(
        status.conditions,
        type_=str(type_),
        status=value,
        reason=reason,
        message=message,
        now=now,
        observed_generation=generation,
    )
    if conditions == status.conditions:
        return status
    return msgspec.structs.replace(status, conditions=conditions)


def reserve_quota(
    status: WorkloadStatus,
    admission: Admission,
    *,
    now: datetime,
    generation: int = 0,
    message: str = "",
) -> WorkloadStatus:
    """Reserve quota for the Workload and reset earlier evictions (E-83).

    ``message`` is that of QuotaReserved, if there is more to say than where the quota is reserved.

    Call `sync_checks` and then `sync_admitted` to have a whole admission in one write.
    """
    status = msgspec.structs.replace(status, admission=admission, resource_requests=())
    status = with_condition(
        status,
        WorkloadCondition.QUOTA_RESERVED,
        value=True,
        reason=Reason.QUOTA_RESERVED,
        message=message or f"Quota reserved in ClusterQueue {admission.cluster_queue}",
        now=now,
        generation=generation,
    )
    for type_ in (
        WorkloadCondition.EVICTED,
        WorkloadCondition.PREEMPTED,
        WorkloadCondition.BLOCKED_ON_PREEMPTION_GATES,
        PREEMPTION_NOTICE,
    ):
        status = _reset(status, type_, Reason.QUOTA_RESERVED, now, generation)
    return status


def sync_admitted(status: WorkloadStatus, *, now: datetime, generation: int = 0) -> WorkloadStatus:
    """Set Admitted from quota, checks and delayed topology (E-110).

    While the condition is True, only the loss of quota ends it: a check that is added or pending
    again does not. `api.unadmitted` has the reasons of False.
    """
    if is_admitted(status):
        return status if has_quota(status) else _end_admission(status, now, generation)
    if not has_quota(status) or not all_checks_ready(status) or has_pending_topology(status):
        return status
    return with_condition(
        status,
        WorkloadCondition.ADMITTED,
        value=True,
        reason=Reason.ADMITTED,
        message="The workload is admitted",
        now=now,
        generation=generation,
    )


def release_quota(
    status: WorkloadStatus, *, reason: str, message: str, now: datetime, generation: int = 0
) -> WorkloadStatus:
    """Remove the reservation and Admitted; the time that the job ran is kept (E-104, E-113).

    PodsReady is reset, because the next run has other pods (E-185).
    """
    status = msgspec.structs.replace(status, admission=None)
    status = set_pending(status, reason=reason, message=message, now=now, generation=generation)
    status = sync_admitted(status, now=now, generation=generation)
    ready = find(status, WorkloadCondition.PODS_READY)
    if ready is None or ready.reason == Reason.WAIT_FOR_START:
        return status
    return with_condition(
        status,
        WorkloadCondition.PODS_READY,
        value=False,
        reason=Reason.WAIT_FOR_START,
        message=NOT_READY,
        now=now,
        generation=generation,
    )


def set_pending(
    status: WorkloadStatus, *, reason: str, message: str, now: datetime, generation: int = 0
) -> WorkloadStatus:
    """Set QuotaReserved=False with the reason why the Workload has no quota (E-85, E-114)."""
    return with_condition(
        status,
        WorkloadCondition.QUOTA_RESERVED,
        value=False,
        reason=reason,
        message=message,
        now=now,
        generation=generation,
    )


def evict(
    status: WorkloadStatus,
    reason: str,
    message: str,
    *,
    now: datetime,
    cause: str = "",
    generation: int = 0,
) -> WorkloadStatus:
    """Begin an eviction (E-103); `complete_eviction` ends it once the job has stopped.

    Args:
        status: The status to change.
        reason: The reason of the eviction, such as ``Preempted``.
        message: The message for people.
        now: The time.
        cause: The underlying cause; a deactivation has it in its condition's reason.
        generation: Generation of the Workload.
    """
    condition_reason = (
        f"{DEACTIVATED_DUE_TO}{cause}" if reason == Reason.DEACTIVATED and cause else reason
    )
    if eviction_reason(status) == condition_reason:
        return status
    status = with_condition(
        status,
        WorkloadCondition.EVICTED,
        value=True,
        reason=condition_reason,
        message=message,
        now=now,
        generation=generation,
    )
    status = _reset(
        status, WorkloadCondition.BLOCKED_ON_PREEMPTION_GATES, condition_reason, now, generation
    )
    return msgspec.structs.replace(
        reset_checks(status, now),
        cluster_name=None,
        nominated_cluster_names=(),
        unhealthy_nodes=(),
        preemption_gates=tuple(
            gate
            if gate.position == "Closed"
            else msgspec.structs.replace(
                gate, position="Closed", last_transition_time=format_time(now)
            )
            for gate in status.preemption_gates
        ),
        scheduling_stats=_count_eviction(status.scheduling_stats, str(reason), cause),
    )


def preempt(
    status: WorkloadStatus, reason: str, message: str, *, now: datetime, generation: int = 0
) -> WorkloadStatus:
    """Evict in favour of another Workload: set Evicted and Preempted (E-102)."""
    status = evict(status, Reason.PREEMPTED, message, now=now, generation=generation)
    return with_condition(
        status,
        WorkloadCondition.PREEMPTED,
        value=True,
        reason=reason,
        message=message,
        now=now,
        generation=generation,
    )


def complete_eviction(
    status: WorkloadStatus,
    *,
    now: datetime,
    generation: int = 0,
    reason: str = Reason.PENDING_EVALUATION,
) -> WorkloadStatus:
    """End an eviction once nothing of the job runs: set Requeued, release the quota (E-104).

    Args:
        status: The status to change.
        now: The time.
        generation: Generation of the Workload.
        reason: The reason of QuotaReserved=False; see `api.unadmitted`.
    """
    evicted = find_condition(status.conditions, WorkloadCondition.EVICTED)
    if evicted is None or evicted.status != "True" or not has_quota(status):
        return status
    status = set_requeued(
        status,
        value=evicted.reason in _QUEUES_AT_ONCE,
        reason=evicted.reason,
        message=evicted.message,
        now=now,
        generation=generation,
    )
    return release_quota(
        status,
        reason=reason,
        message=evicted.message,
        now=now,
        generation=generation,
    )


def set_requeued(
    status: WorkloadStatus,
    *,
    value: bool,
    reason: str,
    message: str,
    now: datetime,
    generation: int = 0,
) -> WorkloadStatus:
    """Set Requeued: whether an evicted Workload may queue again (E-104, E-105)."""
    return with_condition(
        status,
        WorkloadCondition.REQUEUED,
        value=value,
        reason=reason,
        message=message,
        now=now,
        generation=generation,
    )


def set_requeue_at(status: WorkloadStatus, moment: datetime | None) -> WorkloadStatus:
    """Set or clear the end of the backoff; the count of requeues stays."""
    count = status.requeue_state.count if status.requeue_state else None
    at = format_time(moment) if moment is not None else None
    state = RequeueState(count=count, requeue_at=at) if count is not None or at else None
    if state == status.requeue_state:
        return status
    return msgspec.structs.replace(status, requeue_state=state)


def target_deactivation(
    status: WorkloadStatus, reason: str, message: str, *, now: datetime, generation: int = 0
) -> WorkloadStatus:
    """Request the deactivation (E-106..E-108); the next reconcile clears ``spec.active``."""
    return with_condition(
        status,
        WorkloadCondition.DEACTIVATION_TARGET,
        value=True,
        reason=reason,
        message=message,
        now=now,
        generation=generation,
    )


def deactivate(status: WorkloadStatus, *, now: datetime, generation: int = 0) -> WorkloadStatus:
    """Evict a Workload that is no longer active, with the cause in DeactivationTarget (E-108)."""
    target = find_condition(status.conditions, WorkloadCondition.DEACTIVATION_TARGET)
    cause = target.reason if target is not None and target.status == "True" else ""
    if not cause and (eviction_reason(status) or "").startswith(Reason.DEACTIVATED):
        return status
    message = "The workload is deactivated"
    if target is not None and cause:
        message = f"{message} due to {target.message}"
    status = evict(status, Reason.DEACTIVATED, message, now=now, cause=cause, generation=generation)
    return msgspec.structs.replace(
        status,
        requeue_state=None,
        conditions=tuple(
            c for c in status.conditions if c.type != WorkloadCondition.DEACTIVATION_TARGET
        ),
    )


def finish(
    status: WorkloadStatus, reason: str, message: str, *, now: datetime, generation: int = 0
) -> WorkloadStatus:
    """End the Workload; a Finished condition never changes afterwards (E-190)."""
    if is_finished(status):
        return status
    return with_condition(
        status,
        WorkloadCondition.FINISHED,
        value=True,
        reason=reason,
        message=message,
        now=now,
        generation=generation,
    )


def _end_admission(status: WorkloadStatus, now: datetime, generation: int) -> WorkloadStatus:
    admitted = find_condition(status.conditions, WorkloadCondition.ADMITTED)
    assert admitted is not None
    seconds = max(0, int((now - admitted.transitioned_at).total_seconds()))
    status = with_condition(
        status,
        WorkloadCondition.ADMITTED,
        value=False,
        reason=Reason.NO_RESERVATION,
        message="The workload has no reservation",
        now=now,
        generation=generation,
    )
    past = (status.accumulated_past_execution_time_seconds or 0) + seconds
    return msgspec.structs.replace(status, accumulated_past_execution_time_seconds=past)


def _reset(
    status: WorkloadStatus, type_: str, reason: str, now: datetime, generation: int
) -> WorkloadStatus:
    """Set a condition that is True to False, with its message kept; others are left alone."""
    condition = find_condition(status.conditions, type_)
    if condition is None or condition.status != "True":
        return status
    return with_condition(
        status,
        type_,
        value=False,
        reason=reason,
        message=f"Previously: {condition.message}",
        now=now,
        generation=generation,
    )


def _count_eviction(stats: SchedulingStats | None, reason: str, cause: str) -> SchedulingStats:
    evictions = list(stats.evictions) if stats else []
    for index, entry in enumerate(evictions):
        if (entry.reason, entry.underlying_cause) == (reason, cause):
            evictions[index] = msgspec.structs.replace(entry, count=entry.count + 1)
            break
    else:
        evictions.append(SchedulingStatsEviction(reason=reason, underlying_cause=cause, count=1))
    return SchedulingStats(evictions=tuple(evictions))
