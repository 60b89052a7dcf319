"""Priorities that change while copies wait and run: T-74, T-107, T-108, G-20."""

from __future__ import annotations

import msgspec
import pytest

from multiqueue.api import names
from multiqueue.api.config import Gate
from multiqueue.kube.resources import CLUSTER_QUEUES, JOBS, WORKLOAD_PRIORITY_CLASSES, WORKLOADS
from tests.builders.jobs import make_gpu_job
from tests.builders.workloads import NAMESPACE
from tests.multikueue_world import MultiKueueWorld, make_config, multikueue_world
from tests.queue_manager import QueueCluster
from tests.virtual_time import virtual_time

GATES = {Gate.PRIORITY_BOOST.value: True}
CONFIG = msgspec.structs.replace(make_config(), feature_gates=GATES)


async def make_classes(*clusters: QueueCluster) -> None:
    for cluster in clusters:
        for name, value in (("low", 1), ("high", 100)):
            body = {
                "apiVersion": names.V1BETA2,
                "kind": "WorkloadPriorityClass",
                "metadata": {"name": name},
                "value": value,
            }
            await cluster.create(WORKLOAD_PRIORITY_CLASSES, body)


async def submit(world: MultiKueueWorld, name: str = "train", gpus: int = 1, **labels: str) -> None:
    job = make_gpu_job(name, gpus=gpus)
    job["metadata"]["labels"].update(labels)
    await world.hub.create(JOBS, job)


async def label(world: MultiKueueWorld, name: str, priority_class: str) -> None:
    patch = {"metadata": {"labels": {names.PRIORITY_CLASS: priority_class}}}
    await world.hub.patch(JOBS, name, patch, namespace=NAMESPACE)


async def boost(world: MultiKueueWorld, value: str | None, job: str = "train") -> None:
    workload = world.workload(job)
    assert workload is not None
    patch = {"metadata": {"annotations": {names.PRIORITY_BOOST: value}}}
    await world.hub.patch(WORKLOADS, workload.metadata.name, patch, namespace=NAMESPACE)


async def until_boosted(world: MultiKueueWorld, value: str | None) -> None:
    await world.until(
        lambda: (
            (c := world.copy("w1")) and c.metadata.annotations.get(names.PRIORITY_BOOST) == value
        ),
        f"boost {value} on the copy",
        on="w1",
    )


@pytest.mark.parametrize("runs", [False, True], ids=["waiting", "running"])
@virtual_time
async def test_a_boost_reaches_the_copy_and_goes_again(runs: bool):
    """G-20."""
    async with multikueue_world("w1", real_workers=runs) as world, world.manager(CONFIG):
        await submit(world)
        await world.until(lambda: world.copy("w1"), "copy", on="w1")
        if runs:
            await world.until_ready()
        uid = world.copy("w1").metadata.uid
        await boost(world, "50")
        await until_boosted(world, "50")
        await boost(world, None)
        await until_boosted(world, None)
        assert world.copy("w1").metadata.uid == uid


@virtual_time
async def test_a_running_copy_keeps_a_changed_class_when_its_worker_looks_at_the_job():
    """T-108: the job there still has the class that it was made with."""
    async with multikueue_world("w1", real_workers=True) as world, world.manager():
        await make_classes(world.hub, world.workers["w1"])
        await submit(world, **{names.PRIORITY_CLASS: "low"})
        await world.until_ready()
        await label(world, "train", "high")
        await world.until(lambda: world.copy("w1").spec.priority == 100, "priority", on="w1")
        await world.run_job("w1")
        await world.set_job_status("w1", active=1, ready=0, failed=1)
        await world.until(
            lambda: (world.hub.job("train") or {}).get("status", {}).get("failed") == 1, "mirrored"
        )
        assert world.copy("w1").spec.priority == 100


@virtual_time
async def test_a_lowered_job_makes_room_for_one_that_waits():
    """T-107."""
    async with multikueue_world("w1", real_workers=True) as world:
        preemption = {"withinClusterQueue": "LowerPriority"}
        for cluster in (world.hub, world.workers["w1"]):
            await make_classes(cluster)
            await cluster.client.patch(CLUSTER_QUEUES, "cq", {"spec": {"preemption": preemption}})
        async with world.manager():
            await world.until_connected()
            await submit(world, "first", 8, **{names.PRIORITY_CLASS: "high"})
            await world.until_ready("first")
            await submit(world, "second", 8, **{names.PRIORITY_CLASS: "high"})
            await world.until(lambda: world.copy("w1", "second"), "copy", on="w1")
            await label(world, "first", "low")
            await world.until_ready("second")
