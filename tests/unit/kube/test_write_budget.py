"""Statuses of queues, reasons and Events get what steps leave of a server."""

from __future__ import annotations

import asyncio

import pytest

from multiqueue.kube.limiter import RateLimiter
from multiqueue.kube.write_budget import BUSY_STEPS, MAX_WINDOW, SHARE, WriteBudget, WriteClass
from tests.virtual_time import settle, virtual_time

STEPS_OF_AN_ADMISSION = 5


class Server:
    """A server that writes so many objects at a time; each takes so long.

    Attributes:
        sent: What was written, in order.
    """

    def __init__(
        self, seconds: float, at_a_time: int = 10_000, limiter: RateLimiter | None = None
    ) -> None:
        self.limiter = limiter or RateLimiter()
        self.sent: list[str] = []
        self._seconds = seconds
        self._room = asyncio.Semaphore(at_a_time)

    async def step(self, *, refused: bool = False) -> None:
        await self._write("step", refused=refused)

    async def tell(self, write_class: WriteClass = WriteClass.EXPLANATION) -> None:
        async with self.limiter.spare(write_class):
            await self._write(write_class.name)

    async def _write(self, what: str, *, refused: bool = False) -> None:
        loop = asyncio.get_running_loop()
        await self.limiter.acquire(write=True)
        begun = loop.time()
        async with self._room:
            await asyncio.sleep(self._seconds)
        self.sent.append(what)
        self.limiter.release(seconds=loop.time() - begun, refused=refused, write=True)


async def admit(server: Server, count: int, *, at_a_time: int = 16) -> None:
    """Write the steps of so many admissions, several admissions side by side."""
    left = list(range(count))

    async def work() -> None:
        while left:
            left.pop()
            for _ in range(STEPS_OF_AN_ADMISSION):
                await server.step()

    await asyncio.gather(*(work() for _ in range(at_a_time)))


async def stop(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


@virtual_time
async def test_on_an_idle_server_everybody_is_told_within_a_second() -> None:
    server, loop = Server(0.005, at_a_time=4), asyncio.get_running_loop()
    begun = loop.time()
    await asyncio.gather(*(server.tell() for _ in range(200)))
    assert loop.time() - begun < 1.0


@pytest.mark.parametrize("seconds", [0.02, 0.1, 0.5])
def test_a_saturated_server_gets_a_tenth_of_a_write_for_each_admission(seconds: float) -> None:
    """E-85."""

    @virtual_time
    async def run() -> None:
        server = Server(seconds, at_a_time=4)
        tasks = [asyncio.ensure_future(admit(server, 300))]
        await asyncio.sleep(60 * seconds)
        server.sent.clear()
        tasks += [asyncio.ensure_future(server.tell()) for _ in range(1000)]
        await asyncio.sleep(200 * seconds)
        admissions = server.sent.count("step") / STEPS_OF_AN_ADMISSION
        assert 0.05 * admissions <= server.sent.count("EXPLANATION") <= 0.1 * admissions + 2
        await stop(tasks)

    run()


@virtual_time
async def test_a_quick_server_that_is_busy_gets_events_at_once_and_few_statuses_of_queues() -> None:
    server = Server(0.005)
    task = asyncio.ensure_future(admit(server, 300, at_a_time=4))
    await asyncio.sleep(0.02)
    server.sent.clear()
    told = [asyncio.ensure_future(server.tell(WriteClass.QUEUE_STATUS)) for _ in range(200)]
    await asyncio.gather(*(server.tell() for _ in range(50)))
    assert not task.done()
    admissions = server.sent.count("step") / STEPS_OF_AN_ADMISSION
    assert server.sent.count("QUEUE_STATUS") <= 0.1 * admissions + 2
    await task
    begun = asyncio.get_running_loop().time()
    await asyncio.gather(*told)
    assert asyncio.get_running_loop().time() - begun < 1.0


@pytest.mark.parametrize(("seconds", "every"), [(0.01, 0.045), (0.03, 0.14), (0.2, 0.9)])
def test_steps_now_and_then_keep_no_status_waiting(seconds: float, every: float) -> None:
    """A server that is busy for a fifth of the time; there is no pause between its steps."""

    @virtual_time
    async def run() -> None:
        server = Server(seconds)

        async def go_on() -> None:
            while True:
                await asyncio.gather(server.step(), asyncio.sleep(every))

        task = asyncio.ensure_future(go_on())
        await asyncio.sleep(10)
        begun = asyncio.get_running_loop().time()
        statuses = [server.tell(WriteClass.QUEUE_STATUS) for _ in range(100)]
        await asyncio.gather(*statuses, *(server.tell() for _ in range(100)))
        assert asyncio.get_running_loop().time() - begun < 400 * seconds
        await stop([task])

    run()


@virtual_time
async def test_a_busy_server_gets_a_status_a_second() -> None:
    server = Server(0.2)
    task = asyncio.ensure_future(admit(server, 10_000, at_a_time=3))
    await asyncio.sleep(10)
    server.sent.clear()
    told = [asyncio.ensure_future(server.tell(WriteClass.QUEUE_STATUS)) for _ in range(100)]
    await asyncio.sleep(30)
    assert 28 <= server.sent.count("QUEUE_STATUS") <= 45
    await stop([task, *told])


def test_a_server_that_only_steps_make_slow_has_its_whole_window_afterwards() -> None:
    budget = WriteBudget()
    for _ in range(BUSY_STEPS):
        budget.begin_step()
    for second in range(10):
        budget.learn(1.0, float(second), refused=False, is_step=True)
    assert budget.window == MAX_WINDOW


def test_after_the_last_step_statuses_of_queues_wait_three_times_as_long_as_events() -> None:
    budget = WriteBudget()
    for _ in range(BUSY_STEPS):
        budget.begin_step()
        budget.learn(1.0, 0.0, refused=False, is_step=True)
        budget.end_step(0.0)
    assert budget.take(0.0, WriteClass.QUEUE_STATUS), "the one of this second"
    assert not budget.take(0.24, WriteClass.EXPLANATION)
    assert budget.take(0.26, WriteClass.EXPLANATION)
    assert not budget.take(0.74, WriteClass.QUEUE_STATUS)
    assert budget.take(0.76, WriteClass.QUEUE_STATUS)


def test_quick_answers_to_events_do_not_hide_that_steps_are_slow() -> None:
    budget = WriteBudget()
    for _ in range(BUSY_STEPS):
        budget.begin_step()
    budget.learn(0.06, 0.0, refused=False, is_step=True)
    for _ in range(100):
        budget.learn(0.004, 0.0, refused=False, is_step=False)
    assert budget.is_saturated(0.0)


@virtual_time
async def test_they_are_told_as_soon_as_the_steps_end() -> None:
    server, loop = Server(0.1, at_a_time=4), asyncio.get_running_loop()
    await admit(server, 20)
    task, begun = asyncio.ensure_future(server.tell()), loop.time()
    await task
    assert loop.time() - begun < 0.5


@virtual_time
async def test_a_step_never_waits_for_reasons() -> None:
    server, loop = Server(0.1), asyncio.get_running_loop()
    tasks = [asyncio.ensure_future(server.tell()) for _ in range(1000)]
    await settle()
    begun = loop.time()
    await server.step()
    assert loop.time() - begun == pytest.approx(0.1)
    await stop(tasks)


@virtual_time
async def test_statuses_of_queues_go_before_reasons() -> None:
    server = Server(0.01)
    tasks = [asyncio.ensure_future(server.tell()) for _ in range(20)]
    await asyncio.gather(server.tell(WriteClass.QUEUE_STATUS), *tasks)
    assert server.sent.index("QUEUE_STATUS") < 2 * MAX_WINDOW - 1


@virtual_time
async def test_a_refusal_counts_as_slow() -> None:
    server = Server(0.001)
    await server.step(refused=True)
    assert server.limiter.budget.window == MAX_WINDOW / 2
    hold = asyncio.ensure_future(admit(server, 100, at_a_time=1))
    await settle()
    task = asyncio.ensure_future(server.tell())
    await asyncio.sleep(0.03)
    assert not task.done()
    await hold
    await task


@virtual_time
async def test_nothing_is_told_before_the_server_wants() -> None:
    server, loop = Server(0.0), asyncio.get_running_loop()
    await server.limiter.acquire(write=True)
    server.limiter.release(refused=True, retry_after=7, write=True)
    begun = loop.time()
    await server.tell()
    assert loop.time() - begun == pytest.approx(7.0, abs=0.01)


@virtual_time
async def test_whoever_stops_waiting_leaves_no_trace() -> None:
    server = Server(0.1)
    tasks = [asyncio.ensure_future(server.tell()) for _ in range(40)]
    await settle()
    await stop(tasks)
    await asyncio.wait_for(server.tell(), 0.11)


def test_a_turn_that_wrote_nothing_costs_nothing() -> None:
    budget = saturated()
    for _ in range(int(1 / SHARE)):
        budget.begin_step()
        budget.end_step(now=0.0)
    budget.begin_step()
    assert budget.take(0.0, WriteClass.EXPLANATION)
    assert not budget.take(0.0, WriteClass.EXPLANATION)
    budget.give_back(used=False)
    assert budget.take(0.0, WriteClass.EXPLANATION)
    budget.give_back(used=True)
    assert not budget.take(0.0, WriteClass.EXPLANATION)


def saturated() -> WriteBudget:
    """The budget of a slow server, before any step has ended."""
    budget = WriteBudget()
    for _ in range(20):
        budget.learn(1.0, 0.0, refused=False, is_step=True)
    return budget


@virtual_time
async def test_what_can_wait_leaves_the_rate_to_steps() -> None:
    """Steps that come in bursts find tokens, although the server is quick and idle in between."""
    server = Server(0.005, limiter=RateLimiter(rate=50, burst=100))
    told = [asyncio.create_task(server.tell()) for _ in range(400)]
    for _ in range(20):
        await asyncio.gather(*(server.step() for _ in range(25)))
        await asyncio.sleep(0.5)
    assert asyncio.get_running_loop().time() - 1000.0 < 11.0, "25 steps are half a second's rate"
    assert server.sent.count("EXPLANATION") <= 80
    await asyncio.gather(*told)


@virtual_time
async def test_statuses_are_written_while_steps_wait_for_the_rate() -> None:
    """More steps than the rate allows never leave a pause, and queues have a status even so."""
    server = Server(0.005, limiter=RateLimiter(rate=50, burst=1))
    told = [asyncio.create_task(server.tell(WriteClass.QUEUE_STATUS)) for _ in range(40)]
    await settle()
    await admit(server, 200, at_a_time=64)
    written = server.sent.count("QUEUE_STATUS")
    assert 5 <= written <= 200 * STEPS_OF_AN_ADMISSION * SHARE + MAX_WINDOW
    await stop(told)
