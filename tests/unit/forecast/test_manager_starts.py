"""When Workloads get the manager's quota, computed by hand for small queues."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest

from multiqueue.api import names
from multiqueue.api import v1beta2 as api
from multiqueue.api.conditions import Reason
from multiqueue.api.names import DISRUPTION_POLICY
from multiqueue.api.serde import decode
from multiqueue.api.v1beta2 import format_time
from multiqueue.engine.engine import Engine
from multiqueue.forecast.manager_starts import STEP, ManagerStarts
from multiqueue.model.build_workload import DEFAULT_OPTIONS
from multiqueue.model.cluster_queue import (
    AdmissionCheckInfo,
    build_cluster_queue,
    build_local_queue,
)
from multiqueue.model.disruption_policy import ClaimRule, DisruptionRules
from multiqueue.model.resource_flavor import build_resource_flavor
from multiqueue.model.workload import Workload
from multiqueue.observability.metrics import ManagerMetrics
from multiqueue.plugins.forecast import Basis, Runtime
from multiqueue.views.start import parse_time
from tests.builders.engine import NAMESPACE, T0, make_workload, pod_set, reserved, with_changes
from tests.unit.capacity.test_worker_state import FakeInformer

Told = Mapping[str, Any]


class Manager:
    """An engine that follows informers, and queues of four GPUs each in one cohort."""

    def __init__(self, *queues: str, **spec: Any) -> None:
        self.engine, self.now = Engine(), T0
        names = ("resource_flavors", "cluster_queues", "local_queues", "workloads")
        self.informers = SimpleNamespace(**{name: FakeInformer() for name in names})
        self.built: dict[str, Workload] = {}
        self.runtimes: dict[str, Runtime] = {}
        self.engine.upsert_namespace(NAMESPACE, {})
        self.metrics = ManagerMetrics()
        context: Any = SimpleNamespace(
            informers=self.informers,
            clock=SimpleNamespace(now=lambda: self.now),
            metrics=self.metrics,
        )
        self.starts = ManagerStarts(
            context, self.engine, lambda key, _: self.runtimes.get(key), DEFAULT_OPTIONS
        )
        flavor = decode(api.ResourceFlavor, {"metadata": {"name": "gpu"}})
        self.engine.upsert_resource_flavor(build_resource_flavor(flavor))
        self.informers.resource_flavors.put(flavor)
        for name in queues or ("lq",):
            self.put_queue(name, **spec)

    def put_queue(self, name: str, gpus: int = 4, policy: str = "", **spec: Any) -> None:
        quota = {"name": "nvidia.com/gpu", "nominalQuota": str(gpus)}
        groups = [
            {
                "coveredResources": ["nvidia.com/gpu"],
                "flavors": [{"name": "gpu", "resources": [quota]}],
            }
        ]
        whole = {"cohortName": "all", "namespaceSelector": {}, "resourceGroups": groups, **spec}
        meta = {"name": name, "annotations": {DISRUPTION_POLICY: policy}}
        cluster_queue = decode(api.ClusterQueue, {"metadata": meta, "spec": whole})
        self.engine.upsert_cluster_queue(build_cluster_queue(cluster_queue))
        self.informers.cluster_queues.put(cluster_queue)
        local = {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": {"clusterQueue": name}}
        self.engine.upsert_local_queue(build_local_queue(decode(api.LocalQueue, local)))
        self.informers.local_queues.put(decode(api.LocalQueue, local))

    def put(self, workload: Workload, minutes: float | None = None, **status: Any) -> None:
        """Add or change a Workload that runs exactly so long."""
        self.built[workload.key] = workload
        if minutes is not None:
            took = timedelta(minutes=minutes)
            self.runtimes[workload.key] = Runtime(
                expected=took, low=took, high=took, basis=Basis.DECLARED
            )
        self.engine.upsert_workload(workload, self.now)
        name = workload.key.partition("/")[2]
        meta = {"name": name, "namespace": NAMESPACE, "uid": name}
        self.informers.workloads.put(decode(api.Workload, {"metadata": meta, "status": status}))

    def submit(self, name: str, gpus: int, minutes: float, queue: str = "lq", **more: Any) -> None:
        """Add a Workload, and admit what fits."""
        self.now += timedelta(seconds=1)
        workload = make_workload(
            name, queue=queue, pod_sets=[pod_set(gpu=gpus)], at=self.now, **more
        )
        self.put(workload, minutes)
        self.engine.next_cycle_at(self.now)
        for decision in self.engine.run_cycle(self.now).decisions:
            if (admission := getattr(decision, "admission", None)) is not None:
                held = reserved(self.built[decision.workload], admission, admitted=True)
                self.put(held)

    async def minutes_until(self, name: str) -> float:
        """Rounded: a runtime that is known exactly is drawn with a small error."""
        told = await self.starts.find_start(f"{NAMESPACE}/{name}")
        assert told is not None
        at = parse_time(told["at"])
        assert at is not None
        return round((at - T0).total_seconds() / 60)


async def test_a_start_is_when_enough_of_those_that_run_have_ended() -> None:
    manager = Manager()
    manager.submit("long", 2, 90)
    manager.submit("short", 2, 30)
    manager.submit("small", 2, 10)
    manager.submit("large", 4, 10)
    before = _usage(manager.engine)
    assert [await manager.minutes_until(name) for name in ("small", "large")] == [30, 90]
    assert _usage(manager.engine) == before, "asking changes nothing"


async def test_with_room_kept_it_starts_by_what_others_declare_at_the_latest() -> None:
    manager = Manager(policy="gentle")
    rule = ClaimRule(claims=1, after=0)
    manager.engine.upsert_disruption_policy(DisruptionRules(name="gentle", waiting=rule))
    manager.submit("runs", 4, 90, run_limit=3600)
    manager.submit("large", 4, 10)
    told = await manager.starts.find_start(f"{NAMESPACE}/large")
    assert told is not None
    assert told["promised"] == told["at"] == format_time(T0 + timedelta(hours=1))
    assert "LaterArrivals" not in {each["code"] for each in told["caveats"]}


async def test_those_before_it_run_first_and_are_counted() -> None:
    manager = Manager()
    manager.submit("runs", 4, 60)
    manager.submit("first", 4, 30)
    manager.submit("second", 4, 30)
    assert await manager.minutes_until("second") == 90
    told = await manager.starts.find_start(f"{NAMESPACE}/second")
    assert told is not None
    assert (told["ahead"], told["stage"], told["basis"]) == (1, "whole", "Declared")
    assert [each["code"] for each in told["caveats"]] == ["DeclaredRuntimes", "LaterArrivals"]


async def test_a_higher_priority_goes_first() -> None:
    manager = Manager()
    manager.submit("runs", 4, 60)
    manager.submit("first", 4, 30)
    manager.submit("urgent", 4, 20, priority=9)
    assert [await manager.minutes_until(name) for name in ("urgent", "first")] == [60, 80]


@pytest.mark.parametrize("strategy", ["StrictFIFO", "BestEffortFIFO"])
async def test_a_turn_counts_as_in_the_queue(strategy: str) -> None:
    """ "long" lets others pass for 20 hours; so do others that would come later."""
    manager = Manager(policy="gentle", queueingStrategy=strategy)
    _set_passing(manager, 100)
    manager.submit("runs", 4, 60)
    manager.submit("long", 4, 300, expected_run=300 * 60)
    manager.submit("short", 4, 30, expected_run=30 * 60)
    order = [each.workload for each in manager.engine.pending_workloads("lq")]
    assert order == [f"{NAMESPACE}/short", f"{NAMESPACE}/long"]
    assert [await manager.minutes_until(name) for name in ("short", "long")] == [60, 90]
    ahead = [await _count_ahead(manager, imagined) for imagined in ("5m", "100m", "400m")]
    assert ahead == [0, 1, 2], "one that does not exist would have its own turn"


async def test_a_change_of_the_turns_changes_the_estimates() -> None:
    manager = Manager(policy="gentle")
    manager.submit("runs", 4, 60)
    manager.submit("long", 4, 300, expected_run=300 * 60)
    manager.submit("short", 4, 30, expected_run=30 * 60)
    for passing, starts in ((0, [360, 60]), (100, [60, 90]), (0, [360, 60])):
        _set_passing(manager, passing)
        manager.engine.run_cycle(manager.now)
        found = [await manager.minutes_until(name) for name in ("short", "long")]
        assert found == pytest.approx(starts, rel=0.02)


async def test_in_a_strict_queue_a_small_job_waits_for_the_large_one_before_it() -> None:
    for strategy, minutes in (("StrictFIFO", 70), ("BestEffortFIFO", 30)):
        manager = Manager(queueingStrategy=strategy, cohortName="")
        manager.submit("long", 2, 60)
        manager.submit("short", 2, 30)
        manager.submit("large", 4, 10)
        manager.submit("small", 2, 10)
        assert await manager.minutes_until("small") == minutes, strategy


async def test_what_others_of_the_cohort_lend_counts() -> None:
    manager = Manager("lq", "other")
    manager.submit("mine", 4, 90)
    manager.submit("theirs", 4, 40, queue="other")
    manager.submit("waits", 4, 10)
    assert await manager.minutes_until("waits") == 40


async def test_an_outlived_run_is_not_expected_in_the_past() -> None:
    manager = Manager()
    manager.submit("runs", 4, 60)
    manager.submit("waits", 4, 10)
    await manager.minutes_until("waits")
    manager.now += timedelta(minutes=70)
    assert await manager.minutes_until("waits") > 70


async def test_without_an_estimate_the_reason_is_told() -> None:
    manager = Manager(stopPolicy="Hold")
    manager.submit("waits", 2, 10)
    told = await manager.starts.find_start(f"{NAMESPACE}/waits")
    assert told is not None
    assert (told["code"], "at" in told) == ("Held", False)
    assert "ClusterQueue lq is inactive" in told["reason"]
    manager = Manager()
    manager.submit("runs", 4, 10)
    manager.submit("huge", 9, 10)
    told = await manager.starts.find_start(f"{NAMESPACE}/huge")
    assert told is not None
    assert told["code"] == "Never"
    assert await manager.starts.find_start(f"{NAMESPACE}/runs") is None, "it does not wait"
    assert await manager.starts.find_start(f"{NAMESPACE}/nobody") is None


async def test_a_finished_workload_frees_its_room_at_once() -> None:
    manager = Manager()
    manager.submit("runs", 4, 60)
    manager.submit("first", 4, 30)
    manager.submit("second", 4, 30)
    assert await manager.minutes_until("second") == 90
    manager.now += timedelta(minutes=5)
    manager.put(with_changes(manager.built[f"{NAMESPACE}/first"], finished=True))
    assert await manager.minutes_until("second") == 60


@pytest.mark.parametrize("passed", [2, 3])
async def test_checks_take_as_long_as_they_took_for_others(passed: int) -> None:
    checks = {"admissionChecks": [{"name": "prov"}]}
    manager = Manager(admissionChecksStrategy=checks)
    manager.engine.upsert_admission_check(AdmissionCheckInfo(name="prov"))
    for index in range(passed):
        name = f"earlier-{index}"
        manager.submit(name, 1, 60)
    for index in range(passed):
        _pass_checks(manager, f"earlier-{index}", minutes=20)
    manager.submit("rest", 4 - passed, 60)
    manager.submit("waits", 4, 10)
    told = await manager.starts.find_start(f"{NAMESPACE}/waits")
    assert told is not None
    codes = [each["code"] for each in told["caveats"]]
    is_known = passed >= 3
    assert (told["stage"], "Checks" in codes) == (("whole" if is_known else "quota"), not is_known)
    stages = told["stages"]
    assert [each["name"] for each in stages] == (["quota", "checks"] if is_known else ["quota"])
    assert {name: stages[-1][name] for name in ("at", "earliest", "latest")} == {
        name: told[name] for name in ("at", "earliest", "latest")
    }, "the estimate is that of its last stage"
    quota = (parse_time(stages[0]["at"]) or T0) - manager.now
    assert quota / timedelta(minutes=1) == pytest.approx(60, rel=0.05)
    want = 80 if is_known else 60
    assert await manager.minutes_until("waits") == pytest.approx(want, rel=0.05)


def _pass_checks(manager: Manager, name: str, *, minutes: float) -> None:
    workload = manager.built[f"{NAMESPACE}/{name}"]
    moments = {"QuotaReserved": T0, "Admitted": T0 + timedelta(minutes=minutes)}
    conditions = [
        {
            "type": kind,
            "status": "True",
            "reason": "r",
            "message": "",
            "lastTransitionTime": f"{at:%Y-%m-%dT%H:%M:%SZ}",
        }
        for kind, at in moments.items()
    ]
    state = {
        "name": "prov",
        "state": "Ready",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    manager.put(workload, conditions=conditions, admissionChecks=[state])


async def test_assumed_runtimes_are_counted_in_the_caveat() -> None:
    manager = Manager()
    manager.submit("runs", 4, 60)
    manager.submit("waits", 4, 10)
    runs = f"{NAMESPACE}/runs"
    manager.runtimes[runs] = replace(manager.runtimes[runs], basis=Basis.ASSUMED)
    manager.put(manager.built[runs])
    told = await manager.starts.find_start(f"{NAMESPACE}/waits")
    assert told is not None
    assert told["basis"] == "Assumed"
    assert told["caveats"][0]["message"].startswith("1 of 2 jobs in its cohort")


async def test_a_long_queue_is_read_in_short_steps() -> None:
    manager = Manager()
    manager.submit("runs", 4, 60)
    for index in range(3 * STEP):
        name = f"w{index}"
        manager.put(make_workload(name, queue="lq", pod_sets=[pod_set(gpu=4)]), 10)
    unread = [len(manager.starts.unread)]
    asking = asyncio.create_task(manager.minutes_until(f"w{3 * STEP - 1}"))
    while not asking.done():
        await asyncio.sleep(0)
        unread.append(len(manager.starts.unread))
    assert await asking > 60
    assert unread[0] == 3 * STEP + 1
    assert unread[-1] == 0
    assert max(before - after for before, after in pairwise(unread)) == STEP


async def test_nothing_is_kept_of_what_came_and_went_between_two_questions() -> None:
    manager = Manager()
    manager.submit("runs", 4, 60)
    assert await manager.starts.find_start(f"{NAMESPACE}/runs") is None
    for name in ("brief", "runs"):
        if name == "brief":
            manager.submit(name, 4, 60)
        manager.engine.delete_workload(f"{NAMESPACE}/{name}", manager.now)
        manager.informers.workloads.drop(f"{NAMESPACE}/{name}")
    assert list(manager.starts.unread) == [f"{NAMESPACE}/runs"]
    await manager.starts.find_start(f"{NAMESPACE}/runs")
    assert not manager.starts.unread
    assert not manager.starts.known


async def _count_ahead(manager: Manager, runtime: str) -> int:
    """How many come before a job that does not exist."""
    container = {"name": "c", "resources": {"requests": {"nvidia.com/gpu": "4"}}}
    pods = {"name": "main", "count": 1, "template": {"spec": {"containers": [container]}}}
    meta = {
        "name": "imagined",
        "namespace": NAMESPACE,
        "uid": "imagined",
        "annotations": {names.RUNTIME: runtime},
        "creationTimestamp": format_time(manager.now),
    }
    spec = {"queueName": "lq", "podSets": [pods]}
    obj = decode(api.Workload, {"metadata": meta, "spec": spec})
    told = await manager.starts.foresee(obj, Reason.WAITING_FOR_QUOTA, "it waits")
    return int(told["ahead"])


def _set_passing(manager: Manager, percent: int) -> None:
    rules = DisruptionRules(name="gentle", waiting=ClaimRule(passing=percent))
    manager.engine.upsert_disruption_policy(rules)


def _usage(engine: Engine) -> dict[str, list[int]]:
    queues = engine.parts.cache.tree_by_queue["lq"].queues
    return {name: list(queue.node.usage) for name, queue in queues.items()}
