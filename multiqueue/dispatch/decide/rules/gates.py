"""Orchestrated preemption: one cluster at a time may preempt for a Workload (I-9).

Copies are made with a gate that is closed. A worker that could run its copy only by preempting says
so and waits for the gate. What was opened, and when, is read from the copies, so it survives the
manager. Parity: M-93, M-180 to M-185.
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
    """Let the copy preempt that has waited longest; another one when it had its time (M-181).

    Nomination goes on beside it: a worker whose gate cannot be opened holds up nobody.
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
        # It is closed still: the request was lost, or refused.
        return replace(plan, steps=(*plan.steps, OpenGate(cluster=last.cluster, at=last.at)))
    return plan


def _is_blocked(cluster: ClusterState, local: LocalWorkload) -> bool:
    """Whether the closed gate keeps a copy from preempting that may win."""
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
    """List when a cluster got leave to preempt, or may have got it without our knowing.

    A manager that was started again cannot see the copies on workers it has not reached yet; the
    last moment at which their gates could be opened is the one at which they were lost.
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
    """Put the one that waited longest first, and one that had its turn in vain last."""
    copy = cluster.workload
    assert copy is not None
    assert copy.blocked_at is not None
    return last is not None and last.cluster == cluster.name, copy.blocked_at, cluster.name
