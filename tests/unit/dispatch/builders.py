"""Views for the rules: a Workload with quota and a pending check, unless said otherwise."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from multiqueue.api.conditions import CheckState
from multiqueue.dispatch.decide.cluster_state import (
    ClusterState,
    Finish,
    GroupConfig,
    RemoteJob,
    RemoteWorkload,
)
from multiqueue.dispatch.decide.decide import decide
from multiqueue.dispatch.decide.plan import GroupPlan
from multiqueue.dispatch.decide.view import Check, GroupView, LocalJob, LocalWorkload
from multiqueue.plugins import ClusterVerdict, Nomination

T0 = datetime(2026, 1, 1, 12, tzinfo=UTC)
TIMEOUT = timedelta(minutes=15)
CONFIG = GroupConfig(worker_lost_timeout=TIMEOUT)
EPOCH = "e2"
IDLE = LocalJob()
A_MINUTE = timedelta(minutes=1)


def minutes(count: float) -> timedelta:
    return timedelta(minutes=count)


def make_local(
    *,
    check: CheckState | None = CheckState.PENDING,
    job: LocalJob | None = IDLE,
    **fields: Any,
) -> LocalWorkload:
    return LocalWorkload(
        uid="u",
        **{"has_quota": True, "epoch": EPOCH, "digest": "d", **fields},
        check=Check(name="multikueue", state=check) if check is not None else None,
        job=job,
    )


def make_ready(cluster: str | None = "a", **fields: Any) -> LocalWorkload:
    """A Workload that runs on a cluster."""
    return make_local(check=CheckState.READY, cluster_name=cluster, **fields)


def make_copy(**fields: Any) -> RemoteWorkload:
    return RemoteWorkload(**{"uid": "w", "epoch": EPOCH, "digest": "d", **fields})


def make_admitted(*, at: datetime = T0, **fields: Any) -> RemoteWorkload:
    return make_copy(admitted_at=at, quota_reserved=True, **fields)


def make_remote_job(**fields: Any) -> RemoteJob:
    return RemoteJob(**{"uid": "j", "epoch": EPOCH, **fields})


def make_finish(reason: str = "Succeeded", *, at: datetime = T0) -> Finish:
    return Finish(success=reason == "Succeeded", reason=reason, message="done", at=at)


def make_cluster(name: str = "a", **fields: Any) -> ClusterState:
    return ClusterState(name=name, **fields)


def make_running(name: str = "a", **fields: Any) -> ClusterState:
    """A cluster where the Workload is admitted and has its job."""
    return make_cluster(name, workload=make_admitted(), job=make_remote_job(), **fields)


def make_lost(name: str = "a", *, ago: timedelta = A_MINUTE, **fields: Any) -> ClusterState:
    """A cluster that is out of reach."""
    return make_cluster(name, reachable=False, lost_at=T0 - ago, job_known=False, **fields)


def make_blind(name: str = "a", *, ago: timedelta = A_MINUTE, **fields: Any) -> ClusterState:
    """A cluster that does not show its jobs, one of which may be ours."""
    return make_cluster(name, lost_at=T0 - ago, job_known=False, may_run_unseen=True, **fields)


def make_nomination(*clusters: str, **reasons: str) -> Nomination:
    names = sorted({*clusters, *reasons})
    return Nomination(
        clusters=clusters,
        verdicts=tuple(
            ClusterVerdict(cluster=n, nominated=n in clusters, reason=reasons.get(n, ""))
            for n in names
        ),
    )


def make_plan(
    local: LocalWorkload | None, *clusters: ClusterState, now: datetime = T0, **fields: Any
) -> GroupPlan:
    """What the rules decide for this Workload and these clusters."""
    view = GroupView(key="ns/train", local=local, clusters=clusters, **fields)
    return decide(view, CONFIG, now)
