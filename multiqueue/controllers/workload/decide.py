"""What to do next about a Workload: the first rule that has an answer gives it. Pure.

The order is that of E-109: what is over comes first, then who may queue, then what holds quota,
last why the others wait.
"""

from __future__ import annotations

from collections.abc import Callable

from multiqueue.controllers.workload import gates, lifecycle, pending, reserved
from multiqueue.controllers.workload.plan import NothingToDo, WorkloadPlan
from multiqueue.controllers.workload.view import WorkloadSituation

Rule = Callable[[WorkloadSituation], WorkloadPlan | None]

RULES: tuple[Rule, ...] = (
    lifecycle.end_orphan,
    lifecycle.keep_finished,
    lifecycle.leave_deleted,
    lifecycle.end_replaced,
    lifecycle.clear_active,
    lifecycle.evict_inactive,
    lifecycle.end_backoff,
    lifecycle.follow_class,
    gates.sync_gates,
    reserved.restart_broken,
    # Evictions by checks come after the list is right: a check that was removed evicts nobody.
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
