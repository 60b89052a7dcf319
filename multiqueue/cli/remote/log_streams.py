"""Logs of several pods at once, each followed over cuts: nothing twice, and nothing left out."""

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
"""Takes a line of a pod's log."""
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOptions:
    """What is wanted of each log; see ``kubectl logs``."""

    container: str = ""
    follow: bool = False
    previous: bool = False
    since_seconds: int | None = None
    tail: int | None = None
    timestamps: bool = False

    def query(self) -> dict[str, str]:
        """Return the parameters; times are always asked for, as only they tell lines apart."""
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
    """How far a log was read: the time of the last line, and how many lines had that time."""

    last: str = ""
    count: int = 0
    _skip: int = field(default=0, init=False)

    def query(self) -> dict[str, str]:
        """Return the parameters that ask for what comes next."""
        self._skip = self.count
        return {"sinceTime": self.last} if self.last else {}

    def is_new(self, time: str) -> bool:
        """Whether a line of this time was not read before; notes it."""
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
    """Whether a container of a pod has run, so that there is a log."""
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
    """Print what there is of one log.

    Raises:
        CliError: the cluster, or the manager before it, refuses.
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
    """Print one log until its container has ended; goes on where it was when it was cut.

    Args:
        place: Where the pod is.
        pod: Whose log it is.
        options: What is wanted of it.
        emit: Takes the lines.
        say: Takes what happens on the way.
        is_current: Whether the job is still there; a pod of a place that it left is not waited for.
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
