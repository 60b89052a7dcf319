"""Rules for Workloads that hold quota. Parity: E-106, E-107, E-110..E-113."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

import msgspec

from multiqueue.api.conditions import CheckState, Reason
from multiqueue.api.names import MULTIKUEUE_ORIGIN
from multiqueue.api.v1beta2 import WorkloadStatus
from multiqueue.api.variants import parent_of
from multiqueue.api.workload_checks import (
    applicable_checks,
    checks_in,
    describe_checks,
    retry_at,
    sync_checks,
)
from multiqueue.api.workload_readiness import give_up_waiting, readiness_deadline
from multiqueue.api.workload_state import (
    complete_eviction,
    evict,
    execution_time_left,
    has_quota,
    is_admitted,
    is_evicted,
    release_quota,
    requeue_at,
    set_requeue_at,
    sync_admitted,
    target_deactivation,
)
from multiqueue.controllers.workload.plan import NothingToDo, WarnEvent, WorkloadPlan, WriteStatus
from multiqueue.controllers.workload.view import WorkloadSituation

Change = Callable[[WorkloadSituation], WorkloadStatus]
HOLD_AND_DRAIN = "HoldAndDrain"
RUNNING = "None"


def restart_broken(view: WorkloadSituation) -> WorkloadPlan | None:
    """Evict a reservation without an admission: it counts nowhere, so its job queues again."""
    if _restarted(view) == view.workload.status:
        return None
    return WriteStatus(change=_restarted)


def _restarted(view: WorkloadSituation) -> WorkloadStatus:
    status = view.workload.status
    if status.admission is not None or _is_untouchable(view):
        return status
    return evict(
        status,
        Reason.MISCONFIGURED,
        "QuotaReserved is True, but status.admission is empty",
        now=view.now,
        generation=view.generation,
    )


def end_ownerless_eviction(view: WorkloadSituation) -> WorkloadPlan | None:
    """Release the quota of an evicted Workload that has no job, because nothing can run (E-104).

    A copy from another manager may get its job at any time, and dispatch ends the eviction of a
    Workload that is offered to workers.

    Deviates: upstream leaves that to the job's reconciler, so such a Workload holds its quota until
    it is deleted.
    """
    if _unowned(view) == view.workload.status:
        return None
    return WriteStatus(change=_unowned)


def _unowned(view: WorkloadSituation) -> WorkloadStatus:
    metadata, status = view.workload.metadata, view.workload.status
    is_offered = status.cluster_name is not None or bool(status.nominated_cluster_names)
    is_copy = MULTIKUEUE_ORIGIN in metadata.labels
    if metadata.owner_references or is_copy or is_offered or not is_evicted(status):
        return status
    return complete_eviction(
        status,
        now=view.now,
        generation=view.generation,
        reason=view.options.word(Reason.PENDING_EVALUATION),
    )


def sync_admission(view: WorkloadSituation) -> WorkloadPlan | None:
    """Bring the check list in line with the ClusterQueue, and Admitted with the checks."""
    if not has_quota(view.workload.status) or view.is_parent:
        return None
    return _write_if_different(view, _synced)


def _synced(view: WorkloadSituation) -> WorkloadStatus:
    status = view.workload.status
    if not has_quota(status):
        return status
    if view.holding is not None:
        names = applicable_checks(view.holding.spec, status.admission)
        status = sync_checks(status, names, view.now)
    if is_evicted(status):
        return status
    status = sync_admitted(status, now=view.now, generation=view.generation)
    return view.complete(status)


def reject(view: WorkloadSituation) -> WorkloadPlan | None:
    """Deactivate a Workload that has a Rejected check (E-112)."""
    if _is_untouchable(view) or not checks_in(view.workload.status, CheckState.REJECTED):
        return None
    rejected = checks_in(view.workload.status, CheckState.REJECTED)
    message = describe_checks(rejected, CheckState.REJECTED)

    def change(newest: WorkloadSituation) -> WorkloadStatus:
        return target_deactivation(
            newest.workload.status,
            Reason.ADMISSION_CHECK,
            message,
            now=newest.now,
            generation=newest.generation,
        )

    if change(view) == view.workload.status:
        return NothingToDo()
    return WriteStatus(
        change=change,
        warn=WarnEvent(reason="AdmissionCheckRejected", message=f"Deactivated due to {message}"),
    )


def retry(view: WorkloadSituation) -> WorkloadPlan | None:
    """Evict a Workload that has a Retry check, so that it queues again (E-112)."""
    if _is_untouchable(view) or not checks_in(view.workload.status, CheckState.RETRY):
        return None
    return WriteStatus(change=_retried)


def _retried(view: WorkloadSituation) -> WorkloadStatus:
    status = view.workload.status
    retrying = checks_in(status, CheckState.RETRY)
    if _is_untouchable(view) or not retrying:
        return status
    at, known = retry_at(status), requeue_at(status)
    if at is not None and at > view.now and (known is None or at > known):
        status = set_requeue_at(status, at)
    return evict(
        status,
        Reason.ADMISSION_CHECK,
        f"Evicted due to {describe_checks(retrying, CheckState.RETRY)}",
        now=view.now,
        generation=view.generation,
    )


def obey_local_queue(view: WorkloadSituation) -> WorkloadPlan | None:
    """Take back quota of a stopped, missing or terminating LocalQueue, unless it runs (E-113)."""
    name, queue = view.workload.spec.queue_name, view.local_queue
    if queue is None or queue.metadata.deletion_timestamp:
        gone = f"LocalQueue {name} is terminating or missing"
        return _give_back(view, Reason.MISCONFIGURED, Reason.LOCAL_QUEUE_STOPPED, gone)
    return _obey(
        view,
        queue.spec.stop_policy,
        Reason.LOCAL_QUEUE_STOPPED,
        f"LocalQueue {name} is stopped",
        "The LocalQueue is stopped",
    )


def obey_cluster_queue(view: WorkloadSituation) -> WorkloadPlan | None:
    """Take back quota of a stopped, missing or terminating ClusterQueue, unless it runs (E-113)."""
    admission, queue = view.workload.status.admission, view.holding
    if admission is None:
        return None
    name = admission.cluster_queue
    if queue is None or queue.metadata.deletion_timestamp:
        gone = f"ClusterQueue {name} is terminating or missing"
        return _give_back(view, Reason.MISCONFIGURED, Reason.CLUSTER_QUEUE_STOPPED, gone)
    return _obey(
        view,
        queue.spec.stop_policy,
        Reason.CLUSTER_QUEUE_STOPPED,
        f"ClusterQueue {name} is stopped",
        "The ClusterQueue is stopped",
    )


def await_pods(view: WorkloadSituation) -> WorkloadPlan | None:
    """Evict a Workload whose pods are not ready in time (E-106)."""
    return _write_if_different(view, _without_patience)


def _without_patience(view: WorkloadSituation) -> WorkloadStatus:
    status, rules, deadline = view.workload.status, view.options.readiness, _deadline(view)
    if rules is None or deadline is None or deadline > view.now:
        return status
    key, now = view.workload.metadata.key, view.now
    return give_up_waiting(status, key, rules, now=now, generation=view.generation)


def _deadline(view: WorkloadSituation) -> datetime | None:
    """Return when the wait for pods ends; None if another cluster or a parent awaits them."""
    status, rules = view.workload.status, view.options.readiness
    if rules is None or status.cluster_name or parent_of(view.workload) or _is_untouchable(view):
        return None
    return readiness_deadline(status, rules)


def limits_left(view: WorkloadSituation) -> float | None:
    """Return the seconds until a running Workload reaches one of its limits."""
    if _is_untouchable(view):
        return None
    deadline, left = _deadline(view), execution_time_left(view.workload, view.now)
    ends = (deadline - view.now if deadline is not None else None, left)
    return min((end.total_seconds() for end in ends if end is not None), default=None)


def limit_execution(view: WorkloadSituation) -> WorkloadPlan | None:
    """End a Workload at its maximum execution time (E-107)."""
    if _is_untouchable(view):
        return None
    left = execution_time_left(view.workload, view.now)
    if left is None or left.total_seconds() > 0:
        return None
    message = "exceeding the maximum execution time"
    limit = view.workload.spec.maximum_execution_time_seconds

    def change(newest: WorkloadSituation) -> WorkloadStatus:
        status = target_deactivation(
            newest.workload.status,
            Reason.MAXIMUM_EXECUTION_TIME_EXCEEDED,
            message,
            now=newest.now,
            generation=newest.generation,
        )
        return msgspec.structs.replace(status, accumulated_past_execution_time_seconds=None)

    return WriteStatus(
        change=change,
        warn=WarnEvent(
            reason=Reason.MAXIMUM_EXECUTION_TIME_EXCEEDED,
            message=f"The maximum execution time ({limit}s) exceeded",
        ),
    )


def _obey(
    view: WorkloadSituation, policy: str, eviction: Reason, hold_message: str, drain_message: str
) -> WorkloadPlan | None:
    if policy == RUNNING or _is_untouchable(view):
        return None
    if not is_admitted(view.workload.status):
        return _give_back(view, Reason.SUSPENDED, eviction, hold_message)
    if policy != HOLD_AND_DRAIN:
        return None

    def change(newest: WorkloadSituation) -> WorkloadStatus:
        if _is_untouchable(newest):
            return newest.workload.status
        return evict(
            newest.workload.status,
            eviction,
            drain_message,
            now=newest.now,
            generation=newest.generation,
        )

    return WriteStatus(change=change)


def _give_back(
    view: WorkloadSituation, reason: Reason, eviction: Reason, message: str
) -> WorkloadPlan | None:
    """Take back a reservation that is not admitted, without an eviction, because nothing ran.

    A Workload that is offered to workers is evicted all the same: one of them may already run it.
    Dispatch ends the eviction when none does.

    Deviates: upstream releases that quota at once.
    """
    if _is_untouchable(view) or is_admitted(view.workload.status):
        return None

    def change(newest: WorkloadSituation) -> WorkloadStatus:
        status = newest.workload.status
        if _is_untouchable(newest) or is_admitted(status):
            return status
        if status.cluster_name is not None or status.nominated_cluster_names:
            return evict(status, eviction, message, now=newest.now, generation=newest.generation)
        return release_quota(
            status,
            reason=newest.options.word(reason),
            message=message,
            now=newest.now,
            generation=newest.generation,
        )

    return WriteStatus(change=change)


def _is_untouchable(view: WorkloadSituation) -> bool:
    """Whether there is no reservation to take back, or an eviction already does."""
    return not has_quota(view.workload.status) or is_evicted(view.workload.status)


def _write_if_different(view: WorkloadSituation, change: Change) -> WorkloadPlan | None:
    return WriteStatus(change=change) if change(view) != view.workload.status else None
