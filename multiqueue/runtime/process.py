"""The life of a process: event loop, signals and how it ends."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import structlog

from multiqueue.observability.logging import THRESHOLD

DEBUG_SECONDS = 600.0

T = TypeVar("T")

log = structlog.get_logger("multiqueue.runtime")


class Stopped(Exception):  # noqa: N818 - a request, not an error
    """The process was asked to end, and shut down cleanly."""

    def __init__(self, signal_number: int) -> None:
        super().__init__(f"stopped by {signal.Signals(signal_number).name}")
        self.signal_number = signal_number


def run_process(main: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine until it ends or SIGINT or SIGTERM comes; use uvloop if it is installed.

    The first signal cancels the coroutine, which cleans up; a second one ends the process at once.
    SIGUSR1 logs everything for `DEBUG_SECONDS`; another one ends that. Parity: S-137.

    Raises:
        Stopped: a signal came, and the coroutine has cleaned up.
    """
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(_until_signal(main))


class DebugForAWhile:
    """Logs everything for a time, from one signal to the next or until the time is over."""

    def __init__(self) -> None:
        self._before = ""
        self._end: asyncio.TimerHandle | None = None

    def toggle(self) -> None:
        """Begin, or end."""
        if self._end is not None:
            self.end()
            return
        self._before = logging.getLevelName(THRESHOLD.level)
        THRESHOLD.set("debug")
        log.info("everything is logged", seconds=DEBUG_SECONDS)
        self._end = asyncio.get_running_loop().call_later(DEBUG_SECONDS, self.end)

    def end(self) -> None:
        """Log as before."""
        if self._end is not None:
            self._end.cancel()
            self._end = None
            log.info("less is logged again", level=self._before.lower())
            THRESHOLD.set(self._before)


async def _until_signal(main: Callable[[], Coroutine[Any, Any, T]]) -> T:
    loop = asyncio.get_running_loop()
    task = asyncio.ensure_future(main())
    received: list[int] = []

    def stop(number: int) -> None:
        if received:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        received.append(number)
        log.info("stopping", signal=signal.Signals(number).name)
        task.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop, number)
    debug = DebugForAWhile()
    loop.add_signal_handler(signal.SIGUSR1, debug.toggle)
    try:
        return await task
    except asyncio.CancelledError:
        if received:
            raise Stopped(received[0]) from None
        raise
    finally:
        debug.end()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1):
            loop.remove_signal_handler(number)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory
