"""The job cannot be dispatched at all."""

from __future__ import annotations

from datetime import datetime

from multiqueue.api.conditions import CheckState
from multiqueue.multikueue.group import GroupConfig, GroupView
from multiqueue.multikueue.plan import GroupPlan, SetCheck


def reject(view: GroupView, config: GroupConfig, now: datetime) -> GroupPlan | None:
    """Reject a Workload whose job is of no dispatchable kind or belongs to another controller.

    Parity: M-81, M-82.
    """
    del config, now
    local = view.local
    if local is None or local.job is None or not local.job.refusal:
        return None
    if not local.is_pending or local.cluster_name is not None:
        return None
    step = SetCheck(state=CheckState.REJECTED, message=local.job.refusal, warning=True)
    return GroupPlan(steps=(step,))
