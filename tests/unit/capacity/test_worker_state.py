"""What is on its way to a worker counts before the worker says so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from multiqueue.api import v1beta2 as api
from multiqueue.api.serde import decode
from multiqueue.capacity.worker_state import INTENT_SECONDS, SETTLE_SECONDS, WorkerState
from multiqueue.capacity.workload_view import build_workload_view
from multiqueue.model.build_workload import DEFAULT_OPTIONS
from multiqueue.plugins import QueueView

GPU = "nvidia.com/gpu"
PAIR = ("gpu", GPU)


class FakeInformer:
    """A store and handlers, fed by the test."""

    def __init__(self) -> None:
        self.store = self
        self.objects: dict[str, Any] = {}
        self.handlers: list[Callable[[Any, Any], None]] = []
        self.is_synced = True
        self.available = True
        self.synced = self

    def is_set(self) -> bool:
        return self.is_synced

    def add_handler(self, handler: Callable[[Any, Any], None]) -> None:
        self.handlers.append(handler)

    def get(self, key: str) -> Any:
        return self.objects.get(key)

    def put(self, obj: Any) -> None:
        old = self.objects.get(obj.metadata.key)
        self.objects[obj.metadata.key] = obj
        for handler in self.handlers:
            handler(old, obj)

    def drop(self, key: str) -> None:
        old = self.objects.pop(key)
        for handler in self.handlers:
            handler(old, None)


class Worker:
    """A worker with one queue of eight GPUs."""

    def __init__(self) -> None:
        self.workloads, self.local_queues, self.cluster_queues, self.cohorts, self.flavors = (
            FakeInformer() for _ in range(5)
        )
        self.now = 100.0
        self.changes = 0
        self.timers: list[tuple[float, Callable[[], None]]] = []
        self.state = WorkerState(
            self,
            on_change=self._on_change,
            monotonic=lambda: self.now,
            call_at=lambda when, call: self.timers.append((when, call)),
            options=DEFAULT_OPTIONS,
        )
        queue = {"metadata": {"name": "lq", "namespace": "ns"}, "spec": {"clusterQueue": "cq"}}
        self.local_queues.put(decode(api.LocalQueue, queue))
        self.set_used(0)

    def _on_change(self) -> None:
        self.changes += 1

    def wait(self, seconds: float) -> None:
        self.now += seconds
        due = [call for when, call in self.timers if when <= self.now]
        self.timers = [timer for timer in self.timers if timer[0] > self.now]
        for call in due:
            call()

    def set_used(self, used: int, *, nominal: int = 8, cohort: str = "", name: str = "cq") -> None:
        quotas = [{"name": "gpu", "resources": [{"name": GPU, "nominalQuota": nominal}]}]
        usage = [{"name": "gpu", "resources": [{"name": GPU, "total": used}]}]
        spec = {
            "resourceGroups": [{"coveredResources": [GPU], "flavors": quotas}],
            "cohortName": cohort,
        }
        status = {"flavorsReservation": usage}
        obj = {"metadata": {"name": name}, "spec": spec, "status": status}
        self.cluster_queues.put(decode(api.ClusterQueue, obj))

    def put_copy(
        self, name: str, gpus: int, *, reserved: bool = False, ended: bool = False
    ) -> None:
        self.workloads.put(make_gpu_workload(name, gpus, reserved=reserved, ended=ended))

    def intend(self, name: str, gpus: int) -> None:
        view = build_workload_view(
            make_gpu_workload(name, gpus),
            kind="",
            find_flavor=lambda _: None,
            options=DEFAULT_OPTIONS,
        )
        self.state.intend(view)

    def see(self, *, without: str = "ns/asking") -> QueueView:
        view = self.state.queue_view("ns", "lq", without=without)
        assert view is not None
        return view

    def free(self, **fields: Any) -> int:
        return self.see(**fields).quotas[PAIR].free


def make_gpu_workload(
    name: str, gpus: int, *, reserved: bool = False, ended: bool = False
) -> api.Workload:
    container = {"name": "c", "resources": {"requests": {GPU: str(gpus)}}}
    pod_set = {"name": "main", "count": 1, "template": {"spec": {"containers": [container]}}}
    moment = "2026-01-01T00:00:00Z"
    types = ["QuotaReserved"] * (reserved or ended) + ["Finished"] * ended
    conditions = [
        {"type": t, "status": "True", "reason": "r", "message": "", "lastTransitionTime": moment}
        for t in types
    ]
    usage = {"name": "main", "flavors": {GPU: "gpu"}, "resourceUsage": {GPU: str(gpus)}}
    admission = {"clusterQueue": "cq", "podSetAssignments": [usage]}
    return decode(
        api.Workload,
        {
            "metadata": {"name": name, "namespace": "ns", "creationTimestamp": moment},
            "spec": {"queueName": "lq", "podSets": [pod_set]},
            "status": {"conditions": conditions, **({"admission": admission} if types else {})},
        },
    )


@pytest.fixture
def worker() -> Worker:
    return Worker()


def test_a_queue_that_is_not_there_is_none(worker):
    assert worker.state.queue_view("ns", "other", without="") is None
    worker.cluster_queues.drop("cq")
    assert worker.state.queue_view("ns", "lq", without="") is None


def test_queues_that_may_not_be_read_are_unknown(worker):
    assert worker.state.is_known
    worker.cluster_queues.is_synced = False
    assert not worker.state.is_known


def test_a_worker_without_cohorts_is_known_all_the_same(worker):
    worker.cohorts.is_synced, worker.cohorts.available = False, False
    assert worker.state.is_known


def test_a_nomination_counts_at_once(worker):
    worker.intend("a", 6)
    assert worker.free() == 2
    worker.intend("b", 2)
    assert worker.free() == 0


def test_its_copy_counts_in_its_place_and_only_once(worker):
    assert worker.free() == 8
    worker.intend("a", 6)
    worker.put_copy("a", 6)
    assert worker.free() == 2
    assert worker.state.count_copies(without="") == (0, 1)


def test_a_nomination_without_copy_is_forgotten_in_time(worker):
    worker.intend("a", 6)
    assert worker.free() == 2
    worker.now += INTENT_SECONDS + 1
    assert worker.free() == 8


def test_that_a_nomination_without_copy_is_forgotten_is_told(worker):
    worker.intend("a", 6)
    worker.intend("b", 2)
    worker.changes = 0
    worker.now += INTENT_SECONDS
    assert worker.free() == 8  # who asks at that moment takes the news from nobody
    worker.wait(0)
    assert (worker.changes, worker.timers) == (1, [])


def test_a_nomination_begun_anew_is_waited_for_again(worker):
    worker.intend("a", 6)
    worker.wait(INTENT_SECONDS / 2)
    worker.intend("a", 6)
    worker.changes = 0
    worker.wait(INTENT_SECONDS / 2)
    assert (worker.changes, worker.free()) == (0, 2)
    worker.wait(INTENT_SECONDS / 2)
    assert (worker.changes, worker.free()) == (1, 8)


def test_a_copy_that_goes_before_it_got_quota_gives_its_room_back(worker):
    worker.put_copy("a", 6)
    worker.changes = 0
    worker.workloads.drop("ns/a")
    assert (worker.changes, worker.free()) == (1, 8)


def test_a_nomination_elsewhere_is_forgotten_at_once(worker):
    worker.intend("a", 6)
    assert worker.free() == 2
    worker.state.forget_intent("ns/a")
    assert worker.free() == 8


def test_a_copy_that_got_quota_counts_until_the_status_says_so(worker):
    worker.put_copy("a", 6)
    worker.put_copy("a", 6, reserved=True)
    assert worker.free() == 2
    worker.set_used(6)
    assert worker.free() == 2
    assert worker.state.count_copies(without="") == (1, 0)


def test_it_does_not_count_twice_for_long_whatever_order_the_news_have(worker):
    worker.put_copy("a", 3)
    worker.set_used(3)
    worker.put_copy("a", 3, reserved=True)
    worker.now += SETTLE_SECONDS + 0.1
    assert worker.free() == 5


def test_what_does_not_fit_is_backlog(worker):
    worker.set_used(6)
    worker.put_copy("a", 4)
    view = worker.see()
    assert (view.quotas[PAIR].free, view.backlog) == (2, {GPU: 4})


def test_its_own_copy_is_not_in_the_way_of_the_workload_that_asks(worker):
    worker.put_copy("asking", 6)
    assert worker.free() == 8
    worker.put_copy("asking", 6, reserved=True)
    worker.set_used(6)
    assert worker.free() == 8
    assert worker.free(without="ns/other") == 2


def test_what_ended_or_went_does_not_count(worker):
    worker.put_copy("a", 6)
    worker.put_copy("a", 6, ended=True)
    worker.put_copy("b", 2)
    worker.workloads.drop("ns/b")
    assert worker.free() == 8
    assert worker.state.count_copies(without="") == (0, 0)


def test_of_a_burst_each_is_counted_before_its_copy_shows_up(worker):
    worker.put_copy("a", 1)
    worker.intend("b", 1)
    worker.intend("b", 1)
    worker.put_copy("c", 1, reserved=True)
    assert worker.state.count_copies(without="ns/asking") == (1, 2)
    assert worker.state.count_neighbours("ns", "lq", without="ns/asking") == 3
    worker.now += INTENT_SECONDS
    assert worker.state.count_copies(without="ns/asking") == (1, 1)
    assert worker.state.count_neighbours("ns", "lq", without="ns/asking") == 2


def test_the_workload_that_asks_is_not_counted(worker):
    worker.put_copy("a", 1)
    worker.intend("b", 1)
    worker.put_copy("c", 1, reserved=True)
    for name, counts in {"a": (1, 1), "b": (1, 1), "c": (0, 2)}.items():
        assert worker.state.count_copies(without=f"ns/{name}") == counts
        assert worker.state.count_neighbours("ns", "lq", without=f"ns/{name}") == 2


def test_neighbours_are_the_unfinished_copies_of_the_same_local_queue(worker):
    worker.put_copy("a", 1)
    worker.put_copy("b", 1, reserved=True)
    worker.put_copy("c", 1)
    worker.put_copy("c", 1, ended=True)
    assert worker.state.count_neighbours("ns", "lq", without="ns/asking") == 2
    assert worker.state.count_neighbours("ns", "lq", without="ns/a") == 1
    assert worker.state.count_neighbours("ns", "other", without="ns/a") == 0
    worker.workloads.drop("ns/b")
    assert worker.state.count_neighbours("ns", "lq", without="ns/a") == 0


def test_changes_of_room_are_told_and_others_are_not(worker):
    before = worker.changes
    worker.set_used(0)
    assert worker.changes == before
    worker.set_used(1)
    flavor = {"metadata": {"name": "gpu"}, "spec": {"nodeLabels": {"a": "b"}}}
    worker.flavors.put(decode(api.ResourceFlavor, flavor))
    worker.flavors.put(decode(api.ResourceFlavor, flavor))
    worker.cohorts.put(decode(api.Cohort, {"metadata": {"name": "c"}}))
    queue = {"metadata": {"name": "lq", "namespace": "ns"}, "spec": {"clusterQueue": "other"}}
    worker.local_queues.put(decode(api.LocalQueue, queue))
    assert worker.changes == before + 4


def test_a_cohort_lends_what_its_other_queues_do_not_use(worker):
    worker.set_used(8, cohort="c")
    assert worker.free() == 0
    worker.set_used(2, cohort="c", name="other")
    assert worker.free() == 6
    worker.cluster_queues.drop("other")
    assert worker.free() == 0
    worker.cohorts.put(decode(api.Cohort, {"metadata": {"name": "c"}}))
    worker.cohorts.drop("c")
    assert worker.free() == 0


def test_a_new_flavor_shows_in_the_queue(worker):
    flavor = {"metadata": {"name": "gpu"}, "spec": {"nodeLabels": {"a": "b"}}}
    assert worker.see().flavors["gpu"].node_labels == {}
    worker.flavors.put(decode(api.ResourceFlavor, flavor))
    assert worker.see().flavors["gpu"].node_labels == {"a": "b"}
