"""Runs components side by side, so that no failure goes unnoticed.

A `Supervisor` keeps a manager's components running. If a component raises, or ends by itself, its
cause is logged, it is counted in ``multiqueue_component_restarts_total`` and it is started again
after a pause that grows. The other components keep running. So `run()` of every component can be
called again: it starts from the API's state, and adds its handlers to an informer only once.
`UnrecoverableError` ends the process instead, because a new process reads all state from the API:
  * A part of the scheduler raises outside of one tree, one admission or one object. The engine may
    then count quota for decisions that were never written, or miss some.
  * A port cannot be listened on, or leadership is lost.
Failures in smaller units do not reach this level: an object in its informer, a key in its
reconciler, a worker in its connection, a profile in its runner. `Supervisor.check_live` reports
health.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import structlog

from multiqueue.jobs.context import Runnable, UnrecoverableError
from multiqueue.kube.backoff import Backoff

RESTART_SECONDS = 1.0
MAX_RESTART_SECONDS = 60.0
"""The longest pause before a restart; the pause doubles with each failure in a row."""
HEALTHY_SECONDS = 300.0
"""A component that runs this long has recovered; its next failure starts a new row."""
STUBBORN_SECONDS = 900.0
"""A component that has not recovered for this long makes the process unhealthy.

The container is then restarted, which operators can see. The limit is long because all other
components still work.
"""

E = TypeVar("E", bound=BaseException)

log = structlog.get_logger("multiqueue.runtime")


class ComponentFailed(Exception):  # noqa: N818 - a fact about a component
    """A component ended although it should run on; the process must not go on without it."""

    def __init__(self, name: str, reason: str = "it ended by itself") -> None:
        super().__init__(f'component "{name}" failed: {reason}')
        self.name = name
        self.reason = reason


async def run_component(runnable: Runnable) -> None:
    """Run a component until cancelled; any other end raises a `ComponentFailed` that names it."""
    try:
        await runnable.run()
    except Exception as error:
        cause = innermost(error)
        if isinstance(cause, ComponentFailed):
            raise ComponentFailed(f"{runnable.name}: {cause.name}", cause.reason) from error
        raise ComponentFailed(runnable.name, f"{type(cause).__name__}: {cause}") from error
    raise ComponentFailed(runnable.name)


@dataclass(frozen=True, slots=True)
class Component:
    """A component without a class of its own."""

    name: str
    run: Callable[[], Coroutine[Any, Any, None]]


@dataclass(slots=True)
class _Row:
    """The failures in a row of one component; times are those of the event loop."""

    failed_at: float
    cause: str
    count: int = 1
    started_at: float | None = None

    def has_recovered(self, now: float) -> bool:
        return self.started_at is not None and now - self.started_at >= HEALTHY_SECONDS


class Supervisor:
    """Keeps components running.

    Args:
        on_restart: Called with the name of a component that failed and will be started again.
    """

    def __init__(self, on_restart: Callable[[str], None] = lambda _: None) -> None:
        self._on_restart = on_restart
        self._failing: dict[str, _Row] = {}

    async def keep(self, runnable: Runnable) -> None:
        """Run a component until cancelled, and start it again whenever it fails.

        Raises:
            ComponentFailed: it must not be started again; the process has to end.
        """
        name, loop = runnable.name, asyncio.get_running_loop()
        backoff = Backoff(base=RESTART_SECONDS, cap=MAX_RESTART_SECONDS)
        while True:
            row = self._failing.get(name)
            if row is not None:
                row.started_at = loop.time()
            error = await _run_until_failure(runnable)
            fatal = find_cause(error, UnrecoverableError)
            if fatal is not None:
                raise ComponentFailed(name, str(fatal)) from error
            cause = _describe(error)
            if self._note_failure(name, cause) == 1:
                backoff.reset()
            wait = backoff.next()
            log.error(
                "component failed and will be started again",
                component=name,
                cause=cause,
                restart_in_seconds=round(wait, 1),
                exc_info=error,
            )
            self._on_restart(name)
            await asyncio.sleep(wait)

    def check_live(self) -> str | None:
        """Return which component has not recovered for so long that the process should end."""
        now = asyncio.get_running_loop().time()
        for name, row in sorted(self._failing.items()):
            seconds = now - row.failed_at
            if seconds >= STUBBORN_SECONDS and not row.has_recovered(now):
                return (
                    f'component "{name}" has failed {row.count} times in {seconds / 60:.0f} '
                    f"minutes: {row.cause}"
                )
        return None

    def check_running(self, names: Collection[str]) -> str | None:
        """Return which of these components failed and waits for its restart."""
        for name in names:
            row = self._failing.get(name)
            if row is not None and row.started_at is None:
                return f'component "{name}" failed and will be started again: {row.cause}'
        return None

    def _note_failure(self, name: str, cause: str) -> int:
        """Return the number of failures in this row."""
        now = asyncio.get_running_loop().time()
        row = self._failing.get(name)
        if row is None or row.has_recovered(now):
            self._failing[name] = _Row(failed_at=now, cause=cause)
            return 1
        row.count, row.cause, row.started_at = row.count + 1, cause, None
        return row.count


async def _run_until_failure(runnable: Runnable) -> Exception:
    """Return what ended a component; raises only if this task itself is cancelled."""
    task = asyncio.current_task()
    assert task is not None
    try:
        await runnable.run()
    except asyncio.CancelledError:
        if task.cancelling():
            raise
        # Others cancelled what it awaited; a task group would mistake that for an end.
        return RuntimeError("it awaited something that was cancelled")
    except Exception as error:  # noqa: BLE001 - `keep` tells it, and starts the component again
        return error
    return RuntimeError("it ended by itself")


def _describe(error: Exception) -> str:
    cause = innermost(error)
    return f"{type(cause).__name__}: {cause}"


class TaskScope:
    """The tasks that live as long as a block of code."""

    def __init__(self, tasks: asyncio.TaskGroup) -> None:
        self._tasks = tasks
        self._started: list[asyncio.Task[Any]] = []

    def start(self, runnable: Runnable) -> asyncio.Task[None]:
        """Start a component that must not end by itself."""
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
async def open_scope() -> AsyncIterator[TaskScope]:
    """Open a scope whose tasks are cancelled at the end of the block.

    A failed task ends the block.

    Raises:
        ExceptionGroup: contains the failure; `innermost` finds it.
    """
    async with asyncio.TaskGroup() as tasks:
        scope = TaskScope(tasks)
        yield scope
        scope.cancel()


def innermost(error: BaseException) -> BaseException:
    """Return the original error in nested exception groups: the first that was raised."""
    return next(_leaves(error), error)


def find_cause(error: BaseException, kind: type[E]) -> E | None:
    """Return the first error of this type in nested exception groups."""
    return next((leaf for leaf in _leaves(error) if isinstance(leaf, kind)), None)


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _leaves(inner)
    else:
        yield error
