"""What people change on a worker by hand, and a worker that stops for a while."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from multiqueue.api import names
from multiqueue.api.workload_state import is_finished
from multiqueue.kube.resources import JOBS, WORKLOADS, Resource
from tests.builders.jobs import make_gpu_job
from tests.builders.workloads import NAMESPACE
from tests.multikueue_world import MultiKueueWorld, make_config, multikueue_world
from tests.virtual_time import virtual_time

LONG = make_config(worker_lost_timeout=timedelta(minutes=15))


def runs_on(world: MultiKueueWorld) -> list[str]:
    """The workers that have a job that is not suspended."""
    jobs = {name: worker.job("train") for name, worker in world.workers.items()}
    return [name for name, job in jobs.items() if job and not job["spec"].get("suspend")]


async def run_on_worker1(world: MultiKueueWorld) -> None:
    await world.until_connected()
    await world.hub.create(JOBS, make_gpu_job())
    await world.admit("worker1")
    assert await world.until_ready() == "worker1"
    await world.run_job("worker1")
    await world.until(lambda: world.hub.job("train").get("status", {}).get("active"), "it runs")


@virtual_time
async def test_a_worker_that_answers_nothing_for_30_seconds_keeps_its_job() -> None:
    async with multikueue_world("worker1", "worker2") as world, world.manager(LONG):
        await run_on_worker1(world)
        uid = world.workers["worker1"].job("train")["metadata"]["uid"]
        world.gates["worker1"].hang()
        await world.until_cluster("worker1", reason="ClientConnectionFailed")
        await asyncio.sleep(30)
        assert world.workers["worker2"].job("train") is None
        world.gates["worker1"].heal()
        await world.until_connected()
        assert world.workload().status.cluster_name == "worker1"
        assert world.workers["worker1"].job("train")["metadata"]["uid"] == uid
        assert world.workload().status.scheduling_stats is None


ORIGIN = names.MULTIKUEUE_ORIGIN
EDITS: dict[str, tuple[Resource, str, dict[str, Any]]] = {
    "the origin label of the job": (JOBS, "train", {"metadata": {"labels": {ORIGIN: None}}}),
    "the origin label of the copy": (
        WORKLOADS,
        "copy",
        {"metadata": {"labels": {ORIGIN: None}}},
    ),
    "the job's Workload": (
        JOBS,
        "train",
        {
            "metadata": {
                "annotations": {names.PREBUILT_WORKLOAD_NAME: None},
                "labels": {names.PREBUILT_WORKLOAD_NAME: None},
            }
        },
    ),
    "it is stopped": (JOBS, "train", {"spec": {"suspend": True}}),
}


@pytest.mark.parametrize("what", EDITS)
@virtual_time
async def test_what_is_edited_by_hand_runs_nothing_twice(what: str) -> None:
    resource, name, patch = EDITS[what]
    async with multikueue_world("worker1", "worker2") as world, world.manager():
        await run_on_worker1(world)
        worker = world.workers["worker1"]
        if name == "copy":
            name = world.copy("worker1").metadata.name
        await worker.client.patch(resource, name, patch, namespace=NAMESPACE)
        for _ in range(20):
            await asyncio.sleep(5)
            copy = world.copy("worker2")
            if copy is not None and not copy.status.conditions:
                await world.admit("worker2")
            assert len(runs_on(world)) + (world.workers["worker2"].job("train") is not None) <= 1
        assert len(runs_on(world)) <= 1


@pytest.mark.parametrize("what", ["the origin label of the job", "the origin label of the copy"])
@virtual_time
async def test_an_origin_label_that_was_taken_off_is_put_back(what: str) -> None:
    """Without it no informer shows the object, which runs all the same."""
    resource, name, patch = EDITS[what]
    async with multikueue_world("worker1", "worker2") as world, world.manager():
        await run_on_worker1(world)
        worker = world.workers["worker1"]
        if name == "copy":
            name = world.copy("worker1").metadata.name
        await worker.client.patch(resource, name, patch, namespace=NAMESPACE)
        async with asyncio.timeout(60):
            while True:
                found = await worker.client.get(resource, name, namespace=NAMESPACE)
                if ORIGIN in found["metadata"].get("labels", {}):
                    break
                await asyncio.sleep(1)
        await world.finish_job("worker1")
        await world.finish_copy("worker1")
        await world.until(lambda: is_finished(world.workload().status), "it ends once")
        assert world.workload().status.scheduling_stats is None
