"""Views of Workloads for tests of the workload controller's rules."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from multiqueue.api.conditions import Reason
from multiqueue.api.v1beta2 import (
    AdmissionChecksStrategy,
    AdmissionCheckStrategyRule,
    ClusterQueue,
    ClusterQueueSpec,
    LocalQueue,
    LocalQueueSpec,
    ObjectMeta,
    Workload,
)
from multiqueue.controllers.workload.decide import decide
from multiqueue.controllers.workload.plan import NothingToDo, WorkloadPlan, WriteStatus
from multiqueue.controllers.workload.view import WorkloadSituation
from multiqueue.engine.pending_reasons import Explanation
from tests.builders.workloads import NAMESPACE, T0, with_status


def make_cluster_queue(*checks: str, deleted: bool = False, **spec: Any) -> ClusterQueue:
    strategy = AdmissionChecksStrategy(
        admission_checks=tuple(AdmissionCheckStrategyRule(name=name) for name in checks)
    )
    return ClusterQueue(
        metadata=ObjectMeta(name="cq", deletion_timestamp="t" if deleted else ""),
        spec=ClusterQueueSpec(admission_checks_strategy=strategy if checks else None, **spec),
    )


def make_local_queue(*, deleted: bool = False, **spec: Any) -> LocalQueue:
    return LocalQueue(
        metadata=ObjectMeta(
            name="lq", namespace=NAMESPACE, deletion_timestamp="t" if deleted else ""
        ),
        spec=LocalQueueSpec(cluster_queue="cq", **spec),
    )


def make_view(workload: Workload, **what: Any) -> WorkloadSituation:
    queue = make_cluster_queue()
    defaults: dict[str, Any] = {
        "local_queue": make_local_queue(),
        "cluster_queue": queue,
        "holding": queue if workload.status.admission else None,
        "now": T0,
    }
    return WorkloadSituation(workload=workload, **{**defaults, **what})


def because(reason: Reason, note: str = "why") -> Explanation:
    return Explanation(workload="team-a/wl", cluster_queue="cq", cause=reason, note=note)


def step(view: WorkloadSituation) -> WorkloadSituation:
    """The view after the write that is decided now; its condition list is the new one."""
    plan = decide(view)
    assert isinstance(plan, WriteStatus), plan
    return replace(view, workload=with_status(view.workload, plan.change(view)))


def is_done(plan: WorkloadPlan) -> bool:
    return isinstance(plan, NothingToDo)


def condition_of(view: WorkloadSituation, type_: str) -> tuple[str, str, str] | None:
    for condition in view.workload.status.conditions:
        if condition.type == type_:
            return (condition.status, condition.reason, condition.message)
    return None
