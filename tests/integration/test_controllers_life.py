"""What happens to jobs over hours: late pods, limits, freed pods, tidying up."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

from multiqueue.api import names
from multiqueue.api.conditions import WorkloadCondition
from multiqueue.api.config import Configuration, build_configuration
from multiqueue.api.v1beta2 import Workload
from multiqueue.api.workload_state import find, has_quota, is_finished
from multiqueue.embedded.cluster.lifecycle import RUN_SECONDS, START_SECONDS
from multiqueue.kube import resources
from tests.builders.jobs import make_job
from tests.builders.workloads import NAMESPACE
from tests.integration.queue_steps import create_queue, running, submit
from tests.integration.waiting import simulation
from tests.queue_manager import QueueCluster, queue_cluster
from tests.virtual_time import LoopClock, virtual_time

HOUR = 3600.0


def make_config(**sections: Any) -> Configuration:
    return build_configuration({"namespace": "kueue-system", **sections})


@asynccontextmanager
async def simulated(cpu: str, **sections: Any) -> AsyncIterator[QueueCluster]:
    """A queue with so many CPUs, its manager, and machines that run what is admitted."""
    clock = LoopClock()
    async with (
        queue_cluster(clock=clock) as cluster,
        cluster.manager(make_config(**sections), clock=clock),
        simulation(cluster.client, "4xcpu", clock=clock),
    ):
        await create_queue(cluster, cpu=cpu)
        yield cluster


def simulated_job(
    name: str, *, start: str = "1", run: str = "forever", **what: Any
) -> dict[str, Any]:
    """A job whose pods need so many seconds to start and then run."""
    job = make_job(name, **what)
    annotations = {START_SECONDS: start, RUN_SECONDS: run}
    job["spec"]["template"]["metadata"] = {"annotations": annotations}
    return job


def condition(cluster: QueueCluster, name: str, type_: WorkloadCondition) -> tuple[str, str] | None:
    workload = cluster.workload_of(name)
    found = find(workload.status, type_) if workload is not None else None
    return (found.status, found.reason) if found is not None else None


async def until(cluster: QueueCluster, what: Any, description: str) -> Any:
    return await cluster.changes.until(what, description, seconds=24 * HOUR)


async def until_condition(
    cluster: QueueCluster, name: str, type_: WorkloadCondition, *want: str
) -> Workload:
    await until(cluster, lambda: condition(cluster, name, type_) == want, f"{name} {want}")
    workload = cluster.workload_of(name)
    assert workload is not None
    return workload


# ---------------------------------------------------------------- waitForPodsReady


@virtual_time
async def test_pods_that_are_ready_are_told() -> None:
    async with simulated("4") as cluster:
        await submit(cluster, simulated_job("train", start="30"))
        await until(cluster, lambda: running(cluster, "train"), "a running job")
        assert condition(cluster, "train", WorkloadCondition.PODS_READY) == (
            "False",
            "WaitForStart",
        )
        await until_condition(cluster, "train", WorkloadCondition.PODS_READY, "True", "Started")


@virtual_time
async def test_a_job_whose_pods_are_late_makes_room_and_comes_back() -> None:
    patience = {"timeout": "5m", "requeuingStrategy": {"backoffBaseSeconds": 600}}
    async with simulated("1", waitForPodsReady=patience) as cluster:
        await submit(cluster, simulated_job("late", start="9000"))
        await until(cluster, lambda: running(cluster, "late"), "a running job")
        await submit(cluster, simulated_job("next", run="60"))
        evicted = await until_condition(
            cluster, "late", WorkloadCondition.REQUEUED, "False", "PodsReadyTimeout"
        )
        assert not has_quota(evicted.status)
        assert evicted.status.requeue_state is not None
        assert evicted.status.requeue_state.count == 1
        assert evicted.status.requeue_state.requeue_at is not None
        assert not running(cluster, "late")
        await until(cluster, lambda: running(cluster, "next"), "the next running")
        back = await until_condition(
            cluster, "late", WorkloadCondition.REQUEUED, "True", "BackoffFinished"
        )
        assert back.status.requeue_state is not None
        assert back.status.requeue_state.requeue_at is None
        await until(cluster, lambda: running(cluster, "late"), "the late one running again")
        assert condition(cluster, "late", WorkloadCondition.PODS_READY) == (
            "False",
            "WaitForStart",
        )


@virtual_time
async def test_a_job_that_is_late_too_often_is_given_up_and_tidied_away() -> None:
    patience = {
        "timeout": "5m",
        "requeuingStrategy": {"backoffBaseSeconds": 60, "backoffLimitCount": 1},
    }
    retention = {"workloads": {"afterDeactivatedByKueue": "1h"}}
    async with simulated(
        "1", waitForPodsReady=patience, objectRetentionPolicies=retention
    ) as cluster:
        await submit(cluster, simulated_job("late", start="9000"))
        given_up = await until_condition(
            cluster,
            "late",
            WorkloadCondition.EVICTED,
            "True",
            "DeactivatedDueToRequeuingLimitExceeded",
        )
        assert not given_up.spec.active
        await until(
            cluster, lambda: not running(cluster, "late") and cluster.job("late"), "a stopped job"
        )
        await until(cluster, lambda: cluster.job("late") is None, "no job")


@virtual_time
async def test_without_the_section_nobody_waits_for_pods() -> None:
    gates = {"DisableWaitForPodsReady": True}
    async with simulated("1", featureGates=gates) as cluster:
        await submit(cluster, simulated_job("late", start="9000", run="60"))
        ended = await until_condition(
            cluster, "late", WorkloadCondition.FINISHED, "True", "Succeeded"
        )
        assert find(ended.status, WorkloadCondition.PODS_READY) is None


# ---------------------------------------------------------------- limits, freed pods, tidying up


@virtual_time
async def test_a_job_runs_no_longer_than_it_said() -> None:
    async with simulated("1") as cluster:
        await submit(cluster, simulated_job("train", labels={names.MAX_EXEC_TIME_SECONDS: "120"}))
        stopped = await until_condition(
            cluster,
            "train",
            WorkloadCondition.EVICTED,
            "True",
            "DeactivatedDueToMaximumExecutionTimeExceeded",
        )
        evicted = find(stopped.status, WorkloadCondition.EVICTED)
        admitted = find(stopped.status, WorkloadCondition.ADMITTED)
        assert evicted is not None
        assert admitted is not None
        assert not stopped.spec.active
        await until(cluster, lambda: not running(cluster, "train"), "a stopped job")
        await until(
            cluster,
            lambda: (w := cluster.workload_of("train")) and not has_quota(w.status),
            "no quota",
        )


@virtual_time
async def test_pods_that_will_not_come_again_give_their_quota_to_others() -> None:
    async with simulated("2") as cluster:
        await submit(cluster, simulated_job("first", run="600", parallelism=2, completions=3))
        await until(cluster, lambda: running(cluster, "first"), "the first running")
        await submit(cluster, simulated_job("second", run="60"))
        await until(cluster, lambda: running(cluster, "second"), "the second running")
        first = cluster.workload_of("first")
        assert first is not None
        assert [(item.name, item.count) for item in first.status.reclaimable_pods] == [("main", 1)]
        assert not is_finished(first.status)


@virtual_time
async def test_a_job_that_had_to_stop_goes_on_with_quota_for_the_pods_that_are_left() -> None:
    """It has more pods than quota was reserved for, but no work for them."""
    async with simulated("2") as cluster:
        await submit(cluster, simulated_job("train", run="600", parallelism=2, completions=3))

        def reclaimed() -> bool:
            workload = cluster.workload_of("train")
            return workload is not None and bool(workload.status.reclaimable_pods)

        await until(cluster, reclaimed, "two of three ended")
        before = cluster.workload_of("train").metadata  # type: ignore[union-attr]
        for active in (False, True):
            patch = {"spec": {"active": active}}
            await cluster.patch(resources.WORKLOADS, before.name, patch, namespace=NAMESPACE)
            await until(cluster, lambda a=active: bool(running(cluster, "train")) is a, f"{active}")
        await until_condition(cluster, "train", WorkloadCondition.FINISHED, "True", "Succeeded")
        after = cluster.workload_of("train")
        assert after is not None
        assert after.metadata.uid == before.uid
        assert after.status.scheduling_stats is not None
        assert sum(each.count for each in after.status.scheduling_stats.evictions) == 1


@virtual_time
async def test_without_the_gate_the_quota_is_kept_to_the_end() -> None:
    async with simulated("2", featureGates={"ReclaimablePods": False}) as cluster:
        await submit(cluster, simulated_job("first", run="600", parallelism=2, completions=3))
        await until(cluster, lambda: running(cluster, "first"), "the first running")
        await submit(cluster, simulated_job("second", run="60"))
        await until(cluster, lambda: running(cluster, "second"), "the second running")
        first = cluster.workload_of("first")
        assert first is not None
        assert first.status.reclaimable_pods == ()
        assert is_finished(first.status)


@virtual_time
async def test_a_finished_workload_is_kept_for_as_long_as_wanted() -> None:
    retention = {"workloads": {"afterFinished": "1h"}}
    clock = LoopClock()
    async with simulated("2", objectRetentionPolicies=retention) as cluster:
        await submit(cluster, simulated_job("train", run="60"))
        await until_condition(cluster, "train", WorkloadCondition.FINISHED, "True", "Succeeded")
        ended_at = clock.now()
        await until(cluster, lambda: cluster.workload_of("train") is None, "no workload")
        assert timedelta(minutes=59) < clock.now() - ended_at <= timedelta(minutes=61)
        job = await cluster.client.get(resources.JOBS, "train", namespace=NAMESPACE)
        assert job["status"]["succeeded"] == 1


@virtual_time
async def test_the_next_job_starts_when_the_pods_of_the_first_are_ready() -> None:
    async with simulated("4", waitForPodsReady={"blockAdmission": True}) as cluster:
        await submit(cluster, simulated_job("first", start="300"))
        await until(cluster, lambda: running(cluster, "first"), "the first running")
        await submit(cluster, simulated_job("second", start="1"))
        await until_condition(
            cluster, "second", WorkloadCondition.QUOTA_RESERVED, "False", "WaitingForPodsReady"
        )
        assert condition(cluster, "first", WorkloadCondition.PODS_READY) == (
            "False",
            "WaitForStart",
        )
        await until(cluster, lambda: running(cluster, "second"), "the second running")
        assert condition(cluster, "first", WorkloadCondition.PODS_READY) == ("True", "Started")
