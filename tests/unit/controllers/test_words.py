"""Words wait for admissions, in the order in which they were asked for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from multiqueue.controllers.workload.status_rationing import BURST, FLOOR, RATE, Words
from tests.virtual_time import virtual_time

COUNT = int(BURST)


@asynccontextmanager
async def running(words: Words) -> AsyncIterator[None]:
    task = asyncio.create_task(words.run())
    yield
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def told_of(words: list[str], *, unwanted: frozenset[str] = frozenset()) -> Words:
    return Words(words.append, lambda key: key not in unwanted)


@virtual_time
async def test_what_a_person_submits_is_explained_at_once() -> None:
    words = told_of([])

    assert all(words.may(f"wl-{i}") for i in range(COUNT))
    assert not words.may("one-more")
    assert len(words) == 1


@virtual_time
async def test_more_come_in_order_at_a_rate() -> None:
    turns: list[str] = []
    words = told_of(turns)
    for i in range(COUNT):
        words.may(f"wl-{i}")
    async with running(words):
        late = [f"late-{i}" for i in range(100)]
        assert not any(words.may(key) for key in late)
        await asyncio.sleep(1)

        assert turns == late[: len(turns)]
        assert RATE <= len(turns) <= RATE + FLOOR + 2
        assert words.may(turns[0])
        assert not words.may(turns[0]), "a turn is for one write"


@virtual_time
async def test_admissions_take_theirs_first_and_never_everything() -> None:
    """E-85."""
    turns: list[str] = []
    words = told_of(turns)
    for i in range(COUNT):
        words.may(f"wl-{i}")
    async with running(words):
        for i in range(1_000):
            words.may(f"late-{i}")
        for _ in range(10):
            for _ in range(2 * int(RATE)):
                words.admitted()
            await asyncio.sleep(1)

        assert len(turns) <= 10 * FLOOR + 3
        assert len(turns) >= 10 * FLOOR - 3

        await asyncio.sleep(3)
        assert len(turns) >= 2 * RATE, "and then words catch up"


@virtual_time
async def test_who_was_admitted_meanwhile_needs_no_words() -> None:
    turns: list[str] = []
    words = told_of(turns, unwanted=frozenset({"gone"}))
    for i in range(COUNT):
        words.may(f"wl-{i}")
    async with running(words):
        words.may("gone")
        words.may("waits")
        await asyncio.sleep(1)

        assert turns == ["waits"]
        assert len(words) == 0
