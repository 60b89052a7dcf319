"""What is not ours on a worker is never touched, and never in the way for long (T-36 to T-38)."""

from __future__ import annotations

from multiqueue.api import names
from multiqueue.kube.resources import CLUSTER_QUEUES, JOBS, LOCAL_QUEUES
from tests.builders.jobs import make_gpu_job
from tests.builders.queues import make_gpu_queue, make_local_queue
from tests.builders.workloads import NAMESPACE
from tests.multikueue_world import MultiKueueWorld, make_config, multikueue_world, record_warnings


async def put_foreign_job(world: MultiKueueWorld, worker: str, name: str = "train") -> str:
    """Create somebody else's Job on a worker; returns its uid."""
    job = make_gpu_job(name, managed_by=None)
    del job["metadata"]["labels"]
    created = await world.workers[worker].create(JOBS, job)
    return str(created["metadata"]["uid"])


async def test_a_foreign_job_of_the_same_name_is_left_alone_and_others_are_tried():
    """T-38, G-10: no Workload is left holding quota there either."""
    async with multikueue_world("worker1", "worker2") as world, world.manager() as context:
        warnings = record_warnings(context)
        await world.until_connected()
        uid = await put_foreign_job(world, "worker1")
        await world.hub.create(JOBS, make_gpu_job())
        await world.until(lambda: world.copy("worker2"), "copy on worker2", on="worker2")
        await world.until(
            lambda: world.workload().status.nominated_cluster_names == ("worker2",), "told why not"
        )
        assert 'worker1 has a Job "team-a/train" that belongs to somebody else' in world.check()[1]
        await world.admit("worker2")
        assert await world.until_ready() == "worker2"
        assert world.copy("worker1") is None
        (warning,) = warnings
        assert 'worker1 has a Job "team-a/train" that belongs to somebody else' in warning
        foreign = await world.workers["worker1"].client.get(JOBS, "train", namespace=NAMESPACE)
        assert foreign["metadata"]["uid"] == uid
        assert names.MULTIKUEUE_ORIGIN not in foreign["metadata"].get("labels", {})


async def test_a_foreign_job_that_comes_between_costs_the_cluster_its_copy():
    async with multikueue_world("worker1", "worker2") as world, world.manager():
        await world.until_connected()
        await world.hub.create(JOBS, make_gpu_job())
        await world.until(lambda: world.copy("worker1"), "copy on worker1", on="worker1")
        uid = await put_foreign_job(world, "worker1")
        await world.admit("worker1")
        await world.until(lambda: not world.copy("worker1"), "copy withdrawn", on="worker1")
        await world.admit("worker2")
        assert await world.until_ready() == "worker2"
        foreign = await world.workers["worker1"].client.get(JOBS, "train", namespace=NAMESPACE)
        assert foreign["metadata"]["uid"] == uid


async def test_a_workload_that_waits_for_a_taken_name_says_so():
    async with multikueue_world("worker1") as world, world.manager():
        await world.until_connected()
        await put_foreign_job(world, "worker1")
        await world.hub.create(JOBS, make_gpu_job())
        await world.until(
            lambda: "belongs to somebody else" in world.check()[1], "reason on the check"
        )
        assert world.check()[0] == "Pending"
        assert world.workload().status.nominated_cluster_names == ()


async def test_two_managers_with_different_origins_share_a_worker():
    async with multikueue_world("worker1") as world:
        async with world.manager(make_config(origin="other")):
            await world.until_connected()
            await world.hub.create(JOBS, make_gpu_job())
            await world.admit("worker1")
            await world.until_ready()
        theirs = world.copy("worker1")
        async with world.manager(make_config(origin="ours")):
            await world.hub.create(JOBS, make_gpu_job("second"))
            await world.until(lambda: world.copy("worker1", "second"), "our copy", on="worker1")
            assert world.copy("worker1").metadata.uid == theirs.metadata.uid
            labels = world.workers["worker1"].job("train")["metadata"]["labels"]
            assert labels[names.MULTIKUEUE_ORIGIN] == "other"


async def test_worker_and_manager_run_jobs_of_their_own_beside_it():
    """T-36, T-37."""
    async with multikueue_world("worker1", real_workers=True) as world, world.manager():
        await world.until_connected()
        await world.hub.create(CLUSTER_QUEUES, make_gpu_queue(4, name="local"))
        await world.hub.create(LOCAL_QUEUES, make_local_queue("here", cluster_queue="local"))
        own = make_gpu_job("own", managed_by=None)
        own["metadata"]["labels"] = {names.QUEUE_NAME: "here"}
        await world.hub.create(JOBS, own)
        await world.hub.create(JOBS, make_gpu_job("remote"))
        await world.workers["worker1"].create(JOBS, make_gpu_job("theirs", managed_by=None))
        await world.until_ready("remote")
        await world.until(lambda: is_running(world.hub.job("own")), "own job runs here")
        worker = world.workers["worker1"]
        for name in ("remote", "theirs"):
            await world.until(
                lambda name=name: is_running(worker.job(name)), f"{name} runs there", on="worker1"
            )
        assert worker.job("own") is None


def is_running(job: dict | None) -> bool:
    return job is not None and job["spec"].get("suspend") is False
