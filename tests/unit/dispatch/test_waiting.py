"""Who is looked at when room changed on a worker."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable

from multiqueue.dispatch.wake.waiting import MAX_MISSES, SWEEP_SECONDS, Rank, WaitingLane
from tests.virtual_time import virtual_time


def make_rank(key: str, *, urgency: int = 0, queue: str = "ns/lq") -> Rank:
    return Rank(urgency=urgency, turn="", key=key, queue=queue)


def many(count: int, queue: str = "ns/lq") -> list[Rank]:
    return [make_rank(f"{queue}-{number:03}", queue=queue) for number in range(count)]


class SimulatedReconciler:
    """Answers every look at once: those in ``movable`` move, once each."""

    def __init__(self, waiting: Iterable[Rank], movable: Iterable[str] = ()) -> None:
        self.looks: list[str] = []
        self.movable = set(movable)
        self.lane = WaitingLane(lambda: list(waiting), self._look)

    def _look(self, key: str) -> None:
        self.looks.append(key)
        asyncio.get_running_loop().call_soon(self._answer, key)

    def _answer(self, key: str) -> None:
        self.lane.answer(key, moved=key in self.movable)
        self.movable.discard(key)


@contextlib.asynccontextmanager
async def running(lane: WaitingLane) -> AsyncIterator[None]:
    task = asyncio.create_task(lane.run())
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


@virtual_time
async def test_nobody_is_looked_at_without_a_change():
    looker = SimulatedReconciler(many(3))
    async with running(looker.lane):
        await asyncio.sleep(60)
    assert looker.looks == []


@virtual_time
async def test_a_change_costs_a_few_looks_at_the_head_of_the_queue():
    looker = SimulatedReconciler(many(400))
    async with running(looker.lane):
        looker.lane.wake()
        await asyncio.sleep(SWEEP_SECONDS)
        await asyncio.sleep(0.001)
    assert looker.looks[:MAX_MISSES] == [f"ns/lq-{n:03}" for n in range(MAX_MISSES)]
    assert len(looker.looks) <= MAX_MISSES + 1


@virtual_time
async def test_it_goes_on_while_they_find_room():
    waiting = many(50)
    looker = SimulatedReconciler(waiting, movable=[rank.key for rank in waiting[:30]])
    async with running(looker.lane):
        looker.lane.wake()
        await asyncio.sleep(SWEEP_SECONDS + 0.001)
    assert looker.looks[:35] == [rank.key for rank in waiting[:35]]


@virtual_time
async def test_a_queue_that_is_stuck_holds_up_no_other():
    other = make_rank("other", queue="ns/z")
    looker = SimulatedReconciler([*many(100), other])
    async with running(looker.lane):
        looker.lane.wake()
        await asyncio.sleep(SWEEP_SECONDS + 0.001)
    assert "other" in looker.looks[: MAX_MISSES + 1]


@virtual_time
async def test_the_more_urgent_come_first():
    looker = SimulatedReconciler([make_rank("a"), make_rank("b", urgency=-9)])
    async with running(looker.lane):
        looker.lane.wake()
        await asyncio.sleep(1)
    assert looker.looks == ["b", "a"]


@virtual_time
async def test_in_the_end_everybody_had_a_look_however_often_room_changes():
    """A small one behind large ones may find room that they cannot use."""
    waiting = many(60)
    looker = SimulatedReconciler(waiting)
    async with running(looker.lane):
        for _ in range(60):
            looker.lane.wake()
            await asyncio.sleep(0.4)
    assert set(looker.looks) == {rank.key for rank in waiting}


@virtual_time
async def test_one_is_looked_at_at_a_time():
    looks: list[str] = []
    lane = WaitingLane(lambda: many(3), looks.append)
    async with running(lane):
        lane.wake()
        await asyncio.sleep(1)
        assert len(looks) == 1
        lane.answer("somebody else", moved=True)
        await asyncio.sleep(1)
        assert len(looks) == 1
        lane.answer(looks[0], moved=False)
        await asyncio.sleep(1)
        assert len(looks) == 2
