"""A budget is of the time that the program had."""

from __future__ import annotations

import asyncio

import pytest

from multiqueue.dispatcher_host.host import within
from tests.virtual_time import VirtualTimeLoop, virtual_time


@virtual_time
async def test_what_takes_longer_is_cancelled_when_its_time_is_over() -> None:
    loop = asyncio.get_running_loop()
    begun = loop.time()
    ended = asyncio.Event()

    async def hang() -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            ended.set()

    with pytest.raises(TimeoutError):
        await within(1.0, hang())
    assert loop.time() - begun == pytest.approx(1.0)
    assert ended.is_set()


@virtual_time
async def test_what_fails_in_time_fails_as_it_does() -> None:
    async def fail() -> None:
        await asyncio.sleep(0.95)
        raise ValueError("bad")

    with pytest.raises(ValueError, match="bad"):
        await within(1.0, fail())


@virtual_time
async def test_time_that_the_machine_had_for_others_does_not_count() -> None:
    """Each turn of the loop comes nine tenths of a second late: four of them are four seconds."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualTimeLoop)
    turns = 0

    async def answer() -> str:
        nonlocal turns
        while turns < 4:
            await asyncio.sleep(0.1)
            loop.now += 0.9
            turns += 1
        return "late"

    begun = loop.time()
    assert await within(1.0, answer()) == "late"
    assert loop.time() - begun >= 4.0
