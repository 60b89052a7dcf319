"""PodsReady of a Workload: how it follows the pods, and the eviction if pods are late.

Pure, like `workload_state`. Parity: E-106, E-185.
Deviates: upstream writes False when the job of a Workload is first seen. Here False comes with the
first other change of the status, so that waiting for pods costs no extra write. It goes once a
worker runs the job, because that cluster waits. The end of a backoff has no jitter, because the
queue decides the order.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

import msgspec

from multiqueue.api.conditions import Reason, WorkloadCondition
from multiqueue.api.names import RESOURCE_IN_USE
from multiqueue.api.v1beta2 import RequeueState, Workload, WorkloadStatus
from multiqueue.api.v1beta2.meta import format_time
from multiqueue.api.workload_state import (
    NOT_READY,
    evict,
    find,
    is_admitted,
    requeue_at,
    target_deactivation,
    with_condition,
)

READY = "All pods reached readiness and the workload is running"
RECOVERING = "At least one pod has failed, waiting for recovery"
LIMIT_EXCEEDED = "exceeding the maximum number of re-queuing retries"
_MAX_DOUBLINGS = 62


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadinessRules:
    """The settings of ``waitForPodsReady``.

    If ``recovery_timeout`` is zero, pods may take any time to recover. If ``backoff_limit`` is
    None, there is no limit on retries.
    """

    timeout: timedelta
    recovery_timeout: timedelta
    backoff_limit: int | None = None
    backoff_base: timedelta = timedelta(seconds=60)
    backoff_max: timedelta = timedelta(seconds=3600)


def are_pods_ready(status: WorkloadStatus) -> bool:
    """Whether all pods were ready or had succeeded when PodsReady was last set."""
    condition = find(status, WorkloadCondition.PODS_READY)
    return condition is not None and condition.status == "True"


def begin_waiting(workload: Workload, *, now: datetime) -> WorkloadStatus:
    """Return the status with PodsReady=False if it says nothing.

    Only of a Workload that was made for its job, as its finalizer tells; a prebuilt one may turn
    out to be another job's.
    """
    status, metadata = workload.status, workload.metadata
    is_known = find(status, WorkloadCondition.PODS_READY) is not None
    if is_known or RESOURCE_IN_USE not in metadata.finalizers:
        return status
    return sync_pods_ready(status, ready=False, now=now, generation=metadata.generation)


def stop_waiting(status: WorkloadStatus) -> WorkloadStatus:
    """Return the status without PodsReady, for a Workload whose worker waits for the pods."""
    left = tuple(c for c in status.conditions if c.type != WorkloadCondition.PODS_READY)
    return msgspec.structs.replace(status, conditions=left)


def sync_pods_ready(
    status: WorkloadStatus, *, ready: bool, now: datetime, generation: int = 0
) -> WorkloadStatus:
    """Set PodsReady from the pods; unchanged unless its status or reason changes (E-185)."""
    old = find(status, WorkloadCondition.PODS_READY)
    was = old.reason if old is not None else ""
    reason, message = Reason.WAIT_FOR_START, NOT_READY
    if is_admitted(status):
        recovers = was in {Reason.WAIT_FOR_RECOVERY, Reason.RECOVERED}
        if ready:
            reason, message = (Reason.RECOVERED if recovers else Reason.STARTED), READY
        elif recovers or was == Reason.STARTED:
            reason, message = Reason.WAIT_FOR_RECOVERY, RECOVERING
    if was == reason:
        return status
    return with_condition(
        status,
        WorkloadCondition.PODS_READY,
        value=reason in {Reason.STARTED, Reason.RECOVERED},
        reason=reason,
        message=message,
        now=now,
        generation=generation,
    )


def readiness_deadline(status: WorkloadStatus, rules: ReadinessRules) -> datetime | None:
    """Return when an admitted Workload has waited too long for its pods; None without a limit."""
    admitted = find(status, WorkloadCondition.ADMITTED)
    if admitted is None or admitted.status != "True" or are_pods_ready(status):
        return None
    ready = find(status, WorkloadCondition.PODS_READY)
    if ready is not None and ready.reason == Reason.WAIT_FOR_RECOVERY:
        patience = rules.recovery_timeout
        return ready.transitioned_at + patience if patience > timedelta(0) else None
    return admitted.transitioned_at + rules.timeout


def give_up_waiting(
    status: WorkloadStatus, key: str, rules: ReadinessRules, *, now: datetime, generation: int = 0
) -> WorkloadStatus:
    """Evict a Workload whose pods are late, or deactivate it after too many tries (E-106)."""
    count = ((status.requeue_state.count if status.requeue_state else None) or 0) + 1
    if rules.backoff_limit is not None and count > rules.backoff_limit:
        return target_deactivation(
            status,
            Reason.REQUEUING_LIMIT_EXCEEDED,
            LIMIT_EXCEEDED,
            now=now,
            generation=generation,
        )
    ready, known = find(status, WorkloadCondition.PODS_READY), requeue_at(status)
    at = now + backoff(count, rules)
    status = msgspec.structs.replace(
        status,
        requeue_state=RequeueState(
            count=count, requeue_at=format_time(at if known is None else max(at, known))
        ),
    )
    return evict(
        status,
        Reason.PODS_READY_TIMEOUT,
        f"Exceeded the PodsReady timeout {key}",
        now=now,
        cause=ready.reason if ready is not None else Reason.WAIT_FOR_START,
        generation=generation,
    )


def backoff(count: int, rules: ReadinessRules) -> timedelta:
    """Return the backoff after so many tries: the base, doubled each time, at most the cap."""
    seconds = rules.backoff_base.total_seconds() * (1 << min(count - 1, _MAX_DOUBLINGS))
    return timedelta(seconds=min(seconds, rules.backoff_max.total_seconds()))
