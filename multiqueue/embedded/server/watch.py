"""Changes for watchers: a history to start from, and bounded queues of new changes."""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from multiqueue.embedded.server.entry import StoredObject

Matches = Callable[[StoredObject], bool]

ADDED = "ADDED"
MODIFIED = "MODIFIED"
DELETED = "DELETED"
BOOKMARK = "BOOKMARK"
ERROR = "ERROR"

MAX_PENDING = 10_000
"""Changes that may wait for a slow watcher before its connection is cut; the states themselves are
shared.
"""


@dataclass(frozen=True, slots=True, eq=False)
class Event:
    """One change of one object."""

    entry: StoredObject
    """The new state; for a removal the last state, with the revision of the removal."""
    previous: StoredObject | None
    deleted: bool

    @property
    def revision(self) -> int:
        """When it happened."""
        return self.entry.revision


@dataclass(frozen=True, slots=True, eq=False)
class Notice:
    """One event for one watcher: a type and the state that goes with it."""

    type: str
    entry: StoredObject
    revision: int
    """Of the change; newer than ``entry.revision`` where an object left the selection."""


def notice_for(event: Event, namespace: str | None, matches: Matches | None) -> Notice | None:
    """What a change means to someone who sees only a selection; None: nothing.

    An object that moves into the selection is ADDED, one that moves out DELETED, in its last state
    inside.
    """
    entry, previous = event.entry, event.previous
    if namespace is not None and entry.namespace != namespace:
        return None
    before = previous is not None and (matches is None or matches(previous))
    if event.deleted:
        return Notice(DELETED, entry, event.revision) if before else None
    if matches is None or matches(entry):
        return Notice(MODIFIED if before else ADDED, entry, event.revision)
    if before:
        assert previous is not None
        return Notice(DELETED, previous, event.revision)
    return None


class Watcher:
    """The queue between the store and one watch connection."""

    def __init__(
        self,
        *,
        namespace: str | None,
        matches: Matches | None,
        since: int,
        cut: Callable[[], None] = lambda: None,
        most_pending: int = MAX_PENDING,
    ) -> None:
        self.namespace = namespace
        self.matches = matches
        self._cut = cut
        self._most_pending = most_pending
        self.since = since
        """Changes up to this revision are known to the client."""
        self.closed = False
        self._pending: deque[Notice] = deque()
        self._wake: asyncio.Future[None] | None = None

    def offer(self, event: Event) -> None:
        """Queue a change if it concerns this watcher; cut a watcher that cannot keep up."""
        if event.revision <= self.since or self.closed:
            return
        notice = notice_for(event, self.namespace, self.matches)
        if notice is not None:
            if len(self._pending) >= self._most_pending:
                self.close()
                self._cut()
                return
            self._pending.append(notice)
            self.nudge()

    def close(self) -> None:
        """Deliver nothing more; what is queued is dropped, the client starts over."""
        self.closed = True
        self._pending.clear()
        self.nudge()

    def take(self, limit: int) -> list[Notice]:
        """The oldest queued notices."""
        count = min(limit, len(self._pending))
        return [self._pending.popleft() for _ in range(count)]

    async def wait(self) -> None:
        """Wait until something is queued, the watcher closed or somebody nudges."""
        if not self._pending and not self.closed:
            self._wake = asyncio.get_running_loop().create_future()
            try:
                await self._wake
            finally:
                self._wake = None

    def nudge(self) -> None:
        """End the wait."""
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)


class WatchHistory:
    """The last changes of one collection, and those who follow it."""

    def __init__(self, *, floor: int, length: int) -> None:
        self.floor = floor
        """Changes up to this revision are forgotten: a watch may start here or later."""
        self.watchers: list[Watcher] = []
        self._events: deque[Event] = deque()
        self._length = length

    def publish(self, event: Event) -> None:
        """Remember a change and tell everybody."""
        self._events.append(event)
        if len(self._events) > self._length:
            self.floor = self._events.popleft().revision
        for watcher in self.watchers:
            watcher.offer(event)

    def since(self, revision: int) -> Iterator[Event]:
        """Changes after a revision, oldest first; the caller has compared it with ``floor``."""
        newer: list[Event] = []
        for event in reversed(self._events):
            if event.revision <= revision:
                break
            newer.append(event)
        return reversed(newer)

    def restart(self, floor: int) -> None:
        """Forget the past and end all watches: old states have another shape."""
        self._events.clear()
        self.floor = floor
        self.close()

    def close(self) -> None:
        """End all watches."""
        for watcher in self.watchers:
            watcher.close()
