"""Quotas of the manager that follow the workers: T-7, T-8, T-15, T-16, T-283 to T-302, G-18."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import msgspec

from multiqueue.api.conditions import QUOTA_AUTOMATION, find_condition
from multiqueue.api.config import Gate
from multiqueue.api.names import QUOTA_PERCENT
from multiqueue.kube.resources import (
    CLUSTER_QUEUES,
    JOBS,
    LOCAL_QUEUES,
    MULTIKUEUE_CLUSTERS,
    MULTIKUEUE_CONFIGS,
)
from tests.builders.jobs import make_gpu_job
from tests.builders.queues import make_gpu_queue
from tests.builders.workloads import NAMESPACE
from tests.multikueue_world import CHECK, MultiKueueWorld, make_config, multikueue_world
from tests.virtual_time import virtual_time


def automation_config(**settings: Any) -> Any:
    config = make_config(**settings)
    gates = {Gate.MULTIKUEUE_MANAGER_QUOTA_AUTOMATION.value: True}
    return msgspec.structs.replace(config, feature_gates=gates)


async def automate(world: MultiKueueWorld, management: str | None = "Automated") -> None:
    spec = {"quotaManagement": management}
    await world.hub.patch(MULTIKUEUE_CONFIGS, "fleet", {"spec": spec})


def quota(world: MultiKueueWorld) -> str:
    queue = world.hub.informers.cluster_queues.store.get("cq")
    assert queue is not None
    return str(queue.spec.resource_groups[0].flavors[0].resources[0].nominal_quota)


def condition(world: MultiKueueWorld) -> tuple[str, str]:
    """Status and reason."""
    queue = world.hub.informers.cluster_queues.store.get("cq")
    found = find_condition(queue.status.conditions, QUOTA_AUTOMATION) if queue else None
    return (found.status, found.reason) if found is not None else ("", "")


async def until_quota(world: MultiKueueWorld, gpus: int) -> None:
    await world.hub.changes.until(lambda: quota(world) == str(gpus), f"{gpus} gpus")


async def until_condition(world: MultiKueueWorld, status: str, reason: str) -> None:
    await world.hub.changes.until(lambda: condition(world) == (status, reason), reason)


async def resize(world: MultiKueueWorld, worker: str, gpus: int) -> None:
    queue = make_gpu_queue(gpus)
    await world.workers[worker].patch(CLUSTER_QUEUES, "cq", {"spec": queue["spec"]})


@virtual_time
async def test_quotas_follow_the_workers():
    """T-7, T-8, T-110, T-290, T-296, T-299 to T-302, M-200."""
    async with multikueue_world("w1", "w2") as world, world.manager(automation_config()):
        await world.until_connected()
        await until_condition(world, "False", "NotRequested")
        assert quota(world) == "80"

        await automate(world)
        await until_quota(world, 16)
        await until_condition(world, "True", "QuotaAutomated")
        await resize(world, "w1", 5)
        await until_quota(world, 13)
        await world.workers["w2"].client.delete(LOCAL_QUEUES, "lq", namespace=NAMESPACE)
        await until_quota(world, 5)
        await world.set_clusters("w2")
        await until_quota(world, 0)
        await world.set_clusters("w1", "w2")
        await until_quota(world, 5)
        await world.hub.client.delete(MULTIKUEUE_CLUSTERS, "w1")
        await until_quota(world, 0)


@virtual_time
async def test_a_configuration_may_want_more_than_workers_have():
    async with multikueue_world("w1", "w2") as world, world.manager(automation_config()):
        await automate(world)
        await until_quota(world, 16)
        for text, quotas, status in (("125", 20, "True"), ("lots", 20, "False"), ("", 16, "True")):
            await asyncio.sleep(5)  # what else wakes it is over
            patch = {"metadata": {"annotations": {QUOTA_PERCENT: text}}}
            await world.hub.patch(MULTIKUEUE_CONFIGS, "fleet", patch)
            await world.hub.changes.until(lambda s=status: condition(world)[0] == s, status)
            await until_quota(world, quotas)


@virtual_time
async def test_local_queues_of_the_manager_lead_to_those_of_the_workers():
    """T-279, T-288, T-290."""
    async with multikueue_world("w1") as world, world.manager(automation_config()):
        await automate(world)
        await until_quota(world, 8)
        queue = {"metadata": {"name": "other", "namespace": NAMESPACE}}
        body = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "LocalQueue", **queue}
        worker = world.workers["w1"]
        await worker.create(CLUSTER_QUEUES, make_gpu_queue(4, name="second"))
        await worker.create(LOCAL_QUEUES, {**body, "spec": {"clusterQueue": "second"}})
        await world.hub.create(LOCAL_QUEUES, {**body, "spec": {"clusterQueue": "cq"}})
        await until_quota(world, 12)
        await world.hub.client.delete(LOCAL_QUEUES, "other", namespace=NAMESPACE)
        await until_quota(world, 8)


@virtual_time
async def test_a_lost_worker_counts_until_it_is_given_up():
    """G-18, M-205."""
    config = automation_config(worker_lost_timeout=timedelta(minutes=15))
    async with multikueue_world("w1", "w2") as world, world.manager(config):
        await automate(world)
        await until_quota(world, 16)
        world.gates["w2"].cut()
        await world.until_cluster("w2", reason="ClientConnectionFailed")
        await resize(world, "w1", 5)
        await until_quota(world, 13)
        await asyncio.sleep(960.0)
        await resize(world, "w1", 6)
        await until_quota(world, 6)


@virtual_time
async def test_what_cannot_be_automated_is_left_alone():
    """T-286, T-287, T-291 to T-298, M-202, M-203."""
    async with multikueue_world("w1") as world, world.manager(automation_config()):
        await automate(world)
        await until_quota(world, 8)
        config = (await world.hub.client.get(MULTIKUEUE_CONFIGS, "fleet"))["spec"]
        await world.hub.client.delete(MULTIKUEUE_CONFIGS, "fleet")
        await until_condition(world, "False", "UnsupportedConfiguration")
        assert quota(world) == "8"
        await world.set_clusters(*config["clusters"])
        await until_condition(world, "False", "NotRequested")
        without = {"spec": {"admissionChecksStrategy": None}}
        await world.hub.patch(CLUSTER_QUEUES, "cq", without)
        await until_condition(world, "", "")
        await world.hub.patch(CLUSTER_QUEUES, "cq", make_gpu_queue(8, checks=(CHECK,)))
        await until_condition(world, "False", "NotRequested")


@virtual_time
async def test_without_the_gate_nothing_is_written():
    """T-15."""
    async with multikueue_world("w1") as world, world.manager():
        await automate(world)
        await world.until_connected()
        await resize(world, "w1", 4)
        await world.hub.create(JOBS, make_gpu_job(gpus=8))
        await world.until(
            lambda: (
                (w := world.workload())
                and (found := find_condition(w.status.conditions, "QuotaReserved"))
                and "w1 has at most 4" in found.message
            ),
            "the new capacity is known",
        )
        assert (quota(world), condition(world)) == ("80", ("", ""))
