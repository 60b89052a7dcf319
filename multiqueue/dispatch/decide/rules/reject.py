"""The job cannot be dispatched at all, or not with the quota that it has."""

from __future__ import annotations

from datetime import datetime, timedelta

from multiqueue.api.conditions import CheckState
from multiqueue.dispatch.decide.cluster_state import GroupConfig
from multiqueue.dispatch.decide.plan import GroupPlan, SetCheck
from multiqueue.dispatch.decide.rules.follow import LOST_BACKOFF, grow
from multiqueue.dispatch.decide.view import GroupView, LocalWorkload


def reject(view: GroupView, config: GroupConfig, now: datetime) -> GroupPlan | None:
    """Reject a Workload whose job is of no dispatchable kind or belongs to another controller.

    A Workload that no worker can hold (any more) releases its quota and queues again. The engine
    reserves none until that changes, or chooses another flavor.

    Parity: M-81, M-82. Deviates: upstream lets it keep its quota and wait.
    """
    del config, now
    local = view.local
    if local is None or local.job is None or not local.is_pending:
        return None
    if local.cluster_name is not None:
        return None
    if local.job.refusal:
        step = SetCheck(state=CheckState.REJECTED, message=local.job.refusal, warning=True)
        return GroupPlan(steps=(step,))
    if view.hopeless and not any(
        c.copy is not None and c.copy.quota_reserved for c in view.clusters
    ):
        return GroupPlan(steps=(_give_back(local, view.hopeless),))
    return None


def _give_back(local: LocalWorkload, why: str) -> SetCheck:
    """Release the quota; wait longer each time, in case the engine reserves it again."""
    retries = local.check.retry_count if local.check is not None else 0
    return SetCheck(
        state=CheckState.RETRY,
        message=f"The quota is given back: {why}",
        warning=True,
        requeue_after=grow(LOST_BACKOFF, retries - 1) if retries else timedelta(),
    )
