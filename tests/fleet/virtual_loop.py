"""An event loop without sockets, threads and real time: the same run twice is the same run.

Time jumps to the next timer as soon as nothing else is to be done. Tasks are numbered, so that sets
of them are in the same order in every run, wherever they lie in memory.
"""

from __future__ import annotations

import asyncio
import itertools
import selectors
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar, copy_context
from dataclasses import dataclass
from typing import Any

START = 1000.0
"""Time at which a loop begins; not zero, so that code that takes 0 for "never" is found."""


PROCESS: ContextVar[str] = ContextVar("PROCESS")
"""The process that a task or a callback belongs to; none: it is part of the world."""
WORLD = Context()
"""In which servers do what a process asks for: they go on if that one is stopped."""


class StuckError(Exception):
    """Every task waits, and nothing is left that could wake one."""


class VirtualLoop(asyncio.SelectorEventLoop):
    """The loop of one run."""

    def __init__(self) -> None:
        self.now = START
        self._selector: _NoSelector
        super().__init__(_NoSelector(self))
        numbers = itertools.count()

        def create(loop: Any, coroutine: Any, **kwargs: Any) -> asyncio.Task[Any]:
            return NumberedTask(next(numbers), coroutine, loop=loop, **kwargs)

        self.set_task_factory(create)

    def time(self) -> float:
        return self.now

    def run_in_executor(
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        """Run it here and now: a thread would end at another moment each time."""
        future = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:  # noqa: BLE001 - the caller's to handle, as from a thread
            future.set_exception(error)
        return future


@dataclass(slots=True)
class Kept:
    """A call that is to be made, unless it is cancelled before."""

    callback: Callable[..., Any]
    args: tuple[Any, ...]
    context: Context
    handle: asyncio.Handle | None = None


class StoppableLoop(VirtualLoop):
    """A loop on which processes can be stopped and continued, as with SIGSTOP and SIGCONT.

    What a stopped process would do is kept in its order, while time goes on: all its timers that
    are due by then fire when it continues.
    """

    def __init__(self) -> None:
        super().__init__()
        self._kept: dict[str, list[Kept]] = {}

    def stop_process(self, name: str) -> None:
        """Let nothing of a process happen from now on."""
        self._kept.setdefault(name, [])

    def continue_process(self, name: str) -> None:
        """Let a process go on, if it was stopped."""
        for kept in self._kept.pop(name, []):
            super().call_soon(self._call_kept, kept, context=kept.context)

    def call_soon(
        self, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        kept = Kept(callback, args, copy_context() if context is None else context)
        kept.handle = super().call_soon(self._call, kept, context=kept.context)
        return kept.handle

    def call_at(
        self, when: float, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        kept = Kept(callback, args, copy_context() if context is None else context)
        kept.handle = handle = super().call_at(when, self._call, kept, context=kept.context)
        return handle

    def _call(self, kept: Kept) -> None:
        stopped = self._kept.get(PROCESS.get("")) if self._kept else None
        if stopped is not None:
            stopped.append(kept)
        else:
            kept.callback(*kept.args)

    def _call_kept(self, kept: Kept) -> None:
        if kept.handle is not None and not kept.handle.cancelled():
            kept.callback(*kept.args)


class NumberedTask(asyncio.Task):  # type: ignore[type-arg]
    """A task whose hash is the order of creation."""

    def __init__(self, number: int, coroutine: Any, **kwargs: Any) -> None:
        self.number = number  # first: asyncio puts the task into a set as it is made
        super().__init__(coroutine, **kwargs)

    def __hash__(self) -> int:
        return self.number

    def __eq__(self, other: object) -> bool:
        return self is other


class _NoSelector(selectors.BaseSelector):
    """Has nothing to wait for but time."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop
        self._keys: dict[Any, selectors.SelectorKey] = {}

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        key = selectors.SelectorKey(
            fileobj, fileobj if isinstance(fileobj, int) else fileobj.fileno(), events, data
        )
        self._keys[fileobj] = key
        return key

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._keys.pop(fileobj)

    def get_key(self, fileobj: Any) -> selectors.SelectorKey:
        return self._keys[fileobj]

    def get_map(self) -> Any:
        return self._keys

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise StuckError("every task waits, and nothing is left that could wake one")
        if timeout > 0:
            self._loop.now += timeout
        return []


def run_virtually(main: Coroutine[Any, Any, Any], *, stoppable: bool = False) -> Any:
    """Run a coroutine to its end on a loop of its own."""
    with asyncio.Runner(loop_factory=StoppableLoop if stoppable else VirtualLoop) as runner:
        return runner.run(main)
