"""The Workload has quota and waits for a cluster (M-94, M-102, M-103, I-10)."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from zlib import crc32

from multiqueue.api.conditions import CheckState
from multiqueue.dispatch.decide.cluster_state import ClusterState, GroupConfig, Presence, grace_left
from multiqueue.dispatch.decide.plan import (
    NOTHING,
    CreateWorkload,
    Explain,
    GroupPlan,
    Nominate,
    Removal,
    SetCheck,
    Step,
    Trouble,
)
from multiqueue.dispatch.decide.rules.priority import update_priorities
from multiqueue.dispatch.decide.view import GroupView, LocalWorkload
from multiqueue.plugins import Nomination

WITHDRAWN = "the workload is no longer offered there"
NO_REASON = "the dispatcher named none, and did not say why"


def nominate(view: GroupView, config: GroupConfig, now: datetime) -> GroupPlan | None:
    """Offer the Workload to the dispatcher's clusters once other checks are ready (M-100).

    The nomination is recorded before anything is created: it is what a manager that was killed in
    between goes on from. Clusters that are not nominated (any more) lose their copies (M-104). A
    cluster out of reach that may have the job stays nominated until it is given up: otherwise a
    manager that starts anew would not know, and would have the job run on another one, too (I-1).
    """
    local = view.local
    if local is None or not local.is_pending:
        return None
    if local.job is None:
        return GroupPlan(why="its job is not known yet")
    if not local.other_checks_ready:
        return GroupPlan(why="other admission checks are not ready")
    awaited = _awaited_until(view, local, now)
    if view.nomination is not None:
        kept = _list_unseen(view, local, config, now)
        plan = _apply(view, local, view.nomination, kept)
    elif view.problem:
        plan = _offer(
            view, local.nominated, (Explain(message=view.problem, trouble=Trouble.DISPATCHER),)
        )
    elif view.ask_due and awaited is None:
        return GroupPlan(ask=True)
    else:
        plan = _offer(view, local.nominated, ())
    times = (awaited or view.ask_again_at, *(cluster.misfit_at for cluster in view.clusters))
    at = min((at for at in times if at is not None and at > now), default=None)
    return replace(plan, wait=at - now) if at is not None else plan


def _awaited_until(view: GroupView, local: LocalWorkload, now: datetime) -> datetime | None:
    """Until when to wait for a nominated cluster that never connected since the start.

    Its copy may have advanced in the queue there: it is not moved only because another one answers
    sooner.
    """
    times = [
        cluster.first_chance_until
        for cluster in view.clusters
        if cluster.name in local.nominated and cluster.configured and not cluster.reachable
    ]
    return max((at for at in times if at is not None and at > now), default=None)


def _list_unseen(
    view: GroupView, local: LocalWorkload, config: GroupConfig, now: datetime
) -> tuple[str, ...]:
    """Return the nominated clusters whose jobs cannot be seen, and one may be this Workload's."""
    return tuple(
        cluster.name
        for cluster in view.clusters
        if cluster.name in local.nominated
        and cluster.job_presence is Presence.UNKNOWN
        and grace_left(cluster, config, now) > timedelta()
    )


def _apply(
    view: GroupView, local: LocalWorkload, nomination: Nomination, kept: tuple[str, ...]
) -> GroupPlan:
    if nomination.refusal:
        step = SetCheck(state=CheckState.REJECTED, message=nomination.refusal, warning=True)
        return GroupPlan(steps=(step,))
    if nomination.external:
        return _follow_others(view, local, nomination)
    names = tuple(name for name in nomination.clusters if _is_usable(view.find_cluster(name)))
    is_queued = nomination.global_queue is not None and not nomination.clusters
    trouble = None if names or is_queued else Trouble.NO_CLUSTER
    recorded = tuple(dict.fromkeys((*names, *kept)))
    if set(recorded) != set(local.nominated):
        message = describe(nomination, names)
        first: Step = Nominate(clusters=recorded, message=message, trouble=trouble)
        return _offer(view, recorded, (first,))
    told = tuple(name for name in local.nominated if name in names)
    return _offer(view, recorded, _explain(local, describe(nomination, told), trouble))


def _follow_others(view: GroupView, local: LocalWorkload, nomination: Nomination) -> GroupPlan:
    """Offer it to the clusters of somebody else's nomination, which is never written (M-116)."""
    names = local.nominated
    if not names:
        return _offer(view, (), _explain(local, f"No cluster is nominated yet: {nomination.note}"))
    usable = tuple(name for name in names if _is_usable(view.find_cluster(name)))
    message = describe(nomination, usable)
    strangers = [name for name in names if not _is_configured(view.find_cluster(name))]
    if strangers:
        message += f"; no cluster of this check: {', '.join(strangers)}"
    trouble = None if usable else Trouble.NO_CLUSTER
    return _offer(view, names, _explain(local, message, trouble))


def _explain(
    local: LocalWorkload, message: str, trouble: Trouble | None = None
) -> tuple[Explain, ...]:
    is_known = local.check is not None and local.check.message == message
    return () if is_known else (Explain(message=message, trouble=trouble),)


def _offer(view: GroupView, names: tuple[str, ...], first: tuple[Step, ...]) -> GroupPlan:
    """Make copies on exactly these clusters."""
    removals = tuple(
        Removal(cluster=cluster.name, why=WITHDRAWN)
        for cluster in view.clusters
        if cluster.name not in names and cluster.can_be_cleared
    )
    # The first cluster with a copy often wins; in a burst it must not always be the same one.
    by_load = sorted(view.clusters, key=lambda cluster: (cluster.jobs, _turn(cluster, view.key)))
    creations = tuple(
        CreateWorkload(cluster=cluster.name)
        for cluster in by_load
        if cluster.name in names and cluster.is_empty and _is_usable(cluster)
    )
    steps = (*first, *creations, *update_priorities(view))
    return GroupPlan(removals=removals, steps=steps) if removals or steps else NOTHING


def _turn(cluster: ClusterState, key: str) -> int:
    """Order clusters with equal load; each Workload has another order."""
    return crc32(f"{key}/{cluster.name}".encode())


def _is_configured(cluster: ClusterState | None) -> bool:
    return cluster is not None and cluster.configured


def _is_usable(cluster: ClusterState | None) -> bool:
    return cluster is not None and cluster.configured and cluster.reachable and not cluster.refusal


def describe(nomination: Nomination, names: tuple[str, ...]) -> str:
    """Say to which clusters the Workload is offered and why not to the others."""
    reasons = {verdict.cluster: verdict.reason for verdict in nomination.verdicts}
    others = [
        f"{name} {reason}" for name, reason in reasons.items() if reason and name not in names
    ]
    if nomination.note:
        others.append(nomination.note)
    if nomination.global_queue is not None and not nomination.clusters:
        claim = nomination.global_queue.claim
        kept = f', which is kept for it on "{claim}"' if claim else ""
        why = "; ".join(others) or NO_REASON
        return f"The workload waits in the global queue for room{kept}: {why}"
    if not names:
        others = others or [f"{name} cannot be used" for name in nomination.clusters]
        return f"No cluster can take the workload now: {'; '.join(others) or NO_REASON}"
    offered = ", ".join(
        f'"{name}" ({reasons[name]})' if reasons.get(name) else f'"{name}"' for name in names
    )
    tail = f"; {'; '.join(others)}" if others else ""
    return f"The workload is offered to {offered}{tail}"
