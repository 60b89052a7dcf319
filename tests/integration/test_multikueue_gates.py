"""One worker at a time preempts for a job; workers run this program, on a virtual clock."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from multiqueue.api import names
from multiqueue.api.v1beta2 import Workload
from multiqueue.api.workload_state import has_quota, is_evicted
from multiqueue.kube.resources import CLUSTER_QUEUES, JOBS, WORKLOAD_PRIORITY_CLASSES
from tests.builders.jobs import make_gpu_job
from tests.builders.workloads import NAMESPACE
from tests.fleet.inline_thread import InlineThread
from tests.multikueue_world import MultiKueueWorld, make_config, multikueue_world
from tests.queue_manager import CONFIG
from tests.virtual_time import LoopClock, virtual_time

TIMEOUT = 300.0
"""Seconds that one worker has for itself."""
GATES = {"MultiKueueOrchestratedPreemption": True}
WORKERS = ("w1", "w2")


def ranked(name: str, rank: str, managed_by: str | None = None) -> dict[str, Any]:
    job = make_gpu_job(name, gpus=8, managed_by=managed_by)
    job["metadata"]["labels"][names.PRIORITY_CLASS] = rank
    return job


class Rivals:
    """Two full workers, and a job that matters more than what runs there."""

    def __init__(self, world: MultiKueueWorld, clock: LoopClock) -> None:
        self.world = world
        self.clock = clock

    @asynccontextmanager
    async def manager(self, **settings: Any) -> AsyncIterator[None]:
        config = msgspec.structs.replace(make_config(**settings), feature_gates=GATES)
        async with self.world.manager(config, clock=self.clock, open_thread=InlineThread):
            await self.world.until_connected()
            yield

    def low(self, worker: str) -> Workload:
        workload = self.world.workers[worker].workload_of("low")
        assert workload is not None
        return workload

    def victims(self) -> list[str]:
        return [name for name in WORKERS if is_evicted(self.low(name).status)]

    async def set_active(self, worker: str, pods: int) -> None:
        await self.world.workers[worker].patch(
            JOBS, "low", {"status": {"active": pods}}, namespace=NAMESPACE, subresource="status"
        )

    async def until_victim(self, count: int) -> None:
        for name in WORKERS:
            changes = self.world.workers[name].changes
            if len(self.victims()) < count:
                await changes.until(lambda: len(self.victims()) >= count, f"{count} victims")


@asynccontextmanager
async def rivals(*, strategy: str) -> AsyncIterator[Rivals]:
    clock = LoopClock(datetime.now(UTC))
    config = msgspec.structs.replace(CONFIG, feature_gates=GATES)
    async with multikueue_world(*WORKERS) as world, AsyncExitStack() as stack:
        for cluster in (world.hub, *world.workers.values()):
            for rank, value in (("low", 1), ("high", 10)):
                await cluster.create(
                    WORKLOAD_PRIORITY_CLASSES,
                    {
                        "apiVersion": names.V1BETA2,
                        "kind": "WorkloadPriorityClass",
                        "metadata": {"name": rank},
                        "value": value,
                    },
                )
        it = Rivals(world, clock)
        for name, cluster in world.workers.items():
            spec = {
                "preemption": {"withinClusterQueue": "LowerPriority"},
                "queueingStrategy": strategy,
            }
            await cluster.patch(CLUSTER_QUEUES, "cq", {"spec": spec})
            await stack.enter_async_context(cluster.manager(config, clock=clock))
            await cluster.create(JOBS, ranked("low", "low"))
            await cluster.changes.until(
                lambda c=cluster: (w := c.workload_of("low")) and has_quota(w.status), "it runs"
            )
            await it.set_active(name, 1)
        yield it


@virtual_time
async def test_one_victim_falls_and_the_other_one_stays() -> None:
    """T-75, T-76; G-16: in a queue that a blocked head holds up."""
    async with rivals(strategy="StrictFIFO") as it, it.manager():
        await it.world.hub.create(JOBS, ranked("train", "high", names.MULTIKUEUE_CONTROLLER))
        await it.until_victim(1)
        (victim,) = it.victims()
        copy = it.world.copy(victim)
        assert [gate.name for gate in copy.spec.preemption_gates] == [names.MULTIKUEUE_GATE]
        assert copy.status.preemption_gates[0].position == "Open"
        await it.set_active(victim, 0)
        assert await it.world.until_ready() == victim
        await asyncio.sleep(2 * TIMEOUT)
        assert it.victims() == [victim]
        (other,) = {*WORKERS} - {victim}
        assert has_quota(it.low(other).status)


@virtual_time
async def test_where_the_victim_does_not_go_another_worker_may_preempt_after_its_time() -> None:
    """G-16; a manager that is started again meanwhile knows since when (M-230)."""
    async with rivals(strategy="BestEffortFIFO") as it:
        async with it.manager():
            await it.world.hub.create(JOBS, ranked("train", "high", names.MULTIKUEUE_CONTROLLER))
            await it.until_victim(1)
            await asyncio.sleep(TIMEOUT / 2)
        async with it.manager():
            await asyncio.sleep(TIMEOUT / 2 - 20)
            (first,) = it.victims()
            await asyncio.sleep(30)
            await it.until_victim(2)
            (second,) = {*WORKERS} - {first}
            await it.set_active(second, 0)
            assert await it.world.until_ready() == second
            assert it.world.copy(first) is None


@virtual_time
async def test_how_long_a_worker_has_to_preempt_is_for_the_configuration_to_say() -> None:
    short = TIMEOUT / 10
    async with (
        rivals(strategy="BestEffortFIFO") as it,
        it.manager(preemption_timeout=timedelta(seconds=short)),
    ):
        await it.world.hub.create(JOBS, ranked("train", "high", names.MULTIKUEUE_CONTROLLER))
        await it.until_victim(1)
        await asyncio.sleep(short - 10)
        assert len(it.victims()) == 1
        await asyncio.sleep(20)
        await it.until_victim(2)
