from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sized
from contextlib import asynccontextmanager
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import structlog

from multiqueue.kube.errors import Conflict, NotFound
from multiqueue.kube.reconciler import DONE, Reconciler, Result
from tests.virtual_time import settle, virtual_time


@asynccontextmanager
async def running(reconciler: Reconciler[str]) -> AsyncIterator[None]:
    task = asyncio.ensure_future(reconciler.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})
        assert task.cancelled()


@virtual_time
async def test_a_key_that_fails_comes_back_until_it_goes_well() -> None:
    seen: list[str] = []

    async def reconcile(key: str) -> Result:
        seen.append(key)
        if len(seen) < 4:
            raise ValueError("not yet")
        return DONE

    reconciler = Reconciler("test", reconcile)
    async with running(reconciler):
        reconciler.queue.add("a")
        await asyncio.sleep(10)
    assert seen == ["a"] * 4
    assert reconciler.queue.failures("a") == 0


@virtual_time
async def test_a_key_that_asks_for_it_comes_back_later() -> None:
    loop = asyncio.get_running_loop()
    seen: list[int] = []

    async def reconcile(_key: str) -> Result:
        seen.append(round(loop.time()))
        return Result(requeue_after=30)

    reconciler = Reconciler("test", reconcile)
    async with running(reconciler):
        reconciler.queue.add("a")
        await asyncio.sleep(70)
    assert [b - a for a, b in pairwise(seen)] == [30, 30]


@virtual_time
async def test_different_keys_run_side_by_side_and_one_key_alone() -> None:
    running_now: set[str] = set()
    most = 0

    async def reconcile(key: str) -> Result:
        nonlocal most
        assert key not in running_now
        running_now.add(key)
        most = max(most, len(running_now))
        await asyncio.sleep(1)
        running_now.discard(key)
        return DONE

    reconciler = Reconciler("test", reconcile, concurrency=2)
    async with running(reconciler):
        for key in "abcabc":
            reconciler.queue.add(key)
        await asyncio.sleep(0.5)
        reconciler.queue.add("a")
        await asyncio.sleep(10)
    assert most == 2


@virtual_time
async def test_failures_are_logged_by_how_bad_they_are() -> None:
    async def reconcile(key: str) -> Result:
        if key == "conflict":
            raise Conflict(409, reason="Conflict")
        if key == "missing":
            raise NotFound(404, reason="NotFound", message="no queue")
        raise RuntimeError("bug")

    reconciler = Reconciler("test", reconcile)
    reconciler.queue.add_rate_limited = lambda key: None  # type: ignore[method-assign]
    with structlog.testing.capture_logs() as logs:
        async with running(reconciler):
            for key in ("conflict", "missing", "bug"):
                reconciler.queue.add(key)
            await settle()
    assert [(e["object"], e["log_level"], "exc_info" in e) for e in logs] == [
        ("conflict", "debug", False),
        ("missing", "warning", False),
        ("bug", "error", True),
    ]


@virtual_time
async def test_outcomes_are_told_for_metrics() -> None:
    told: list[tuple[str, str]] = []
    queues: dict[str, Sized] = {}
    metrics: Any = SimpleNamespace(
        observe_reconcile=lambda name, outcome, _: told.append((name, outcome)),
        watch_queue=queues.__setitem__,
    )

    async def reconcile(key: str) -> Result:
        if key == "bad":
            raise ValueError
        return Result(requeue_after=1000) if key == "later" else DONE

    reconciler = Reconciler("test", reconcile, metrics=metrics)
    for key in ("good", "later", "bad"):
        reconciler.queue.add(key)
    assert len(queues["test"]) == 3
    async with running(reconciler):
        await settle()
    assert told == [("test", "success"), ("test", "requeue_after"), ("test", "error")]


@virtual_time
async def test_a_future_that_others_cancelled_costs_a_try_and_no_worker() -> None:
    seen: list[str] = []

    async def reconcile(key: str) -> Result:
        seen.append(key)
        if len(seen) == 1:
            future = asyncio.get_running_loop().create_future()
            future.cancel()
            await future
        return DONE

    reconciler = Reconciler("test", reconcile, concurrency=1)
    async with running(reconciler):
        reconciler.queue.add("a")
        await asyncio.sleep(1)
        reconciler.queue.add("b")
        await asyncio.sleep(1)
    assert seen == ["a", "a", "b"]


@virtual_time
async def test_a_second_run_begins_with_what_the_first_was_stopped_at() -> None:
    seen: list[str] = []

    async def reconcile(key: str) -> Result:
        seen.append(key)
        if len(seen) == 1:
            await asyncio.Event().wait()
        return DONE

    reconciler = Reconciler("test", reconcile)
    async with running(reconciler):
        reconciler.queue.add("a")
        await asyncio.sleep(1)
    async with running(reconciler):
        await asyncio.sleep(1)
    assert seen == ["a", "a"]
