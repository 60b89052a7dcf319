"""Parts that run side by side, and how their failures surface."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from itertools import pairwise
from typing import Any

import pytest

from multiqueue.jobs.context import UnrecoverableError
from multiqueue.runtime.components import (
    HEALTHY_SECONDS,
    STUBBORN_SECONDS,
    ComponentFailed,
    Supervisor,
    innermost,
    open_scope,
    run_component,
)
from tests.virtual_time import virtual_time


class Part:
    def __init__(self, name: str, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self.name = name
        self.run = work


async def fail() -> None:
    raise ValueError("no disk")


async def end() -> None:
    return


async def forever() -> None:
    await asyncio.Event().wait()


async def test_a_failure_names_the_part_and_its_cause() -> None:
    with pytest.raises(ComponentFailed, match='component "cache" failed: ValueError: no disk'):
        await run_component(Part("cache", fail))


async def test_a_part_that_ends_has_failed() -> None:
    with pytest.raises(ComponentFailed, match="it ended by itself"):
        await run_component(Part("cache", end))


async def test_a_part_in_a_part_is_named_by_both() -> None:
    async def nested() -> None:
        async with open_scope() as scope:
            scope.start(Part("webhooks", fail))
            await forever()

    with pytest.raises(ComponentFailed, match='"manager: webhooks" failed: ValueError: no disk'):
        await run_component(Part("manager", nested))


async def test_a_failure_ends_the_block_and_its_other_parts() -> None:
    others = []

    async def block() -> None:
        async with open_scope() as scope:
            others.append(scope.start(Part("other", forever)))
            scope.start(Part("broken", fail))
            await forever()

    with pytest.raises(BaseExceptionGroup) as caught:
        await block()
    assert isinstance(innermost(caught.value), ComponentFailed)
    assert others[0].cancelled()


async def test_the_end_of_the_block_ends_its_parts() -> None:
    async with open_scope() as scope:
        part = scope.start(Part("part", forever))
        await asyncio.sleep(0)
    assert part.cancelled()


class Flaky:
    """A component that fails so often, each time after so many seconds, and then runs."""

    name = "flaky"

    def __init__(self, failures: int, *, after: float = 0.0) -> None:
        self.starts: list[float] = []
        self._failures = failures
        self._after = after

    async def run(self) -> None:
        self.starts.append(asyncio.get_running_loop().time())
        if len(self.starts) <= self._failures:
            await asyncio.sleep(self._after)
            raise ValueError("no disk")
        await forever()


@virtual_time
async def test_a_component_that_fails_starts_again_later_each_time() -> None:
    restarts: list[str] = []
    supervisor, part = Supervisor(restarts.append), Flaky(12)
    async with open_scope() as scope:
        scope.create_task(supervisor.keep(part))
        await asyncio.sleep(600)
        assert (len(part.starts), restarts) == (13, ["flaky"] * 12)
        pauses = [after - before for before, after in pairwise(part.starts)]
        assert 0.5 <= pauses[0] <= 1
        assert 30 <= pauses[-1] <= 60


@virtual_time
async def test_a_component_that_fails_does_not_touch_the_others() -> None:
    supervisor, other = Supervisor(), Flaky(0)
    async with open_scope() as scope:
        kept = scope.create_task(supervisor.keep(other))
        scope.create_task(supervisor.keep(Part("ends", end)))
        scope.create_task(supervisor.keep(Part("broken", fail)))
        await asyncio.sleep(600)
        assert (len(other.starts), kept.done()) == (1, False)


@virtual_time
async def test_a_component_whose_future_others_cancelled_does_not_end_in_silence() -> None:
    restarts: list[str] = []

    async def awaits_cancelled() -> None:
        future = asyncio.get_running_loop().create_future()
        future.cancel()
        await future

    async with open_scope() as scope:
        scope.create_task(Supervisor(restarts.append).keep(Part("stray", awaits_cancelled)))
        await asyncio.sleep(1.5)
        assert restarts[:1] == ["stray"]


@virtual_time
async def test_what_no_restart_can_mend_ends_the_process_by_name() -> None:
    async def nested() -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(lose())

    async def lose() -> None:
        raise UnrecoverableError("state is lost")

    with pytest.raises(ComponentFailed, match='component "engine" failed: state is lost'):
        await Supervisor().keep(Part("engine", nested))


@virtual_time
async def test_health_tells_of_a_component_that_never_recovers() -> None:
    supervisor = Supervisor()
    async with open_scope() as scope:
        scope.create_task(supervisor.keep(Part("broken", fail)))
        await asyncio.sleep(STUBBORN_SECONDS - 60)
        assert supervisor.check_live() is None
        assert "ValueError: no disk" in (supervisor.check_running({"broken"}) or "")
        await asyncio.sleep(120)
        words = supervisor.check_live() or ""
    assert words.startswith('component "broken" has failed ')
    assert words.endswith("minutes: ValueError: no disk")


@virtual_time
async def test_health_forgets_a_component_that_recovered() -> None:
    supervisor = Supervisor()
    async with open_scope() as scope:
        scope.create_task(supervisor.keep(Flaky(20)))
        await asyncio.sleep(STUBBORN_SECONDS)
        assert supervisor.check_live() is not None
        await asyncio.sleep(20 * 60 + HEALTHY_SECONDS - STUBBORN_SECONDS)
        assert supervisor.check_live() is None
        assert supervisor.check_running({"flaky"}) is None
