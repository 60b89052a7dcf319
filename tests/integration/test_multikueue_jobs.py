"""The way of a job across clusters, with workers played by hand."""

from __future__ import annotations

from multiqueue.kube import resources
from tests.multikueue_world import make_gpu_job, multikueue_world


async def test_the_first_worker_to_admit_runs_the_job_and_the_other_copy_goes():
    async with multikueue_world("worker1", "worker2") as world, world.manager():
        await world.hub.create(resources.JOBS, make_gpu_job())
        await world.until(lambda: world.copy("worker2"), "copy on worker2", on="worker2")
        await world.admit("worker1")
        assert await world.until_ready() == "worker1"
        await world.until(lambda: not world.copy("worker2"), "copy gone", on="worker2")
        assert world.workers["worker2"].job("train") is None
