"""Two managers that were given the same origin and share a worker (G-7), and what is collected."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from multiqueue.api import names
from multiqueue.kube.resources import JOBS, MULTIKUEUE_CLUSTERS, WORKLOADS
from tests.builders.jobs import make_gpu_job
from tests.builders.workloads import NAMESPACE
from tests.multikueue_world import MultiKueueWorld, make_config, multikueue_world

OURS = {names.MULTIKUEUE_ORIGIN: "multikueue"}


async def leave(world: MultiKueueWorld, name: str, **annotations: str) -> None:
    """Leave a copy and a job on worker1, as a manager with our origin made them."""
    worker = world.workers["worker1"]
    marks: dict[str, Any] = {"labels": OURS, "annotations": annotations}
    workload = f"{name}-workload"
    pod_sets = [{"name": "main", "count": 1, "template": {"spec": {"containers": []}}}]
    await worker.create(
        WORKLOADS,
        {
            "apiVersion": names.V1BETA2,
            "kind": "Workload",
            "metadata": {"name": workload, "namespace": NAMESPACE, **marks},
            "spec": {"queueName": "lq", "podSets": pod_sets},
        },
    )
    job = make_gpu_job(name, managed_by=None)
    annotations = {**annotations, names.PREBUILT_WORKLOAD_NAME: workload}
    job["metadata"] |= {"labels": OURS, "annotations": annotations}
    await worker.create(JOBS, job)


def left(world: MultiKueueWorld, name: str) -> tuple[bool, bool]:
    worker = world.workers["worker1"]
    store = worker.informers.workloads.store
    return f"{NAMESPACE}/{name}-workload" in store, worker.job(name) is not None


def origin_shared(world: MultiKueueWorld) -> tuple[str, str]:
    cluster = world.hub.informers.multikueue_clusters.store.get("worker1")
    for condition in cluster.status.conditions:
        if condition.type == "OriginShared":
            return condition.status, condition.message
    return "", ""


async def test_what_another_manager_with_our_origin_made_is_told_of_and_left_alone():
    """M-174."""
    config = make_config(gc_interval=timedelta(seconds=0.1))
    async with multikueue_world("worker1") as world:
        await leave(world, "theirs", **{names.MANAGER: "another-cluster"})
        await leave(world, "ours")
        async with world.manager(config):
            await world.until_connected()
            await world.until(lambda: left(world, "ours") == (False, False), "", on="worker1")
            await world.changes.until(lambda: origin_shared(world)[0] == "True", "it is told")
            assert "of the manager on cluster another-cluster" in origin_shared(world)[1]
            assert left(world, "theirs") == (True, True)
            await world.hub.until_event("MultiKueueCluster", "worker1", "OriginShared")


async def test_once_the_other_manager_has_an_origin_of_its_own_nothing_is_told_any_more():
    async with multikueue_world("worker1") as world:
        await leave(world, "theirs", **{names.MANAGER: "another-cluster"})
        async with world.manager():
            await world.changes.until(lambda: origin_shared(world)[0] == "True", "it is told")
            worker = world.workers["worker1"]
            for resource, name in ((JOBS, "theirs"), (WORKLOADS, "theirs-workload")):
                await worker.client.delete(resource, name, namespace=NAMESPACE)
            await world.changes.until(lambda: origin_shared(world)[0] == "False", "it is over")


async def test_what_a_manager_made_before_it_moved_is_its_own_without_the_stamp() -> None:
    config = make_config(gc_interval=timedelta(seconds=0.1))
    async with multikueue_world("worker1") as world:
        await leave(world, "train", **{names.MANAGER: "cluster-before"})
        async with world.manager(config):
            await world.until_connected()
            await world.hub.create(JOBS, make_gpu_job())
            await world.until(
                lambda: f"take {names.MANAGER} off what it left there" in world.check()[1],
                "it is told what to do",
            )
            worker = world.workers["worker1"]
            await world.changes.until(lambda: origin_shared(world)[0] == "True", "it is told")
            assert (
                "kubectl annotate workloads,jobs -A -l "
                "kueue.x-k8s.io/multikueue-origin=multikueue multiqueue.dev/manager-"
            ) in origin_shared(world)[1]
            before = worker.job("train")["metadata"]["uid"]
            bare = {"metadata": {"annotations": {names.MANAGER: None}}}
            for resource, name in ((WORKLOADS, "train-workload"), (JOBS, "train")):
                await worker.client.patch(resource, name, bare, namespace=NAMESPACE)
            await world.until(
                lambda: (
                    not left(world, "train")[0]
                    and ((job := worker.job("train")) is None or job["metadata"]["uid"] != before)
                ),
                "what nobody here asked for is removed, and the name is free",
                on="worker1",
            )


async def test_a_job_of_another_manager_with_our_origin_is_not_taken_over():
    async with multikueue_world("worker1", "worker2") as world:
        await leave(world, "train", **{names.MANAGER: "another-cluster"})
        async with world.manager():
            await world.until_connected()
            await world.hub.create(JOBS, make_gpu_job())
            await world.until(
                lambda: "another manager with the same origin" in world.check()[1], "it is told"
            )
            assert world.workload().status.nominated_cluster_names == ("worker2",)
            assert left(world, "train") == (True, True)


async def test_copies_and_jobs_carry_the_stamp_of_their_manager():
    async with multikueue_world("worker1") as world, world.manager():
        await world.until_connected()
        own = world.hub.informers.namespaces.store.get("kube-system")["metadata"]["uid"]
        await world.hub.create(JOBS, make_gpu_job())
        await world.admit("worker1")
        await world.until_ready()
        assert world.copy("worker1").metadata.annotations[names.MANAGER] == own
        job = world.workers["worker1"].job("train")
        assert job["metadata"]["annotations"][names.MANAGER] == own


async def test_a_gc_interval_of_zero_collects_nothing():
    """T-230: what no event calls for stays (M-173)."""
    config = make_config(gc_interval=timedelta())
    async with multikueue_world("worker1") as world, world.manager(config):
        await world.until_connected()
        job = make_gpu_job("orphan", managed_by=None)
        job["metadata"]["labels"] = OURS
        await world.workers["worker1"].create(JOBS, job)
        await world.hub.patch(MULTIKUEUE_CLUSTERS, "worker1", {"metadata": {"labels": {"a": "b"}}})
        await world.hub.create(JOBS, make_gpu_job())
        await world.admit("worker1")
        await world.until_ready()
        assert world.workers["worker1"].job("orphan") is not None
