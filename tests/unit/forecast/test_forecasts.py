"""What dispatchers are told where the manager knows less, or where people wrote nonsense."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from multiqueue.api import v1beta2 as api
from multiqueue.api.names import PRICES, RUNTIME, SPEEDS
from multiqueue.api.serde import decode
from multiqueue.forecast.asked import Asking
from multiqueue.forecast.forecasts import NOT_READ, Forecasts
from multiqueue.model.build_workload import DEFAULT_OPTIONS, build_workload
from multiqueue.plugins import Basis, ClusterView, Prospect
from multiqueue.plugins.testing import make_cluster
from tests.unit.capacity.test_worker_state import FakeInformer, make_gpu_workload
from tests.unit.forecast.test_worker_forecast import NOW, Worker, view_of

ASKING = Asking(view_of("asking", 4), NOW)


class Manager:
    """As much of a manager as forecasts need, connected to one worker."""

    def __init__(self, worker: Worker | None = None) -> None:
        self.told: list[tuple[str, str]] = []
        self.workloads, self.multikueue_clusters = FakeInformer(), FakeInformer()
        self.resource_flavors = FakeInformer()
        found = worker.forecast if worker is not None else None
        self.fleet = SimpleNamespace(add_session_hook=id, find_part=lambda *_: found)
        context: Any = SimpleNamespace(
            informers=self,
            clock=SimpleNamespace(now=lambda: NOW),
            recorder=self,
            integrations=SimpleNamespace(find_by_gvk=lambda _: None),
        )
        self.forecasts = Forecasts(context, self.fleet, DEFAULT_OPTIONS)  # type: ignore[arg-type]

    def event(self, regarding: dict[str, str], kind: str, reason: str, message: str) -> None:
        self.told.append((regarding["kind"], message))

    def show(self, view: ClusterView, **annotations: str) -> ClusterView:
        metadata = {"name": view.name, "annotations": annotations}
        cluster = decode(api.MultiKueueCluster, {"metadata": metadata, "spec": {}})
        self.multikueue_clusters.put(cluster)
        return self.forecasts.complete_cluster(view, cluster, ASKING)


@pytest.mark.parametrize("connected", [False, True], ids=["no session", "not listed yet"])
def test_unknown_workloads_leave_the_figures_of_the_queue(connected: bool) -> None:
    worker = Worker() if connected else None
    if worker is not None:
        worker.others.is_synced = False
    found = Manager(worker).show(make_cluster("w", used=6)).forecast
    assert found is not None
    assert found.prospect is Prospect.WAITS
    assert found.reason.endswith(NOT_READ)


def test_a_cluster_that_cannot_be_used_is_not_asked() -> None:
    assert (
        Manager(Worker()).show(replace(make_cluster("w"), unusable="is cordoned")).forecast is None
    )


def test_prices_are_read_and_nonsense_is_told_once() -> None:
    manager = Manager(Worker())
    assert manager.show(make_cluster("w"), **{PRICES: "gpu=2.5"}).prices == {"gpu": 2500}
    for _ in range(2):
        assert manager.show(make_cluster("w"), **{PRICES: "cheap"}).prices == {}
    ((kind, words),) = manager.told
    assert kind == "MultiKueueCluster"
    assert f"metadata.annotations[{PRICES}]" in words


def test_a_workload_has_the_runtime_that_it_declares() -> None:
    manager = Manager()
    workload = make_gpu_workload("asking", 4)
    metadata = msgspec.structs.replace(workload.metadata, annotations={RUNTIME: "2h"})
    workload = msgspec.structs.replace(workload, metadata=metadata)
    shown = manager.forecasts.complete_workload(ASKING.view, workload).runtime
    assert shown is not None
    assert (shown.expected, shown.basis) == (timedelta(hours=2), Basis.DECLARED)


@pytest.mark.parametrize("tells", [True, False])
def test_nonsense_of_a_workload_that_is_not_there_is_not_told(tells: bool) -> None:
    manager = Manager()
    workload = make_gpu_workload("asking", 4)
    metadata = msgspec.structs.replace(workload.metadata, annotations={RUNTIME: "long"})
    workload = msgspec.structs.replace(workload, metadata=metadata)
    manager.forecasts.complete_workload(ASKING.view, workload, tells=tells)
    assert [kind for kind, _ in manager.told] == ["Workload"] * tells


def test_a_runtime_is_found_by_key_and_scaled_by_the_flavor_that_is_used() -> None:
    manager = Manager()
    workload = make_gpu_workload("a", gpus=1)
    workload.metadata.annotations.update({RUNTIME: "60m", SPEEDS: "h100=2"})
    manager.workloads.put(workload)
    key = workload.metadata.key
    waits = manager.forecasts.find_runtime(key, {})
    runs = manager.forecasts.find_runtime(key, {("h100", "nvidia.com/gpu"): 1})
    assert waits is not None
    assert runs is not None
    assert runs.expected == waits.expected / 2
    assert manager.forecasts.find_runtime("ns/nobody", {}) is None


def test_a_job_that_nobody_submitted_runs_for_as_long_as_it_declares() -> None:
    manager, imagined = Manager(), make_gpu_workload("a", gpus=1)
    imagined.metadata.annotations[RUNTIME] = "60m"
    assert manager.forecasts.find_expected_run(build_workload(imagined)) == 3600
