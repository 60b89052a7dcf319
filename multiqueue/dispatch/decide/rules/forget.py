"""The check is Ready, but nothing runs the Workload and no cluster holds the latch."""

from __future__ import annotations

from datetime import datetime

from multiqueue.api.conditions import CheckState
from multiqueue.dispatch.decide.cluster_state import GroupConfig
from multiqueue.dispatch.decide.plan import NOTHING, GroupPlan, SetCheck
from multiqueue.dispatch.decide.view import GroupView


def forget(view: GroupView, config: GroupConfig, now: datetime) -> GroupPlan | None:
    """Have the Workload evicted and queued again (M-91b, I-8), unless the check is in Retry.

    Deviates: upstream's reconciler crashes on an evicted copy with an empty latch (M-88b).
    """
    del config, now
    local = view.local
    if local is None or local.check is None or local.is_pending:
        return None
    if local.check.state == CheckState.RETRY:
        return NOTHING
    message = "The check was Ready, but no cluster was recorded as the one that runs the workload"
    step = SetCheck(state=CheckState.RETRY, message=message, warning=True)
    return GroupPlan(steps=(step,))
