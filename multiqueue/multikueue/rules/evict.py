"""The Workload was evicted on the manager and still holds its quota."""

from __future__ import annotations

from datetime import datetime

from multiqueue.multikueue.group import ClusterState, GroupConfig, GroupView
from multiqueue.multikueue.plan import DeactivateCopy, GroupPlan, MirrorStatus, Removal, Step
from multiqueue.multikueue.rules.gone import stop_once_gone

EVICTED = "the workload was evicted"


def evict(view: GroupView, config: GroupConfig, now: datetime) -> GroupPlan | None:
    """Have the remote job stopped and bring its last status back (M-88a, M-92, M-171).

    The quota goes when the local job says that nothing runs. Nothing is nominated until then: the
    eviction cleared the latch, but the old job may still run (M-175). A worker that does not stop
    the job within the lost timeout loses it.
    """
    local = view.local
    if local is None or local.evicted_at is None:
        return None
    overdue = now - local.evicted_at > config.worker_lost_timeout
    removals: list[Removal] = []
    steps: list[Step] = []
    for cluster in view.reachable:
        if cluster.is_empty or cluster.condemned:
            continue
        if not _may_run(cluster) or overdue:
            removals.append(Removal(cluster=cluster.name, why=EVICTED))
        elif (step := _stop(cluster)) is not None:
            steps.append(step)
    if any(cluster.job is not None for cluster in view.reachable):
        left = local.evicted_at + config.worker_lost_timeout - now
        return GroupPlan(
            removals=tuple(removals),
            steps=tuple(steps),
            wait=None if overdue else left,
            why="the worker stops the job",
        )
    if removals or steps:
        return GroupPlan(removals=tuple(removals), steps=tuple(steps))
    return stop_once_gone(view, config, now)


def _may_run(cluster: ClusterState) -> bool:
    """Whether a job is there that a worker can be asked to stop."""
    if cluster.copy is None:
        return False
    return cluster.job is not None or (not cluster.job_known and cluster.admitted_at is not None)


def _stop(cluster: ClusterState) -> Step | None:
    """Have a copy stop for good, though it was evicted there already: it queues again there."""
    copy = cluster.copy
    if copy is not None and not copy.deactivating:
        return DeactivateCopy(cluster=cluster.name)
    if copy is None or copy.evicted_at is not None:
        return MirrorStatus(cluster=cluster.name)
    return None
