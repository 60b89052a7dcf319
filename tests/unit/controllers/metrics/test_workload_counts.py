"""Gauges of Workloads by state."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from multiqueue.api.conditions import Reason
from multiqueue.api.config import build_configuration
from multiqueue.api.v1beta2 import LocalQueue, LocalQueueSpec
from multiqueue.api.v1beta2.meta import ObjectMeta
from multiqueue.api.workload_state import finish, set_pending
from multiqueue.controllers.metrics.workload_counts import WorkloadCounts
from multiqueue.jobs.context import ManagerContext
from multiqueue.observability.metrics import ManagerMetrics
from tests.builders.workloads import (
    NAMESPACE,
    admitted,
    make_workload,
    minutes,
    reserved,
    with_status,
)


class Counted:
    """Counts of a manager with one LocalQueue, "lq" of ClusterQueue "cq"."""

    def __init__(self, **config: Any) -> None:
        self.metrics = ManagerMetrics()
        queue = LocalQueue(
            metadata=ObjectMeta(name="lq", namespace=NAMESPACE),
            spec=LocalQueueSpec(cluster_queue="cq"),
        )
        context: Any = SimpleNamespace(
            metrics=self.metrics,
            config=build_configuration(config),
            informers=SimpleNamespace(
                local_queues=SimpleNamespace(store={queue.metadata.key: queue}), workloads=None
            ),
        )
        counts = WorkloadCounts(cast("ManagerContext", context), {f"{NAMESPACE}/lq": "cq"}.get)
        self.tell = counts.on_workload

    def unadmitted(self, reason: str, cause: str) -> float | None:
        return self._value(
            "kueue_unadmitted_workloads",
            cluster_queue="cq",
            reason=reason,
            underlying_cause=cause,
        )

    def finished(self) -> float | None:
        return self._value("kueue_finished_workloads", cluster_queue="cq")

    def _value(self, name: str, **labels: str) -> float | None:
        return self.metrics.registry.get_sample_value(
            name, {"replica_role": "standalone", **labels}
        )


def test_a_workload_is_counted_once_wherever_it_stands() -> None:
    counted = Counted()
    new = make_workload()
    waiting = with_status(
        new, set_pending(new.status, reason=Reason.WAITING_FOR_QUOTA, message="", now=minutes(1))
    )
    counted.tell(None, new)
    assert counted.unadmitted("NoReservation", "PendingEvaluation") == 1
    counted.tell(new, waiting)
    counted.tell(waiting, waiting)
    assert counted.unadmitted("NoReservation", "PendingEvaluation") == 0
    assert counted.unadmitted("NoReservation", "WaitingForQuota") == 1
    holds = reserved(new, at=minutes(2))
    counted.tell(waiting, holds)
    assert counted.unadmitted("NoReservation", "WaitingForQuota") == 0
    runs = admitted(new, at=minutes(3))
    counted.tell(holds, runs)
    done = with_status(runs, finish(runs.status, Reason.SUCCEEDED, "done", now=minutes(4)))
    counted.tell(runs, done)
    assert counted.finished() == 1
    counted.tell(done, None)
    assert counted.finished() == 0


def test_the_gate_switches_the_reasons_off() -> None:
    counted = Counted(featureGates={"UnadmittedWorkloadsObservability": False})
    counted.tell(None, make_workload())
    assert counted.unadmitted("NoReservation", "PendingEvaluation") is None


def test_a_gauge_and_a_counter_of_one_name_are_both_shown() -> None:
    counted = Counted()
    counted.metrics.finished_workloads.child("cq").set(3)
    counted.metrics.finished_workloads_total.child("cq", "").inc(7)
    value = counted.metrics.registry.get_sample_value
    labels = {"cluster_queue": "cq", "replica_role": "standalone"}
    assert value("kueue_finished_workloads", labels) == 3
    assert value("kueue_finished_workloads_total", {**labels, "priority_class": ""}) == 7
