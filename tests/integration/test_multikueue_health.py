"""Workers that do badly: they are sent nothing for a while, then little, then everything again."""

from __future__ import annotations

from multiqueue.kube.resources import JOBS, WORKLOADS
from tests.builders.jobs import make_gpu_job
from tests.multikueue_world import MultiKueueWorld, multikueue_world
from tests.virtual_time import virtual_time


async def submit(world: MultiKueueWorld, *names: str) -> None:
    for name in names:
        await world.hub.create(JOBS, make_gpu_job(name))


async def until_message(world: MultiKueueWorld, worker: str, words: str) -> None:
    await world.changes.until(lambda: words in world.cluster_condition(worker)[2], words)


async def test_a_burst_of_jobs_does_not_wait_for_a_worker_that_hangs():
    """One that takes connections and answers nothing: upstream's dispatch waits for it."""
    names = [f"train-{number}" for number in range(40)]
    world_of_two = multikueue_world("worker1", "worker2", gpus=40, real_workers=True)
    async with world_of_two as world, world.manager():
        await world.until_connected()
        world.gates["worker2"].hang()
        await submit(world, *names)
        assert {await world.until_ready(name) for name in names} == {"worker1"}
        message = world.cluster_condition("worker2")[2]
        assert "is not sent anything for now: it takes requests and does not" in message
        assert world.cluster_condition("worker2")[0] == "True"


@virtual_time
async def test_what_waits_on_a_worker_that_hangs_is_offered_elsewhere_and_what_runs_stays():
    async with multikueue_world("worker1", "worker2") as world, world.manager():
        await world.set_clusters("worker1")
        await world.until_connected("worker1")
        await submit(world, "runs", "waits")
        await world.admit("worker1", "runs")
        await world.until_ready("runs")
        await world.until(lambda: world.copy("worker1", "waits"), "a copy", on="worker1")
        await world.set_clusters("worker1", "worker2")
        await world.until(lambda: world.copy("worker2", "waits"), "a second copy", on="worker2")
        world.gates["worker1"].hang()
        await submit(world, "a", "b", "c")
        await until_message(world, "worker1", "is not sent anything for now")
        await world.until(
            lambda: world.workload("waits").status.nominated_cluster_names == ("worker2",),
            "it is offered to the other one only",
        )
        assert world.workload("runs").status.cluster_name == "worker1"
        assert world.workload("runs").status.scheduling_stats is None


@virtual_time
async def test_a_worker_that_answers_again_is_tried_with_few_before_it_gets_all():
    async with multikueue_world("worker1") as world, world.manager():
        await world.until_connected()
        world.gates["worker1"].hang()
        await submit(world, "a", "b", "c")
        await until_message(world, "worker1", "is not sent anything for now")
        world.gates["worker1"].heal()
        await until_message(world, "worker1", "is on probation and gets few workloads")
        for name in ("a", "b", "c"):
            await world.until(lambda name=name: world.copy("worker1", name), name, on="worker1")
        assert len((await world.workers["worker1"].client.list(WORKLOADS)).items) == 3
