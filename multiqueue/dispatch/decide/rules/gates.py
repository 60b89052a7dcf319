"""Orchestrated preemption: one cluster at a time may preempt for a Workload (I-9).

Copies are made with a closed gate. A worker that could run its copy only by preempting says so and
waits for the gate. The copies tell which gate was opened, and when, so this survives a restart of
the manager. Parity: M-93, M-180 to M-185.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime

from multiqueue.dispatch.decide.cluster_state import ClusterState, GroupConfig
from multiqueue.dispatch.decide.plan import NOTHING, GroupPlan, OpenGate
from multiqueue.dispatch.decide.rules.nominate import nominate
from multiqueue.dispatch.decide.view import GroupView, LocalWorkload, Opening


def open_gate(view: GroupView, config: GroupConfig, now: datetime) -> GroupPlan | None:
    """Open the gate of the copy that waited longest; another one after its timeout (M-181).

    Nomination goes on meanwhile: a worker whose gate cannot be opened delays no other worker.
    """
    local = view.local
    if local is None or local.job is None or not (local.is_pending and local.other_checks_ready):
        return None
    blocked = [cluster for cluster in view.clusters if _is_blocked(cluster, local)]
    if not blocked:
        return None
    plan = nominate(view, config, now) or NOTHING
    withdrawn = {removal.cluster for removal in plan.removals}
    staying = [cluster for cluster in blocked if cluster.name not in withdrawn]
    if plan.ask or not staying:
        return plan
    opened = max(_list_openings(view), default=None)
    free_at = opened + config.preemption_timeout if opened is not None else now
    if free_at <= now:
        first = min(staying, key=lambda cluster: _rank(cluster, view.opening))
        return replace(plan, steps=(*plan.steps, OpenGate(cluster=first.name, at=now)))
    left = free_at - now
    plan = replace(plan, wait=left if plan.wait is None else min(plan.wait, left))
    last = view.opening
    if last is not None and any(cluster.name == last.cluster for cluster in staying):
        # The gate is still closed: the request was lost, or refused.
        return replace(plan, steps=(*plan.steps, OpenGate(cluster=last.cluster, at=last.at)))
    return plan


def _is_blocked(cluster: ClusterState, local: LocalWorkload) -> bool:
    """Whether only the closed gate keeps a copy that may win from preempting."""
    copy = cluster.copy
    return (
        copy is not None
        and copy.is_gated
        and copy.gate_opened_at is None
        and copy.blocked_at is not None
        and copy.finished is None
        and not cluster.refusal
        and cluster.name in local.nominated
    )


def _list_openings(view: GroupView) -> Iterator[datetime]:
    """List when a cluster got permission to preempt, or may have got it without our knowing.

    After a restart, the manager cannot see the copies on workers that it has not reached yet. The
    last moment at which their gates could be opened is the moment when these workers were lost.
    """
    if view.opening is not None:
        yield view.opening.at
    for cluster in view.clusters:
        copy = cluster.workload
        if copy is not None and copy.gate_opened_at is not None:
            yield copy.gate_opened_at
        if not cluster.reachable and cluster.first_chance_until and cluster.lost_at is not None:
            yield cluster.lost_at


def _rank(cluster: ClusterState, last: Opening | None) -> tuple[bool, datetime, str]:
    """Put the copy that waited longest first, and the one that had its turn in vain last."""
    copy = cluster.workload
    assert copy is not None
    assert copy.blocked_at is not None
    return last is not None and last.cluster == cluster.name, copy.blocked_at, cluster.name
