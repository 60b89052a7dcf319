"""DisruptionPolicies through the API: what they protect, what they record; on a virtual clock."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from multiqueue.api import names
from multiqueue.api.conditions import DISRUPTED, WorkloadCondition, find_condition
from multiqueue.api.disruptions import parse_stops
from multiqueue.api.v1beta2 import Condition
from multiqueue.api.workload_state import find
from multiqueue.embedded.cluster.lifecycle import RUN_SECONDS
from multiqueue.kube import resources
from tests.builders.jobs import make_job
from tests.builders.queues import make_cluster_queue, make_flavor, make_local_queue
from tests.builders.workloads import NAMESPACE
from tests.integration.queue_steps import running, submit
from tests.integration.waiting import simulation
from tests.queue_manager import CONFIG, QueueCluster, queue_cluster
from tests.virtual_time import LoopClock, virtual_time

DAY = 86_400.0
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


async def until_stopped(cluster: QueueCluster, name: str, times: int = 1) -> None:
    def found() -> bool:
        workload = cluster.workload_of(name)
        stops = parse_stops(workload.status.conditions) if workload else ()
        return sum(stop.count for stop in stops) >= times

    await until(cluster, found, f"{name} stopped")


@virtual_time
async def test_a_job_runs_for_its_minimum_before_it_is_stopped() -> None:
    clock = LoopClock()
    policy = make_policy(protection={"minRun": {"queue": "10m"}})
    async with governed_cluster(policy, clock=clock) as cluster, cluster.manager(CONFIG, clock=clock):
        await submit(cluster, ranked("low", "low", pods=2))
        await until(cluster, lambda: running(cluster, "low"), "the first running")
        began = clock.now()
        await submit(cluster, ranked("high", "high"))
        waits = await until_waiting(cluster, "high", "may not be stopped")
        assert waits.reason == "WaitingForQuota"
        assert waits.message.endswith(
            '; 1 of 1 candidate may not be stopped: 1 until 2026-01-01T00:10:00Z '
            '(DisruptionPolicy "gpu": minimum run 10m)'
        )
        await until(cluster, lambda: running(cluster, "high"), "the other running")
        assert 600 <= (clock.now() - began).total_seconds() <= 640
        assert record(cluster, "low").startswith("1 stop: 2026-01-01T00:10:0")
        assert record(cluster, "low").endswith("Z Queue 720 cq")
        await asyncio.sleep(2)
        events = (await cluster.client.list(resources.EVENTS, namespace=NAMESPACE)).items
        told = [event["message"] for event in events if event["reason"] == "Preempted"]
        assert len(told) == 1
        assert "; 72" in told[0]
        assert "device-seconds have to be done again" in told[0]
