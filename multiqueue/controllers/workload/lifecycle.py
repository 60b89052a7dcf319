"""Rules for orphans, finished, deactivated and backed-off Workloads, and for preemption gates.

Parity: E-105, E-108, E-116, E-117, E-174.
"""

from __future__ import annotations

import msgspec

from multiqueue.api import names
from multiqueue.api.conditions import Reason, WorkloadCondition
from multiqueue.api.v1beta2 import PreemptionGateState, WorkloadStatus
from multiqueue.api.v1beta2.meta import format_time
from multiqueue.api.variants import parent_of
from multiqueue.api.workload_state import (
    CLOSED,
    deactivate,
    find,
    finish,
    has_quota,
    is_finished,
    requeue_at,
    set_pending,
    set_requeue_at,
    set_requeued,
)
from multiqueue.controllers.slice_handover import ended
from multiqueue.controllers.workload.plan import (
    Delete,
    NothingToDo,
    PatchSpec,
    ReleaseFinalizer,
    WorkloadPlan,
    WriteStatus,
)
from multiqueue.controllers.workload.view import WorkloadSituation

DEACTIVATED_MESSAGE = "The workload is deactivated"
_BACKED_OFF = frozenset({Reason.PODS_READY_TIMEOUT, Reason.ADMISSION_CHECK})


def end_orphan(view: WorkloadSituation) -> WorkloadPlan | None:
    """End a Workload whose owner is gone (E-117); one made by hand has no owner uid."""
    metadata = view.workload.metadata
    if metadata.owner_references:
        return None
    if metadata.deletion_timestamp:
        held = names.RESOURCE_IN_USE in metadata.finalizers
        return ReleaseFinalizer() if held else NothingToDo()
    if names.JOB_UID not in metadata.labels or not view.options.finish_orphans:
        return None
    if is_finished(view.workload.status):
        return None
    return WriteStatus(change=_orphaned)


def _orphaned(view: WorkloadSituation) -> WorkloadStatus:
    return finish(
        view.workload.status,
        Reason.OWNER_NOT_FOUND,
        "The workload's owner no longer exists",
        now=view.now,
        generation=view.generation,
    )


def keep_finished(view: WorkloadSituation) -> WorkloadPlan | None:
    """Leave finished Workloads as they are; delete them after the retention time (E-116)."""
    finished = find(view.workload.status, WorkloadCondition.FINISHED)
    if finished is None or finished.status != "True":
        return None
    retention = view.options.delete_finished_after
    if retention is None or view.workload.metadata.deletion_timestamp:
        return NothingToDo()
    left = (finished.transitioned_at + retention - view.now).total_seconds()
    if left > 0:
        return NothingToDo(requeue_after=left)
    return Delete(message="Deleted finished workload due to elapsed retention")


def leave_deleted(view: WorkloadSituation) -> WorkloadPlan | None:
    """Leave a Workload under deletion to the job framework: its job stops first."""
    return NothingToDo() if view.workload.metadata.deletion_timestamp else None


def end_replaced(view: WorkloadSituation) -> WorkloadPlan | None:
    """Finish a slice whose quota a larger one took over; its job continues to run (E-167)."""
    successor = view.successor
    if successor is None:
        return None
    return WriteStatus(change=lambda newest: ended(newest.workload, successor, newest.now))


def follow_class(view: WorkloadSituation) -> WorkloadPlan | None:
    """Copy a changed value of the WorkloadPriorityClass to each of its Workloads (E-187)."""
    priority_class, metadata = view.priority_class, view.workload.metadata
    if priority_class is None or priority_class.value == view.workload.spec.priority:
        return None
    # A manager elsewhere owns the spec of its copy and would revert the change; variants follow
    # their parent.
    if names.MULTIKUEUE_ORIGIN in metadata.labels or parent_of(view.workload) is not None:
        return None
    return PatchSpec(patch={"priority": priority_class.value})


def clear_active(view: WorkloadSituation) -> WorkloadPlan | None:
    """Deactivate a Workload for which that was requested (E-108)."""
    target = find(view.workload.status, WorkloadCondition.DEACTIVATION_TARGET)
    if target is None or target.status != "True" or not view.workload.spec.active:
        return None
    return PatchSpec(patch={"active": False})


def evict_inactive(view: WorkloadSituation) -> WorkloadPlan | None:
    """Evict an inactive Workload, whoever deactivated it; it waits until it is active again."""
    if view.workload.spec.active:
        return None
    return (
        WriteStatus(change=_deactivated) if _deactivated(view) != _status(view) else NothingToDo()
    )


def _deactivated(view: WorkloadSituation) -> WorkloadStatus:
    status = deactivate(_status(view), now=view.now, generation=view.generation)
    if has_quota(status):
        return status
    status = set_pending(
        status,
        reason=view.options.word(Reason.DEACTIVATED),
        message=DEACTIVATED_MESSAGE,
        now=view.now,
        generation=view.generation,
    )
    return view.complete(view.list_checks(status))


def end_backoff(view: WorkloadSituation) -> WorkloadPlan | None:
    """Let an evicted Workload queue again once its obstacle is gone (E-105).

    Deviates: also after a deactivation with a cause; the reference leaves such a Workload
    parked.
    """
    return WriteStatus(change=_requeued) if _requeue_reason(view) is not None else None


def backoff_left(view: WorkloadSituation) -> float | None:
    """Return the seconds until the backoff ends; None if there is none."""
    at = requeue_at(view.workload.status)
    if at is None or at <= view.now or has_quota(view.workload.status):
        return None
    return (at - view.now).total_seconds()


def _requeued(view: WorkloadSituation) -> WorkloadStatus:
    status, reason = _status(view), _requeue_reason(view)
    if reason is None:
        return status
    if reason is Reason.BACKOFF_FINISHED:
        status = set_requeue_at(status, None)
    return set_requeued(
        status,
        value=True,
        reason=reason,
        message=_REQUEUED_MESSAGES[reason],
        now=view.now,
        generation=view.generation,
    )


_REQUEUED_MESSAGES = {
    Reason.REACTIVATED: "The workload was reactivated",
    Reason.BACKOFF_FINISHED: "The workload backoff was finished",
    Reason.CLUSTER_QUEUE_RESTARTED: "The ClusterQueue was restarted after being stopped",
    Reason.LOCAL_QUEUE_RESTARTED: "The LocalQueue was restarted after being stopped",
}


def _requeue_reason(view: WorkloadSituation) -> Reason | None:
    """Return why a Workload with Requeued=False may queue again now, or None."""
    requeued = find(_status(view), WorkloadCondition.REQUEUED)
    if requeued is None or requeued.status != "False":
        return None
    # Also with quota: the engine does not wait for this condition when a queue comes back (E-19).
    for queue, stopped, restarted in (
        (view.cluster_queue, Reason.CLUSTER_QUEUE_STOPPED, Reason.CLUSTER_QUEUE_RESTARTED),
        (view.local_queue, Reason.LOCAL_QUEUE_STOPPED, Reason.LOCAL_QUEUE_RESTARTED),
    ):
        if requeued.reason == stopped:
            runs = queue is not None and queue.spec.stop_policy == "None"
            return restarted if runs else None
    if has_quota(_status(view)):
        return None
    if requeued.reason.startswith(Reason.DEACTIVATED):
        return Reason.REACTIVATED
    if requeued.reason in _BACKED_OFF:
        at = requeue_at(_status(view))
        return Reason.BACKOFF_FINISHED if at is None or at <= view.now else None
    return None


def _status(view: WorkloadSituation) -> WorkloadStatus:
    return view.workload.status


def sync_gates(view: WorkloadSituation) -> WorkloadPlan | None:
    """Add new gates as closed; drop those that the spec no longer has."""
    if not view.options.preemption_gates or _with_gates(view) == view.workload.status:
        return None
    return WriteStatus(change=_with_gates)


def _with_gates(view: WorkloadSituation) -> WorkloadStatus:
    spec, status = view.workload.spec, view.workload.status
    known = {state.name: state for state in status.preemption_gates}
    states = tuple(
        known.get(gate.name)
        or PreemptionGateState(
            name=gate.name, position=CLOSED, last_transition_time=format_time(view.now)
        )
        for gate in spec.preemption_gates
    )
    if states == status.preemption_gates:
        return status
    return msgspec.structs.replace(status, preemption_gates=states)
