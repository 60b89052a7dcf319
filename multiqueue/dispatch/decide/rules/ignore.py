"""Not ours."""

from __future__ import annotations

from datetime import datetime

from multiqueue.dispatch.decide.cluster_state import GroupConfig
from multiqueue.dispatch.decide.plan import NOTHING, GroupPlan
from multiqueue.dispatch.decide.view import GroupView


def ignore(view: GroupView, config: GroupConfig, now: datetime) -> GroupPlan | None:
    """Do nothing for a Workload that MultiKueue has no part in, or that was rejected (M-80).

    Evictions of jobs that only MultiKueue may run are ours to end, whatever became of the check.
    A rejected one is deactivated by the core; the eviction puts the check back to Pending, and what
    is left on the clusters goes then. What is deleted, finished or without quota is cleaned up all
    the same.
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
