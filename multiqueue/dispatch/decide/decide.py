"""Chooses the plan for one Workload: sweeps first, then the first rule that answers.

Sweeps name objects that must go whatever the rules decide. They are removed side by side, cluster
by cluster, so that a cluster that cannot be cleaned does not delay the others (M-95). For the
rules, these objects are being removed: they never win, but a job among them may still run until it
is gone.

Rules (order is normative, M-80 to M-95):

| rule | answers when |
|---|---|
| ignore | MultiKueue has no part in the Workload |
| hand_over | a larger slice of its job took over |
| delete | it is gone, or being deleted |
| clean_up | it finished, or has no quota |
| finish | a copy finished |
| evict | it was evicted here: its job is stopped before the quota is released |
| reject | its job cannot be dispatched |
| drain | its cluster is being drained and it is its turn |
| take_over | it took over from a slice whose job runs |
| follow | a cluster holds the latch; a Workload whose worker is lost for too long is queued again |
| choose | a copy is admitted |
| open_gate | a copy waits for permission to preempt |
| forget | the check is Ready and nothing runs |
| nominate | otherwise: offer it |
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

from multiqueue.dispatch.decide.cluster_state import GroupConfig
from multiqueue.dispatch.decide.plan import NOTHING, GroupPlan, Removal
from multiqueue.dispatch.decide.rules.choose_winner import choose
from multiqueue.dispatch.decide.rules.delete import clean_up, delete
from multiqueue.dispatch.decide.rules.drain import drain
from multiqueue.dispatch.decide.rules.end_eviction import evict
from multiqueue.dispatch.decide.rules.finish import finish
from multiqueue.dispatch.decide.rules.follow import follow
from multiqueue.dispatch.decide.rules.forget import forget
from multiqueue.dispatch.decide.rules.gates import open_gate
from multiqueue.dispatch.decide.rules.ignore import ignore
from multiqueue.dispatch.decide.rules.nominate import nominate
from multiqueue.dispatch.decide.rules.reject import reject
from multiqueue.dispatch.decide.rules.slices import hand_over, take_over
from multiqueue.dispatch.decide.rules.sweep import sweep
from multiqueue.dispatch.decide.view import GroupView

Rule = Callable[[GroupView, GroupConfig, datetime], GroupPlan | None]

RULES: tuple[Rule, ...] = (
    ignore,  # first: a Workload without MultiKueue is never touched
    hand_over,  # before delete and clean_up: the job belongs to another slice by now
    delete,
    clean_up,  # before finish: a finished Workload is cleaned up, not finished again
    finish,  # before evict: an existing result is not thrown away for an eviction
    evict,  # before follow: the eviction has cleared the latch, but a job may still run
    reject,
    drain,  # before follow: it must leave although it is in step
    take_over,  # before follow: it has a latch from the start, and no copy yet
    follow,  # before choose: the latch decides, even if another copy was admitted earlier
    choose,
    open_gate,  # before nominate, whose plan it includes
    forget,
    nominate,
)


def decide(view: GroupView, config: GroupConfig, now: datetime) -> GroupPlan:
    """Return what to do about one Workload now.

    The same view, configuration and time give the same plan. Cost: clusters times rules.
    """
    removals = sweep(view)
    seen = view.condemn({removal.cluster: removal.why for removal in removals})
    for rule in RULES:
        plan = rule(seen, config, now)
        if plan is not None:
            return replace(plan, rule=rule.__name__, removals=_merge(removals, plan.removals))
    return replace(NOTHING, removals=removals)


def _merge(swept: tuple[Removal, ...], wanted: tuple[Removal, ...]) -> tuple[Removal, ...]:
    named = {removal.cluster for removal in swept}
    return (*swept, *(removal for removal in wanted if removal.cluster not in named))
