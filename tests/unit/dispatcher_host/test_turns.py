"""Who asks next, where dispatchers take different times; on a virtual clock."""

from __future__ import annotations

import asyncio

import pytest

from multiqueue.dispatcher_host.turns import DismissedError, Turns
from tests.virtual_time import settle, virtual_time


class Askers:
    """Questions of several profiles, and when each was answered."""

    def __init__(self) -> None:
        self.turns = Turns()
        self.answered: list[tuple[str, float]] = []
        self._begun = asyncio.get_running_loop().time()

    async def ask(self, who: str, seconds: float) -> None:
        async with self.turns.turn(who):
            await asyncio.sleep(seconds)
        now = asyncio.get_running_loop().time()
        self.answered.append((who, round(now - self._begun, 3)))


@virtual_time
async def test_a_quick_one_waits_for_one_slow_answer_and_not_for_all() -> None:
    askers = Askers()
    async with asyncio.TaskGroup() as tasks:
        for _ in range(20):
            tasks.create_task(askers.ask("slow", 2))
        await asyncio.sleep(1)
        for _ in range(10):
            tasks.create_task(askers.ask("quick", 0.1))
    quick = [at for who, at in askers.answered if who == "quick"]
    assert quick == [pytest.approx(2.1 + 0.1 * number) for number in range(10)]


@virtual_time
async def test_one_question_is_asked_at_a_time_and_those_of_one_in_order() -> None:
    askers = Askers()
    async with asyncio.TaskGroup() as tasks:
        for _ in range(4):
            tasks.create_task(askers.ask("a", 1))
    assert askers.answered == [("a", 1), ("a", 2), ("a", 3), ("a", 4)]


@virtual_time
async def test_who_is_cancelled_keeps_nobody_waiting() -> None:
    askers = Askers()
    first = asyncio.create_task(askers.ask("a", 1))
    await settle()
    second = asyncio.create_task(askers.ask("b", 1))
    third = asyncio.create_task(askers.ask("c", 1))
    await settle()
    second.cancel()
    await asyncio.gather(first, second, third, return_exceptions=True)
    assert askers.answered == [("a", 1), ("c", 2)]


@virtual_time
async def test_the_youngest_are_dismissed() -> None:
    askers = Askers()
    tasks = [asyncio.create_task(askers.ask("a", 1)) for _ in range(5)]
    await settle()
    assert askers.turns.count_waiting("a") == 4
    askers.turns.dismiss("a", keep=1)
    done = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(each) for each in done[2:]] == [DismissedError] * 3
    assert askers.answered == [("a", 1), ("a", 2)]
