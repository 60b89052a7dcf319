"""Tests whose hours pass in milliseconds.

`@virtual_time` runs an async test on a loop whose clock jumps to the next timer as soon as nothing
else is to be done. Sockets on this machine and threads of the loop's executor work: time stands
still while either has something to do. Tasks that outlive the test fail it, and so does a wait that
nothing can end.
"""

from __future__ import annotations

import asyncio
import functools
import selectors
from collections.abc import Awaitable, Callable, Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any

from multiqueue.kube.clock import Clock, SystemClock

T0 = datetime(2026, 1, 1, tzinfo=UTC)
"""Wall-clock time at which a `LoopClock` starts."""
STUCK_SECONDS = 5.0
"""Real seconds without any event after which a wait counts as endless."""


def virtual_time(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Run this async test on a virtual clock. Async fixtures run elsewhere: open things inside."""

    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        async def main() -> None:
            await test(*args, **kwargs)
            left = asyncio.all_tasks() - {asyncio.current_task()}
            assert not left, f"tasks outlive the test: {left}"

        with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
            runner.run(main())

    return run


class LoopClock:
    """A `Clock` that follows the loop, for code that wants wall-clock time."""

    def __init__(self, start: datetime = T0) -> None:
        self._start = start
        self._loop_start = asyncio.get_running_loop().time()

    def now(self) -> datetime:
        return self._start + timedelta(seconds=asyncio.get_running_loop().time() - self._loop_start)


class SteppingClock(LoopClock):
    """The same, until somebody sets the machine's clock."""

    _stepped = timedelta()

    def now(self) -> datetime:
        return super().now() + self._stepped

    def step(self, by: timedelta) -> None:
        """Set the clock forward, or back."""
        self._stepped += by


def is_virtual() -> bool:
    """Whether time is virtual here."""
    return isinstance(asyncio.get_running_loop(), VirtualTimeLoop)


def loop_clock() -> Clock:
    """Return the one clock for all that runs on this loop: a virtual one where its time is."""
    loop = asyncio.get_running_loop()
    return loop.clock if isinstance(loop, VirtualTimeLoop) else SystemClock()


async def settle(turns: int = 50) -> None:
    """Let everything happen that can happen now, without time passing."""
    for _ in range(turns):
        await asyncio.sleep(0)


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """An event loop whose time passes only when there is nothing to do."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.busy_threads = 0
        super().__init__(_JumpingSelector(self))

    def time(self) -> float:
        return self.now

    @functools.cached_property
    def clock(self) -> LoopClock:
        return LoopClock(_last_morning())

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> asyncio.Future[Any]:
        self.busy_threads += 1
        future = super().run_in_executor(executor, func, *args)
        future.add_done_callback(self._thread_done)
        return future

    def _thread_done(self, _: object) -> None:
        self.busy_threads -= 1


def _last_morning() -> datetime:
    """Nine o'clock, today or yesterday: no test crosses midnight by chance."""
    now = datetime.now(UTC)
    morning = now.replace(hour=9, minute=0, second=0, microsecond=0)
    return morning if morning <= now else morning - timedelta(days=1)


class _JumpingSelector(selectors.DefaultSelector):
    def __init__(self, loop: VirtualTimeLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        events = super().select(0)
        if events or (timeout is not None and timeout <= 0):
            return events
        if timeout is None or self._loop.busy_threads:
            events = super().select(STUCK_SECONDS)
            if not events and timeout is None:
                raise RuntimeError("every task waits, and nothing is left that could wake one")
            return events
        self._loop.now += timeout
        return []


def run_virtual(main: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine on a virtual clock and return its result; for property tests."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(main)
