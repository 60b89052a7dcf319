"""Metrics per worker, from what happens to Workloads on the manager."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from multiqueue.api.conditions import CheckState
from multiqueue.api.v1beta2 import Workload
from multiqueue.dispatch.decide.cluster_state import ClusterState
from multiqueue.dispatch.decide.plan import SetCheck
from multiqueue.dispatch.worker_metrics import Rejection, WorkerFigures, classify
from multiqueue.observability.metrics import ManagerMetrics
from tests.unit.cli.builders import T0, condition, make_workload
from tests.unit.dispatch import builders as rules

HOLDS = {"queue": "cq", "flavor": "a100"}


def make_check(state: str, message: str = "") -> dict[str, str]:
    return {"name": "mk", "state": state, "message": message, "lastTransitionTime": "-"}


def reserving(check: str = "Pending", message: str = "", **status: Any) -> Workload:
    checks = [make_check(check, message)]
    return make_workload(
        "w", condition("QuotaReserved"), admission=HOLDS, admissionChecks=checks, **status
    )


class Kind:
    """An informer of a test: it knows some objects, and is told of changes by hand."""

    def __init__(self, *objects: Any) -> None:
        self.store = SimpleNamespace(list=lambda: list(objects))
        self.settled = asyncio.Event()
        self.settled.set()
        self.tell: Callable[[Any, Any], None] = lambda _old, _new: None

    def add_handler(self, handler: Callable[[Any, Any], None]) -> None:
        self.tell = handler


@asynccontextmanager
async def figures(*known: Workload) -> AsyncIterator[tuple[ManagerMetrics, Kind, Kind]]:
    """What a manager that leads counts, with these Workloads from before."""
    workloads, clusters, metrics = Kind(*known), Kind(), ManagerMetrics(role="leader")
    context: Any = SimpleNamespace(
        metrics=metrics,
        clock=SimpleNamespace(now=lambda: T0),
        informers=SimpleNamespace(workloads=workloads, multikueue_clusters=clusters),
    )
    task = asyncio.create_task(WorkerFigures(context).run())
    await asyncio.sleep(0)
    try:
        yield metrics, workloads, clusters
    finally:
        task.cancel()
        await asyncio.wait({task})


def value(metrics: ManagerMetrics, name: str, **labels: str) -> float:
    found = metrics.registry.get_sample_value(name, {**labels, "replica_role": "leader"})
    return found or 0.0


OFFERED = reserving(nominatedClusterNames=["w1", "w2"])
TAKEN = reserving("Ready", clusterName="w1")
RUNNING = "multiqueue_worker_running_workloads"
WAITING = "multiqueue_worker_offered_workloads"
WASTED = "multiqueue_worker_wasted_copies_total"


async def test_the_loser_of_a_race_is_wasted_and_the_winner_timed() -> None:
    async with figures() as (metrics, workloads, _):
        workloads.tell(None, OFFERED)
        assert value(metrics, WAITING, cluster="w1") == value(metrics, WAITING, cluster="w2") == 1
        workloads.tell(OFFERED, TAKEN)
        assert value(metrics, WAITING, cluster="w2") == 0
        assert value(metrics, RUNNING, cluster="w1") == 1
        assert value(metrics, WASTED, cluster="w2", cluster_queue="cq") == 1
        assert value(metrics, WASTED, cluster="w1", cluster_queue="cq") == 0
        total = "multiqueue_worker_admission_seconds_sum"
        assert value(metrics, total, cluster="w1", cluster_queue="cq") == 60
        workloads.tell(TAKEN, make_workload("w", condition("Finished"), clusterName="w1"))
        assert value(metrics, RUNNING, cluster="w1") == 0


async def test_what_was_there_before_is_counted_once() -> None:
    async with figures(TAKEN) as (metrics, workloads, _):
        assert value(metrics, RUNNING, cluster="w1") == 1
        workloads.tell(TAKEN, TAKEN)
        assert value(metrics, RUNNING, cluster="w1") == 1
        workloads.tell(TAKEN, None)
        assert value(metrics, RUNNING, cluster="w1") == 0


async def test_what_a_worker_gave_up_is_counted_by_reason_until_the_worker_is_deleted() -> None:
    lost = reserving("Retry", 'Cluster "w1" has been out of reach for 15m', clusterName="w1")
    async with figures() as (metrics, workloads, clusters):
        workloads.tell(None, TAKEN)
        workloads.tell(TAKEN, lost)
        workloads.tell(lost, lost)
        name = "multiqueue_worker_rejections_total"
        labels = {"cluster": "w1", "cluster_queue": "cq", "reason": "Lost"}
        assert value(metrics, name, **labels) == 1
        clusters.tell(SimpleNamespace(metadata=SimpleNamespace(name="w1")), None)
        assert value(metrics, name, **labels) == 0


STOPPED = rules.make_copy(evicted_at=rules.T0, evicted_why="Preempted")
OUT_OF_SYNC = rules.make_copy(finished=rules.make_finish("OutOfSync"))


@pytest.mark.parametrize(
    ("cluster", "reason"),
    [
        (
            rules.make_cluster("w1", workload=STOPPED, job=rules.make_remote_job()),
            Rejection.EVICTED,
        ),
        (rules.make_cluster("w1"), Rejection.DELETED),
        (rules.make_lost("w1", ago=rules.minutes(60)), Rejection.LOST),
        (rules.make_cluster("w1", workload=OUT_OF_SYNC), Rejection.OUT_OF_SYNC),
    ],
    ids=lambda value: str(value) if isinstance(value, Rejection) else "",
)
def test_the_words_of_the_rules_are_known(cluster: ClusterState, reason: Rejection) -> None:
    plan = rules.make_plan(rules.make_ready("w1"), cluster)
    (step,) = (step for step in plan.steps if isinstance(step, SetCheck))
    assert (step.state, classify(step.message)) == (CheckState.RETRY, reason)


def test_other_words_are_other() -> None:
    assert classify("somebody set it") is Rejection.OTHER
