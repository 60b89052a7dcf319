"""When a slice of an elastic job has to wait for the slice that it replaces (E-167)."""

from __future__ import annotations

from multiqueue.api.conditions import Reason
from multiqueue.engine.nomination import Rejected
from multiqueue.engine.plan import RequeueReason
from multiqueue.engine.queues.entry import Entry
from multiqueue.engine.world import EngineParts
from multiqueue.model.workload import Workload

_LEAVING = Rejected(
    requeue_reason=RequeueReason.GENERIC,
    reason=Reason.WAITING_FOR_PREEMPTED_WORKLOADS,
    note="The workload slice that it replaces is being stopped",
)
_ARRIVING = Rejected(
    requeue_reason=RequeueReason.GENERIC,
    reason=Reason.PENDING_EVALUATION,
    note="The workload slice that it replaces is being admitted",
)
_CIRCULAR = Rejected(
    requeue_reason=RequeueReason.GENERIC,
    reason=Reason.MISCONFIGURED,
    note="The workload slice that it replaces replaces it, too: delete one of them",
)
"""Deviates: upstream admits both, and counts the quota of neither."""


def refuse_slice(world: EngineParts, workload: Workload, replaced: Entry) -> Rejected | None:
    """Return why no slice may take over from this one now; None if one may."""
    if world.quota_usage.is_circular(workload.key, workload.replaces, replaced.charged):
        return _CIRCULAR
    if replaced.is_leaving:
        return _LEAVING
    return _ARRIVING if replaced.workload.reservation is None else None
