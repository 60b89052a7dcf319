"""Running parts side by side so that none can fail unnoticed."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Coroutine, Iterator
from typing import Any

from multiqueue.jobs.context import Runnable


class ComponentFailed(Exception):  # noqa: N818 - a fact about a component
    """A part of the program ended although it should run; the process must not go on without it."""

    def __init__(self, name: str, reason: str = "it ended by itself") -> None:
        super().__init__(f'component "{name}" failed: {reason}')
        self.name = name
        self.reason = reason


async def run_component(runnable: Runnable) -> None:
    """Run a part until cancelled; any other end is a `ComponentFailed` that names it."""
    try:
        await runnable.run()
    except Exception as error:
        cause = innermost(error)
        if isinstance(cause, ComponentFailed):
            raise ComponentFailed(f"{runnable.name}: {cause.name}", cause.reason) from error
        raise ComponentFailed(runnable.name, f"{type(cause).__name__}: {cause}") from error
    raise ComponentFailed(runnable.name)


class Scope:
    """Tasks that live as long as a block of code does."""

    def __init__(self, tasks: asyncio.TaskGroup) -> None:
        self._tasks = tasks
        self._started: list[asyncio.Task[Any]] = []

    def start(self, runnable: Runnable) -> asyncio.Task[None]:
        """Start a part that must not end by itself."""
        return self.create_task(run_component(runnable), name=runnable.name)

    def create_task(
        self, coroutine: Coroutine[Any, Any, Any], *, name: str | None = None
    ) -> asyncio.Task[Any]:
        """Start a task that may end by itself."""
        task = self._tasks.create_task(coroutine, name=name)
        self._started.append(task)
        return task

    def cancel(self) -> None:
        """Ask every task to end."""
        for task in self._started:
            task.cancel()


@contextlib.asynccontextmanager
async def open_scope() -> AsyncIterator[Scope]:
    """Cancel at the end of the block what was started in it; a failure ends the block.

    Raises:
        ExceptionGroup: with the failure in it; `innermost` finds it.
    """
    async with asyncio.TaskGroup() as tasks:
        scope = Scope(tasks)
        yield scope
        scope.cancel()


def innermost(error: BaseException) -> BaseException:
    """Return the one error that a nest of exception groups is about: the first that was raised."""
    return next(_leaves(error), error)


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _leaves(inner)
    else:
        yield error
