"""DisruptionPolicies through the API: what they protect, what they record; on a virtual clock."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest

from multiqueue.api import names
from multiqueue.api.conditions import DISRUPTED, WorkloadCondition, find_condition
from multiqueue.api.disruptions import Stop, parse_stops
from multiqueue.api.v1beta2 import Condition
from multiqueue.api.v1beta2.meta import parse_time
from multiqueue.api.workload_state import find
from multiqueue.embedded.cluster.lifecycle import RUN_SECONDS
from multiqueue.kube import resources
from multiqueue.kube.errors import Invalid
from tests.builders.jobs import make_job
from tests.builders.queues import make_cluster_queue, make_flavor, make_local_queue
from tests.builders.workloads import NAMESPACE
from tests.integration.queue_steps import running, submit
from tests.integration.waiting import simulation
from tests.queue_manager import CONFIG, QueueCluster, queue_cluster
from tests.virtual_time import LoopClock, virtual_time

DAY = 86_400.0
BUDGET = {"name": "loss", "maxWorkloads": 1}
BAD_SPECS: list[tuple[dict[str, Any], str]] = [
    ({"protection": {"minRun": {"queue": "-10m"}}}, "spec.protection.minRun.queue"),
    ({"protection": {"minRun": {"queue": "soon"}}}, "spec.protection.minRun.queue"),
    ({"protection": {"growth": 0}}, "spec.protection.growth"),
    ({"protection": {"growth": 9}}, "should be less than or equal to 4"),
    ({"protection": {"window": "169h"}}, "window must be between 1m and 168h"),
    ({"prefer": "Cheapest"}, "LeastLostWork"),
    ({"budgets": [BUDGET, BUDGET]}, "Duplicate value"),
    ({"budgets": [{"name": "loss"}]}, "one of maxWorkloads, maxDeviceSeconds"),
    ({"budgets": [{**BUDGET, "window": "200h"}]}, "window must be between 1m and 168h"),
    ({"budgets": [{**BUDGET, "maxLostPercent": 101}]}, "should be less than or equal to 100"),
    ({"budgets": [{**BUDGET, "maxLostPercent": 3, "per": "Owner"}]}, "set per to Policy"),
    ({"maxPreemptedWorkloads": -1}, "spec.maxPreemptedWorkloads"),
    ({"notice": {"patience": "-1m"}}, "spec.notice.patience"),
    ({"protection": {"nonPreemptible": {"percent": 101}}}, "should be less than or equal to 100"),
    ({"protection": {"nonPreemptible": {"longestRun": "1w"}}}, "nonPreemptible.longestRun"),
    ({"waiting": {"claims": 9}}, "should be less than or equal to 1"),
    ({"waiting": {"passing": -1}}, "spec.waiting.passing"),
    ({"waiting": {"passing": 1001}}, "should be less than or equal to 1000"),
]
POLICY = "gpu"


def make_policy(name: str = POLICY, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "multiqueue.dev/v1alpha1",
        "kind": "DisruptionPolicy",
        "metadata": {"name": name},
        "spec": spec,
    }


def ranked(name: str, rank: str, *, run: str = "forever", pods: int = 1, **notes: str) -> Any:
    """A job of one CPU a pod; ``notes`` are annotations of ours."""
    labels = {names.PRIORITY_CLASS: rank}
    job = make_job(name, labels=labels, parallelism=pods, completions=pods)
    job["metadata"]["annotations"] = {f"multiqueue.dev/{k}": v for k, v in notes.items()}
    job["spec"]["template"]["metadata"] = {"annotations": {RUN_SECONDS: run}}
    return job


@asynccontextmanager
async def governed_cluster(
    policy: dict[str, Any] | None, *, cpu: str = "2", clock: LoopClock
) -> AsyncIterator[QueueCluster]:
    """A queue that names a policy, in which rank counts, and machines behind it; no manager."""
    async with (
        queue_cluster(clock=clock) as cluster,
        simulation(cluster.client, "4xcpu", clock=clock),
    ):
        for rank, value in (("low", 1), ("middle", 5), ("high", 10)):
            body = {
                "apiVersion": names.V1BETA2,
                "kind": "WorkloadPriorityClass",
                "metadata": {"name": rank},
                "value": value,
            }
            await cluster.create(resources.WORKLOAD_PRIORITY_CLASSES, body)
        if policy is not None:
            await cluster.create(resources.DISRUPTION_POLICIES, policy)
        await cluster.create(resources.RESOURCE_FLAVORS, make_flavor())
        queue = make_cluster_queue(cpu=cpu, preemption={"withinClusterQueue": "LowerPriority"})
        queue["metadata"]["annotations"] = {names.DISRUPTION_POLICY: POLICY}
        await cluster.create(resources.CLUSTER_QUEUES, queue)
        await cluster.create(resources.LOCAL_QUEUES, make_local_queue())
        yield cluster


async def until(cluster: QueueCluster, what: Any, description: str) -> Any:
    return await cluster.changes.until(what, description, seconds=DAY)


async def until_waiting(cluster: QueueCluster, name: str, words: str) -> Condition:
    """Wait until a job is refused with these words."""

    def found() -> Condition | None:
        workload = cluster.workload_of(name)
        waits = workload and find(workload.status, WorkloadCondition.QUOTA_RESERVED)
        return waits if waits and words in waits.message else None

    got: Condition = await until(cluster, found, f"{name} refused: {words}")
    return got


def record(cluster: QueueCluster, name: str) -> str:
    workload = cluster.workload_of(name)
    found = workload and find_condition(workload.status.conditions, DISRUPTED)
    return found.message if found else ""


def parse_stops_of(cluster: QueueCluster, name: str) -> tuple[Stop, ...]:
    workload = cluster.workload_of(name)
    return parse_stops(workload.status.conditions) if workload else ()


async def until_stopped(cluster: QueueCluster, name: str, times: int = 1) -> None:
    await until(cluster, lambda: len(parse_stops_of(cluster, name)) >= times, f"{name} stopped")


@virtual_time
async def test_a_job_waits_for_another_one_that_ends_soon_by_itself() -> None:
    """P-58: the other one declares 3900 seconds, has run for 3600, and ends after 3800."""
    clock = LoopClock()
    async with (
        governed_cluster(make_policy(notice={"patience": "10m"}), clock=clock) as cluster,
        cluster.manager(CONFIG, clock=clock),
    ):
        low = ranked("low", "low", pods=2, run="3800")
        low["metadata"]["labels"][names.MAX_EXEC_TIME_SECONDS] = "3900"
        await submit(cluster, low)
        await until(cluster, lambda: running(cluster, "low"), "the first running")
        await asyncio.sleep(3600)
        await submit(cluster, ranked("high", "high"))
        waits = await until_waiting(cluster, "high", "once others have ended by themselves")
        assert waits.reason == "WaitingForQuota"
        assert "to stop 1 workload instead would cost 1,920 device-seconds" in waits.message
        await until(cluster, lambda: running(cluster, "high"), "high running")
        assert record(cluster, "low") == "", "nobody was stopped"


@virtual_time
async def test_a_job_runs_for_its_minimum_before_it_is_stopped() -> None:
    clock = LoopClock()
    policy = make_policy(protection={"minRun": {"queue": "10m"}})
    async with (
        governed_cluster(policy, clock=clock) as cluster,
        cluster.manager(CONFIG, clock=clock) as manager,
    ):
        await submit(cluster, ranked("low", "low", pods=2))
        await until(cluster, lambda: running(cluster, "low"), "the first running")
        began = clock.now()
        await submit(cluster, ranked("high", "high"))
        waits = await until_waiting(cluster, "high", "may not be stopped")
        assert waits.reason == "WaitingForQuota"
        assert waits.message.endswith(
            "; 1 of 1 candidate may not be stopped: 1 until 2026-01-01T00:10:00Z "
            '(DisruptionPolicy "gpu": minimum run 10m)'
        )
        await until(cluster, lambda: running(cluster, "high"), "the other running")
        assert 600 <= (clock.now() - began).total_seconds() <= 640
        assert record(cluster, "low").startswith("1 stop: 2026-01-01T00:10:0")
        assert record(cluster, "low").endswith(f"Z Queue 720 cq/{NAMESPACE}")
        await asyncio.sleep(2)
        events = (await cluster.client.list(resources.EVENTS, namespace=NAMESPACE)).items
        told = [event["message"] for event in events if event["reason"] == "Preempted"]
        assert len(told) == 1
        assert "; 72" in told[0]
        assert "device-seconds have to be done again" in told[0]
        labels = {"cluster_queue": "cq", "cause": "Queue", "replica_role": "standalone"}
        name = "multiqueue_preemption_cost_device_seconds_total"
        value = manager.metrics.registry.get_sample_value(name, labels)
        assert value == parse_stops_of(cluster, "low")[0].cost


@virtual_time
async def test_a_non_preemptible_job_runs_on_also_under_a_new_leader() -> None:
    """P-30, P-33: within its part nobody stops it, another one waits, and a wish is answered."""
    clock = LoopClock()
    policy = make_policy(protection={"nonPreemptible": {"percent": 50, "longestRun": "1h"}})
    kept, more, high = (
        ranked(name, rank, **{"non-preemptible": "true"} if rank == "low" else {})
        for name, rank in (("kept", "low"), ("more", "low"), ("high", "high"))
    )
    for job in (kept, more):
        job["metadata"]["labels"][names.MAX_EXEC_TIME_SECONDS] = "3600"
    async with governed_cluster(policy, clock=clock) as cluster:
        async with cluster.manager(CONFIG, clock=clock):
            await submit(cluster, kept)
            await until(cluster, lambda: running(cluster, "kept"), "the first running")
            await submit(cluster, more)
            waits = await until_waiting(cluster, "more", "such ones may hold 1 cpu of flavor")
            assert waits.message.endswith("they hold 1, and it needs 1")
            await submit(cluster, high)
            await until(cluster, lambda: running(cluster, "high"), "high beside it")
        async with cluster.manager(CONFIG, clock=clock):
            await submit(cluster, ranked("highest", "high"))
            waits = await until_waiting(cluster, "highest", "it is non-preemptible")
            assert "1 of 1 candidate may not be stopped" in waits.message
            await asyncio.sleep(60)
            assert record(cluster, "kept") == ""


@virtual_time
async def test_a_job_that_does_not_count_as_non_preemptible_is_told_when_it_starts() -> None:
    clock = LoopClock()
    async with governed_cluster(None, clock=clock) as cluster, cluster.manager(CONFIG, clock=clock):
        await submit(cluster, ranked("low", "low", **{"non-preemptible": "true"}))
        await until(cluster, lambda: running(cluster, "low"), "it running")
        workload = cluster.workload_of("low")
        assert workload is not None
        reserved = find(workload.status, WorkloadCondition.QUOTA_RESERVED)
        assert reserved is not None
        assert reserved.message == (
            "Quota reserved in ClusterQueue cq; it may be stopped for others, because "
            "no DisruptionPolicy of its ClusterQueue allows it"
        )


@virtual_time
async def test_a_report_of_the_job_itself_makes_its_stop_cheaper() -> None:
    clock = LoopClock()
    policy = make_policy(prefer="LeastLostWork")
    async with (
        governed_cluster(policy, clock=clock) as cluster,
        cluster.manager(CONFIG, clock=clock),
    ):
        await submit(cluster, ranked("saves", "low", **{"checkpoint-interval": "30m"}))
        await until(cluster, lambda: running(cluster, "saves"), "the first running")
        await asyncio.sleep(60)
        await submit(cluster, ranked("silent", "low"))
        await until(cluster, lambda: running(cluster, "silent"), "the second running")
        await asyncio.sleep(3600)
        report = {"metadata": {"annotations": {names.LAST_CHECKPOINT: "2026-01-01T00:55:00Z"}}}
        await cluster.patch(resources.JOBS, "saves", report, namespace=NAMESPACE)
        writes = len(cluster.writes)
        await asyncio.sleep(1)
        assert len(cluster.writes) == writes
        await submit(cluster, ranked("high", "high"))
        await until(cluster, lambda: running(cluster, "high"), "the third running")
        assert running(cluster, "silent")
        assert record(cluster, "saves").startswith("1 stop: 2026-01-01T01:01:0")
        # 1 device x (6 min since the report + 2 min to start again), by the second.
        assert 480 <= parse_stops_of(cluster, "saves")[0].cost <= 490


@virtual_time
async def test_a_budget_that_was_used_up_stays_so_under_a_new_leader() -> None:
    clock = LoopClock()
    budget = {"name": "calm", "window": "1h", "maxWorkloads": 2}
    async with governed_cluster(make_policy(budgets=[budget]), cpu="3", clock=clock) as cluster:
        async with cluster.manager(CONFIG, clock=clock):
            for name in ("a", "b", "c"):
                await submit(cluster, ranked(name, "low"))
            await until(cluster, lambda: running(cluster, "c"), "all running")
            await submit(cluster, ranked("first", "high"))
            await until(cluster, lambda: running(cluster, "first"), "the first preemptor")
            await asyncio.sleep(600)
            await submit(cluster, ranked("second", "high"))
            await until(cluster, lambda: running(cluster, "second"), "the second preemptor")
        async with cluster.manager(CONFIG, clock=clock):
            await submit(cluster, ranked("third", "high"))
            waits = await until_waiting(cluster, "third", "is used up")
            assert waits.message.endswith(
                "; 1 of 1 candidate may not be stopped: 1 until 2026-01-01T01:00:00Z "
                '(budget "calm" of DisruptionPolicy "gpu" is used up: 2 of 2 stops in 1h)'
            )
            await until(cluster, lambda: running(cluster, "third"), "the third preemptor")
            assert clock.now().isoformat()[:17] == "2026-01-01T01:00:"


@virtual_time
async def test_each_stop_protects_a_job_for_longer() -> None:
    """A job that is stopped again and again runs for 15, 30 and 60 minutes in between."""
    clock = LoopClock()
    protection = {"minRun": {"queue": "15m"}, "growth": 2, "maxPreemptions": 3}
    policy = make_policy(protection=protection)
    async with (
        governed_cluster(policy, cpu="1", clock=clock) as cluster,
        cluster.manager(CONFIG, clock=clock),
    ):
        await submit(cluster, ranked("low", "low"))
        await until(cluster, lambda: running(cluster, "low"), "the job running")
        ran = []
        for number in range(3):
            began = clock.now()
            await submit(cluster, ranked(f"burst-{number}", "high", run="60"))
            await until_stopped(cluster, "low", number + 1)
            ran.append(round((clock.now() - began).total_seconds() / 60))
            await until(cluster, lambda: not running(cluster, "low"), "the job stopped")
            await until(cluster, lambda: running(cluster, "low"), "the job running again")
        assert ran == [15, 30, 60]
        await submit(cluster, ranked("last", "high", run="60"))
        waits = await until_waiting(cluster, "last", "3 stops in 24h")
        assert "1 until 2026-01-02T00:15:00Z" in waits.message


@virtual_time
async def test_a_missing_policy_stops_preemption_and_not_admission() -> None:
    clock = LoopClock()
    async with governed_cluster(None, clock=clock) as cluster, cluster.manager(CONFIG, clock=clock):
        await submit(cluster, ranked("low", "low", pods=2))
        await until(cluster, lambda: running(cluster, "low"), "admitted")
        await submit(cluster, ranked("high", "high"))
        await until_waiting(
            cluster, "high", 'DisruptionPolicy "gpu" is not there; create it, or change the'
        )
        await asyncio.sleep(1)
        told = [event for event in await cluster.events() if event[0] == "ClusterQueue"]
        assert ("ClusterQueue", "cq", "DisruptionPolicyNotFound") in told
        await cluster.create(resources.DISRUPTION_POLICIES, make_policy())
        await until(cluster, lambda: running(cluster, "high"), "the other running")


@virtual_time
async def test_the_status_says_whether_a_policy_counts() -> None:
    clock = LoopClock()
    policy = make_policy(prefer="LeastRun")
    async with (
        governed_cluster(policy, clock=clock) as cluster,
        cluster.manager(CONFIG, clock=clock),
    ):
        await asyncio.sleep(5)
        found = await cluster.client.get(resources.DISRUPTION_POLICIES, POLICY)
        (active,) = found["status"]["conditions"]
        assert (active["type"], active["status"], active["reason"]) == ("Active", "True", "Ready")
        assert active["message"] == "it counts for the ClusterQueues that it governs"


@virtual_time
async def test_what_a_policy_cannot_say_is_refused_with_path_and_range() -> None:
    clock = LoopClock()
    async with queue_cluster(clock=clock) as cluster:
        for spec, words in BAD_SPECS:
            with pytest.raises(Invalid) as refused:
                await cluster.create(resources.DISRUPTION_POLICIES, make_policy(**spec))
            assert words in str(refused.value), spec


# -------------------------------------------------------------------- turns


@virtual_time
@pytest.mark.parametrize(("passing", "first"), [(0, "long"), (100, "short")])
async def test_a_job_that_declares_less_passes_one_that_waits(passing: int, first: str) -> None:
    clock = LoopClock()
    policy = make_policy(waiting={"passing": passing})
    async with (
        governed_cluster(policy, clock=clock) as cluster,
        cluster.manager(CONFIG, clock=clock),
    ):
        await submit(cluster, ranked("holds", "low", run="600", pods=2))
        await until(cluster, lambda: running(cluster, "holds"), "the holder running")
        for name, says in (("long", "5h"), ("short", "10m")):
            await submit(cluster, ranked(name, "low", pods=2, runtime=says))
            await until_waiting(cluster, name, "insufficient unused quota")
            await asyncio.sleep(1)  # times have whole seconds
        waiting = {"long", "short"}
        await until(cluster, lambda: any(running(cluster, each) for each in waiting), "one running")
        assert [each for each in sorted(waiting) if running(cluster, each)] == [first]


# -------------------------------------------------------------------- claims


@asynccontextmanager
async def small_jobs_keep_coming(cluster: QueueCluster) -> AsyncIterator[None]:
    """Every seven minutes a job of one CPU comes that runs for half an hour, and says so."""

    async def submit_them() -> None:
        for number in range(200):
            job = ranked(f"small-{number}", "low", run="1750")
            job["metadata"]["labels"][names.MAX_EXEC_TIME_SECONDS] = "1800"
            await submit(cluster, job)
            await asyncio.sleep(420)

    task = asyncio.create_task(submit_them())
    try:
        yield
    finally:
        task.cancel()


@virtual_time
async def test_a_gang_behind_small_jobs_starts_by_the_time_it_was_promised() -> None:
    clock = LoopClock()
    policy = make_policy(waiting={"claims": 1, "after": "30m"})
    async with (
        governed_cluster(policy, cpu="4", clock=clock) as cluster,
        cluster.manager(CONFIG, clock=clock),
        small_jobs_keep_coming(cluster),
    ):
        await asyncio.sleep(3600)
        await submit(cluster, ranked("gang", "low", run="60", pods=4))
        waits = await until_waiting(cluster, "gang", "room is kept for this Workload")
        promised = parse_time(waits.message.rpartition("starts by ")[2].split()[0].rstrip(".;,"))
        assert timedelta(0) < promised - clock.now() <= timedelta(minutes=31)
        held_up = await until_waiting_other(cluster, "would delay one that is promised to start")
        assert "it may run for 1800s" in held_up
        await until(cluster, lambda: running(cluster, "gang"), "the gang running")
        assert clock.now() <= promised + timedelta(seconds=30)


@virtual_time
async def test_a_gang_behind_small_jobs_starves_without_claims() -> None:
    clock = LoopClock()
    async with (
        governed_cluster(make_policy(), cpu="4", clock=clock) as cluster,
        cluster.manager(CONFIG, clock=clock),
        small_jobs_keep_coming(cluster),
    ):
        await asyncio.sleep(3600)
        await submit(cluster, ranked("gang", "low", run="60", pods=4))
        await asyncio.sleep(2 * 3600)
        assert not running(cluster, "gang")


async def until_waiting_other(cluster: QueueCluster, words: str) -> str:
    """Wait until one of the small jobs is refused with these words."""

    def found() -> str:
        for workload in cluster.informers.workloads.store.list():
            waits = find(workload.status, WorkloadCondition.QUOTA_RESERVED)
            if waits and words in waits.message:
                return waits.message
        return ""

    got: str = await until(cluster, found, words)
    return got
