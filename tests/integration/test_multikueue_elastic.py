"""Elastic jobs across clusters: sizes go to the worker, and nothing runs twice (T-63 to T-65)."""

from __future__ import annotations

from typing import Any

from multiqueue.api import names
from multiqueue.api.conditions import WorkloadCondition
from multiqueue.api.slices import is_replaced, replaced_key
from multiqueue.api.v1beta2 import Workload
from multiqueue.api.workload_state import find, has_quota, is_admitted, is_finished
from multiqueue.kube import resources
from tests.builders.jobs import make_gpu_job
from tests.builders.workloads import NAMESPACE
from tests.multikueue_world import CHECK, MultiKueueWorld, multikueue_world
from tests.queue_manager import QueueCluster

GATE = {"name": names.ELASTIC_GATE}


def elastic_job(pods: int) -> dict[str, Any]:
    job = make_gpu_job(parallelism=pods, completions=50)
    job["metadata"]["annotations"] = {names.ELASTIC_JOB: "true"}
    job["spec"]["template"]["spec"]["schedulingGates"] = [GATE]
    return job


async def scale(world: MultiKueueWorld, pods: int) -> None:
    patch = {"spec": {"parallelism": pods}}
    await world.hub.patch(resources.JOBS, "train", patch, namespace=NAMESPACE)


def live(cluster: QueueCluster) -> list[Workload]:
    """Slices that are not finished, those that replace others last."""
    found = [w for w in cluster.informers.workloads.store.list() if not is_finished(w.status)]
    return sorted(found, key=lambda w: (w.metadata.creation_timestamp, bool(replaced_key(w))))


def size(workload: Workload) -> int:
    return workload.spec.pod_sets[0].count


def runs(cluster: QueueCluster, pods: int) -> bool:
    """Whether exactly one slice is left there, admitted at that size, and the job belongs to it."""
    job, slices = cluster.job("train"), live(cluster)
    if job is None or len(slices) != 1 or not is_admitted(slices[0].status):
        return False
    named = job["metadata"]["annotations"].get(names.PREBUILT_WORKLOAD_NAME)
    return (
        size(slices[0]) == pods
        and job["spec"]["parallelism"] == pods
        and not job["spec"]["suspend"]
        and named in {None, slices[0].metadata.name}
    )


async def until_runs(world: MultiKueueWorld, pods: int, on: str = "worker1") -> None:
    await world.until(lambda: runs(world.workers[on], pods), f"{pods} pods on {on}", on=on)
    await world.until(lambda: runs(world.hub, pods), f"a slice of {pods} here")


async def start(world: MultiKueueWorld, pods: int) -> dict[str, Any]:
    """Have a job of that size run on worker1; return its copy."""
    await world.hub.create(resources.JOBS, elastic_job(pods))
    await until_runs(world, pods)
    await set_active(world, pods)
    job = world.workers["worker1"].job("train")
    assert job is not None
    return job


async def set_active(world: MultiKueueWorld, pods: int) -> None:
    """Let the pods run, as far as the job tells, and that be known here."""
    await world.set_job_status("worker1", startTime="2026-01-01T00:00:00Z", active=pods, ready=pods)
    await world.until(lambda: active(world) == pods, f"{pods} pods told of")


def active(world: MultiKueueWorld) -> int:
    return int(((world.hub.job("train") or {}).get("status") or {}).get("active") or 0)


def uid(world: MultiKueueWorld) -> str:
    job = world.workers["worker1"].job("train")
    return str(job["metadata"]["uid"]) if job is not None else ""


async def test_a_job_grows_on_its_worker_and_nowhere_else() -> None:
    """T-63: the copy runs on, the larger slice is offered to nobody else, its status comes back."""
    async with multikueue_world(real_workers=True) as world, world.manager():
        before = await start(world, 2)
        await scale(world, 5)
        await until_runs(world, 5)
        assert uid(world) == before["metadata"]["uid"]
        assert world.workers["worker2"].informers.workloads.store.list() == []
        assert world.workers["worker2"].job("train") is None
        (new,) = live(world.hub)
        assert new.status.cluster_name == "worker1"
        assert new.status.nominated_cluster_names == ()
        await set_active(world, 5)
        await world.until(lambda: len(copies(world)) == 1, "the earlier copy gone", on="worker1")
        assert active(world) == 5


def copies(world: MultiKueueWorld) -> list[Workload]:
    return world.workers["worker1"].informers.workloads.store.list()


async def test_a_job_shrinks_on_its_worker_in_place_and_is_deleted() -> None:
    """M-163: no new Workload, here or there, and the quota of the worker is free."""
    async with multikueue_world("worker1", real_workers=True) as world, world.manager():
        await start(world, 5)
        (slice_,) = live(world.hub)
        await scale(world, 3)
        await until_runs(world, 3)
        (after,) = live(world.hub)
        assert after.metadata.uid == slice_.metadata.uid
        assert len(copies(world)) == 1
        await world.until(lambda: used_gpus(world) == "3", "three in use", on="worker1")

        await world.hub.client.delete(
            resources.JOBS, "train", namespace=NAMESPACE, propagation="Background"
        )
        await world.until(lambda: all_slices(world) == [], "slices gone")
        await world.until(lambda: copies(world) == [], "copies gone", on="worker1")
        await world.until(lambda: uid(world) == "", "job gone", on="worker1")


def used_gpus(world: MultiKueueWorld) -> str:
    queue = world.workers["worker1"].informers.cluster_queues.store.get("cq")
    assert queue is not None
    return queue.status.flavors_reservation[0].resources[0].total


async def test_a_job_grows_and_shrinks_and_ends() -> None:
    async with multikueue_world("worker1", real_workers=True) as world, world.manager():
        await start(world, 1)
        for pods in (3, 2, 4):
            await scale(world, pods)
            await until_runs(world, pods)
        await world.finish_job("worker1")
        await world.until(lambda: live(world.hub) == [], "all finished")
        ends = [find(w.status, WorkloadCondition.FINISHED) for w in all_slices(world)]
        assert sorted(end.reason for end in ends if end is not None) == [
            "Succeeded",
            "WorkloadSliceReplaced",
            "WorkloadSliceReplaced",
        ]
        await world.until(lambda: copies(world) == [], "copies gone", on="worker1")
        await world.until(lambda: uid(world) == "", "job gone", on="worker1")


def all_slices(world: MultiKueueWorld) -> list[Workload]:
    return world.hub.informers.workloads.store.list()


async def test_a_larger_slice_that_its_worker_has_no_room_for_waits_there() -> None:
    """The job runs on at its size and its status comes back, though here it has the quota."""
    async with multikueue_world(real_workers=True) as world, world.manager():
        before = await start(world, 3)
        await crowd(world)
        await scale(world, 6)
        await world.until(lambda: "waits there for room" in check_of(world), "a reason")
        assert world.workers["worker1"].job("train")["spec"]["parallelism"] == 3
        assert world.workers["worker2"].informers.workloads.store.list() == []
        assert not world.hub.job("train")["spec"]["suspend"]
        await set_active(world, 2)
        assert uid(world) == before["metadata"]["uid"]

        await free(world)
        await until_runs(world, 6)
        assert uid(world) == before["metadata"]["uid"]


async def test_a_drain_moves_a_job_that_waits_to_grow() -> None:
    """Two slices are one move, also where there may be one at a time only."""
    async with multikueue_world(real_workers=True) as world, world.manager():
        await start(world, 3)
        await crowd(world)
        await scale(world, 6)
        await world.until(lambda: "waits there for room" in check_of(world), "a reason")
        patch = {"metadata": {"annotations": {names.DRAIN: "at-once=1"}}}
        await world.hub.patch(resources.MULTIKUEUE_CLUSTERS, "worker1", patch)
        await world.until(lambda: uid(world) == "", "job gone", on="worker1")
        await until_runs(world, 6, on="worker2")


async def delete_replaced(world: MultiKueueWorld) -> None:
    """Have every slice deleted here that another one took over from, whoever waits for that."""
    await world.until(lambda: len(live(world.hub)) == 1, "the others ended")
    for old in filter(is_replaced_, all_slices(world)):
        name = old.metadata.name
        await world.hub.client.delete(resources.WORKLOADS, name, namespace=NAMESPACE)
        patch = {"metadata": {"finalizers": None}}
        await world.hub.patch(resources.WORKLOADS, name, patch, namespace=NAMESPACE)
    await world.until(lambda: len(all_slices(world)) == 1, "the earlier slices gone")


async def test_a_job_that_grows_again_before_it_could_is_found_by_the_last_slice() -> None:
    """Nothing here tells any more which slices were between that one and the first."""
    async with multikueue_world(real_workers=True) as world, world.manager():
        before = await start(world, 3)
        await crowd(world)
        for pods in (5, 6):
            await scale(world, pods)
            await world.until(lambda pods=pods: size_here(world) == pods, f"{pods} have quota here")
            await world.until(lambda: "waits there for room" in check_of(world), "a reason")
        await delete_replaced(world)
        await set_active(world, 2)  # a look at all that there is
        await free(world)
        await until_runs(world, 6)
        assert uid(world) == before["metadata"]["uid"]


def size_here(world: MultiKueueWorld) -> int:
    """Pods of the slice that has the quota."""
    return max(size(w) for w in live(world.hub) if has_quota(w.status))


async def test_a_job_that_ends_while_it_waits_to_grow_ends_here() -> None:
    """Though nothing tells of it any more under the name of the earlier slice."""
    async with multikueue_world("worker1", real_workers=True) as world, world.manager():
        await start(world, 3)
        await crowd(world)
        await scale(world, 6)
        await world.until(lambda: "waits there for room" in check_of(world), "a reason")
        await delete_replaced(world)
        await world.finish_job("worker1")
        await world.until(lambda: live(world.hub) == [], "finished")
        await world.until(lambda: uid(world) == "", "job gone", on="worker1")


async def test_a_job_goes_round_again_whose_copy_is_deleted_while_it_waits_to_grow() -> None:
    """Its worker stops it for that, and nothing there would let it go on at its size."""
    async with multikueue_world(real_workers=True) as world, world.manager():
        await start(world, 3)
        await crowd(world)
        await scale(world, 6)
        await world.until(lambda: "waits there for room" in check_of(world), "a reason")
        worker = world.workers["worker1"]
        (old,) = [w for w in copies(world) if is_admitted(w.status) and is_ours(w)]
        await worker.client.delete(resources.WORKLOADS, old.metadata.name, namespace=NAMESPACE)
        await world.until(lambda: uid(world) == "", "job gone", on="worker1")
        await until_runs(world, 6, on="worker2")


def is_ours(workload: Workload) -> bool:
    return names.MULTIKUEUE_ORIGIN in workload.metadata.labels


async def crowd(world: MultiKueueWorld) -> None:
    """Have a job of worker1's own run there, on half of it."""
    worker = world.workers["worker1"]
    await worker.create(resources.JOBS, make_gpu_job("local", gpus=4, managed_by=None))
    await world.until(lambda: is_let_go(worker, "local"), "it runs", on="worker1")


def is_let_go(cluster: QueueCluster, name: str) -> bool:
    job = cluster.job(name)
    return job is not None and not job["spec"]["suspend"]


async def free(world: MultiKueueWorld) -> None:
    await world.workers["worker1"].client.delete(
        resources.JOBS, "local", namespace=NAMESPACE, propagation="Background"
    )


def check_of(world: MultiKueueWorld) -> str:
    for workload in live(world.hub):
        for state in workload.status.admission_checks:
            if state.name == CHECK and state.state == "Pending":
                return state.message
    return ""


async def test_the_objects_of_a_replaced_slice_stay_until_the_larger_one_has_the_job() -> None:
    """T-64, M-85: the manager that replaced it is killed in between; nothing is deleted."""
    async with multikueue_world("worker1", gpus=4, real_workers=True) as world:
        async with world.manager():
            before = await start(world, 3)
            await scale(world, 4)
            await world.until(lambda: any(map(is_replaced_, all_slices(world))), "a replaced one")
        async with world.manager():
            await until_runs(world, 4)
            assert uid(world) == before["metadata"]["uid"]


def is_replaced_(workload: Workload) -> bool:
    return is_replaced(workload.status)


async def test_a_larger_slice_that_is_evicted_before_it_has_the_job_takes_that_along() -> None:
    """No quota goes back while the job of the earlier slice runs; upstream lets it run on."""
    async with multikueue_world("worker1", real_workers=True) as world, world.manager():
        await start(world, 3)
        await crowd(world)
        await scale(world, 6)
        await world.until(lambda: "waits there for room" in check_of(world), "a reason")
        (new,) = live(world.hub)
        seen = watch_quota(world, new.metadata.key)
        await world.hub.patch(
            resources.WORKLOADS,
            new.metadata.name,
            {"spec": {"active": False}},
            namespace=NAMESPACE,
        )
        await world.until(lambda: not has_quota(live(world.hub)[0].status), "quota given back")
        assert seen == [True], "the job was gone when the quota went"
        assert uid(world) == ""
        await world.until(lambda: world.hub.job("train")["spec"]["suspend"], "job stopped here")


def watch_quota(world: MultiKueueWorld, key: str) -> list[bool]:
    """Note, when the quota of a Workload goes, whether its job had gone on the worker."""
    seen: list[bool] = []

    def look(old: Workload | None, new: Workload | None) -> None:
        if old is None or new is None or new.metadata.key != key:
            return
        if has_quota(old.status) and not has_quota(new.status):
            seen.append(uid(world) == "")

    world.hub.informers.workloads.add_handler(look)
    return seen
