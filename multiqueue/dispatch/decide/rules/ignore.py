"""MultiKueue has no part in the Workload."""

from __future__ import annotations

from datetime import datetime

from multiqueue.dispatch.decide.cluster_state import GroupConfig
from multiqueue.dispatch.decide.plan import NOTHING, GroupPlan
from multiqueue.dispatch.decide.view import GroupView


def ignore(view: GroupView, config: GroupConfig, now: datetime) -> GroupPlan | None:
    """Do nothing for a Workload that MultiKueue has no part in, or that was rejected (M-80).

    If only MultiKueue may run a job, ending its eviction is our task, whatever became of the check.
    The core deactivates a rejected Workload. The eviction then sets the check back to Pending, and
    the rest on the clusters is removed. A Workload that is deleted, finished or without quota is
    cleaned up in any case.
    """
    del config, now
    local = view.local
    if local is not None and local.is_being_evicted:
        return None
    if local is not None and local.is_rejected and not local.is_over:
        return NOTHING
    if local is not None and local.is_claimed:
        return None
    return NOTHING if all(cluster.is_empty for cluster in view.clusters) else None
