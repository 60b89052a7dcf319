"""Preemption on the manager and on workers, which run this program: T-103 to T-106."""

from __future__ import annotations

from typing import Any

from multiqueue.api import names
from multiqueue.api.conditions import PREEMPTION_NOTICE, find_condition
from multiqueue.api.v1beta2 import Condition, format_time
from multiqueue.api.workload_state import is_evicted
from multiqueue.kube.resources import (
    CLUSTER_QUEUES,
    DISRUPTION_POLICIES,
    JOBS,
    WORKLOAD_PRIORITY_CLASSES,
)
from tests.builders.jobs import make_gpu_job
from tests.builders.queues import make_gpu_queue
from tests.builders.workloads import NAMESPACE
from tests.multikueue_world import MultiKueueWorld, multikueue_world
from tests.queue_manager import QueueCluster
from tests.virtual_time import virtual_time

PREEMPTS = {"withinClusterQueue": "LowerPriority"}


async def make_classes(world: MultiKueueWorld) -> None:
    for cluster in (world.hub, *world.workers.values()):
        for name, value in (("low", 1), ("high", 100)):
            kind = {"apiVersion": names.V1BETA2, "kind": "WorkloadPriorityClass"}
            body = {**kind, "metadata": {"name": name}, "value": value}
            await cluster.create(WORKLOAD_PRIORITY_CLASSES, body)


async def set_queue(cluster: QueueCluster, gpus: int, **spec: Any) -> None:
    groups = make_gpu_queue(gpus)["spec"]["resourceGroups"]
    patch = {"spec": {"resourceGroups": groups, **spec}}
    await cluster.client.patch(CLUSTER_QUEUES, "cq", patch)


async def submit(world: MultiKueueWorld, name: str, *, on: str = "", saves: str = "") -> None:
    """Submit a job of 8 GPUs whose priority is its name; ``saves`` says when it saves its work."""
    job = make_gpu_job(name, gpus=8)
    job["metadata"]["labels"][names.PRIORITY_CLASS] = name
    notes = {names.CLUSTER_NAMES: on, names.CHECKPOINT_ON: saves}
    if on or saves:
        job["metadata"]["annotations"] = {key: text for key, text in notes.items() if text}
    await world.hub.create(JOBS, job)


async def until_nothing_is_left(world: MultiKueueWorld, worker: str, job: str) -> None:
    cluster = world.workers[worker]
    await world.until(
        lambda: cluster.job(job) is None and world.copy(worker, job) is None,
        f"{job} gone",
        on=worker,
    )


async def finish(world: MultiKueueWorld, worker: str, job: str) -> None:
    await world.finish_job(worker, job)
    await until_nothing_is_left(world, worker, job)


@virtual_time
async def test_who_preempts_here_runs_on_the_worker_of_its_victim():
    """T-103: and the victim after it."""
    async with multikueue_world("w1", real_workers=True) as world:
        await make_classes(world)
        await set_queue(world.hub, 8, preemption=PREEMPTS)
        async with world.manager():
            await world.until_connected()
            await submit(world, "low")
            await world.until_ready("low")
            await submit(world, "high")
            assert await world.until_ready("high") == "w1"
            assert world.workers["w1"].job("low") is None
            await finish(world, "w1", "high")
            assert await world.until_ready("low") == "w1"


@virtual_time
async def test_who_preempts_here_may_run_on_another_worker():
    """T-105: its victim stops first all the same, for both are the manager's quota."""
    async with multikueue_world("w1", "w2", real_workers=True) as world:
        await make_classes(world)
        await set_queue(world.hub, 8, preemption=PREEMPTS)
        async with world.manager():
            await world.until_connected()
            await submit(world, "low", on="w1")
            await world.until_ready("low")
            await submit(world, "high", on="w2")
            assert await world.until_ready("high") == "w2"
            await until_nothing_is_left(world, "w1", "low")


@virtual_time
async def test_who_is_evicted_where_the_quota_went_runs_where_it_went_to():
    """T-104."""
    async with multikueue_world("w1", "w2", real_workers=True) as world:
        await make_classes(world)
        await set_queue(world.workers["w2"], 0)
        async with world.manager():
            await world.until_connected()
            await submit(world, "low")
            assert await world.until_ready("low") == "w1"
            await set_queue(world.workers["w2"], 8)
            await set_queue(world.workers["w1"], 0, stopPolicy="HoldAndDrain")
            await world.until(lambda: world.check("low")[0] == "Pending", "sent round again")
            assert await world.until_ready("low") == "w2"
            await until_nothing_is_left(world, "w1", "low")


@virtual_time
async def test_a_worker_preempts_though_the_manager_has_quota_for_both():
    """T-106: its victim waits for room, and takes it on whatever worker."""
    async with multikueue_world("w1", "w2", real_workers=True) as world:
        await make_classes(world)
        await set_queue(world.workers["w1"], 8, preemption=PREEMPTS)
        own = make_gpu_job("own", gpus=8, managed_by=None)
        await world.workers["w2"].create(JOBS, own)
        async with world.manager():
            await world.until_connected()
            await submit(world, "low")
            assert await world.until_ready("low") == "w1"
            await submit(world, "high")
            assert await world.until_ready("high") == "w1"
            await world.until(lambda: world.check("low")[0] == "Pending", "sent round again")
            await world.workers["w2"].client.delete(
                JOBS, "own", namespace=NAMESPACE, propagation="Background"
            )
            assert await world.until_ready("low") == "w2"
            assert world.workers["w1"].job("high") is not None


async def give_notice(world: MultiKueueWorld) -> None:
    """Let jobs of the manager's queue be told before they are stopped for others."""
    policy = {
        "apiVersion": "multiqueue.dev/v1alpha1",
        "kind": "DisruptionPolicy",
        "metadata": {"name": "gpu"},
        "spec": {"notice": {"longest": "60s"}},
    }
    await world.hub.create(DISRUPTION_POLICIES, policy)
    await set_queue(world.hub, 8, preemption=PREEMPTS)
    named = {"metadata": {"annotations": {names.DISRUPTION_POLICY: "gpu"}}}
    await world.hub.client.patch(CLUSTER_QUEUES, "cq", named)


def note_there(world: MultiKueueWorld, name: str) -> str:
    """An annotation of the job `low` on the worker."""
    job = world.workers["w1"].job("low") or {"metadata": {}}
    return str((job["metadata"].get("annotations") or {}).get(name, ""))


def notice_here(world: MultiKueueWorld) -> Condition | None:
    workload = world.workload("low")
    return workload and find_condition(workload.status.conditions, PREEMPTION_NOTICE)


@virtual_time
async def test_a_job_on_a_worker_is_told_there_and_says_there_that_it_saved():
    """P-57: the notice and the checkpoint are annotations of the remote job."""
    async with multikueue_world("w1", real_workers=True) as world:
        await make_classes(world)
        await give_notice(world)
        async with world.manager() as context:
            await world.until_connected()
            await submit(world, "low", saves="Notice")
            await world.until_ready("low")
            await submit(world, "high")
            await world.until(lambda: note_there(world, names.CHECKPOINT_BY), "told", on="w1")
            here = await world.hub.client.get(JOBS, "low", namespace=NAMESPACE)
            assert names.CHECKPOINT_BY not in here["metadata"]["annotations"]
            now = format_time(context.clock.now())
            saved = {"metadata": {"annotations": {names.LAST_CHECKPOINT: now}}}
            await world.workers["w1"].client.patch(JOBS, "low", saved, namespace=NAMESPACE)
            assert await world.until_ready("high") == "w1"
            over = notice_here(world)
            assert over is not None
            assert (over.status, over.reason) == ("False", "Saved")


@virtual_time
async def test_a_job_on_a_worker_that_is_out_of_reach_gets_no_notice():
    async with multikueue_world("w1", real_workers=True) as world:
        await make_classes(world)
        await give_notice(world)
        async with world.manager():
            await world.until_connected()
            await submit(world, "low", saves="Notice")
            await world.until_ready("low")
            world.gates["w1"].cut()
            await world.until(lambda: world.cluster_condition("w1")[0] == "False", "w1 lost")
            await submit(world, "high")
            await world.until(lambda: is_evicted_here(world), "low evicted")
            assert notice_here(world) is None


def is_evicted_here(world: MultiKueueWorld) -> bool:
    workload = world.workload("low")
    return workload is not None and is_evicted(workload.status)
