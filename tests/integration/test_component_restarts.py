"""Components of a running manager that fail and start again, all others going on."""

from __future__ import annotations

import asyncio

from multiqueue.jobs.context import Runnable
from multiqueue.kube.resources import JOBS
from multiqueue.runtime.components import Supervisor
from tests.builders.jobs import make_gpu_job
from tests.multikueue_world import multikueue_world
from tests.virtual_time import virtual_time

ENDS_THE_PROCESS = {"scheduler", "admission-writer"}
"""Their failures leave the engine's state uncertain: no restart in place."""


class Breakable:
    """A component that fails as soon as a test says so, once."""

    def __init__(self, part: Runnable) -> None:
        self.name = part.name
        self.breaks = asyncio.Event()
        self.starts = 0
        self._part = part

    async def run(self) -> None:
        self.starts += 1
        work = asyncio.ensure_future(self._part.run())
        told = asyncio.ensure_future(self.breaks.wait())
        try:
            await asyncio.wait({work, told}, return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                self.breaks.clear()
                raise ValueError("an error that nobody expected")
            work.result()
        finally:
            for task in (work, told):
                task.cancel()
            await asyncio.gather(work, told, return_exceptions=True)


class Parts:
    """The components of a manager, kept by a supervisor."""

    def __init__(self) -> None:
        self.restarts: list[str] = []
        self.parts: list[Breakable] = []
        self._supervisor = Supervisor(self.restarts.append)

    async def keep(self, part: Runnable) -> None:
        breakable = Breakable(part)
        self.parts.append(breakable)
        await self._supervisor.keep(breakable)

    async def break_all(self) -> None:
        """Let every component fail that may, and wait until all run again."""
        before = {part: part.starts for part in self.parts if part.name not in ENDS_THE_PROCESS}
        for part in before:
            part.breaks.set()
        async with asyncio.timeout(60):
            while any(part.starts == count for part, count in before.items()):  # noqa: ASYNC110
                await asyncio.sleep(0.1)


@virtual_time
async def test_every_component_that_may_fail_starts_again_in_place() -> None:
    parts = Parts()
    async with multikueue_world("w1") as world, world.manager(keep=parts.keep) as context:
        await world.until_connected()
        for _ in range(2):
            await parts.break_all()
        assert {part.name for part in parts.parts} - set(parts.restarts) == ENDS_THE_PROCESS

        await world.until_connected()
        await world.hub.create(JOBS, make_gpu_job())
        await world.until(lambda: world.copy("w1"), "a copy", on="w1")
        await world.admit("w1")
        assert await world.until_ready() == "w1"
        families = context.metrics.quota_reserved_workloads_total.metric.collect()
        samples = [each for family in families for each in family.samples]
        reserved = sum(each.value for each in samples if each.name.endswith("_total"))
        assert reserved == 1, "handlers that are added in each run are called once"
