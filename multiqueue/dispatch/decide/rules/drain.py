"""The cluster that runs the Workload is being drained, and it is this one's turn."""

from __future__ import annotations

from datetime import datetime, timedelta

from multiqueue.api.conditions import CheckState
from multiqueue.dispatch.decide.cluster_state import GroupConfig
from multiqueue.dispatch.decide.plan import GroupPlan, SetCheck
from multiqueue.dispatch.decide.view import GroupView


def drain(view: GroupView, config: GroupConfig, now: datetime) -> GroupPlan | None:
    """Send the Workload round again: evicted, stopped there with all its grace, queued, dispatched.

    Only where the cluster still runs it and can be asked to stop it: what is missing, stopped or
    out of reach there is `follow`'s. Nothing is waited for once it has stopped: a backoff that is
    left from an earlier incident does not count. An elastic job that waits there to grow runs, too.
    """
    del config, now
    local = view.local
    if local is None or local.cluster_name is None:
        return None
    cluster = view.find_cluster(local.cluster_name)
    if cluster is None or not cluster.leave or not cluster.reachable:
        return None
    waits_to_grow = local.is_pending and bool(local.earlier) and cluster.admitted_at is None
    if not waits_to_grow and not (local.is_ready and cluster.admitted_at is not None):
        return None
    step = SetCheck(
        state=CheckState.RETRY, message=cluster.leave, warning=False, requeue_after=timedelta()
    )
    return GroupPlan(steps=(step,))
