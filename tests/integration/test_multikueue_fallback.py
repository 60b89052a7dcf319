"""A dispatcher that sends one copy: to the next cluster where the first does not start it."""

from __future__ import annotations

from datetime import timedelta

from multiqueue.kube.resources import CLUSTER_QUEUES, JOBS
from multiqueue.plugins.options import PATIENCE
from tests.builders.jobs import make_gpu_job
from tests.multikueue_world import MultiKueueWorld, make_config, multikueue_world
from tests.virtual_time import loop_clock, virtual_time

CONFIG = make_config(dispatcher_name="score")
SLACK = timedelta(seconds=5)


async def until_offered(world: MultiKueueWorld, worker: str) -> None:
    await world.until(
        lambda: (w := world.workload()) and w.status.nominated_cluster_names == (worker,),
        f"offered to {worker}",
    )


@virtual_time
async def test_one_that_does_not_start_it_in_time_gives_way_to_the_next_and_comes_last():
    async with multikueue_world("worker1", "worker2") as world, world.manager(CONFIG):
        await world.until_connected()
        begun = loop_clock().now()
        await world.hub.create(JOBS, make_gpu_job())
        await until_offered(world, "worker1")
        await until_offered(world, "worker2")
        assert PATIENCE <= loop_clock().now() - begun < PATIENCE + SLACK
        assert "worker1" in world.check()[1]
        assert "did not start it before" in world.check()[1]
        await world.until(lambda: world.copy("worker1") is None, "withdrawn", on="worker1")
        await world.admit("worker2")
        assert await world.until_ready() == "worker2"


@virtual_time
async def test_one_whose_queue_is_stopped_gives_way_at_once():
    async with multikueue_world("worker1", "worker2") as world, world.manager(CONFIG):
        await world.until_connected()
        begun = loop_clock().now()
        await world.hub.create(JOBS, make_gpu_job())
        await until_offered(world, "worker1")
        await world.workers["worker1"].patch(CLUSTER_QUEUES, "cq", {"spec": {"stopPolicy": "Hold"}})
        await until_offered(world, "worker2")
        assert loop_clock().now() - begun < SLACK
