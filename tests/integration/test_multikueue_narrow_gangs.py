"""Gangs that run with four of their eight pods on a worker: quota, ends and faults of all kinds."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import Any

from multiqueue.api import names
from multiqueue.api.ran_on import RanOn, format_ran_on
from multiqueue.api.workload_state import has_quota
from multiqueue.dispatch.decide.copy import epoch_of
from multiqueue.kube.client import KubeClient
from multiqueue.kube.errors import RequestTimeout, TransportError
from multiqueue.kube.resources import CLUSTER_QUEUES, JOBS, WORKLOADS, Resource
from tests.builders.jobs import make_gpu_job
from tests.builders.queues import make_gpu_queue
from tests.builders.workloads import NAMESPACE
from tests.integration.test_multikueue_alternatives import make_gang, running
from tests.integration.test_multikueue_flavors import give, usage
from tests.multikueue_world import CHECK, MultiKueueWorld, multikueue_world
from tests.virtual_time import virtual_time


@contextlib.asynccontextmanager
async def narrow_world(gpu: int = 8) -> AsyncIterator[MultiKueueWorld]:
    """A manager with one flavor for all hardware; workers with four H100 and twelve A100."""
    workers = {"a": {"a100": 12}, "h": {"h100": 4}}
    async with multikueue_world(*workers, real_workers=True) as world:
        await world.hub.patch(CLUSTER_QUEUES, "cq", make_gpu_queue({"gpu": gpu}, checks=(CHECK,)))
        for name, gpus in workers.items():
            await give(world.workers[name], **gpus)
        yield world


def annotations(world: MultiKueueWorld) -> Mapping[str, str]:
    workload = world.workload()
    return workload.metadata.annotations if workload is not None else {}


def is_considered(world: MultiKueueWorld, name: str) -> bool:
    workload = world.workload(name)
    return workload is not None and bool(workload.status.conditions)


def asked(world: MultiKueueWorld, name: str = "train") -> tuple[int, int]:
    """Pods and ranks that the job on the manager asks for."""
    spec = world.hub.job(name)["spec"]  # type: ignore[index]
    return spec["parallelism"], spec["completions"]


class Deadline:
    """After so many writes about a gang, no other write of its manager gets through."""

    def __init__(self, writes: int, name: str) -> None:
        self.passed = asyncio.Event()
        self._left = writes
        self._name = name

    def client_type(self) -> type[KubeClient]:
        deadline = self

        class Dying(KubeClient):
            async def patch(self, resource: Resource, name: str, patch: Any, **what: Any) -> Any:
                deadline.count(resource, name)
                return await super().patch(resource, name, patch, **what)

        return Dying

    def count(self, resource: Resource, name: str) -> None:
        self._left -= resource in {JOBS, WORKLOADS} and self._name in name
        if self._left < 0:
            self.passed.set()
            raise TransportError("killed")


async def lose(world: MultiKueueWorld, worker: str) -> None:
    """A worker loses its hardware, and the gang with it."""
    cluster, copy = world.workers[worker], world.copy(worker)
    assert copy is not None
    await cluster.patch(CLUSTER_QUEUES, "cq", make_gpu_queue({"h100": 0}))
    await cluster.client.delete(WORKLOADS, copy.metadata.name, namespace=NAMESPACE)
    await world.until(lambda: not world.copy(worker), "no copy", on=worker)


class NeverOnH(KubeClient):
    """The client of a manager that cannot write that the gang runs on h."""

    async def patch(self, resource: Resource, name: str, patch: Any, **what: Any) -> Any:
        if (patch.get("status") or {}).get("clusterName") == "h":
            raise RequestTimeout("no answer")
        return await super().patch(resource, name, patch, **what)


@virtual_time
async def test_nothing_is_given_away_before_it_is_certain_where_a_gang_runs() -> None:
    """It would have run with four pods where it was to go first, and has eight where it goes."""
    async with narrow_world() as world, world.manager(client_type=NeverOnH):
        await world.until_connected()
        await world.set_clusters("h")
        await world.hub.create(JOBS, make_gang())
        await world.until(lambda: names.RAN_ON in annotations(world), "what it would run on")
        await world.hub.create(JOBS, make_gpu_job("other", parallelism=4, completions=4))
        await world.until(lambda: is_considered(world, "other"), "a look at the other")
        await world.set_clusters("h", "a")
        await lose(world, "h")
        assert await world.until_ready() == "a"
        assert await running(world, "a") == (8, 8)
        await world.until(lambda: usage(world) == {"gpu": "8"}, "eight are charged")
        assert not has_quota(world.workload("other").status)


async def start_narrow(world: MultiKueueWorld, *more: tuple[str, str]) -> None:
    """Have the gang run with four pods on h, and the job here told so."""
    await world.until_connected()
    await world.hub.create(JOBS, make_gang("train", **{names.CLUSTER_NAMES: "h"}))
    assert await world.until_ready() == "h"
    assert await running(world, "h") == (4, 4)
    await world.until(lambda: asked(world) == (4, 4), "the job here has four")
    await world.until(lambda: usage(world) == {"gpu": "4"}, "four are charged")


def with_active(world: MultiKueueWorld, count: int) -> Any:
    job = world.hub.job("train")
    return job if (job or {}).get("status", {}).get("active") == count else None


@virtual_time
async def test_pods_that_ended_give_back_quota_of_those_that_run() -> None:
    """And take nothing from the next run, which has another number of pods."""
    async with narrow_world() as world, world.manager():
        await start_narrow(world)
        assert world.hub.job("train")["metadata"]["annotations"][names.RUNS_WITH] == "4 of 8"
        await world.set_job_status("h", active=4, ready=4, startTime="2026-01-01T00:00:00Z")
        await world.until(lambda: with_active(world, 4), "its status is here")
        done = {"succeeded": 1, "completedIndexes": "0", "active": 3, "ready": 3}
        await world.set_job_status("h", startTime="2026-01-01T00:00:00Z", **done)
        await world.until(lambda: usage(world) == {"gpu": "3"}, "three are charged")

        await anywhere(world)
        await lose(world, "h")
        await world.until(lambda: world.workload().status.cluster_name == "a", "moved")
        assert await running(world, "a") == (8, 8)
        await world.until(lambda: asked(world) == (8, 8), "the job here has eight again")
        await world.until(lambda: usage(world) == {"gpu": "8"}, "eight are charged")
        assert not world.workload().status.reclaimable_pods


async def anywhere(world: MultiKueueWorld) -> None:
    """Let the gang go to any cluster."""
    change = {"metadata": {"annotations": {names.CLUSTER_NAMES: None}}}
    await world.hub.patch(JOBS, "train", change, namespace=NAMESPACE)
    name = world.workload().metadata.name
    await world.hub.patch(WORKLOADS, name, change, namespace=NAMESPACE)


@virtual_time
async def test_a_workload_that_is_deleted_is_composed_as_its_user_wrote_it() -> None:
    """What runs is stopped first, here and there, whatever had to be taken off the Workload."""
    async with narrow_world() as world, world.manager():
        await start_narrow(world)
        for by_force in (False, True):
            await world.set_job_status("h", active=4, ready=4, startTime="2026-01-01T00:00:00Z")
            await world.until(lambda: with_active(world, 4), "its status is here")
            before = world.workload().metadata
            if by_force:
                released = {"metadata": {"finalizers": None}}
                await world.hub.patch(WORKLOADS, before.name, released, namespace=NAMESPACE)
            await world.hub.client.delete(WORKLOADS, before.name, namespace=NAMESPACE)
            await world.until(lambda uid=before.uid: is_another(world, uid), "another Workload")
            assert world.workload().spec.pod_sets[0].count == 8
            assert await world.until_ready() == "h"
            await world.until(lambda: asked(world) == (4, 4), "the job here has four")
            assert await running(world, "h") == (4, 4)
            await world.until(lambda: usage(world) == {"gpu": "4"}, "four are charged")


def is_another(world: MultiKueueWorld, uid: str) -> bool:
    workload = world.workload()
    return workload is not None and workload.metadata.uid != uid


@virtual_time
async def test_a_manager_that_dies_at_any_write_leaves_nothing_half_told() -> None:
    """Before it told what runs, where, or started the job here: the next one goes on from there."""
    async with narrow_world() as world:
        for write in (1, 2, 3):
            name = f"train{write}"
            deadline = Deadline(write, name)
            async with world.manager(client_type=deadline.client_type()):
                await world.until_connected()
                await world.hub.create(JOBS, make_gang(name, **{names.CLUSTER_NAMES: "h"}))
                await deadline.passed.wait()
            async with world.manager():
                assert await world.until_ready(name) == "h"
                assert await running(world, "h", name) == (4, 4)
                await world.until(lambda name=name: asked(world, name) == (4, 4), "four here")
                await world.until(lambda: usage(world) == {"gpu": "4"}, "four are charged")
                await world.hub.client.delete(JOBS, name, namespace=NAMESPACE)
                await world.until(lambda name=name: not world.workload(name), "it is gone")
                await world.until(lambda: usage(world) == {"gpu": "0"}, "its quota is back")


@virtual_time
async def test_one_that_is_stopped_asks_for_all_pods_until_it_runs_again() -> None:
    """One that only its user suspended holds quota, and goes on as it was, as any job does."""
    async with narrow_world() as world, world.manager():
        await start_narrow(world)
        name = world.workload().metadata.name
        await world.hub.patch(JOBS, "train", {"spec": {"suspend": True}}, namespace=NAMESPACE)
        await world.until(
            lambda: (job := world.hub.job("train")) and not job["spec"]["suspend"], "it runs"
        )
        assert asked(world) == await running(world, "h") == (4, 4)
        assert usage(world) == {"gpu": "4"}

        inactive = {"spec": {"active": False}}
        await world.hub.patch(WORKLOADS, name, inactive, namespace=NAMESPACE)
        await world.until(lambda: asked(world) == (8, 8), "the job here has eight again")
        await world.until(lambda: usage(world) == {"gpu": "0"}, "its quota is back")
        assert names.RUNS_WITH not in world.hub.job("train")["metadata"]["annotations"]
        assert world.workload().metadata.name == name
        await world.hub.patch(WORKLOADS, name, {"spec": {"active": True}}, namespace=NAMESPACE)
        assert await running(world, "h") == (4, 4)
        await world.until(lambda: asked(world) == (4, 4), "the job here has four")


@virtual_time
async def test_what_is_told_late_of_another_worker_is_told_anew() -> None:
    """Four pods were about to run on h; it runs with eight on a, and that is what is charged."""
    late: list[str] = []

    class Overtaken(KubeClient):
        """Of a manager that another one overtakes, which had the gang nearly on h."""

        async def patch(self, resource: Resource, name: str, patch: Any, **what: Any) -> Any:
            if (patch.get("status") or {}).get("clusterName") == "a" and not late:
                told = format_ran_on(epoch_of(world.workload()), RanOn(pods={"main": 4}))
                late.append(told)
                change = {"metadata": {"annotations": {names.RAN_ON: told}}}
                await world.hub.patch(WORKLOADS, name, change, namespace=NAMESPACE)
            return await super().patch(resource, name, patch, **what)

    async with narrow_world() as world, world.manager(client_type=Overtaken):
        await world.until_connected()
        await world.hub.create(JOBS, make_gang("train", **{names.CLUSTER_NAMES: "a"}))
        assert await world.until_ready() == "a"
        assert late
        await world.until(lambda: usage(world) == {"gpu": "8"}, "eight are charged")
        assert asked(world) == await running(world, "a") == (8, 8)
