"""Running components side by side so that none can fail unnoticed.

A `Supervisor` keeps a manager's components running. One that raises, or ends by itself, is logged
with its cause, counted in ``multiqueue_component_restarts_total`` and started again in place, with
growing pauses; the others do not notice. So `run()` of every component can be called again: it
begins from what the API says, and handlers that it adds to an informer are added once.
`UnrecoverableError` ends the process instead, for a new one reads all state from the API:
  * a part of the scheduler raises outside of one tree, one admission or one object: the engine
    counts quota for decisions that nobody writes, or misses some, and nothing can tell which;
  * a port cannot be listened on; leadership is lost.
Smaller units are contained below this: an object in its informer, a key in its reconciler, a
worker in its connection, a profile in its runner. Health tells the rest: `Supervisor.check_live`.
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
"""How long a component that failed waits, doubling from the first failure in a row to the cap."""
HEALTHY_SECONDS = 300.0
"""A component that ran for so long has recovered; later failures are the first of a new row."""
STUBBORN_SECONDS = 900.0
"""A component that has not recovered for so long makes the process unhealthy: a new process is the
last remedy, and the restarts of a container are seen. No sooner, for everything else works."""

E = TypeVar("E", bound=BaseException)

log = structlog.get_logger("multiqueue.runtime")


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


@dataclass(frozen=True, slots=True)
class Component:
    """A component that has no class of its own."""

    name: str
    run: Callable[[], Coroutine[Any, Any, None]]


@dataclass(slots=True)
class _Row:
    """Failures in a row of one component; times are those of the event loop."""

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
        # It awaited something that others cancelled; a task group would take that for an end.
        return RuntimeError("it awaited something that was cancelled")
    except Exception as error:  # noqa: BLE001 - `keep` tells it, and starts the component again
        return error
    return RuntimeError("it ended by itself")


def _describe(error: Exception) -> str:
    cause = innermost(error)
    return f"{type(cause).__name__}: {cause}"


class TaskScope:
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
async def open_scope() -> AsyncIterator[TaskScope]:
    """Cancel at the end of the block what was started in it; a failure ends the block.

    Raises:
        ExceptionGroup: with the failure in it; `innermost` finds it.
    """
    async with asyncio.TaskGroup() as tasks:
        scope = TaskScope(tasks)
        yield scope
        scope.cancel()


def innermost(error: BaseException) -> BaseException:
    """Return the one error that a nest of exception groups is about: the first that was raised."""
    return next(_leaves(error), error)


def find_cause(error: BaseException, kind: type[E]) -> E | None:
    """Return the first error of this type in a nest of exception groups."""
    return next((leaf for leaf in _leaves(error) if isinstance(leaf, kind)), None)


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _leaves(inner)
    else:
        yield error
