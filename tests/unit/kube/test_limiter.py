from __future__ import annotations

import asyncio

import pytest

from multiqueue.kube.limiter import RateLimiter
from tests.virtual_time import settle, virtual_time


async def send(limiter: RateLimiter, count: int, *, seconds: float = 0.0) -> float:
    """Send so many requests one after the other; return how long that took."""
    loop = asyncio.get_running_loop()
    begun = loop.time()
    for _ in range(count):
        await limiter.acquire()
        if seconds:
            await asyncio.sleep(seconds)
        limiter.release(seconds=seconds)
    return loop.time() - begun


@virtual_time
async def test_a_burst_passes_and_what_follows_keeps_the_rate() -> None:
    limiter = RateLimiter(rate=10, burst=5)
    assert await send(limiter, 5) == 0
    assert await send(limiter, 20) == pytest.approx(2.0, abs=0.15)


@virtual_time
async def test_a_refusal_halves_the_rate_once_a_second_and_quiet_restores_it() -> None:
    """M-53."""
    limiter = RateLimiter(rate=100)
    for _ in range(10):
        await limiter.acquire()
    for _ in range(10):
        limiter.release(refused=True)
    assert limiter.rate == 50
    assert limiter.throttled == 10
    await asyncio.sleep(1.1)
    await limiter.acquire()
    limiter.release(refused=True)
    assert limiter.rate < 40
    for _ in range(20):
        await asyncio.sleep(1)
        await limiter.acquire()
        limiter.release()
    assert limiter.rate == 100


@virtual_time
async def test_nobody_sends_before_the_server_wants() -> None:
    loop = asyncio.get_running_loop()
    limiter = RateLimiter()
    await limiter.acquire()
    limiter.release(refused=True, retry_after=7)
    begun = loop.time()
    await limiter.acquire()
    assert loop.time() - begun == pytest.approx(7.0, abs=0.01)


@virtual_time
async def test_a_rate_never_falls_below_its_floor() -> None:
    limiter = RateLimiter(rate=100, min_rate=5)
    for _ in range(20):
        limiter.in_flight += 1
        limiter.release(refused=True)
        await asyncio.sleep(1.0)
    assert limiter.rate >= 5


@virtual_time
async def test_slow_answers_do_not_shrink_the_rate() -> None:
    """A program without CPU time sees late answers; it would only make itself slower."""
    limiter = RateLimiter(rate=100)
    await send(limiter, 50, seconds=0.01)
    await send(limiter, 60, seconds=3.0)
    assert limiter.rate == 100


@virtual_time
async def test_requests_in_flight_are_bounded_and_served_in_order() -> None:
    limiter = RateLimiter(max_in_flight=2)
    order: list[int] = []

    async def request(number: int) -> None:
        await limiter.acquire()
        order.append(number)
        await asyncio.sleep(1)
        limiter.release()

    tasks = [asyncio.ensure_future(request(n)) for n in range(5)]
    await settle()
    assert (limiter.in_flight, limiter.waiting) == (2, 3)
    await asyncio.wait(tasks)
    assert order == [0, 1, 2, 3, 4]
    assert limiter.in_flight == 0


@virtual_time
async def test_a_waiter_that_gives_up_takes_nothing_with_it() -> None:
    limiter = RateLimiter(max_in_flight=1)
    await limiter.acquire()
    waiters = [asyncio.ensure_future(limiter.acquire()) for _ in range(3)]
    await settle()
    waiters[0].cancel()
    await settle()
    limiter.release()
    # Its turn has come, but it is cancelled before it could notice.
    waiters[1].cancel()
    await settle()
    assert waiters[2].done()
    assert limiter.in_flight == 1
    limiter.release()
    assert limiter.waiting == 0


@virtual_time
async def test_waiters_that_give_up_together_are_all_cancelled() -> None:
    limiter = RateLimiter(max_in_flight=1)
    await limiter.acquire()
    waiters = [asyncio.ensure_future(limiter.acquire()) for _ in range(3)]
    await settle()
    for waiter in waiters:
        waiter.cancel()
    await settle()
    assert [waiter.cancelled() for waiter in waiters] == [True, True, True]
    assert limiter.waiting == 0
