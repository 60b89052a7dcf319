"""Elastic jobs: a slice leaves its job to its successor slice on the same cluster."""

from __future__ import annotations

from datetime import datetime

from multiqueue.dispatch.decide.cluster_state import ClusterState, GroupConfig, Presence
from multiqueue.dispatch.decide.plan import (
    ConfirmCopyGone,
    ConfirmJobGone,
    CreateWorkload,
    Explain,
    GroupPlan,
    MirrorStatus,
    Removal,
    Step,
    SyncJob,
    TakeJobOver,
)
from multiqueue.dispatch.decide.rules.follow import give_up_evicted, give_up_lost, set_ready
from multiqueue.dispatch.decide.rules.priority import update_priorities
from multiqueue.dispatch.decide.view import GroupView

TAKEN_OVER = "a larger slice took over"


def hand_over(view: GroupView, config: GroupConfig, now: datetime) -> GroupPlan | None:
    """Leave the job to the successor slice until that slice has it (M-85, M-164).

    The copy of the earlier slice stays beside the job, finished: a worker's Kueue reads the first
    slice before it ungates pods, and without it the new pods would wait for ever.

    Deviates: if the successor slice is evicted before it took the job over, upstream forgets the
    job, which then runs without an owner. Here the job is removed with that slice.
    """
    del config, now
    successor, local = view.successor, view.local
    if successor is None:
        return None
    if local is not None and not local.finished and not local.deleting:
        return GroupPlan(why="it is about to be finished: a larger slice took over")
    cluster = view.find_cluster(successor.cluster)
    if cluster is None:
        return None
    removals = [
        Removal(cluster=other.name, why=TAKEN_OVER)
        for other in view.reachable
        if other.name != cluster.name and not other.is_empty
    ]
    return GroupPlan(removals=tuple(removals), why="a larger slice takes over")


def take_over(view: GroupView, config: GroupConfig, now: datetime) -> GroupPlan | None:
    """Take over the job of an earlier slice, once its cluster admitted the successor slice.

    Only on that cluster (M-160), and only then. Until then the job runs on at its size, its status
    is brought back, and nothing is stopped. If the job ends there meanwhile, because the worker
    stops it or somebody deletes it or its copy, the Workload is dispatched again.
    """
    del config, now
    local = view.local
    if local is None or not local.earlier or not local.is_pending:
        return None
    cluster = view.find_cluster(local.cluster_name)
    if cluster is None or not cluster.reachable:
        return None  # waits for the cluster as any running Workload does
    name = cluster.name
    if cluster.admitted_at is None and (given_up := _give_up(cluster, view)) is not None:
        return given_up
    mirror = (MirrorStatus(cluster=name),) if cluster.has_earlier_job else ()
    if cluster.workload is None:
        return GroupPlan(steps=(*mirror, CreateWorkload(cluster=name)))
    copy = cluster.copy
    if copy is None or copy.finished is not None:
        return None
    if copy.admitted_at is None:
        message = f'The workload runs on cluster "{name}", and waits there for room to grow'
        steps: tuple[Step, ...] = (*mirror, Explain(message=message), *update_priorities(view))
        return GroupPlan(steps=steps, why=message)
    if not cluster.job_known:
        return GroupPlan(why=f'cluster "{name}" does not show which job to take over')
    if not cluster.has_earlier_job:
        return None
    return GroupPlan(
        steps=(TakeJobOver(cluster=name), SyncJob(cluster=name), set_ready(name)),
    )


def _give_up(cluster: ClusterState, view: GroupView) -> GroupPlan | None:
    """Return the plan if no job is left that could grow; None while there is one."""
    if cluster.evicted_earlier is not None:
        return give_up_evicted(cluster, cluster.evicted_earlier)
    name, job = cluster.name, cluster.job
    if cluster.job_known and cluster.job_presence is Presence.ABSENT:
        message = f'The job was deleted on cluster "{name}" before it could grow'
        return give_up_lost(ConfirmJobGone(cluster=name), message, cluster, view)
    if (
        job is not None
        and job.earlier_key
        and (job.earlier_copy is None or job.earlier_copy.deleting)
    ):
        confirm = ConfirmCopyGone(cluster=name, key=job.earlier_key)
        message = f'The workload was deleted on cluster "{name}" before it could grow'
        return give_up_lost(confirm, message, cluster, view)
    return None
