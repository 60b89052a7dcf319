"""What workers could ever hold decides whether the manager reserves quota at all."""

from __future__ import annotations

import pytest

from multiqueue.api import names
from multiqueue.api.conditions import CheckState, WorkloadCondition
from multiqueue.api.workload_state import find, has_quota
from multiqueue.kube.resources import CLUSTER_QUEUES, JOBS, LOCAL_QUEUES, MULTIKUEUE_CLUSTERS
from tests.builders.jobs import make_gpu_job
from tests.builders.queues import make_gpu_queue, make_local_queue
from tests.builders.workloads import NAMESPACE
from tests.multikueue_world import MultiKueueWorld, make_config, multikueue_world
from tests.virtual_time import virtual_time


async def submit(world: MultiKueueWorld, name: str = "train", **constraints: object) -> None:
    await world.hub.create(JOBS, make_gpu_job(name, **constraints))


async def resize(world: MultiKueueWorld, worker: str, gpus: int) -> None:
    """Give a worker another quota."""
    queue = make_gpu_queue(gpus)
    await world.workers[worker].patch(CLUSTER_QUEUES, "cq", {"spec": queue["spec"]})


async def until_waits(world: MultiKueueWorld, words: str, job: str = "train") -> None:
    """Wait until a job waits for quota, and says this."""

    def waits() -> bool:
        workload = world.workload(job)
        reserved = workload and find(workload.status, WorkloadCondition.QUOTA_RESERVED)
        return bool(reserved and reserved.status == "False" and words in reserved.message)

    await world.until(waits, f"{job} waits: {words}")
    workload = world.workload(job)
    assert workload is not None
    assert workload.status.admission is None


@pytest.mark.parametrize("dispatcher", ["score", "all-at-once"])
@virtual_time
async def test_a_gang_larger_than_every_worker_waits_without_quota_and_says_the_numbers(
    dispatcher: str,
):
    config = make_config(dispatcher_name=dispatcher)
    async with multikueue_world("a100", "h100", real_workers=True) as world:
        await resize(world, "h100", 4)
        async with world.manager(config):
            await world.until_connected()
            await submit(world, gpus=16)
            await until_waits(
                world, "no worker can hold 16 x nvidia.com/gpu: a100 has at most 8, h100 at most 4"
            )
            reserved = find(world.workload().status, WorkloadCondition.QUOTA_RESERVED)
            assert reserved.reason == "ExceedsMaxQuota"
            assert world.copy("a100") is None

            await submit(world, "small", gpus=4)
            await world.until_ready("small")

            await resize(world, "h100", 24)
            assert await world.until_ready() == "h100"


@virtual_time
async def test_a_worker_that_joins_may_be_large_enough():
    async with multikueue_world("w1", "w2", real_workers=True) as world:
        await resize(world, "w2", 16)
        await world.set_clusters("w1")
        async with world.manager():
            await world.until_connected()
            await submit(world, gpus=16)
            await until_waits(world, "w1 has at most 8")

            await world.set_clusters("w1", "w2")
            assert await world.until_ready() == "w2"


@virtual_time
async def test_capacities_are_no_sum():
    async with multikueue_world("w1", "w2", real_workers=True) as world, world.manager():
        await world.until_connected()
        await submit(world, gpus=9)
        await until_waits(world, "w1 has at most 8, w2 at most 8")


@virtual_time
async def test_a_worker_out_of_reach_could_hold_anything():
    async with multikueue_world("w1", "w2", real_workers=True) as world, world.manager():
        await world.until_connected()
        world.gates["w2"].cut()
        await world.until_cluster("w2", reason="ClientConnectionFailed")
        await submit(world, gpus=16)
        await world.until(
            lambda: (w := world.workload()) and has_quota(w.status), "quota is reserved"
        )


@virtual_time
async def test_quota_is_given_back_when_no_worker_can_hold_the_gang_any_more():
    async with multikueue_world("w1", "w2", real_workers=True) as world, world.manager():
        await world.until_connected()
        for name in ("one", "two"):
            await submit(world, name, gpus=8)
            await world.until_ready(name)
        await submit(world, "late", gpus=8)
        await world.until(lambda: world.copy("w1", "late"), "copy on w1", on="w1")

        for worker in ("w1", "w2"):
            await resize(world, worker, 4)
        await until_waits(world, "w1 has at most 4, w2 at most 4", "late")
        assert world.check("one")[0] == CheckState.READY
        await world.until(lambda: world.copy("w1", "late") is None, "copy gone", on="w1")


@virtual_time
async def test_a_queue_that_no_worker_has_is_waited_for_without_quota():
    """G-17 where it is all of them."""
    async with multikueue_world("w1", real_workers=True) as world:
        await world.workers["w1"].client.delete(LOCAL_QUEUES, "lq", namespace=NAMESPACE)
        async with world.manager():
            await world.until_connected()
            await submit(world)
            await until_waits(world, f'w1 has no LocalQueue "lq" in namespace "{NAMESPACE}"')
            await world.workers["w1"].create(LOCAL_QUEUES, make_local_queue())
            assert await world.until_ready() == "w1"


@virtual_time
async def test_a_queue_that_one_worker_lacks_makes_the_other_run_it():
    """G-17."""
    async with multikueue_world("w1", "w2", real_workers=True) as world:
        await world.workers["w1"].client.delete(LOCAL_QUEUES, "lq", namespace=NAMESPACE)
        async with world.manager():
            await world.until_connected()
            await submit(world)
            assert await world.until_ready() == "w2"
            assert world.copy("w1") is None


@virtual_time
async def test_a_wish_for_clusters_that_are_too_small_waits_without_quota():
    async with multikueue_world("w1", "w2", real_workers=True) as world:
        await resize(world, "w2", 16)
        async with world.manager():
            await world.until_connected()
            job = make_gpu_job(gpus=16)
            job["metadata"]["annotations"] = {names.CLUSTER_NAMES: "w1"}
            await world.hub.create(JOBS, job)
            await until_waits(world, "w1 has at most 8 nvidia.com/gpu, 16 asked")
            await world.hub.patch(
                JOBS,
                "train",
                {"metadata": {"annotations": {names.CLUSTER_NAMES: "w2"}}},
                namespace=NAMESPACE,
            )
            assert await world.until_ready() == "w2"


@virtual_time
async def test_closed_clusters_are_waited_for_and_not_taken_for_too_small() -> None:
    async with multikueue_world("a100", "h100", real_workers=True) as world:
        await resize(world, "h100", 4)
        async with world.manager():
            await world.until_connected()
            cordon = {"metadata": {"annotations": {names.CORDON: "firmware"}}}
            await world.hub.patch(MULTIKUEUE_CLUSTERS, "a100", cordon)
            await submit(world, gpus=8)
            await until_waits(
                world,
                "no worker takes this workload now: a100 is cordoned (firmware); "
                "h100 has at most 4 nvidia.com/gpu, 8 asked",
            )
            workload = world.workload()
            assert workload is not None
            reserved = find(workload.status, WorkloadCondition.QUOTA_RESERVED)
            assert reserved is not None
            assert reserved.reason == "WaitingForQuota"
            cordon["metadata"]["annotations"] = {names.CORDON: "false"}
            await world.hub.patch(MULTIKUEUE_CLUSTERS, "a100", cordon)
            assert await world.until_ready() == "a100"


@virtual_time
async def test_a_wish_for_clusters_that_there_are_not_is_told() -> None:
    async with multikueue_world("a100", "h100", real_workers=True) as world:
        await world.set_clusters("a100")
        async with world.manager():
            await world.until_connected()
            job = make_gpu_job()
            job["metadata"]["annotations"] = {names.CLUSTER_NAMES: "h100,b200"}
            await world.hub.create(JOBS, job)
            await until_waits(world, '; there is no MultiKueueCluster "b200"; "h100" is not among')


@virtual_time
async def test_a_job_of_the_worker_s_own_takes_room_that_is_not_counted_on():
    async with multikueue_world("w1", "w2", real_workers=True) as world:
        await world.workers["w1"].create(JOBS, make_gpu_job("theirs", gpus=8, managed_by=None))
        await world.until(
            lambda: (j := world.workers["w1"].job("theirs")) and not j["spec"]["suspend"],
            "their job runs",
            on="w1",
        )
        async with world.manager(make_config(dispatcher_name="score")):
            await world.until_connected()
            await submit(world, gpus=8)
            assert await world.until_ready() == "w2"
            assert world.copy("w1") is None


@virtual_time
async def test_a_new_manager_waits_for_its_workers_before_it_gives_such_a_gang_quota():
    """It could preempt others for nothing meanwhile."""
    async with multikueue_world("w1", "w2", real_workers=True) as world:
        async with world.manager():
            await world.until_connected()
            await submit(world, gpus=16)
            await until_waits(world, "w1 has at most 8")
        async with world.manager():
            await submit(world, "small")
            await world.until_ready("small")
            await until_waits(world, "w1 has at most 8")
        small = world.workload("small").metadata.name
        told = {"QuotaReserved", "Admitted"}
        got_quota = {name for _, name, what in await world.hub.events() if what in told}
        assert got_quota == {small}
