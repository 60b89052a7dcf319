"""Finds the objects on the clusters that must go, whatever is decided next."""

from __future__ import annotations

from multiqueue.api.conditions import Reason
from multiqueue.dispatch.decide.cluster_state import ClusterState, Presence
from multiqueue.dispatch.decide.plan import Removal
from multiqueue.dispatch.decide.view import GroupView, LocalWorkload


def sweep(view: GroupView) -> tuple[Removal, ...]:
    """Name the copies that can never count again.

    Only while the Workload holds quota; without quota everything goes anyway. The cluster that
    holds the latch is spared if the only reason is that its copy looks different: a running job is
    not stopped because of a digest.

    Deviates: a copy that finished OutOfSync or OwnerNotFound is deleted first (M-87, upstream
    #14521). A copy from an earlier reservation never counts (returning workers, M-92), nor does one
    without a check.
    """
    local = view.local
    if local is None or local.deleting or local.finished or not local.has_quota:
        return ()
    return tuple(
        Removal(cluster=cluster.name, why=why)
        for cluster in view.reachable
        if cluster.can_be_cleared and (why := _why_not(cluster, local))
    )


def _why_not(cluster: ClusterState, local: LocalWorkload) -> str:
    copy = cluster.workload
    latched = local.cluster_name == cluster.name
    end = copy.finished if copy is not None else None
    if end is not None and end.is_without_job:
        has_ended = cluster.job is not None and cluster.job.finished is not None
        # `finish` reads the end from the job, which is being deleted.
        is_told = latched and has_ended and end.reason == Reason.OWNER_NOT_FOUND
        return "" if is_told else f"it finished as {end.reason}"
    if copy is not None and copy.deleting:
        return "it is being deleted there"
    if latched:
        return ""
    if local.cluster_name is not None:
        return f'cluster "{local.cluster_name}" runs the workload'
    if not local.is_claimed and local.evicted_at is None:
        return "no MultiKueue check applies any more"
    return _why_outdated(cluster, local)


def _why_outdated(cluster: ClusterState, local: LocalWorkload) -> str:
    copy = cluster.workload
    if _is_stale(cluster, local.epoch):
        return "it belongs to an earlier reservation"
    if copy is None:
        return "" if local.evicted_at is not None else "its Workload is gone"
    if copy.digest not in {"", local.digest} and copy.finished is None:
        return "the workload changed"
    if cluster.job_presence is Presence.ABSENT:
        return cluster.refusal or cluster.misfit
    return ""


def _is_stale(cluster: ClusterState, epoch: str) -> bool:
    stamped = (part.epoch for part in (cluster.workload, cluster.job) if part is not None)
    return any(mark not in {"", epoch} for mark in stamped)
