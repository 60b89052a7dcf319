from __future__ import annotations

import asyncio

from hypothesis import given, settings
from hypothesis import strategies as st

from multiqueue.kube.workqueue import WorkQueue
from tests.virtual_time import run_virtual, settle, virtual_time


async def take(queue: WorkQueue[str]) -> str:
    key = await asyncio.wait_for(queue.get(), 1000)
    queue.done(key)
    return key


@virtual_time
async def test_a_key_waits_only_once() -> None:
    queue: WorkQueue[str] = WorkQueue()
    for key in "abaab":
        queue.add(key)
    assert len(queue) == 2
    assert [await take(queue), await take(queue)] == ["a", "b"]
    assert len(queue) == 0


@virtual_time
async def test_a_key_added_while_worked_on_comes_back_when_that_is_done() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("a")
    assert await queue.get() == "a"
    queue.add("a")
    queue.add("a")
    second = asyncio.ensure_future(queue.get())
    await settle()
    assert not second.done()
    queue.done("a")
    assert await second == "a"
    queue.done("a")
    assert len(queue) == 0


@virtual_time
async def test_a_key_does_not_come_back_for_what_was_looked_at_meanwhile() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("a")
    await queue.get()
    queue.add("a")
    queue.note_reconcile("a")
    queue.done("a")
    assert len(queue) == 0


@virtual_time
async def test_a_key_comes_back_for_what_was_added_after_the_look() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("a")
    await queue.get()
    queue.note_reconcile("a")
    queue.add("a")
    queue.done("a")
    assert await take(queue) == "a"


@virtual_time
async def test_keys_come_after_their_delay_in_the_order_of_their_times() -> None:
    loop = asyncio.get_running_loop()
    queue: WorkQueue[str] = WorkQueue()
    begun = loop.time()
    queue.add_after("late", 30)
    queue.add_after("early", 10)
    queue.add_after("now", 0)
    got = [(await take(queue), round(loop.time() - begun)) for _ in range(3)]
    assert got == [("now", 0), ("early", 10), ("late", 30)]


@virtual_time
async def test_of_two_delays_of_a_key_the_shorter_counts() -> None:
    loop = asyncio.get_running_loop()
    queue: WorkQueue[str] = WorkQueue()
    begun = loop.time()
    queue.add_after("a", 30)
    queue.add_after("a", 10)
    queue.add_after("a", 20)
    assert (await take(queue), round(loop.time() - begun)) == ("a", 10)
    await asyncio.sleep(60)
    assert len(queue) == 0


@virtual_time
async def test_failures_of_a_key_delay_it_ever_more_until_forgotten() -> None:
    loop = asyncio.get_running_loop()
    queue: WorkQueue[str] = WorkQueue()
    delays = []
    for _ in range(20):
        begun = loop.time()
        queue.add_rate_limited("a")
        await take(queue)
        delays.append(round(loop.time() - begun, 3))
    assert delays[:4] == [0.005, 0.01, 0.02, 0.04]
    assert delays[-1] == 60.0
    assert queue.failures("a") == 20
    queue.forget("a")
    begun = loop.time()
    queue.add_rate_limited("a")
    await take(queue)
    assert round(loop.time() - begun, 3) == 0.005


@virtual_time
async def test_namespaces_take_turns() -> None:
    queue: WorkQueue[str] = WorkQueue()
    for key in ("flood/1", "flood/2", "flood/3", "a/1", "worker", "a/2"):
        queue.add(key)
    taken = [await take(queue) for _ in range(6)]
    assert taken == ["flood/1", "a/1", "worker", "flood/2", "a/2", "flood/3"]


async def test_a_cancelled_wait_loses_no_key() -> None:
    queue: WorkQueue[str] = WorkQueue()
    waiter = asyncio.ensure_future(queue.get())
    await settle()
    waiter.cancel()
    queue.add("a")
    await asyncio.wait({waiter})
    assert await take(queue) == "a"


@settings(deadline=None)  # the machine may be busy
@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 5)), max_size=30))
def test_every_added_key_is_worked_on_afterwards_and_never_twice_at_once(
    steps: list[tuple[str, int]],
) -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        queue: WorkQueue[str] = WorkQueue()
        added_at: dict[str, float] = {}
        begun_at: dict[str, float] = {}
        working: set[str] = set()

        async def work() -> None:
            while True:
                key = await queue.get()
                assert key not in working
                working.add(key)
                begun_at[key] = loop.time()
                await asyncio.sleep(1.5)
                working.discard(key)
                queue.done(key)

        workers = [asyncio.ensure_future(work()) for _ in range(3)]
        for key, seconds in steps:
            queue.add_after(key, seconds)
            added_at[key] = loop.time()
            await asyncio.sleep(0.7)
        await asyncio.sleep(100)
        for worker in workers:
            assert not worker.done()
            worker.cancel()
        await asyncio.wait(workers)
        assert begun_at.keys() == added_at.keys()
        assert all(begun_at[key] >= added_at[key] for key in added_at)

    run_virtual(scenario())
