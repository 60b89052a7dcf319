"""Rounds of the incremental dispatcher against API servers, on a virtual clock (T-28, G-5)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

from multiqueue.api.config.types import IncrementalDispatcher
from multiqueue.kube.resources import CLUSTER_QUEUES, JOBS
from tests.builders.jobs import make_gpu_job
from tests.builders.queues import make_gpu_queue
from tests.fleet.inline_thread import InlineThread
from tests.multikueue_world import MultiKueueWorld, make_config, multikueue_world
from tests.virtual_time import LoopClock, virtual_time

ROUND = 300.0
"""Seconds."""
ONE_BY_ONE = make_config(
    dispatcher_name="incremental",
    incremental_dispatcher_config=IncrementalDispatcher(step_size=1),
)


class Rounds:
    """A world of three workers, and managers that follow each other on one clock."""

    def __init__(self, world: MultiKueueWorld, clock: LoopClock) -> None:
        self.world = world
        self.clock = clock

    @asynccontextmanager
    async def manager(self) -> AsyncIterator[None]:
        async with self.world.manager(ONE_BY_ONE, clock=self.clock, open_thread=InlineThread):
            await self.world.until_connected()
            yield

    def nominated(self) -> tuple[str, ...]:
        workload = self.world.workload()
        return workload.status.nominated_cluster_names if workload is not None else ()

    async def until(self, *names: str) -> None:
        """Wait until the Workload is nominated there, in this order, and has its copies."""
        await self.world.until(lambda: self.nominated() == names, f"nominated on {names}")
        for name in names:
            await self.world.until(lambda n=name: self.world.copy(n), f"copy on {name}", on=name)


@asynccontextmanager
async def rounds() -> AsyncIterator[Rounds]:
    async with multikueue_world("w1", "w2", "w3") as world:
        await world.set_clusters("w3", "w1", "w2")
        await world.hub.create(JOBS, make_gpu_job())
        yield Rounds(world, LoopClock(datetime.now(UTC)))


@virtual_time
async def test_rounds_follow_each_other_until_one_admits_it_and_begin_anew_after_an_eviction() -> (
    None
):
    async with rounds() as it, it.manager():
        await it.until("w3")
        await asyncio.sleep(ROUND - 10)
        await it.until("w3")
        await asyncio.sleep(11)
        await it.until("w3", "w1")
        await it.world.admit("w1")
        assert await it.world.until_ready() == "w1"
        await it.world.until(lambda: it.world.copy("w3") is None, "w3 let go", on="w3")
        await it.world.evict("w1")
        await it.until("w3")
        await asyncio.sleep(ROUND - 10)
        await it.until("w3")


@virtual_time
async def test_a_manager_that_is_started_again_goes_on_with_the_round_that_it_finds() -> None:
    """M-114: neither a new round for everybody, nor the old one from its beginning."""
    async with rounds() as it:
        async with it.manager():
            await it.until("w3")
            await asyncio.sleep(ROUND / 2)
        async with it.manager():
            await asyncio.sleep(ROUND / 2 - 20)
            await it.until("w3")
            await asyncio.sleep(21)
            await it.until("w3", "w1")
        await asyncio.sleep(5 * ROUND)
        async with it.manager():
            await it.until("w3", "w1", "w2")
            workload = it.world.workload()
            assert workload is not None
            await asyncio.sleep(3 * ROUND)
            assert it.world.check()[1].endswith("; no other cluster is left to try")
            assert it.world.workload() == workload


@virtual_time
async def test_who_cannot_take_it_is_passed_over_at_once_and_has_its_turn_later() -> None:
    async with rounds() as it:
        it.world.gates["w3"].cut()
        async with it.world.manager(ONE_BY_ONE, clock=it.clock, open_thread=InlineThread):
            await it.world.until_connected("w1", "w2")
            await it.until("w1")
            it.world.gates["w3"].heal()
            await it.world.until_connected("w3")
            await it.until("w1")
            spec: dict[str, Any] = make_gpu_queue(0)["spec"]
            await it.world.workers["w1"].patch(CLUSTER_QUEUES, "cq", {"spec": spec})
            await it.world.until(lambda: "w3" in it.nominated(), "the next one at once")
            assert "w2" not in it.nominated()
            await asyncio.sleep(ROUND)
            await it.world.until(lambda: "w2" in it.nominated(), "the last one")
