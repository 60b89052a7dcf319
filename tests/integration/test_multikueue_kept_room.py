"""Room that is counted for a Workload on its way to a worker goes to others if it never arrives."""

from __future__ import annotations

import asyncio

from multiqueue.kube.resources import JOBS
from tests.builders.jobs import make_gpu_job
from tests.builders.workloads import NAMESPACE
from tests.multikueue_world import MultiKueueWorld, make_config, multikueue_world
from tests.virtual_time import virtual_time

SCORE = make_config(dispatcher_name="score")


async def submit(world: MultiKueueWorld, name: str, gpus: int) -> None:
    await world.hub.create(JOBS, make_gpu_job(name, gpus=gpus))


async def delete(world: MultiKueueWorld, name: str) -> None:
    await world.hub.client.delete(JOBS, name, namespace=NAMESPACE, propagation="Background")


async def until_told_to_wait(world: MultiKueueWorld, name: str) -> None:
    await world.until(lambda: "insufficient unused quota" in world.check(name)[1], f"{name} waits")


@virtual_time
async def test_a_job_that_is_deleted_before_its_copy_is_there_gives_its_room_to_the_next():
    async with multikueue_world("w1", gpus=8) as world, world.manager(SCORE):
        await world.until_connected()
        world.gates["w1"].hang()
        await submit(world, "first", 8)
        await world.until(
            lambda: (sent := world.workload("first")) and sent.status.nominated_cluster_names,
            "first is sent",
        )
        await submit(world, "second", 8)
        await until_told_to_wait(world, "second")
        await delete(world, "first")
        await asyncio.sleep(1)
        world.gates["w1"].heal()
        await world.until(lambda: world.copy("w1", "second"), "second is there", on="w1")
