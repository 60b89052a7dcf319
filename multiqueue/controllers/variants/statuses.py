"""Changes of the status of parents and variants, each computed on the newest state. Pure."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

import msgspec

from multiqueue.api import names
from multiqueue.api.conditions import CheckState, Reason, WorkloadCondition
from multiqueue.api.v1beta2 import PreemptionGateState, Workload, WorkloadStatus
from multiqueue.api.v1beta2.meta import Condition, format_time
from multiqueue.api.workload_readiness import sync_pods_ready
from multiqueue.api.workload_state import (
    OPEN,
    complete_eviction,
    evict,
    find,
    finish,
    has_quota,
    is_evicted,
    requeue_at,
    reserve_quota,
    set_requeue_at,
    with_condition,
)

StatusChange = Callable[[Workload], WorkloadStatus]


def finished(condition: Condition, now: datetime) -> StatusChange:
    """End a variant as the parent ended."""
    return lambda newest: finish(
        newest.status,
        condition.reason,
        condition.message,
        now=now,
        generation=newest.metadata.generation,
    )


def variant_evicted(message: str, now: datetime) -> StatusChange:
    """Evict the parent, because its variant was evicted."""
    return lambda newest: _evict(newest, Reason.VARIANT_EVICTED, message, now)


def stopped(message: str, now: datetime) -> StatusChange:
    """Evict the parent, because it runs without a variant."""
    return lambda newest: _evict(newest, Reason.CONCURRENT_ADMISSION, message, now)


def evicted_with(parent: Workload, now: datetime) -> StatusChange:
    """Evict a variant for the reason for which the parent was, with the same backoff."""
    condition = find(parent.status, WorkloadCondition.EVICTED)
    assert condition is not None, "the parent is evicted"

    def change(newest: Workload) -> WorkloadStatus:
        status = _evict(newest, condition.reason, condition.message, now)
        at = requeue_at(parent.status)
        return status if at is None else set_requeue_at(status, at)

    return change


def _evict(newest: Workload, reason: str, message: str, now: datetime) -> WorkloadStatus:
    status = newest.status
    if not has_quota(status) or is_evicted(status):
        return status
    return evict(status, reason, message, now=now, generation=newest.metadata.generation)


def released(now: datetime) -> StatusChange:
    """Release the quota of an evicted variant, with which nothing runs."""
    return lambda newest: complete_eviction(
        newest.status, now=now, generation=newest.metadata.generation
    )


def admitted_with(variant: Workload, now: datetime, *, waits_for_pods: bool) -> StatusChange:
    """Admit the parent with the quota of a variant.

    Its admission checks come along, because they may say what the pods need.
    """

    def change(newest: Workload) -> WorkloadStatus:
        status, admission = newest.status, variant.status.admission
        generation = newest.metadata.generation
        if has_quota(status) or admission is None or not newest.spec.active:
            return status
        status = reserve_quota(status, admission, now=now, generation=generation)
        checks = variant.status.admission_checks
        ready = tuple(check for check in checks if check.state == CheckState.READY)
        status = msgspec.structs.replace(status, admission_checks=ready)
        status = with_condition(
            status,
            WorkloadCondition.ADMITTED,
            value=True,
            reason=Reason.ADMITTED,
            message=f"The variant {variant.metadata.name} is admitted",
            now=now,
            generation=generation,
        )
        if not waits_for_pods:
            return status
        return sync_pods_ready(status, ready=False, now=now, generation=generation)

    return change


def placed_like(variant: Workload) -> StatusChange:
    """Give the parent the nodes that its variant has by now."""

    def change(newest: Workload) -> WorkloadStatus:
        if not has_quota(newest.status):
            return newest.status
        return msgspec.structs.replace(
            newest.status,
            admission=variant.status.admission,
            unhealthy_nodes=variant.status.unhealthy_nodes,
        )

    return change


def with_pods_of(parent: Workload) -> StatusChange:
    """Give a variant the readiness and the reclaimable pods of the job."""

    def change(newest: Workload) -> WorkloadStatus:
        status, ready = newest.status, find(parent.status, WorkloadCondition.PODS_READY)
        if not has_quota(status):
            return status
        status = msgspec.structs.replace(status, reclaimable_pods=parent.status.reclaimable_pods)
        if ready is None:
            return status
        others = tuple(c for c in status.conditions if c.type != WorkloadCondition.PODS_READY)
        known = find(status, WorkloadCondition.PODS_READY)
        if known is not None and (known.status, known.reason) == (ready.status, ready.reason):
            return status
        return msgspec.structs.replace(status, conditions=(*others, ready))

    return change


def ungated(now: datetime) -> StatusChange:
    """Open the preemption gate of a variant."""

    def change(newest: Workload) -> WorkloadStatus:
        states = newest.status.preemption_gates
        if any(state.name == names.VARIANT_GATE and state.position == OPEN for state in states):
            return newest.status
        opened = PreemptionGateState(
            name=names.VARIANT_GATE, position=OPEN, last_transition_time=format_time(now)
        )
        others = tuple(state for state in states if state.name != names.VARIANT_GATE)
        return msgspec.structs.replace(newest.status, preemption_gates=(*others, opened))

    return change
