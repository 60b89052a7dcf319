"""Kubeconfigs that are replaced while jobs run: nobody notices but the worker (G-13)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Any

from multiqueue.kube.resources import JOBS, MULTIKUEUE_CLUSTERS, SECRETS
from tests.builders.jobs import make_gpu_job
from tests.integration.test_multikueue_clusters import OTHER, make_token
from tests.multikueue_world import CHECK, MultiKueueWorld, multikueue_world
from tests.queue_manager import CONFIG
from tests.virtual_time import virtual_time


@contextlib.contextmanager
def always_active(world: MultiKueueWorld, *others: str) -> Iterator[None]:
    """Fail if worker1, another of these or the check says at any moment that it is not active."""
    lost: list[str] = []

    def look(old: Any, new: Any) -> None:
        assert new is not None
        if new.metadata.name not in {"worker1", CHECK, *others}:
            return
        lost.extend(
            condition.message
            for condition in new.status.conditions
            if condition.type == "Active" and condition.status != "True"
        )

    world.hub.informers.multikueue_clusters.add_handler(look)
    world.hub.informers.admission_checks.add_handler(look)
    yield
    assert not lost


async def run_a_job(world: MultiKueueWorld) -> str:
    """Have a job run on worker1; returns its uid there."""
    await world.hub.create(JOBS, make_gpu_job())
    await world.admit("worker1")
    await world.until_ready()
    job = world.workers["worker1"].job("train")
    assert job is not None
    return job["metadata"]["uid"]


async def until_message(world: MultiKueueWorld, words: str) -> None:
    await world.changes.until(lambda: words in world.cluster_condition("worker1")[2], words)


@virtual_time
async def test_a_rotated_kubeconfig_disturbs_no_job():
    async with multikueue_world("worker1") as world, world.manager():
        await world.until_connected()
        uid = await run_a_job(world)
        with always_active(world):
            await world.put_secret("worker1", world.other_kubeconfig("worker1"))
            await world.run_job("worker1")
            await world.until(
                lambda: world.hub.job("train").get("status", {}).get("active"), "status comes"
            )
        assert world.workers["worker1"].job("train")["metadata"]["uid"] == uid
        assert world.workload().status.scheduling_stats is None


@virtual_time
async def test_jobs_that_are_sent_while_kubeconfigs_change_all_arrive_once():
    names = [f"train-{number}" for number in range(12)]
    async with multikueue_world("worker1", real_workers=True, gpus=16) as world, world.manager():
        await world.until_connected()
        with always_active(world):
            for number, name in enumerate(names):
                await world.hub.create(JOBS, make_gpu_job(name))
                if number % 4 == 1:
                    config = world.other_kubeconfig("worker1")
                    config["contexts"][0]["context"]["namespace"] = f"turn-{number}"
                    await world.put_secret("worker1", config)
            for name in names:
                await world.until_ready(name)
        for name in names:
            assert world.workload(name).status.scheduling_stats is None


@virtual_time
async def test_a_worker_that_hangs_under_its_old_address_goes_on_under_the_new_one():
    """What was under way with the old kubeconfig is done again with the new one."""
    async with multikueue_world("worker1") as world, world.manager():
        await world.until_connected()
        await world.hub.create(JOBS, make_gpu_job("first"))
        await world.admit("worker1", "first")
        await world.until_ready("first")
        with always_active(world):
            world.gates["worker1"].hang()
            await world.hub.create(JOBS, make_gpu_job("second"))
            await world.until(
                lambda: (
                    world.workload("second")
                    and world.workload("second").status.nominated_cluster_names
                ),
                "it is offered to the hanging worker",
            )
            await world.put_secret("worker1", world.other_kubeconfig("worker1"))
            await world.admit("worker1", "second")
            assert await world.until_ready("second") == "worker1"
        assert world.workload("first").status.scheduling_stats is None


@virtual_time
async def test_a_new_kubeconfig_that_does_not_work_is_named_and_the_old_one_goes_on():
    async with multikueue_world("worker1") as world, world.manager():
        await world.until_connected()
        await run_a_job(world)
        with always_active(world):
            await world.put_secret("worker1", world.other_kubeconfig("worker1", token="wrong"))
            await until_message(world, "the new one does not work: GET")
            assert "401" in world.cluster_condition("worker1")[2]
            await world.run_job("worker1")
            await world.until(
                lambda: world.hub.job("train").get("status", {}).get("active"), "status comes"
            )
            await world.put_secret("worker1", world.other_kubeconfig("worker1"))
            await world.changes.until(
                lambda: "still with" not in world.cluster_condition("worker1")[2],
                "the next one works",
            )


@virtual_time
async def test_once_the_old_kubeconfig_fails_too_the_worker_is_lost():
    async with multikueue_world("worker1") as world, world.manager():
        await world.until_connected()
        await world.put_secret("worker1", world.other_kubeconfig("worker1", token="wrong"))
        await until_message(world, "the new one does not work")
        world.gates["worker1"].cut()
        message = await world.until_cluster("worker1", reason="ClientConnectionFailed")
        assert "does not answer" in message
        await world.put_secret("worker1", world.other_kubeconfig("worker1"))
        await world.until_connected()


@virtual_time
async def test_a_kubeconfig_that_is_withdrawn_is_not_used_any_more():
    """Deleting the Secret, or making it unsafe, is how an administrator takes a worker away."""
    async with multikueue_world("worker1") as world, world.manager():
        await world.until_connected()
        await world.hub.client.delete(SECRETS, "worker1", namespace=CONFIG.namespace)
        assert "not found" in await world.until_cluster("worker1", reason="BadKubeConfig")
        await world.put_secret("worker1", world.other_kubeconfig("worker1", token=make_token(1)))
        await until_message(world, "expired at 1970-01-01")


@virtual_time
async def test_a_kubeconfig_of_another_cluster_is_not_used_before_the_jobs_on_this_one_ended():
    async with multikueue_world("worker1", "worker2") as world, world.manager():
        await world.set_clusters("worker1")
        await world.until_connected("worker1")
        uid = await run_a_job(world)
        elsewhere = world.other_kubeconfig("worker2")
        await world.hub.client.delete(SECRETS, "worker2", namespace=CONFIG.namespace)
        await world.until_cluster("worker2", reason="BadKubeConfig")
        with always_active(world):
            await world.put_secret("worker1", elsewhere)
            await until_message(world, "leads to another cluster than before")
            await world.hub.create(JOBS, make_gpu_job("next"))
            await world.until(
                lambda: "is about to be replaced" in world.check("next")[1],
                "nothing new is sent there",
            )
            assert world.workers["worker1"].job("train")["metadata"]["uid"] == uid
            assert world.workers["worker2"].job("train") is None


@virtual_time
async def test_a_kubeconfig_of_a_younger_worker_stops_neither_of_the_two():
    async with multikueue_world("worker1", "worker2") as world, world.manager():
        await world.until_connected()
        uids = {}
        for worker, name in (("worker1", "first"), ("worker2", "second")):
            await world.hub.create(JOBS, make_gpu_job(name))
            await world.admit(worker, name)
            await world.until_ready(name)
            uids[worker, name] = world.workers[worker].job(name)["metadata"]["uid"]
        with always_active(world, "worker2"):
            await world.put_secret("worker1", world.kubeconfig("worker2"))
            await until_message(world, "leads to another cluster than before")
            await asyncio.sleep(60)
        for (worker, name), uid in uids.items():
            assert world.workers[worker].job(name)["metadata"]["uid"] == uid
            assert world.workload(name).status.scheduling_stats is None
        await world.finish_copy("worker1", "first")
        message = await world.until_cluster("worker1", reason="BadKubeConfig")
        assert 'leads to the same API server as MultiKueueCluster "worker2"' in message
        assert world.cluster_condition("worker2")[0] == "True"


@virtual_time
async def test_the_former_server_of_a_name_is_used_once_that_name_is_connected_elsewhere():
    async with multikueue_world("worker1", "worker2") as world, world.manager():
        await world.until_connected()
        elsewhere = world.kubeconfig("worker2")
        await world.hub.client.delete(MULTIKUEUE_CLUSTERS, "worker2")
        for gate in world.gates.values():
            gate.cut()
        await world.until_cluster("worker1", reason="ClientConnectionFailed")
        await world.put_secret("worker1", elsewhere)
        await until_message(world, "Server disconnected")
        await world.add_worker(OTHER, kubeconfig=world.other_kubeconfig("worker1"))
        message = await world.until_cluster(OTHER, reason="BadKubeConfig")
        assert 'that MultiKueueCluster "worker1" was last connected to' in message
        world.gates["worker2"].heal()
        await world.until_cluster(OTHER, reason="Active")
