"""Workers that are lost, come back, or are taken out: what upstream gets wrong (G-1 to G-22)."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from multiqueue.api import names
from multiqueue.api.workload_state import has_quota, is_evicted, is_finished
from multiqueue.kube.resources import JOBS, LOCAL_QUEUES, MULTIKUEUE_CLUSTERS, WORKLOADS
from tests.builders.jobs import make_gpu_job
from tests.builders.workloads import NAMESPACE
from tests.multikueue_world import MultiKueueWorld, make_config, multikueue_world
from tests.virtual_time import SteppingClock, loop_clock, virtual_time

LONG = make_config(worker_lost_timeout=timedelta(minutes=15))


async def start_on(world: MultiKueueWorld, worker: str, job: str = "train") -> None:
    await world.admit(worker, job)
    assert await world.until_ready(job) == worker
    await world.run_job(worker, job)
    await world.until(
        lambda: (world.hub.job(job) or {}).get("status", {}).get("active"), "status back"
    )


async def follow_on(world: MultiKueueWorld, worker: str) -> None:
    """Have the worker say something new of the job, which arrives here."""
    await world.set_job_status(worker, active=1, ready=0)
    await world.until(lambda: world.hub.job("train")["status"].get("ready") == 0, "status back")


async def submit(world: MultiKueueWorld, name: str = "train") -> None:
    await world.until_connected()
    await world.hub.create(JOBS, make_gpu_job(name))


def runs(world: MultiKueueWorld, worker: str, job: str = "train") -> bool:
    found = world.workers[worker].job(job)
    return found is not None


@virtual_time
async def test_a_short_outage_evicts_nothing():
    async with multikueue_world("worker1") as world, world.manager(LONG):
        await submit(world)
        await start_on(world, "worker1")
        world.gates["worker1"].cut()
        message = await world.until_cluster("worker1", reason="ClientConnectionFailed")
        assert "does not answer" in message
        world.gates["worker1"].heal()
        await world.until_connected()
        await world.finish_job("worker1")
        await world.finish_copy("worker1")
        await world.until(lambda: is_finished(world.workload().status), "finished")
        stats = world.workload().status.scheduling_stats
        assert stats is None


@virtual_time
async def test_a_worker_that_hangs_loses_its_job_five_seconds_after_its_timeout_at_most():
    """It counts as lost since the first request that it did not answer (M-49)."""
    async with multikueue_world("worker1", "worker2") as world, world.manager(LONG):
        await submit(world)
        await start_on(world, "worker1")
        world.gates["worker1"].hang()
        clock = asyncio.get_running_loop().time
        hung_at = clock()
        await asyncio.sleep(890.0)
        assert world.workload().status.cluster_name == "worker1"
        await world.until(lambda: world.workload().status.cluster_name != "worker1", "taken back")
        assert 900.0 <= clock() - hung_at <= 905.5


@virtual_time
async def test_a_clock_that_is_set_forward_gives_up_no_worker():
    clock = SteppingClock(loop_clock().now())
    async with multikueue_world("worker1", "worker2") as world, world.manager(LONG, clock=clock):
        await submit(world)
        await start_on(world, "worker1")
        world.gates["worker1"].cut()
        await world.until_cluster("worker1", reason="ClientConnectionFailed")
        clock.step(timedelta(hours=1))
        await asyncio.sleep(60.0)
        assert world.workload().status.cluster_name == "worker1"
        world.gates["worker1"].heal()
        await world.until_connected()
        await world.finish_job("worker1")
        await world.finish_copy("worker1")
        await world.until(lambda: is_finished(world.workload().status), "finished")
        assert world.workload().status.scheduling_stats is None


@virtual_time
async def test_a_clock_that_is_set_back_holds_no_quota_for_a_worker_that_is_gone():
    clock = SteppingClock(loop_clock().now())
    async with multikueue_world("worker1", "worker2") as world, world.manager(LONG, clock=clock):
        await submit(world)
        await start_on(world, "worker1")
        world.gates["worker1"].cut()
        await world.until_cluster("worker1", reason="ClientConnectionFailed")
        clock.step(timedelta(hours=-5))
        await asyncio.sleep(960.0)
        assert world.workload().status.cluster_name != "worker1"


@virtual_time
async def test_a_clock_that_is_set_forward_deletes_no_copy_whose_job_still_stops():
    """A worker that answers has workerLostTimeout to stop a job before its copy is deleted."""
    clock = SteppingClock(loop_clock().now())
    async with multikueue_world("worker1") as world, world.manager(LONG, clock=clock) as manager:
        await submit(world)
        await start_on(world, "worker1")
        name, change = world.workload().metadata.name, {"spec": {"active": False}}
        await manager.client.patch(WORKLOADS, name, change, namespace=NAMESPACE)
        await world.until(lambda: is_evicted(world.workload().status), "evicted")
        clock.step(timedelta(hours=1))
        await asyncio.sleep(60.0)
        assert world.copy("worker1") is not None
        await asyncio.sleep(900.0)
        assert world.copy("worker1") is None


@virtual_time
async def test_a_lost_worker_loses_the_job_although_its_last_status_said_active():
    """G-22: upstream holds the quota until the worker is back (M-175)."""
    async with multikueue_world("worker1", "worker2") as world, world.manager():
        await submit(world)
        await start_on(world, "worker1")
        world.gates["worker1"].cut()
        await world.until(
            lambda: (c := world.copy("worker2")) and c.metadata.uid, "copy on worker2", on="worker2"
        )
        assert not world.hub.job("train")["status"].get("active")
        await world.admit("worker2")
        assert await world.until_ready() == "worker2"


@virtual_time
async def test_a_restart_is_no_new_grace_for_a_worker_that_is_lost():
    """M-91: the Active condition remembers since when (M-40, M-230)."""
    async with multikueue_world("worker1", "worker2") as world:
        async with world.manager(LONG):
            await submit(world)
            await start_on(world, "worker1")
            world.gates["worker1"].cut()
            await world.until_cluster("worker1", reason="ClientConnectionFailed")
            await asyncio.sleep(600.0)
            assert world.workload().status.cluster_name == "worker1"
        async with world.manager(LONG):
            await asyncio.sleep(270.0)
            assert world.workload().status.cluster_name == "worker1"
            await world.until(lambda: world.copy("worker2"), "copy on worker2", on="worker2")


@virtual_time
async def test_a_returning_worker_is_fenced_and_the_latch_stands():
    """G-1: its older admission does not win, and its job goes."""
    async with multikueue_world("worker1", "worker2") as world, world.manager():
        await submit(world)
        await start_on(world, "worker1")
        world.gates["worker1"].cut()
        await world.until(lambda: runs(world, "worker1"), "still there", on="worker1")
        await world.until(lambda: world.copy("worker2"), "copy on worker2", on="worker2")
        await start_on(world, "worker2")
        world.gates["worker1"].heal()
        await world.until(lambda: not runs(world, "worker1"), "old job gone", on="worker1")
        await world.until(lambda: not world.copy("worker1"), "old copy gone", on="worker1")
        assert world.workload().status.cluster_name == "worker2"
        assert runs(world, "worker2")


@virtual_time
async def test_a_cluster_taken_out_of_the_configuration_keeps_its_job():
    """G-2."""
    async with multikueue_world("worker1", "worker2") as world, world.manager():
        await submit(world)
        await start_on(world, "worker1")
        await world.set_clusters("worker2")
        await submit(world, "later")
        await world.until(lambda: world.copy("worker2", "later"), "later job", on="worker2")
        assert world.copy("worker1", "later") is None
        await follow_on(world, "worker1")
        await world.finish_job("worker1")
        await world.finish_copy("worker1")
        await world.until(lambda: is_finished(world.workload().status), "finished")
        assert world.workload().status.scheduling_stats is None
        assert not world.copy("worker2", "train")
        await world.until(lambda: not world.copy("worker1"), "copy gone", on="worker1")


@virtual_time
async def test_a_deleted_multikueuecluster_is_followed_to_the_end_of_its_job():
    """G-3, M-42."""
    async with multikueue_world("worker1", "worker2") as world, world.manager():
        await submit(world)
        await start_on(world, "worker1")
        await world.hub.client.delete(MULTIKUEUE_CLUSTERS, "worker1")
        await world.changes.until(
            lambda: world.check_condition()[1] == "SomeActiveClusters", "check sees it missing"
        )
        await follow_on(world, "worker1")
        await world.finish_job("worker1")
        await world.finish_copy("worker1")
        await world.until(lambda: is_finished(world.workload().status), "finished")
        assert world.workload().status.scheduling_stats is None
        await world.until(lambda: not world.copy("worker1"), "copy gone", on="worker1")


@virtual_time
async def test_what_waits_is_offered_to_a_worker_that_comes_back():
    """G-4, M-71."""
    async with multikueue_world("worker1", "worker2") as world, world.manager():
        world.gates["worker2"].cut()
        await world.until_cluster("worker2", reason="ClientConnectionFailed")
        await world.hub.create(JOBS, make_gpu_job())
        await world.until(lambda: world.copy("worker1"), "copy on worker1", on="worker1")
        assert world.workload().status.nominated_cluster_names == ("worker1",)
        world.gates["worker2"].heal()
        await world.put_secret(
            "worker2", {**world.kubeconfig("worker2"), "preferences": {"x": "y"}}
        )
        await world.until(lambda: world.copy("worker2"), "copy on worker2", on="worker2")


@virtual_time
async def test_a_copy_deleted_by_hand_sends_the_workload_round_again():
    """G-14, T-166."""
    async with multikueue_world("worker1") as world, world.manager():
        await submit(world)
        await start_on(world, "worker1")
        uid = world.copy("worker1").metadata.uid
        worker = world.workers["worker1"].client
        name = world.copy("worker1").metadata.name
        await worker.delete(WORKLOADS, name, namespace=NAMESPACE)
        await world.until(
            lambda: (c := world.copy("worker1")) and c.metadata.uid != uid, "new copy", on="worker1"
        )
        assert not is_finished(world.workload().status)


@virtual_time
async def test_a_job_deleted_by_hand_sends_the_workload_round_again():
    async with multikueue_world("worker1") as world, world.manager():
        await submit(world)
        await start_on(world, "worker1")
        uid = world.copy("worker1").metadata.uid
        worker = world.workers["worker1"].client
        await worker.delete(JOBS, "train", namespace=NAMESPACE, propagation="Background")
        await world.until(
            lambda: (c := world.copy("worker1")) and c.metadata.uid != uid, "new copy", on="worker1"
        )


@virtual_time
async def test_a_job_that_ended_and_was_deleted_there_first_still_ends_here():
    """G-8: whoever deleted it, it does not run again."""
    async with multikueue_world("worker1") as world, world.manager():
        await submit(world)
        await start_on(world, "worker1")
        world.gates["worker1"].hang()
        worker = world.workers["worker1"].client
        await worker.delete(JOBS, "train", namespace=NAMESPACE, propagation="Background")
        await world.until(lambda: not runs(world, "worker1"), "job gone", on="worker1")
        await world.finish_copy("worker1")
        world.gates["worker1"].heal()
        await world.until(lambda: is_finished(world.workload().status), "finished")
        conditions = world.hub.job("train")["status"]["conditions"]
        assert {c["type"] for c in conditions} >= {"SuccessCriteriaMet", "Complete"}


@virtual_time
async def test_a_manager_that_is_killed_and_started_again_goes_on():
    """M-231."""
    async with multikueue_world("worker1", "worker2") as world:
        async with world.manager():
            await submit(world)
            await start_on(world, "worker2")
        async with world.manager():
            await world.finish_job("worker2")
            await world.finish_copy("worker2")
            await world.until(lambda: is_finished(world.workload().status), "finished")
            await world.until(lambda: not world.copy("worker2"), "copy gone", on="worker2")


@virtual_time
async def test_what_was_deleted_while_no_manager_ran_is_collected():
    """T-20, M-173."""
    async with multikueue_world("worker1") as world:
        async with world.manager():
            await submit(world)
            await start_on(world, "worker1")
            key = world.workload().metadata.key
        await world.hub.patch(
            WORKLOADS,
            key.split("/")[1],
            {"metadata": {"finalizers": None}},
            namespace=NAMESPACE,
        )
        await world.hub.client.delete(JOBS, "train", namespace=NAMESPACE, propagation="Background")
        await world.until(lambda: not world.hub.informers.workloads.store.keys(), "deleted here")
        async with world.manager():
            await world.until(lambda: not runs(world, "worker1"), "job gone", on="worker1")
            store = world.workers["worker1"].informers.workloads.store
            await world.until(lambda: key not in store, "copy gone", on="worker1")


@virtual_time
async def test_what_was_deleted_while_its_worker_was_away_goes_when_that_is_back():
    """T-20, T-139, T-178: and what lost the race, T-21 (M-47)."""
    async with multikueue_world("worker1", "worker2") as world, world.manager(LONG):
        await submit(world)
        await world.until(lambda: world.copy("worker2"), "copy on worker2", on="worker2")
        key = world.workload().metadata.key
        world.gates["worker2"].cut()
        await world.until_cluster("worker2", reason="ClientConnectionFailed")
        await start_on(world, "worker1")
        world.gates["worker1"].cut()
        await world.until_cluster("worker1", reason="ClientConnectionFailed")
        await world.hub.client.delete(JOBS, "train", namespace=NAMESPACE, propagation="Background")
        await world.until(lambda: key not in world.hub.informers.workloads.store, "deleted here")
        assert runs(world, "worker1")
        for name, worker in world.workers.items():
            world.gates[name].heal()
            store = worker.informers.workloads.store
            await world.until(lambda s=store: key not in s, "copy gone", on=name)
            await world.until(lambda n=name: not runs(world, n), "job gone", on=name)


@virtual_time
async def test_a_job_that_was_evicted_here_while_its_worker_was_away_waits_for_it():
    """I-6: the quota goes only when nothing runs, or the worker was given up."""
    async with multikueue_world("worker1", "worker2") as world, world.manager() as manager:
        await submit(world)
        await start_on(world, "worker1")
        world.gates["worker1"].cut()
        await world.until_cluster("worker1", reason="ClientConnectionFailed")
        await manager.client.patch(
            WORKLOADS,
            world.workload().metadata.name,
            {"spec": {"active": False}},
            namespace=NAMESPACE,
        )
        await world.until(lambda: is_evicted(world.workload().status), "evicted")
        assert has_quota(world.workload().status)
        await world.until(lambda: not has_quota(world.workload().status), "given up, released")


@virtual_time
async def test_one_hanging_worker_holds_up_nobody():
    """M-51, I-7."""
    async with multikueue_world("worker1", "worker2") as world, world.manager():
        await world.until_connected()
        world.gates["worker2"].hang()
        begun = asyncio.get_running_loop().time()
        await submit(world)
        await world.admit("worker1")
        assert await world.until_ready() == "worker1"
        assert asyncio.get_running_loop().time() - begun < 2.0
        world.gates["worker2"].heal()
        await world.until(lambda: not world.copy("worker2"), "stranger gone", on="worker2")


@virtual_time
async def test_a_worker_that_hangs_from_the_start_is_told_of_and_holds_up_nobody():
    """T-250: and it is used once it answers (M-46)."""
    async with multikueue_world("worker1", "worker2") as world:
        world.gates["worker2"].hang()
        async with world.manager():
            await world.until_connected("worker1")
            await world.hub.create(JOBS, make_gpu_job())
            await world.admit("worker1")
            assert await world.until_ready() == "worker1"
            message = await world.until_cluster("worker2", reason="ClientConnectionFailed")
            assert "connection attempts: 1, next at" in message
            world.gates["worker2"].heal()
            await world.until_connected()


@virtual_time
async def test_a_namespace_that_a_worker_lacks_is_named_and_others_are_tried():
    """G-17, M-95."""
    async with multikueue_world("worker1", "worker2") as world, world.manager() as manager:
        await world.until_connected()
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-b"}}
        for cluster in (world.hub, world.workers["worker2"]):
            await cluster.client.request("POST", "/api/v1/namespaces", body=namespace)
            queue = {
                "apiVersion": names.V1BETA2,
                "kind": "LocalQueue",
                "metadata": {"name": "lq", "namespace": "team-b"},
                "spec": {"clusterQueue": "cq"},
            }
            await cluster.create(LOCAL_QUEUES, queue)
        job = make_gpu_job()
        job["metadata"]["namespace"] = "team-b"
        await world.hub.create(JOBS, job)
        store = world.workers["worker2"].informers.workloads.store
        await world.until(store.keys, "copy on worker2", on="worker2")
        await world.until(
            lambda: (
                (w := world.workload()) and w.status.nominated_cluster_names == ("worker2",) and w
            ),
            "only worker2 is nominated",
        )
        message = world.check()[1]
        assert 'worker1 has no LocalQueue "lq" in namespace "team-b"' in message
        assert manager is not None


@virtual_time
async def test_a_job_of_ours_that_names_no_workload_is_collected_with_its_namesake_here():
    """M-154."""
    async with multikueue_world("worker1") as world, world.manager():
        for name in ("kept", "orphan"):
            job = make_gpu_job(name, managed_by=None)
            job["metadata"]["labels"] = {names.MULTIKUEUE_ORIGIN: "multikueue"}
            await world.workers["worker1"].create(JOBS, job)
        here = make_gpu_job("kept", managed_by=None)
        del here["metadata"]["labels"]
        await world.hub.create(JOBS, here)
        await world.until_connected()
        worker = world.workers["worker1"]
        await world.until(lambda: not worker.job("orphan"), "orphan gone", on="worker1")
        assert worker.job("kept") is not None
