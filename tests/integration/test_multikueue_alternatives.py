"""Gangs that run with eight pods on one worker's hardware, and with four on another's."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from multiqueue.api import names
from multiqueue.api.conditions import Reason, WorkloadCondition, find_condition
from multiqueue.dispatch.observe.fitting import SETTLE
from multiqueue.kube.resources import CLUSTER_QUEUES, JOBS, MULTIKUEUE_CLUSTERS, WORKLOADS
from tests.builders.jobs import make_gpu_job
from tests.builders.queues import make_gpu_queue
from tests.builders.workloads import NAMESPACE
from tests.integration.test_multikueue_flavors import give, ran_on, usage
from tests.multikueue_world import CHECK, MultiKueueWorld, make_config, multikueue_world
from tests.virtual_time import virtual_time


def make_gang(name: str = "train", **annotations: str) -> dict[str, Any]:
    """Eight pods with a GPU each, or four with an H100; ranks are those of the pods that run."""
    job = make_gpu_job(name, parallelism=8, completions=8, completionMode="Indexed")
    job["metadata"]["annotations"] = {
        names.ALTERNATIVES: "h100=4",
        names.JOB_COMPLETIONS_EQUAL_PARALLELISM: "true",
        **annotations,
    }
    return job


def only(cluster: str) -> Mapping[str, str]:
    return {names.CLUSTER_NAMES: cluster}


async def running(world: MultiKueueWorld, worker: str, name: str = "train") -> tuple[int, int]:
    """Wait until a worker lets a job run; returns its parallelism and completions."""
    cluster = world.workers[worker]
    job = await world.until(
        lambda: (job := cluster.job(name)) and not job["spec"].get("suspend") and job,
        f"{name} runs",
        on=worker,
    )
    return job["spec"]["parallelism"], job["spec"]["completions"]


def sizes(world: MultiKueueWorld, name: str = "train") -> tuple[int, int]:
    """Pods that the Workload and the local job ask for."""
    job, workload = world.hub.job(name), world.workload(name)
    assert job is not None
    assert workload is not None
    return workload.spec.pod_sets[0].count, job["spec"]["parallelism"]


@virtual_time
async def test_each_worker_gets_as_many_pods_as_its_hardware_needs():
    """The manager's flavor says nothing of hardware: eight are reserved, what runs is charged."""
    async with multikueue_world("a", "h", real_workers=True) as world:
        await world.hub.patch(CLUSTER_QUEUES, "cq", make_gpu_queue({"gpu": 12}, checks=(CHECK,)))
        await give(world.workers["a"], a100=8)
        await give(world.workers["h"], h100=4)
        async with world.manager():
            await world.until_connected()
            await world.hub.create(JOBS, make_gang("narrow", **only("h")))
            assert await world.until_ready("narrow") == "h"
            assert await running(world, "h", "narrow") == (4, 4)
            assert world.check("narrow")[1] == (
                'The workload was admitted on "h"; '
                'pod set "main" runs with 4 of the 8 pods reserved'
            )
            await world.until(lambda: usage(world) == {"gpu": "4"}, "four are charged")

            # With eight charged there would not be room for it.
            await world.hub.create(JOBS, make_gang("wide", **only("a")))
            assert await world.until_ready("wide") == "a"
            assert await running(world, "a", "wide") == (8, 8)
            assert world.check("wide")[1] == 'The workload was admitted on "a"'
            await world.until(lambda: usage(world) == {"gpu": "12"}, "twelve are charged")
            await world.until(lambda: sizes(world, "narrow") == (8, 4), "the local job has four")
            assert sizes(world, "wide") == (8, 8)

            await world.finish_job("h", "narrow")
            await world.until(lambda: usage(world) == {"gpu": "8"}, "its quota is back")
            job = await world.until(lambda: _ended(world, "narrow"), "its job ends here")
            assert job["status"]["succeeded"] == 1


def _ended(world: MultiKueueWorld, name: str) -> dict[str, Any] | None:
    job = world.hub.job(name)
    conditions = (job or {}).get("status", {}).get("conditions") or ()
    return job if any(c["type"] == "Complete" for c in conditions) else None


@virtual_time
async def test_the_flavor_of_the_manager_decides_where_it_says_hardware():
    """The second finds no A100 left, and is held with four pods from the beginning."""
    async with multikueue_world("a", "h", real_workers=True) as world:
        await give(world.hub, checks=(CHECK,), a100=8, h100=4)
        await give(world.workers["a"], a100=8)
        await give(world.workers["h"], h100=4)
        async with world.manager():
            await world.until_connected()
            await world.hub.create(JOBS, make_gang("first"))
            assert await world.until_ready("first") == "a"
            await world.hub.create(JOBS, make_gang("second"))
            assert await world.until_ready("second") == "h"

            assert await running(world, "a", "first") == (8, 8)
            assert await running(world, "h", "second") == (4, 4)
            await world.until(lambda: usage(world) == {"a100": "8", "h100": "4"}, "usage")
            await world.until(lambda: sizes(world, "second") == (8, 4), "the local job has four")
            copy = world.copy("h", "second")
            assert names.ALTERNATIVES not in copy.metadata.annotations
            assert copy.spec.pod_sets[0].count == 4


@virtual_time
async def test_copies_of_one_gang_differ_where_all_are_asked_at_once():
    async with multikueue_world("a", "h", "mixed") as world:
        await give(world.workers["a"], a100=8)
        await give(world.workers["h"], h100=4)
        await give(world.workers["mixed"], a100=6, h100=8)
        config = make_config(dispatcher_name=names.DISPATCHER_ALL_AT_ONCE)
        async with world.manager(config):
            await world.until_connected()
            await world.hub.create(JOBS, make_gang())
            found = {}
            for name in world.workers:
                await world.until(lambda name=name: world.copy(name), "a copy", on=name)
                (pod_set,) = world.copy(name).spec.pod_sets
                selector = pod_set.template["spec"].get("nodeSelector", {})
                found[name] = (pod_set.count, selector)
            assert found == {
                "a": (8, {}),
                "h": (4, {"accelerator": "h100"}),
                "mixed": (4, {"accelerator": "h100"}),
            }


@virtual_time
async def test_a_gang_that_moves_has_the_pods_of_its_new_hardware():
    async with multikueue_world("a", "h", real_workers=True) as world:
        await give(world.hub, checks=(CHECK,), h100=4, a100=8)
        await give(world.workers["a"], a100=8)
        await give(world.workers["h"], h100=4)
        async with world.manager():
            await world.until_connected()
            await world.hub.create(JOBS, make_gang())
            assert await world.until_ready() == "h"
            await running(world, "h")
            await world.until(lambda: sizes(world) == (8, 4), "the local job has four")

            shrunk = make_gpu_queue({"h100": 0})
            await world.hub.patch(
                CLUSTER_QUEUES, "cq", make_gpu_queue({"h100": 0, "a100": 8}, checks=(CHECK,))
            )
            await world.workers["h"].patch(CLUSTER_QUEUES, "cq", shrunk)
            await world.workers["h"].client.delete(JOBS, "train", namespace=NAMESPACE)
            await world.until(lambda: world.workload().status.cluster_name == "a", "moved")

            assert ran_on(world, "a") == "a100"
            assert await running(world, "a") == (8, 8)
            await world.until(lambda: sizes(world) == (8, 8), "the local job has eight again")
            await world.until(lambda: usage(world) == {"h100": "0", "a100": "8"}, "usage")


@virtual_time
async def test_a_drain_moves_it_where_there_is_room_for_as_many_as_it_needs_there():
    async with multikueue_world("a", "h", real_workers=True) as world:
        await give(world.hub, checks=(CHECK,), h100=4, a100=8)
        await give(world.workers["a"], a100=4)
        await give(world.workers["h"], h100=4)
        async with world.manager():
            await world.until_connected()
            await world.hub.create(JOBS, make_gang())
            assert await world.until_ready() == "h"
            await running(world, "h")
            drain = {"metadata": {"annotations": {names.DRAIN: "true"}}}
            await world.hub.patch(MULTIKUEUE_CLUSTERS, "h", drain)

            def left() -> str:
                found = world.hub.informers.multikueue_clusters.store.get("h")
                condition = find_condition(found.status.conditions, "Drained")
                return condition.message if condition is not None else ""

            await world.until(lambda: "can ever hold it" in left(), "four A100 are not enough")
            assert world.workload().status.cluster_name == "h"
            await world.workers["a"].patch(CLUSTER_QUEUES, "cq", make_gpu_queue({"a100": 8}))
            await world.until(lambda: world.workload().status.cluster_name == "a", "moved")
            assert await running(world, "a") == (8, 8)


@virtual_time
async def test_what_makes_no_sense_is_told_and_keeps_only_that_job_waiting():
    """Where no webhook was asked: the job says why, and is not lost."""
    async with multikueue_world("h", real_workers=True) as world:
        await give(world.workers["h"], h100=8)
        async with world.manager():
            await world.until_connected()
            await world.hub.create(JOBS, make_gang("more", **{names.ALTERNATIVES: "h100=16"}))
            await world.hub.create(JOBS, make_gang("nonsense", **{names.ALTERNATIVES: "h100"}))
            await world.hub.create(JOBS, make_gang("good"))
            assert await world.until_ready("good") == "h"

            def condition() -> Any:
                workload = world.workload("more")
                found = workload.status.conditions if workload is not None else ()
                return find_condition(found, WorkloadCondition.QUOTA_RESERVED)

            found = await world.until(condition, "the reason")
            assert (found.status, found.reason) == ("False", Reason.MISCONFIGURED)
            assert "16 pods on h100 are more than the 8 of the job" in found.message
            await world.hub.until_event("Job", "nonsense", "ErrWorkloadCompose")

            # Mended: it is reserved, and runs.
            mended = {"metadata": {"annotations": {names.ALTERNATIVES: "h100=4"}}}
            name = world.workload("more").metadata.name
            await world.hub.patch(WORKLOADS, name, mended, namespace=NAMESPACE)
            assert await world.until_ready("more") == "h"


@pytest.mark.parametrize("age", [1.0, SETTLE.total_seconds()])
@virtual_time
async def test_a_copy_that_waits_for_one_hardware_takes_another_that_gets_room(age: float):
    """However new the copy is then: nothing else may change there for long."""
    async with multikueue_world("mixed", real_workers=True) as world:
        worker = world.workers["mixed"]
        await give(worker, a100=8, h100=4)
        async with world.manager():
            await world.until_connected()
            for name, pods, accelerator in (("x", 8, "a100"), ("y", 4, "h100")):
                job = make_gpu_job(
                    name,
                    managed_by=None,
                    parallelism=pods,
                    completions=pods,
                    node_selector={"accelerator": accelerator},
                )
                await worker.create(JOBS, job)
                await running(world, "mixed", name)
            await world.hub.create(JOBS, make_gang())
            await world.until(lambda: world.copy("mixed"), "a copy", on="mixed")
            assert world.copy("mixed").spec.pod_sets[0].count == 8
            await asyncio.sleep(age)

            await worker.client.delete(JOBS, "y", namespace=NAMESPACE)
            await world.until_ready()
            assert ran_on(world, "mixed") == "h100"
            assert await running(world, "mixed") == (4, 4)
