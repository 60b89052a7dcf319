"""The host of a dispatcher that runs in a process of its own."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from multiqueue.dispatcher_host.answer import MAX_TEXT, AnswerReading, take
from multiqueue.dispatcher_host.conduct import ConductFinding
from multiqueue.dispatcher_host.host import EndedError
from multiqueue.dispatcher_host.isolation.frames import (
    Answered,
    Ask,
    Examine,
    Examined,
    Load,
    Loaded,
    Raised,
    Reply,
    Request,
)
from multiqueue.dispatcher_host.isolation.mirror import RowWriter
from multiqueue.dispatcher_host.isolation.process import Child
from multiqueue.dispatcher_host.policy import DispatcherSetting
from multiqueue.dispatcher_host.registry import Selection
from multiqueue.kube.call_thread import PluginError
from multiqueue.plugins import DispatchView

MEMORY = 1024**3
"""Default limit of address space; numpy and its threads take a few hundred mebibytes."""
MOST_TOLD = 16
"""Most findings and similar items that are used; an honest process sends a few."""

OnOpenWays = Callable[[str, tuple[str, ...]], None]
R = TypeVar("R", bound=Reply)


class ProcessHost:
    """Runs one dispatcher in a process, as a `multiqueue.dispatcher_host.host.Host`.

    Args:
        way: The setting of the dispatcher.
        value: Its entry point.
        memory: Bytes of address space that it may use; 0: no limit.
        on_open_ways: Gets its name and the restrictions that this machine does not support.
    """

    def __init__(
        self,
        way: DispatcherSetting,
        value: str,
        *,
        memory: int = MEMORY,
        on_open_ways: OnOpenWays = lambda _name, _ways: None,
    ) -> None:
        self._on_open_ways = on_open_ways
        self._way = way
        self._value = value
        self._memory = memory
        self._child: Child | None = None
        self._writer = RowWriter()
        self._is_busy = False
        self._is_closed = False

    @property
    def pid(self) -> int | None:
        """The id of the dispatcher's process; None before it is started."""
        return self._child.pid if self._child is not None else None

    async def load(self) -> Selection:
        """Start the process, and load the dispatcher in it."""
        name = self._way.dispatcher
        try:
            self._child = Child(name, self._memory)
        except OSError as error:
            raise EndedError(f"has no process: {error}") from error
        arguments = dict(self._way.arguments) if self._way.path else None
        loaded = _expect(Loaded, await self._ask(Load(self._value, _list_paths(), arguments)))
        self._on_open_ways(name, tuple(way[:MAX_TEXT] for way in loaded.open_ways[:MOST_TOLD]))
        problem = f'dispatcher "{name}" {loaded.problem[:MAX_TEXT]}' if loaded.problem else ""
        wrong = loaded.wrong_arguments and loaded.wrong_arguments[:MOST_TOLD]
        return Selection(name=name, problem=problem, apart=self._value, wrong_arguments=wrong)

    async def nominate(self, view: DispatchView) -> AnswerReading:
        """Ask the dispatcher, as `Host` says."""
        question = Ask(replace(view, clusters=()), self._writer.write(view.clusters))
        reading = _expect(Answered, await self._ask(question)).reading
        if reading.nomination is None:
            return AnswerReading(malformed=reading.malformed[:MAX_TEXT])
        try:  # the process has already checked the answer, but is not trusted
            return take(reading.nomination)
        except (ValueError, OverflowError) as error:
            raise PluginError(f"its answer cannot be read: {error}") from error

    async def examine(self) -> tuple[ConductFinding, ...]:
        """Examine the dispatcher, as `Host` says."""
        findings = _expect(Examined, await self._ask(Examine())).findings
        return tuple(replace(found, words=found.words[:MAX_TEXT]) for found in findings[:MOST_TOLD])

    def abandon(self) -> None:
        """End the process."""
        if self._child is not None:
            self._child.kill()

    def close(self) -> None:
        """End the process, after the reply to a request in progress."""
        self._is_closed = True
        if not self._is_busy:
            self.abandon()

    async def _ask(self, request: Request) -> Reply:
        if self._child is None:
            raise EndedError("has no process")
        self._is_busy = True
        try:
            return await self._child.ask(request)
        finally:
            self._is_busy = False
            if self._is_closed:
                self._child.kill()


def _list_paths() -> tuple[str, ...]:
    """Return the module search path of this process.

    The current folder, which ``python -m`` adds, is left out: it may contain anything.
    """
    here = {""}
    with contextlib.suppress(OSError):
        here.add(str(Path.cwd()))
    return tuple(path for path in sys.path if path not in here)


def _expect(kind: type[R], reply: Reply) -> R:
    if isinstance(reply, Raised):
        raise PluginError(reply.error[:MAX_TEXT])
    if not isinstance(reply, kind):
        raise EndedError("answered something else than it was asked")
    return reply
