"""Gauges of phases, and of who has waited longest."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import msgspec

from multiqueue.api.v1beta2 import Workload
from multiqueue.controllers.metrics.phase_counts import PhaseCounts
from multiqueue.jobs.context import ManagerContext
from multiqueue.observability.metrics import ManagerMetrics
from tests.builders.workloads import NAMESPACE, admitted, make_workload, minutes


class Counted:
    """Counts of a manager with one LocalQueue, "lq" of ClusterQueue "cq"."""

    def __init__(self) -> None:
        self.now = minutes(0)
        self.metrics = ManagerMetrics()
        context: Any = SimpleNamespace(
            metrics=self.metrics,
            clock=SimpleNamespace(now=lambda: self.now),
            informers=SimpleNamespace(workloads=None),
        )
        counts = PhaseCounts(cast("ManagerContext", context), {f"{NAMESPACE}/lq": "cq"}.get)
        self.tell = counts.on_workload

    def value(self, name: str, **labels: str) -> float | None:
        return self.metrics.registry.get_sample_value(
            name, {"replica_role": "standalone", "cluster_queue": "cq", **labels}
        )

    def phase(self, phase: str) -> float | None:
        return self.value("multiqueue_phase_workloads", phase=phase)

    def oldest(self) -> float | None:
        return self.value("multiqueue_oldest_waiting_seconds")


def waiting(name: str, created: int) -> Workload:
    workload = make_workload(name)
    at = minutes(created).strftime("%Y-%m-%dT%H:%M:%SZ")
    metadata = msgspec.structs.replace(workload.metadata, uid=name, creation_timestamp=at)
    return msgspec.structs.replace(workload, metadata=metadata)


def test_a_workload_moves_from_phase_to_phase() -> None:
    counted = Counted()
    new = waiting("a", 0)
    runs = admitted(new, on="cq", at=minutes(1))
    counted.tell(None, new)
    counted.tell(None, new)  # the component was started again
    assert counted.phase("Queued") == 1
    counted.tell(new, runs)
    assert (counted.phase("Queued"), counted.phase("Admitted")) == (0, 1)
    counted.tell(runs, None)
    assert counted.phase("Admitted") == 0


def test_the_longest_wait_is_that_of_who_waits_still() -> None:
    counted = Counted()
    first, second = waiting("first", 0), waiting("second", 10)
    counted.tell(None, second)
    counted.tell(None, first)
    counted.now = minutes(30)
    assert counted.oldest() == 30 * 60
    counted.tell(first, admitted(first, on="cq", at=minutes(30)))
    assert counted.oldest() == 20 * 60
    counted.tell(second, None)
    assert counted.oldest() == 0


def test_who_waits_again_has_waited_since_its_creation() -> None:
    counted = Counted()
    new = waiting("a", 0)
    runs = admitted(new, on="cq", at=minutes(1))
    counted.tell(None, new)
    counted.tell(new, runs)
    counted.tell(runs, new)
    counted.now = minutes(5)
    assert counted.oldest() == 5 * 60
