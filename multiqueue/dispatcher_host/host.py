"""What one dispatcher runs in: it is loaded there, asked there, and looked at there.

What is built in runs in a thread, and so does everything else where the configuration says so: a
call that hangs cannot be ended there, and is left to itself. A stranger's package runs in a process
(`isolation`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

from multiqueue.dispatcher_host.answer import AnswerReading
from multiqueue.dispatcher_host.conduct import ConductFinding, ask, examine
from multiqueue.dispatcher_host.entry import check_arguments
from multiqueue.dispatcher_host.frozen import freeze
from multiqueue.dispatcher_host.policy import DispatcherSetting
from multiqueue.dispatcher_host.registry import Selection
from multiqueue.kube.call_thread import Runner
from multiqueue.plugins import DispatchView

CLOSE_SECONDS = 30.0
"""After which a call that was not waited for hangs: any may take less, importing a package too."""

T = TypeVar("T")


class Host(Protocol):
    """Runs one dispatcher, one call at a time.

    Every call may raise `PluginError`, which tells what the dispatcher raised, or `EndedError`.
    """

    def load(self) -> Awaitable[Selection]:
        """Load it, and have it look at its arguments; comes first, and once."""
        ...

    def nominate(self, view: DispatchView) -> Awaitable[AnswerReading]:
        """Ask it; the answer has the types that it should have, no more is known of it."""
        ...

    def examine(self) -> Awaitable[tuple[ConductFinding, ...]]:
        """Ask the last question once more, and look whether it keeps its promises."""
        ...

    def abandon(self) -> None:
        """A call hangs, or it ended: nothing is asked of it any more."""
        ...

    def close(self) -> None:
        """It is not needed any more."""
        ...


class EndedError(Exception):
    """What it runs in is gone; the text says how it ended, to go after the dispatcher's name."""


class Hung:
    """The threads in which calls of one dispatcher hang, whoever asked.

    Args:
        on_change: Gets how many there are.
    """

    def __init__(self, on_change: Callable[[int], None] = lambda _: None) -> None:
        self._threads: list[Runner] = []
        self._on_change = on_change

    def add(self, thread: Runner) -> None:
        """Let a thread end by itself, should it ever."""
        if thread in self._threads:
            return
        thread.abandon()
        self._threads.append(thread)
        self._on_change(len(self._threads))

    def count(self) -> int:
        """How many there are now."""
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
        thread: Runs its calls.
        way: How it is asked.
        select: Finds and loads it; called in the thread.
        hung: Where the thread goes when a call hangs.
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
        """Load it, as `Host` says."""
        return self._run(self._select_and_check)

    def nominate(self, view: DispatchView) -> asyncio.Future[AnswerReading]:
        """Ask it, as `Host` says."""
        return self._run(lambda: self._ask(view))

    def examine(self) -> asyncio.Future[tuple[ConductFinding, ...]]:
        """Look at it, as `Host` says."""
        return self._run(self._examine)

    def abandon(self) -> None:
        """Leave the thread to its call."""
        self._hung.add(self._thread)

    def close(self) -> None:
        """Let the thread end when it is idle; one that does not by and by hangs."""
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
        reading = ask(self._selection.dispatcher, freeze(view))
        self._asked = _Asked(view, reading)
        return reading

    def _examine(self) -> tuple[ConductFinding, ...]:
        assert self._selection is not None
        assert self._selection.dispatcher is not None
        assert self._asked is not None
        # Frozen again: lists in arguments are the dispatcher's to change.
        view, reading = freeze(self._asked.view), self._asked.reading
        return examine(self._selection.dispatcher, view, reading)
