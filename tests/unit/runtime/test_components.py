"""Parts that run side by side, and how their failures surface."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from multiqueue.runtime.components import ComponentFailed, innermost, open_scope, run_component


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
