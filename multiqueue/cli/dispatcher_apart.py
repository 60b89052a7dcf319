"""Asks a dispatcher in its own process, as a manager does: it cannot end this process.

Built-in dispatchers run in the manager's process, so they run in this process here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from multiqueue.dispatcher_host.answer import AnswerReading, hold_against, take
from multiqueue.dispatcher_host.frozen import freeze
from multiqueue.dispatcher_host.host import EndedError, within
from multiqueue.dispatcher_host.isolation.host import ProcessHost
from multiqueue.dispatcher_host.loader import BUDGET as LOAD_BUDGET
from multiqueue.dispatcher_host.policy import BUDGET, DispatcherSetting
from multiqueue.kube.call_thread import PluginError
from multiqueue.plugins import Dispatcher, DispatchView, Nomination

MOST_LOSSES = 3
"""After this many hangs or ended processes, the dispatcher is not asked again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """The result of asking.

    Attributes:
        nomination: The answer, as the manager would read it; None if there is a problem.
        problem: Why there is no answer.
        is_lost: Whether the dispatcher hung, or ended its process.
    """

    nomination: Nomination | None = None
    problem: str = ""
    is_lost: bool = False


class Here:
    """Asks a dispatcher in this process."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher

    async def ask(self, view: DispatchView) -> Reply:
        """Ask about one view."""
        try:
            got = take(self._dispatcher.nominate(freeze(view)))
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a stranger's code
            return Reply(problem=f"{type(error).__name__}: {error}")
        return _read(got, view)

    async def close(self) -> None:
        """Do nothing: there is no process to end."""


class Apart:
    """Asks a dispatcher in its own process; if that was lost, in a new one.

    Args:
        name: Its name in configurations.
        value: ``module:Class``.
        arguments: The arguments that it checks when it is loaded.

    Attributes:
        wrong_arguments: The problems of the arguments, by its own check; None: it has no check.
    """

    def __init__(self, name: str, value: str, arguments: Mapping[str, Any]) -> None:
        self.wrong_arguments: tuple[str, ...] | None = ()
        self._way = DispatcherSetting(dispatcher=name, arguments=arguments, path="arguments")
        self._value = value
        self._host: ProcessHost | None = None
        self._losses = 0

    async def load(self) -> str:
        """Load the dispatcher; return why that is impossible, or an empty text."""
        host = ProcessHost(self._way, self._value)
        try:
            selection = await within(LOAD_BUDGET.total_seconds(), host.load())
        except (TimeoutError, EndedError, PluginError) as error:
            self._host = host
            await self.close()
            words = str(error) or "could not be loaded in time"
            return f'dispatcher "{self._way.dispatcher}" {words}'
        self._host, self.wrong_arguments = host, selection.wrong_arguments
        if selection.problem or self.wrong_arguments:
            await self.close()
        return selection.problem

    async def ask(self, view: DispatchView) -> Reply:
        """Ask about one view, with a manager's time budget."""
        if self._losses >= MOST_LOSSES:
            return Reply(problem="was not asked any more", is_lost=True)
        if self._host is None and (problem := await self.load()):
            return await self._lose(problem)
        assert self._host is not None
        seconds = BUDGET.total_seconds()
        try:
            got = await within(seconds, self._host.nominate(view))
        except TimeoutError:
            return await self._lose(f"did not answer within {seconds:g} s")
        except EndedError as error:
            return await self._lose(str(error))
        except PluginError as error:
            return Reply(problem=str(error))
        return _read(got, view)

    async def close(self) -> None:
        """End the process."""
        if self._host is not None:
            self._host.abandon()
            self._host = None
            await asyncio.sleep(0)  # lets the event loop close its connection

    async def _lose(self, problem: str) -> Reply:
        self._losses += 1
        await self.close()
        return Reply(problem=problem, is_lost=True)


def _read(got: AnswerReading, view: DispatchView) -> Reply:
    """Return the part of an answer that a manager would accept."""
    reading = hold_against(got, view, view.dispatcher)
    if reading.nomination is None:
        return Reply(problem=f"gave a malformed answer: {reading.malformed}")
    if reading.strangers:
        names = ", ".join(f'"{name}"' for name in reading.strangers)
        return Reply(problem=f"named {names}, which it was not shown")
    return Reply(nomination=reading.nomination)
