"""A cluster holds the latch: ``status.clusterName``. If it is lost: `lost_worker`."""

from __future__ import annotations

from datetime import datetime, timedelta

from multiqueue.api.conditions import CheckState, Reason
from multiqueue.dispatch.decide.cluster_state import (
    ClusterState,
    GroupConfig,
    Presence,
    RemoteWorkload,
)
from multiqueue.dispatch.decide.plan import (
    NOTHING,
    ConfirmCopyGone,
    ConfirmJobGone,
    DeactivateCopy,
    GroupPlan,
    Removal,
    ResizeCopy,
    SetCheck,
    Step,
    SyncJob,
    TakeJobOver,
)
from multiqueue.dispatch.decide.rules.lost_worker import wait_for_lost_worker
from multiqueue.dispatch.decide.rules.priority import update_priorities
from multiqueue.dispatch.decide.view import GroupView, LocalWorkload

OUT_OF_SYNC_BACKOFF = timedelta(seconds=10)
"""Wait after the first copy that its worker found out of sync. Doubled each time, because the cause
of the difference is likely to stay."""
LOST_BACKOFF = timedelta(seconds=1)
"""Wait after the second time that a cluster lost the job or copy; doubled each time, because it may
be deleted again and again. The first time may be an accident and causes no wait."""
MAX_BACKOFF = timedelta(minutes=10)


def follow(view: GroupView, config: GroupConfig, now: datetime) -> GroupPlan | None:
    """Keep in step with the cluster that runs the Workload; sweeps do the rest (M-91, M-92).

    The latch decides, not the configuration: a cluster that was removed from the MultiKueueConfig,
    or whose MultiKueueCluster was deleted, keeps its job until the job ends.

    Deviates: upstream evicts when the cluster leaves the configuration (M-91), and lets an older
    admission of a returning worker win over the latch (M-92).
    """
    local = view.local
    if local is None or local.cluster_name is None:
        return None
    if not (local.is_pending or local.is_ready or local.check is None):
        return NOTHING
    name = local.cluster_name
    cluster = view.find_cluster(name) or ClusterState(name=name, reachable=False)
    if not cluster.reachable:
        return wait_for_lost_worker(cluster, local, config, now)
    if cluster.copy is None:
        return _give_up_missing(cluster, local)
    if cluster.admitted_at is None:
        return _give_up_stopped(cluster, local)
    if cluster.job_presence is Presence.ABSENT and local.is_ready:
        return GroupPlan(
            steps=(
                ConfirmJobGone(cluster=name),
                Removal(cluster=name, why="its job is gone"),
                _retry_lost(f'The job was deleted on cluster "{name}"', local),
            ),
        )
    return _keep(view, cluster, local)


def _keep(view: GroupView, cluster: ClusterState, local: LocalWorkload) -> GroupPlan:
    steps: list[Step] = [*update_priorities(view)]
    if cluster.has_earlier_job:
        steps.append(TakeJobOver(cluster=cluster.name))
    if cluster.job_known:
        steps.append(SyncJob(cluster=cluster.name))
    copy = cluster.copy
    # The job first: quota is held until the surplus pods have been told to stop.
    if local.elastic and copy is not None and copy.digest not in {"", local.digest}:
        steps.append(ResizeCopy(cluster=cluster.name))
    if local.is_pending:
        steps.append(set_ready(cluster.name))
    return GroupPlan(steps=tuple(steps))


def _give_up_missing(cluster: ClusterState, local: LocalWorkload) -> GroupPlan:
    """Dispatch it again if its copy is gone or is being deleted."""
    if local.check is None:
        return NOTHING
    copy, name = cluster.workload, cluster.name
    end = copy.finished if copy is not None else None
    if end is not None and end.is_without_job:
        differs = end.reason == Reason.OUT_OF_SYNC
        gone = _retry_lost(f'The job was deleted on cluster "{name}"', local)
        return GroupPlan(steps=(_retry_out_of_sync(cluster, local) if differs else gone,))
    steps: list[Step] = [ConfirmCopyGone(cluster=name)]
    if not cluster.is_empty and not cluster.condemned:
        steps.append(Removal(cluster=name, why="its copy is gone"))
    steps.append(_retry_lost(f'The workload was deleted on cluster "{name}"', local))
    return GroupPlan(steps=tuple(steps))


def _give_up_stopped(cluster: ClusterState, local: LocalWorkload) -> GroupPlan:
    """Dispatch it again if its copy is there but may not run; there the copy queues again."""
    copy, name = cluster.copy, cluster.name
    if not local.is_ready or copy is None:
        return GroupPlan(why=f'cluster "{name}" has not admitted it yet')
    if copy.evicted_at is not None:
        return give_up_evicted(cluster, copy)
    retry = _retry_lost(f'The workload is no longer admitted on cluster "{name}"', local)
    return _stop_and(retry, cluster)


def give_up_evicted(cluster: ClusterState, evicted: RemoteWorkload) -> GroupPlan:
    """Dispatch again what the worker evicted: its copy, or that of an earlier slice (M-170)."""
    words = f": {evicted.evicted_why}" if evicted.evicted_why else ""
    retry = _retry(f'The workload was evicted on cluster "{cluster.name}"{words}')
    return _stop_and(retry, cluster)


def give_up_lost(
    confirm: ConfirmCopyGone | ConfirmJobGone, message: str, cluster: ClusterState, view: GroupView
) -> GroupPlan | None:
    """Dispatch again a Workload that waits to grow if the worker has nothing left to grow."""
    if view.local is None:
        return None
    plan = _stop_and(_retry_lost(message, view.local), cluster)
    return GroupPlan(steps=(confirm, *plan.steps))


def _stop_and(retry: SetCheck, cluster: ClusterState) -> GroupPlan:
    """Keep the copy from being admitted there again, then retry.

    The last status that was brought back says that nothing runs. Without this step the quota would
    be released while the job runs on.
    """
    copy = cluster.copy
    stop = () if copy is None or copy.deactivating else (DeactivateCopy(cluster=cluster.name),)
    return GroupPlan(steps=(*stop, retry))


def _retry_out_of_sync(cluster: ClusterState, local: LocalWorkload) -> SetCheck:
    return _retry(
        f'The job on cluster "{cluster.name}" differed from its workload (OutOfSync)',
        warning=True,
        requeue_after=grow(OUT_OF_SYNC_BACKOFF, _count_retries(local)),
    )


def _retry_lost(message: str, local: LocalWorkload) -> SetCheck:
    retries = _count_retries(local)
    backoff = grow(LOST_BACKOFF, retries - 1) if retries else timedelta()
    return _retry(message, warning=True, requeue_after=backoff)


def _count_retries(local: LocalWorkload) -> int:
    return local.check.retry_count if local.check is not None else 0


def grow(backoff: timedelta, doublings: int) -> timedelta:
    """Double a backoff this many times, up to `MAX_BACKOFF`."""
    factor: int = 2 ** min(doublings, 10)
    return min(backoff * factor, MAX_BACKOFF)


def _retry(
    message: str, *, warning: bool = False, requeue_after: timedelta | None = None
) -> SetCheck:
    return SetCheck(
        state=CheckState.RETRY, message=message, warning=warning, requeue_after=requeue_after
    )


def set_ready(cluster: str) -> SetCheck:
    """Set the check to Ready, and latch the cluster that runs the Workload."""
    return SetCheck(
        state=CheckState.READY,
        message=f'The workload was admitted on "{cluster}"',
        cluster=cluster,
    )
