"""The Workload leaves the cluster that runs it: a drain, or a gang that starts in its place."""

from __future__ import annotations

from datetime import datetime, timedelta

from multiqueue.api.conditions import CheckState
from multiqueue.dispatch.decide.cluster_state import GroupConfig
from multiqueue.dispatch.decide.plan import GroupPlan, SetCheck
from multiqueue.dispatch.decide.view import GroupView


def drain(view: GroupView, config: GroupConfig, now: datetime) -> GroupPlan | None:
    """Dispatch the Workload again: evict it, stop it with its full grace period, queue it.

    Only if the cluster still runs it and can be asked to stop it. A job that is missing, stopped or
    out of reach there is left to `follow`. The Workload queues as soon as it has stopped: a backoff
    of an earlier incident does not count. An elastic job that waits there to grow counts as
    running.
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
        state=CheckState.RETRY,
        message=cluster.leave,
        warning=False,
        requeue_after=timedelta(),
        stop=cluster.stop,
    )
    return GroupPlan(steps=(step,))
