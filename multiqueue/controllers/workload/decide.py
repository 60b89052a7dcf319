"""The next step for a Workload: the first rule that matches decides. Pure.

The order is that of E-109: first Workloads that have ended, then whether a Workload may queue, then
those that hold quota, last why the others wait.
"""

from __future__ import annotations

from collections.abc import Callable

from multiqueue.controllers.workload import lifecycle, pending, reserved
from multiqueue.controllers.workload.plan import NothingToDo, WorkloadPlan
from multiqueue.controllers.workload.view import WorkloadSituation

Rule = Callable[[WorkloadSituation], WorkloadPlan | None]

RULES: tuple[Rule, ...] = (
    lifecycle.end_orphan,
    lifecycle.keep_finished,
    lifecycle.leave_deleted,
    lifecycle.end_replaced,
    lifecycle.clear_active,
    # Before the rule for inactive Workloads, which leaves an evicted one alone.
    reserved.end_ownerless_eviction,
    # Also for inactive Workloads: they come back with the present priority.
    lifecycle.follow_class,
    lifecycle.evict_inactive,
    lifecycle.end_backoff,
    lifecycle.sync_gates,
    reserved.restart_broken,
    # Checks evict only after the list is up to date: a removed check evicts nobody.
    reserved.sync_admission,
    reserved.reject,
    reserved.retry,
    reserved.obey_local_queue,
    reserved.obey_cluster_queue,
    reserved.await_pods,
    reserved.limit_execution,
    pending.explain_pending,
)


def decide(view: WorkloadSituation) -> WorkloadPlan:
    """Return the next step."""
    for rule in RULES:
        plan = rule(view)
        if plan is not None:
            return plan
    timers = [
        lifecycle.backoff_left(view),
        pending.recheck_after(view),
        reserved.limits_left(view),
    ]
    return NothingToDo(requeue_after=min((t for t in timers if t is not None), default=None))
