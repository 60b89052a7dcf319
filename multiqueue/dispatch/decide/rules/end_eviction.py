"""The Workload was evicted on the manager and still holds its quota."""

from __future__ import annotations

from datetime import datetime, timedelta

from multiqueue.dispatch.decide.cluster_state import ClusterState, GroupConfig, Presence, grace_left
from multiqueue.dispatch.decide.plan import (
    NOTHING,
    DeactivateCopy,
    EndEviction,
    GroupPlan,
    MirrorStatus,
    Removal,
    Step,
    StopLocalJob,
)
from multiqueue.dispatch.decide.view import GroupView, LocalWorkload

EVICTED = "the workload was evicted"
ZERO = timedelta()


def evict(view: GroupView, config: GroupConfig, now: datetime) -> GroupPlan | None:
    """Have the job stopped, bring its last status back, and release the quota when it is gone.

    The eviction cleared the latch, but the old job may still run. Nothing is nominated until no
    worker is known to have it, or every worker that may have it was given up (I-6). If a worker
    does not stop the job within the lost timeout, it is told to delete it; the timeout counts from
    when this manager first saw that the worker must stop the job. A worker that answers is never
    given up: the quota is held until the job is gone there.

    Deviates: upstream's core releases the quota once the local job's status says that nothing runs.
    That status is the one last brought back, which is milliseconds old, or as old as an outage
    (M-171, M-175, #15682).
    """
    local = view.local
    if local is None or local.evicted_at is None:
        return None
    removals: list[Removal] = []
    steps: list[Step] = []
    waits: list[timedelta] = []
    for cluster in view.reachable:
        if cluster.is_empty or cluster.condemned:
            continue
        patience = (cluster.stopping_since or now) + config.worker_lost_timeout - now
        if patience >= ZERO and _may_run(cluster):
            steps += _stop(cluster)
            waits.append(patience)
        elif cluster.job is not None and _has_stopped(cluster):
            # The job's last status is brought back first.
            steps += (MirrorStatus(cluster=cluster.name), _remove(cluster))
        elif cluster.can_be_cleared:
            removals.append(_remove(cluster))
    holders = [c for c in view.clusters if c.job_presence is not Presence.ABSENT]
    held = [cluster for cluster in holders if not _is_given_up(cluster, config, now)]
    if not held:
        end = _end(local, given_up=bool(holders))
        return GroupPlan(removals=tuple(removals), steps=(*steps, *end.steps), why=end.why)
    unseen = (cluster for cluster in held if cluster.job_presence is Presence.UNKNOWN)
    waits += (grace_left(cluster, config, now) for cluster in unseen)
    names = ", ".join(f'"{cluster.name}"' for cluster in held)
    return GroupPlan(
        removals=tuple(removals),
        steps=tuple(steps),
        wait=min((span for span in waits if span >= ZERO), default=None),
        why=f"{names} may still run it",
    )


def _may_run(cluster: ClusterState) -> bool:
    """Whether a job may be there that the worker can be asked to stop and has not stopped."""
    copy = cluster.copy
    if copy is None or cluster.job_presence is Presence.ABSENT:
        return False
    return cluster.job is None or not _has_stopped(cluster)


def _has_stopped(cluster: ClusterState) -> bool:
    """Whether the worker says that it stopped, for good, the job that had to stop."""
    copy = cluster.copy
    return copy is not None and copy.deactivating and not copy.quota_reserved


def _remove(cluster: ClusterState) -> Removal:
    return Removal(cluster=cluster.name, why=EVICTED)


def _stop(cluster: ClusterState) -> tuple[Step, ...]:
    """Have a copy stop for good. If the worker evicted it, it would queue again there."""
    copy = cluster.copy
    if copy is not None and not copy.deactivating:
        return (DeactivateCopy(cluster=cluster.name),)
    if copy is not None and copy.evicted_at is not None:
        return (MirrorStatus(cluster=cluster.name),)
    return ()


def _is_given_up(cluster: ClusterState, config: GroupConfig, now: datetime) -> bool:
    """Whether the cluster was given up, so that a job there no longer keeps the quota.

    A worker that answers is not given up: it shows the job, or a copy that holds quota for it.
    """
    if cluster.job_presence is not Presence.UNKNOWN:
        return False
    if cluster.copy is not None and cluster.copy.quota_reserved:
        return False
    return grace_left(cluster, config, now) <= ZERO


def _end(local: LocalWorkload, *, given_up: bool) -> GroupPlan:
    """Say that nothing runs, first in the status of the job: only then can it be stopped here."""
    if local.job is None:
        return NOTHING
    why = "the workers that could run it were given up" if given_up else "the remote job is gone"
    if local.job.active:
        return GroupPlan(steps=(StopLocalJob(why=why),), why=why)
    if local.job.refusal or not local.job.suspended:
        return NOTHING
    return GroupPlan(steps=(EndEviction(why=why),), why=why)
