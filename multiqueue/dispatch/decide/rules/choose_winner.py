"""Which worker wins: a copy is admitted, and no cluster holds the latch yet."""

from __future__ import annotations

from datetime import datetime, timedelta

from multiqueue.dispatch.decide.cluster_state import ClusterState, GroupConfig, Presence, grace_left
from multiqueue.dispatch.decide.plan import Explain, GroupPlan, Removal, SyncJob
from multiqueue.dispatch.decide.rules.follow import set_ready
from multiqueue.dispatch.decide.view import GroupView, LocalWorkload

AT_ONCE = timedelta(seconds=1)
"""Admissions within this time of each other count as simultaneous."""


def choose(view: GroupView, config: GroupConfig, now: datetime) -> GroupPlan | None:
    """Take the first that admitted it; the losers go before its job exists (M-90, M-92).

    Kubernetes timestamps have whole seconds, and each cluster has a clock of its own. So of the
    clusters within a second of the first, the one with the fewest jobs of ours wins; otherwise one
    cluster would get every job of a burst.

    Only nominated clusters count. If the check is Ready but no cluster is latched, any cluster
    counts. A cluster that already has the job comes first: it was chosen before a crash. While
    another cluster may hold a job of ours, none is created: at most one cluster runs it (I-1).
    """
    local = view.local
    if local is None or local.job is None or not (local.is_pending or local.is_ready):
        return None
    candidates = [cluster for cluster in view.clusters if _is_candidate(cluster, local)]
    if not candidates:
        return None
    first = min(cluster.admitted_at for cluster in candidates if cluster.admitted_at is not None)
    # A cluster that was chosen before stays chosen: its job may exist before it is seen.
    winner = min(
        candidates,
        key=lambda c: (c.job is None, not c.creating, _lateness(c, first), c.jobs, c.name),
    )
    others = [cluster for cluster in view.clusters if cluster.name != winner.name]
    losers = tuple(
        Removal(
            cluster=cluster.name, why=f'cluster "{winner.name}" admitted the workload and runs it'
        )
        for cluster in others
        if cluster.can_be_cleared
    )
    rivals = [cluster for cluster in others if _blocks(cluster, config, now)]
    if rivals:
        left = [grace_left(rival, config, now) for rival in rivals if _is_unseen(rival)]
        names = ", ".join(f'"{rival.name}"' for rival in rivals)
        why = f'Cluster "{winner.name}" admitted the workload, but {names} may still run its job'
        return GroupPlan(
            removals=losers, steps=(Explain(message=why),), wait=min(left, default=None), why=why
        )
    return GroupPlan(removals=losers, steps=(SyncJob(cluster=winner.name), set_ready(winner.name)))


def _is_candidate(cluster: ClusterState, local: LocalWorkload) -> bool:
    if cluster.admitted_at is None or not cluster.job_known or cluster.refusal:
        return False
    return local.is_ready or cluster.name in local.nominated


def _lateness(cluster: ClusterState, first: datetime) -> timedelta:
    """How much later than the first it admitted; zero if the clocks cannot tell."""
    assert cluster.admitted_at is not None
    late = cluster.admitted_at - first
    return late if late > AT_ONCE else timedelta()


def _blocks(cluster: ClusterState, config: GroupConfig, now: datetime) -> bool:
    """Whether a job of ours may run there and the cluster was not given up."""
    if _is_unseen(cluster):
        return grace_left(cluster, config, now) > timedelta()
    return cluster.job_presence is Presence.PRESENT


def _is_unseen(cluster: ClusterState) -> bool:
    return cluster.job_presence is Presence.UNKNOWN
