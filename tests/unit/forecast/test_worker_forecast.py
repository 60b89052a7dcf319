"""The replica follows a worker, and what was sent there counts before the worker says so."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from multiqueue.api import v1beta2 as api
from multiqueue.api.conditions import WorkloadCondition, find_condition
from multiqueue.api.names import RUNTIME, SPEEDS
from multiqueue.api.serde import decode
from multiqueue.api.v1beta2.meta import format_time
from multiqueue.api.workload_state import sync_admitted
from multiqueue.capacity.workload_view import build_workload_view
from multiqueue.forecast.asked import Asking
from multiqueue.forecast.history import RuntimeHistory
from multiqueue.forecast.node_informers import NodeInformers
from multiqueue.forecast.other_workload import read_other_workload
from multiqueue.forecast.worker_forecast import BACKLOG, INTENT, WorkerForecast
from multiqueue.model.build_workload import DEFAULT_OPTIONS
from multiqueue.observability.metrics import ManagerMetrics
from multiqueue.plugins import Forecast, Prospect, QueueView, WorkloadView
from tests.unit.capacity.test_worker_state import GPU, FakeInformer, make_gpu_workload

NOW = datetime(2026, 1, 1, tzinfo=UTC)
QUEUE = QueueView(name="cq")


class Worker:
    """A worker with one queue of eight GPUs."""

    def __init__(self) -> None:
        self.workloads, self.others, self.local_queues = (FakeInformer() for _ in range(3))
        self.cluster_queues, self.cohorts, self.flavors = (FakeInformer() for _ in range(3))
        nobody: Any = None  # nothing is sent
        self.nodes = NodeInformers(nobody, ManagerMetrics(), "w")
        self.now = NOW
        self.read: list[str] = []
        self.history = RuntimeHistory()
        self.forecast = self.connect()
        queue = {"metadata": {"name": "lq", "namespace": "ns"}, "spec": {"clusterQueue": "cq"}}
        self.local_queues.put(decode(api.LocalQueue, queue))
        flavor = {"metadata": {"name": "gpu"}, "spec": {"nodeLabels": {"model": "h100"}}}
        self.flavors.put(decode(api.ResourceFlavor, flavor))
        self.put_queue("8")

    def connect(self) -> WorkerForecast:
        return WorkerForecast(
            self,
            self.others,  # type: ignore[arg-type]
            self.nodes,
            self.history,
            find_traits=self.read.append,
            now=lambda: self.now,
            options=DEFAULT_OPTIONS,
        )

    def put_queue(self, quota: str) -> None:
        quotas = [{"name": "gpu", "resources": [{"name": GPU, "nominalQuota": quota}]}]
        groups = [{"coveredResources": [GPU], "flavors": quotas}]
        obj = {"metadata": {"name": "cq"}, "spec": {"resourceGroups": groups}}
        self.cluster_queues.put(decode(api.ClusterQueue, obj))

    def put_other(self, name: str, gpus: int, *, ended: bool = False, **annotations: str) -> None:
        workload = make_gpu_workload(name, gpus, reserved=True, ended=ended)
        metadata = msgspec.structs.replace(workload.metadata, annotations=annotations)
        seen = read_other_workload(
            msgspec.structs.replace(workload, metadata=metadata), DEFAULT_OPTIONS
        )
        # The fake store looks for keys where typed objects have them.
        self.others.objects[f"ns/{name}"] = seen
        for handler in self.others.handlers:
            handler(None, seen)

    def ask(self, gpus: int, name: str = "asking") -> Forecast:
        found = self.forecast.forecast(Asking(view_of(name, gpus), self.now), QUEUE)
        assert found is not None
        return found


def view_of(name: str, gpus: int) -> WorkloadView:
    return build_workload_view(
        make_gpu_workload(name, gpus), kind="", find_flavor=lambda _: None, options=DEFAULT_OPTIONS
    )


def test_everybodys_workloads_count_until_they_end() -> None:
    worker = Worker()
    assert worker.ask(8).prospect is Prospect.FITS
    worker.put_other("theirs", 4)
    worker.workloads.put(make_gpu_workload("ours", 2, reserved=True))
    assert worker.ask(4).prospect is Prospect.WAITS
    assert worker.ask(2).prospect is Prospect.FITS
    worker.put_other("theirs", 4, ended=True)
    worker.workloads.drop("ns/ours")
    assert worker.ask(8).prospect is Prospect.FITS


def test_a_copy_is_read_once_however_often_it_changed() -> None:
    worker = Worker()
    for reserved in (False, False, True):
        worker.workloads.put(make_gpu_workload("ours", 6, reserved=reserved))
    assert worker.read == []
    assert worker.ask(4).prospect is Prospect.WAITS
    assert worker.read == ["ns/ours"]


def test_copies_that_nobody_asked_about_do_not_pile_up() -> None:
    worker = Worker()
    for i in range(BACKLOG):
        worker.workloads.put(make_gpu_workload(f"ours-{i}", 1))
    assert len(worker.read) == BACKLOG


def test_a_copy_that_is_gone_again_counts_no_more() -> None:
    worker = Worker()
    worker.workloads.put(make_gpu_workload("ours", 8, reserved=True))
    worker.workloads.drop("ns/ours")
    assert worker.ask(8).prospect is Prospect.FITS


def test_what_was_sent_counts_for_a_while() -> None:
    worker = Worker()
    worker.forecast.assume(view_of("sent", 8), QUEUE)
    assert worker.ask(4).prospect is Prospect.WAITS
    worker.now += INTENT + timedelta(seconds=1)
    assert worker.ask(4).prospect is Prospect.FITS


def test_what_was_sent_elsewhere_counts_no_more() -> None:
    worker = Worker()
    worker.forecast.assume(view_of("sent", 8), QUEUE)
    worker.forecast.forget("ns/sent")
    assert worker.ask(8).prospect is Prospect.FITS


def test_another_session_counts_what_was_sent_before_it() -> None:
    worker = Worker()
    worker.forecast.assume(view_of("sent", 8), QUEUE)
    before, worker.forecast = worker.forecast, worker.connect()
    for informer in (worker.flavors, worker.cluster_queues, worker.local_queues):
        for obj in list(informer.objects.values()):
            informer.put(obj)
    worker.forecast.take_over(before)
    assert worker.ask(4).prospect is Prospect.WAITS
    worker.now += INTENT + timedelta(seconds=1)
    assert worker.ask(4).prospect is Prospect.FITS


def test_a_queue_that_cannot_be_read_has_no_forecast() -> None:
    worker = Worker()
    worker.put_queue("lots")
    assert worker.forecast.forecast(Asking(view_of("asking", 1), NOW), QUEUE) is None


def test_who_runs_ends_as_declared_on_the_hardware_that_it_has() -> None:
    worker = Worker()
    worker.put_other("theirs", 8, **{RUNTIME: "4h", SPEEDS: "h100=2"})
    start = worker.ask(8).start
    assert start is not None
    assert timedelta(hours=1.8) < start.at - NOW < timedelta(hours=2.2)
    assert start.ahead == 0


def test_who_waits_before_it_is_counted() -> None:
    worker = Worker()
    worker.put_other("theirs", 8, **{RUNTIME: "1h"})
    worker.workloads.put(make_gpu_workload("first", 8))
    worker.now += timedelta(seconds=1)
    start = worker.ask(8).start
    assert start is not None
    assert start.ahead == 1
    assert start.latest > NOW + timedelta(hours=1)


def test_it_is_known_once_everybody_was_listed() -> None:
    worker = Worker()
    assert worker.forecast.is_known
    worker.others.is_synced = False
    assert not worker.forecast.is_known


def test_checks_come_after_the_quota_and_take_as_long_as_they_took() -> None:
    worker = Worker()
    queue = replace(QUEUE, checks=("machines",))

    def ask() -> Forecast:
        found = worker.forecast.forecast(Asking(view_of("asking", 1), worker.now), queue)
        assert found is not None
        return found

    assert (ask().prospect, ask().start) == (Prospect.FITS, None)
    for number in range(3):
        copy = make_gpu_workload(f"copy-{number}", 1, reserved=True)
        check = api.AdmissionCheckState(
            name="machines", state="Ready", message="", last_transition_time=format_time(NOW)
        )
        reserved = find_condition(copy.status.conditions, WorkloadCondition.QUOTA_RESERVED)
        assert reserved is not None
        status = msgspec.structs.replace(copy.status, admission_checks=(check,))
        status = sync_admitted(status, now=reserved.transitioned_at + timedelta(minutes=4))
        metadata = msgspec.structs.replace(copy.metadata, uid=f"uid-{number}")
        worker.workloads.put(msgspec.structs.replace(copy, metadata=metadata, status=status))
    start = ask().start
    assert start is not None
    assert start.at - worker.now == timedelta(minutes=4)
