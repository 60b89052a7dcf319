"""Logs of several pods at once; after a cut each continues without repeated or lost lines."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field

from multiqueue.cli.errors import CliError
from multiqueue.cli.remote.places import JobPlace
from multiqueue.jobs.belongings import Json
from multiqueue.kube.errors import ApiError, Conflict, Forbidden, KubeError, NotFound
from multiqueue.kube.lines import LineSplitter
from multiqueue.kube.retries import FOLLOWED, RetryPolicy

Emit = Callable[[str, Json], None]
"""Takes one line of a pod's log."""
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOptions:
    """The options of each log; see ``kubectl logs``."""

    container: str = ""
    follow: bool = False
    previous: bool = False
    since_seconds: int | None = None
    tail: int | None = None
    timestamps: bool = False

    def query(self) -> dict[str, str]:
        """Return the query parameters; times are always requested, as they identify lines."""
        wanted = {
            "container": self.container,
            "follow": "true" if self.follow else "",
            "previous": "true" if self.previous else "",
            "sinceSeconds": "" if self.since_seconds is None else str(self.since_seconds),
            "tailLines": "" if self.tail is None else str(self.tail),
            "timestamps": "true",
        }
        return {key: value for key, value in wanted.items() if value}


@dataclass(slots=True)
class Position:
    """How far a log was read: the time of the last line, and how many lines have that time."""

    last: str = ""
    count: int = 0
    _skip: int = field(default=0, init=False)

    def query(self) -> dict[str, str]:
        """Return the query parameters for the lines that follow."""
        self._skip = self.count
        return {"sinceTime": self.last} if self.last else {}

    def is_new(self, time: str) -> bool:
        """Record a line of this time; return whether it was not read before."""
        if time < self.last:
            return False
        if time == self.last:
            if self._skip:
                self._skip -= 1
                return False
            self.count += 1
            return True
        self.last, self.count, self._skip = time, 1, 0
        return True


def has_log(pod: Mapping[str, object], container: str = "") -> bool:
    """Whether a container of a pod has run, so that it has a log."""
    for status in _statuses(pod):
        state = status.get("state") or {}
        runs = "running" in state or "terminated" in state or status.get("lastState")
        if runs and container in {"", status.get("name")}:
            return True
    return False


def _statuses(pod: Mapping[str, object]) -> Iterator[Json]:
    status = pod.get("status")
    if isinstance(status, dict):
        yield from status.get("initContainerStatuses") or ()
        yield from status.get("containerStatuses") or ()


async def read_log(place: JobPlace, pod: Json, options: LogOptions, emit: Emit) -> None:
    """Print the existing lines of one log.

    Raises:
        CliError: the cluster, or the manager in front of it, refuses.
    """
    try:
        await _read(place, pod, options, Position(), emit)
    except Forbidden as error:
        raise CliError(f"not allowed: {error.server_message}") from error
    except ApiError as error:
        raise CliError(f"{pod['metadata']['name']}: {error.server_message or error}") from error


async def follow_log(
    place: JobPlace,
    pod: Json,
    options: LogOptions,
    emit: Emit,
    *,
    say: Say,
    is_current: Callable[[], bool],
    retries: RetryPolicy = FOLLOWED,
) -> None:
    """Print one log until its container has ended; after a cut, continue at the last line.

    Args:
        place: The place of the pod.
        pod: The pod.
        options: The options of the log.
        emit: Takes the lines.
        say: Takes messages about interruptions.
        is_current: Whether the job is still at the place; otherwise the pod is not waited for.
        retries: When the place is asked again.
    """
    position, pauses, name = Position(), retries.pauses(), pod["metadata"]["name"]
    while True:
        read = position.last
        try:
            await _read(place, pod, options, position, emit)
        except (NotFound, Conflict):
            return
        except Forbidden as error:
            raise CliError(f"not allowed: {error.server_message}") from error
        except KubeError as error:
            if isinstance(error, ApiError) and error.status < 500 and not error.retryable:
                raise CliError(f"{name}: {error.server_message}") from error
            if not is_current():
                return
            if position.last != read:
                pauses.reset()
            if not pauses.failures:
                say(f"the log of {name} was cut, waiting for {place.cluster or 'it'}: {error}")
            await asyncio.sleep(pauses.next())
        else:
            return


async def _read(
    place: JobPlace, pod: Json, options: LogOptions, position: Position, emit: Emit
) -> None:
    query = options.query()
    if position.last:
        query = {**query, **position.query()}
        query.pop("sinceSeconds", None)
        query.pop("tailLines", None)
    async with aclosing(_lines(place.open_log(pod["metadata"]["name"], query))) as lines:
        async for line in lines:
            time, _, text = line.partition(" ")
            if position.is_new(time):
                emit(line if options.timestamps else text, pod)


async def _lines(pieces: AsyncGenerator[bytes, None]) -> AsyncGenerator[str, None]:
    splitter = LineSplitter()
    async with aclosing(pieces):
        async for piece in pieces:
            for line in splitter.feed(piece):
                yield line.decode("utf-8", "replace")
    for line in splitter.feed(b"\n"):
        yield line.decode("utf-8", "replace")
