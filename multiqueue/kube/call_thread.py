"""One daemon thread that runs a plugin's calls, so that a call that never returns blocks nothing.

A Python thread cannot be killed. A thread that hangs is abandoned: it ends when its call returns,
if that ever happens, and does not keep the process from exiting.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from multiqueue.plugins.raised import describe_error

T = TypeVar("T")

_Item = tuple[Callable[[], Any], "asyncio.Future[Any]", asyncio.AbstractEventLoop]


class Runner(Protocol):
    """Runs the calls of a plugin."""

    @property
    def is_alive(self) -> bool:
        """Whether a call is still running."""
        ...

    def call(self, work: Callable[[], T]) -> asyncio.Future[T]:
        """Run a function; the future gets its result or its exception."""
        ...

    def abandon(self) -> None:
        """Let the runner end when it is idle."""
        ...


OpenThread = Callable[[str], Runner]
"""Makes a runner with the given name."""


class PluginThread:
    """Runs calls in a daemon thread, one at a time."""

    def __init__(self, name: str) -> None:
        self._items: queue.SimpleQueue[_Item | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        """Whether a call is still running in the thread."""
        return self._thread.is_alive()

    def call(self, work: Callable[[], T]) -> asyncio.Future[T]:
        """Run a function in the thread; the future gets its result or its exception."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._items.put((work, future, loop))
        return future

    def abandon(self) -> None:
        """Let the thread end when it is idle."""
        self._items.put(None)

    def _run(self) -> None:
        while (item := self._items.get()) is not None:
            work, future, loop = item
            result, problem = None, None
            try:
                result = work()
            except BaseException as raised:  # noqa: BLE001 - SystemExit of a plugin is an error too
                problem = describe_error(raised)
            del work, item
            if not _deliver(loop, future, result, problem):
                return


def _deliver(
    loop: asyncio.AbstractEventLoop,
    future: asyncio.Future[Any],
    result: Any,
    problem: str | None,
) -> bool:
    def settle() -> None:
        if future.done():
            return
        if problem is None:
            future.set_result(result)
        else:
            future.set_exception(PluginError(problem))

    try:
        loop.call_soon_threadsafe(settle)
    except RuntimeError:  # the loop is closed: nobody waits any more
        return False
    return True


class PluginError(Exception):
    """A plugin's call raised; the text has the type and message of the exception."""
