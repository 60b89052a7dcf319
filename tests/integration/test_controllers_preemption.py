"""A job that matters more takes the place of another; on a virtual clock."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from multiqueue.api import names
from multiqueue.api.conditions import WorkloadCondition
from multiqueue.api.config import Configuration, build_configuration
from multiqueue.api.v1beta2 import Condition
from multiqueue.api.workload_state import find, has_quota
from multiqueue.embedded.cluster.lifecycle import RUN_SECONDS, STOP_SECONDS
from multiqueue.kube import resources
from tests.builders.jobs import make_job
from tests.builders.queues import make_cluster_queue, make_flavor, make_local_queue
from tests.builders.workloads import NAMESPACE
from tests.integration.queue_steps import running, submit
from tests.integration.waiting import simulation
from tests.queue_manager import CONFIG, QueueCluster, queue_cluster
from tests.virtual_time import LoopClock, virtual_time

HOUR = 3600.0


def make_class(name: str, value: int) -> dict[str, Any]:
    return {
        "apiVersion": names.V1BETA2,
        "kind": "WorkloadPriorityClass",
        "metadata": {"name": name},
        "value": value,
    }


def ranked_job(name: str, rank: str, *, run: str = "forever", **what: Any) -> dict[str, Any]:
    """A job of one CPU whose pods need half a minute to stop."""
    job = make_job(name, labels={names.PRIORITY_CLASS: rank}, **what)
    annotations = {RUN_SECONDS: run, STOP_SECONDS: "30"}
    job["spec"]["template"]["metadata"] = {"annotations": annotations}
    return job


@asynccontextmanager
async def preempting_cluster(config: Configuration = CONFIG) -> AsyncIterator[QueueCluster]:
    """A queue of two CPUs in which rank counts, and machines behind it."""
    clock = LoopClock()
    async with (
        queue_cluster(clock=clock) as cluster,
        cluster.manager(config, clock=clock),
        simulation(cluster.client, "4xcpu", clock=clock),
    ):
        for rank, value in (("low", 1), ("high", 10)):
            await cluster.create(resources.WORKLOAD_PRIORITY_CLASSES, make_class(rank, value))
        await cluster.create(resources.RESOURCE_FLAVORS, make_flavor())
        preemption = {"withinClusterQueue": "LowerPriority"}
        queue = make_cluster_queue(cpu="2", preemption=preemption)
        await cluster.create(resources.CLUSTER_QUEUES, queue)
        await cluster.create(resources.LOCAL_QUEUES, make_local_queue())
        yield cluster


def condition(cluster: QueueCluster, name: str, type_: WorkloadCondition) -> Condition | None:
    workload = cluster.workload_of(name)
    return find(workload.status, type_) if workload is not None else None


async def until(cluster: QueueCluster, what: Any, description: str) -> Any:
    return await cluster.changes.until(what, description, seconds=24 * HOUR)


async def until_reason(
    cluster: QueueCluster, name: str, type_: WorkloadCondition, *want: str
) -> Condition:
    def found() -> Condition | None:
        present = condition(cluster, name, type_)
        is_it = present is not None and (present.status, present.reason) == want
        return present if is_it else None

    got: Condition = await until(cluster, found, f"{name} {type_} {want}")
    return got


@virtual_time
async def test_a_running_job_stops_and_comes_back_when_the_other_ended() -> None:
    async with preempting_cluster() as cluster:
        await submit(cluster, ranked_job("low", "low", parallelism=2, completions=2))
        await until(
            cluster,
            lambda: (job := cluster.job("low")) and job["status"].get("active") == 2,
            "two pods",
        )
        await submit(cluster, ranked_job("high", "high", run="600"))
        waits = await until_reason(
            cluster,
            "high",
            WorkloadCondition.QUOTA_RESERVED,
            "False",
            "WaitingForPreemptedWorkloads",
        )
        assert "Pending the preemption of 1 workload(s)" in waits.message
        preempted = await until_reason(
            cluster, "low", WorkloadCondition.PREEMPTED, "True", "InClusterQueue"
        )
        assert preempted.message.startswith("Preempted to accommodate a workload (UID: ")
        await until_reason(cluster, "low", WorkloadCondition.REQUEUED, "True", "Preempted")
        job = cluster.job("low")
        assert job is not None
        assert job["spec"]["suspend"]
        assert not job["status"].get("active")
        await until(cluster, lambda: running(cluster, "high"), "the other running")
        await until_reason(cluster, "high", WorkloadCondition.FINISHED, "True", "Succeeded")
        await until(cluster, lambda: running(cluster, "low"), "the first running again")
        assert (
            await until_reason(cluster, "low", WorkloadCondition.EVICTED, "False", "QuotaReserved")
        ).message.startswith("Previously: ")


@virtual_time
async def test_the_quota_is_kept_until_nothing_of_the_job_runs() -> None:
    async with preempting_cluster() as cluster:
        overlap: list[str] = []

        def look(_old: Any, _new: Any) -> None:
            holding = [w for w in cluster.informers.workloads.store.list() if has_quota(w.status)]
            if sum(w.spec.pod_sets[0].count for w in holding) > 2:
                overlap.append(" ".join(w.metadata.name for w in holding))
            job = cluster.job("low")
            workload = cluster.workload_of("low")
            if job and job["status"].get("active") and workload and not has_quota(workload.status):
                overlap.append("pods without quota")

        cluster.informers.workloads.add_handler(look)
        await submit(cluster, ranked_job("low", "low", parallelism=2, completions=2))
        await until(
            cluster,
            lambda: (job := cluster.job("low")) and job["status"].get("active") == 2,
            "two pods",
        )
        await submit(cluster, ranked_job("high", "high", parallelism=2, completions=2))
        await until(cluster, lambda: running(cluster, "high"), "the other running")
        assert overlap == []


@virtual_time
async def test_both_sides_of_a_preemption_hear_of_it_once() -> None:
    async with preempting_cluster() as cluster:
        await submit(cluster, ranked_job("low", "low", parallelism=2, completions=2))
        await until(cluster, lambda: running(cluster, "low"), "the first running")
        await submit(cluster, ranked_job("high", "high"))
        await until(cluster, lambda: running(cluster, "high"), "the other running")
        await asyncio.sleep(2)  # the preemptor's Event waits for more victims
        events = (await cluster.client.list(resources.EVENTS, namespace=NAMESPACE)).items
        told = {
            event["reason"]: (event["involvedObject"]["name"].rpartition("-")[0], event["count"])
            for event in events
            if "Preempted" in event["reason"]
        }
        assert told == {
            "Preempted": ("job-low", 1),
            "EvictedDueToPreempted": ("job-low", 1),
            "PreemptedWorkload": ("job-high", 1),
            "WaitingForPreemptedWorkloads": ("job-high", 1),
        }


@virtual_time
async def test_a_higher_rank_given_later_preempts_too() -> None:
    async with preempting_cluster() as cluster:
        await submit(cluster, ranked_job("first", "low", parallelism=2, completions=2))
        await until(cluster, lambda: running(cluster, "first"), "the first running")
        await submit(cluster, ranked_job("second", "low", parallelism=2, completions=2))
        await until_reason(
            cluster, "second", WorkloadCondition.QUOTA_RESERVED, "False", "WaitingForQuota"
        )
        relabel = {"metadata": {"labels": {names.PRIORITY_CLASS: "high"}}}
        await cluster.patch(resources.JOBS, "second", relabel, namespace=NAMESPACE)
        await until(cluster, lambda: running(cluster, "second"), "the second running")
        # A class that becomes worth more does the same for whoever has it.
        await cluster.patch(resources.WORKLOAD_PRIORITY_CLASSES, "low", {"value": 100})
        await until(cluster, lambda: running(cluster, "first"), "the first running again")


@virtual_time
async def test_a_boost_counts_like_a_higher_class_where_the_gate_is_on() -> None:
    gates = {"PriorityBoost": True}
    config = build_configuration({"namespace": CONFIG.namespace, "featureGates": gates})
    async with preempting_cluster(config) as cluster:
        await submit(cluster, ranked_job("first", "low", parallelism=2, completions=2))
        await until(cluster, lambda: running(cluster, "first"), "the first running")
        await submit(cluster, ranked_job("second", "low"))
        await until_reason(
            cluster, "second", WorkloadCondition.QUOTA_RESERVED, "False", "WaitingForQuota"
        )
        waiting = cluster.workload_of("second")
        assert waiting is not None
        boost = {"metadata": {"annotations": {names.PRIORITY_BOOST: "5"}}}
        await cluster.patch(resources.WORKLOADS, waiting.metadata.name, boost, namespace=NAMESPACE)
        await until(cluster, lambda: running(cluster, "second"), "the second running")
        assert not running(cluster, "first")
