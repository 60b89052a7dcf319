"""Policies for trying again: when, how often, and what is told meanwhile."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest

from multiqueue.kube.retries import RetryPolicy

AT_ONCE = RetryPolicy(first=0.0)
THREE_TIMES = RetryPolicy(first=0.0, attempts=3)


class Work:
    """Gives one outcome after the other."""

    def __init__(self, *outcomes: int | Exception) -> None:
        self.left = list(outcomes)

    async def __call__(self) -> int:
        outcome = self.left.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


async def test_named_errors_are_told_and_tried_again() -> None:
    told: list[BaseException] = []
    errors = [OSError("a"), ValueError("b")]
    got = await AT_ONCE.run(Work(*errors, 7), on=(OSError, ValueError), tell=told.append)
    assert (got, told) == (7, errors)


async def test_telling_may_take_time() -> None:
    told: list[str] = []

    async def tell(error: BaseException) -> None:
        await asyncio.sleep(0)
        told.append(str(error))

    await AT_ONCE.run(Work(OSError("a"), 7), on=OSError, tell=tell)
    assert told == ["a"]


async def test_other_errors_end_it() -> None:
    work = Work(ValueError("final"), 7)
    with pytest.raises(ValueError, match="final"):
        await AT_ONCE.run(work, on=OSError)
    assert work.left == [7]


async def test_a_predicate_may_choose_the_errors() -> None:
    work = Work(OSError("again"), OSError("final"), 7)
    with pytest.raises(OSError, match="final"):
        await AT_ONCE.run(work, on=lambda error: str(error) == "again")
    assert work.left == [7]


async def test_results_that_are_not_wanted_are_tried_again() -> None:
    async def take(left: list[int]) -> int:
        return left.pop(0)

    left = [1, 2, 3]
    assert await AT_ONCE.run(lambda: take(left), until=lambda n: n == 3) == 3


async def test_after_the_last_attempt_its_outcome_stands() -> None:
    errors = [OSError("one"), OSError("two"), OSError("three")]
    with pytest.raises(OSError, match="three"):
        await THREE_TIMES.run(Work(*errors, 7), on=OSError)
    assert await THREE_TIMES.run(Work(1, 2, 3, 4), until=lambda n: n == 4) == 3


async def test_a_task_that_waits_can_be_cancelled() -> None:
    waits = asyncio.Event()

    def tell(_: BaseException) -> None:
        waits.set()

    policy = RetryPolicy(first=3600.0)
    task = asyncio.create_task(policy.run(Work(OSError("a"), 7), on=Exception, tell=tell))
    await waits.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_work_that_is_cancelled_is_not_tried_again() -> None:
    began = asyncio.Event()

    async def work() -> None:
        began.set()
        await asyncio.get_running_loop().create_future()

    task = asyncio.create_task(AT_ONCE.run(work, on=Exception))
    await began.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_pauses_double_until_the_cap(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    failures = [OSError(str(n)) for n in range(5)]
    await RetryPolicy(first=1.0, cap=5.0).run(Work(*failures, 7), on=OSError)
    await RetryPolicy(first=2.0).run(Work(*failures[:2], 7), on=OSError)
    assert slept == [1.0, 2.0, 4.0, 5.0, 5.0, 2.0, 2.0]


def test_the_table_imports_no_library() -> None:
    code = "import sys, multiqueue.kube.retries; sys.exit('tenacity' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
