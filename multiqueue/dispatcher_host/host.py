"""The host of one dispatcher: it is loaded, asked and examined there.

A built-in dispatcher runs in a thread, as does every dispatcher if the configuration says so. A
call that hangs in a thread cannot be ended and is left running. A third-party package runs in a
process (`isolation`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

from multiqueue.dispatcher_host.answer import AnswerReading, take
from multiqueue.dispatcher_host.conduct import ConductFinding, examine
from multiqueue.dispatcher_host.frozen import freeze
from multiqueue.dispatcher_host.make_dispatcher import check_arguments
from multiqueue.dispatcher_host.policy import DispatcherSetting
from multiqueue.dispatcher_host.registry import Selection
from multiqueue.kube.call_thread import Runner
from multiqueue.plugins import DispatchView

CLOSE_SECONDS = 30.0
"""After this time an abandoned call counts as hung; shorter calls, such as imports, are normal."""

T = TypeVar("T")


class Host(Protocol):
    """Runs one dispatcher, one call at a time.

    Every call may raise `PluginError`, which describes the dispatcher's error, or `EndedError`.
    """

    def load(self) -> Awaitable[Selection]:
        """Load the dispatcher and have it check its arguments; called once, before all else."""
        ...

    def nominate(self, view: DispatchView) -> Awaitable[AnswerReading]:
        """Ask the dispatcher; the answer has the declared types, but is not checked further."""
        ...

    def examine(self) -> Awaitable[tuple[ConductFinding, ...]]:
        """Ask the last question again, and check whether the dispatcher keeps its promises."""
        ...

    def abandon(self) -> None:
        """Give up the host, since a call hangs or it ended; it is not asked again."""
        ...

    def close(self) -> None:
        """Close the host; it is no longer needed."""
        ...


class EndedError(Exception):
    """The host is gone; the text says how it ended and follows the dispatcher's name."""


class Hung:
    """The threads in which calls of one dispatcher hang, for all its runners.

    Args:
        on_change: Gets the number of these threads.
    """

    def __init__(self, on_change: Callable[[int], None] = lambda _: None) -> None:
        self._threads: list[Runner] = []
        self._on_change = on_change

    def add(self, thread: Runner) -> None:
        """Abandon a thread, which may end by itself later."""
        if thread in self._threads:
            return
        thread.abandon()
        self._threads.append(thread)
        self._on_change(len(self._threads))

    def count(self) -> int:
        """Return the number of threads that still hang."""
        alive = [thread for thread in self._threads if thread.is_alive]
        if len(alive) != len(self._threads):
            self._threads = alive
            self._on_change(len(alive))
        return len(alive)


@dataclass(frozen=True, slots=True)
class _Asked:
    view: DispatchView
    reading: AnswerReading


class ThreadHost:
    """A dispatcher in a thread of this process.

    Args:
        thread: Runs the dispatcher's calls.
        way: The setting of the dispatcher.
        select: Finds and loads the dispatcher; called in the thread.
        hung: Collects the thread if a call hangs.
    """

    def __init__(
        self, thread: Runner, way: DispatcherSetting, select: Callable[[], Selection], hung: Hung
    ) -> None:
        self._thread = thread
        self._way = way
        self._select = select
        self._hung = hung
        self._selection: Selection | None = None
        self._asked: _Asked | None = None
        self._call: asyncio.Future[Any] | None = None

    def load(self) -> asyncio.Future[Selection]:
        """Load the dispatcher, as `Host` says."""
        return self._run(self._select_and_check)

    def nominate(self, view: DispatchView) -> asyncio.Future[AnswerReading]:
        """Ask the dispatcher, as `Host` says."""
        return self._run(lambda: self._ask(view))

    def examine(self) -> asyncio.Future[tuple[ConductFinding, ...]]:
        """Examine the dispatcher, as `Host` says."""
        return self._run(self._examine)

    def abandon(self) -> None:
        """Abandon the thread, whose call goes on."""
        self._hung.add(self._thread)

    def close(self) -> None:
        """Let the thread end when it is idle; if it does not end in time, it counts as hung."""
        self._thread.abandon()
        if self._call is not None and not self._call.done():
            loop = asyncio.get_running_loop()
            loop.call_later(CLOSE_SECONDS, self._count_if_alive)

    def _count_if_alive(self) -> None:
        if self._thread.is_alive:
            self._hung.add(self._thread)

    def _run(self, work: Callable[[], T]) -> asyncio.Future[T]:
        call = self._call = self._thread.call(work)
        return call

    def _select_and_check(self) -> Selection:
        selection = self._selection = self._select()
        if selection.dispatcher is None or not self._way.path:
            return selection
        problems = check_arguments(selection.dispatcher, self._way.arguments)
        return replace(selection, wrong_arguments=problems)

    def _ask(self, view: DispatchView) -> AnswerReading:
        assert self._selection is not None
        assert self._selection.dispatcher is not None
        reading = take(self._selection.dispatcher.nominate(freeze(view)))
        self._asked = _Asked(view, reading)
        return reading

    def _examine(self) -> tuple[ConductFinding, ...]:
        assert self._selection is not None
        assert self._selection.dispatcher is not None
        assert self._asked is not None
        # Frozen again: the dispatcher may have changed lists in its arguments.
        view, reading = freeze(self._asked.view), self._asked.reading
        return examine(self._selection.dispatcher, view, reading)


PARTS = 10
"""The budget is split into this many parts; each counts once, however late it ends."""


async def within(seconds: float, answer: Awaitable[T]) -> T:
    """Wait for an answer for at most the given seconds; cancel it if it does not come in time.

    On a machine without free processors everything is late, including this program's own timers.
    Such delays do not count against the answer.

    Raises:
        TimeoutError: There was no answer in time.
    """
    future = asyncio.ensure_future(answer)
    try:
        for _ in range(PARTS):
            if future.done():
                break
            await asyncio.wait({future}, timeout=seconds / PARTS)
        if not future.done():
            raise TimeoutError
        return future.result()
    finally:
        if future.cancel():
            await asyncio.wait({future})
