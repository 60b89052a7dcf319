"""What an API server keeps of a collection: the objects, their history, and who watches."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from tests.fleet.objects import Json, Selector, has_labels


@dataclass(slots=True)
class Stored:
    """An object, and its bytes."""

    obj: Json
    raw: bytes


@dataclass(frozen=True, slots=True)
class Event:
    """One entry of a collection's watch history."""

    version: int
    old: Json | None
    new: Json | None
    raw: bytes


class Collection:
    """The objects of one kind, and what became of them lately."""

    def __init__(self) -> None:
        self.objects: dict[str, Stored] = {}
        self.events: deque[Event] = deque()
        self.watches: dict[Watch, None] = {}
        self.forgotten = 0


class Watch:
    """One open watch: lines wait here until they are fetched.

    Args:
        collection: What is watched.
        namespace: Only this one; empty: all.
        pairs: Labels that count.
        since: Only what is later is told.
        on_line: Called when there is a line.
    """

    def __init__(
        self,
        collection: Collection,
        namespace: str,
        pairs: Selector,
        since: int,
        on_line: Callable[[], None],
    ) -> None:
        self.lines: list[bytes] = []
        self._collection = collection
        self._namespace = namespace
        self._pairs = pairs
        self._since = since
        self._on_line = on_line

    def offer(self, event: Event) -> None:
        """Take an event as this watch sees it: what leaves its selection is deleted for it."""
        if event.version <= self._since:
            return
        before = event.old is not None and self._selects(event.old)
        after = event.new is not None and self._selects(event.new)
        if not before and not after:
            return
        kind = b"MODIFIED" if before and after else b"ADDED" if after else b"DELETED"
        self.lines.append(b'{"type":"%b","object":%b}' % (kind, event.raw))
        self._on_line()

    def close(self) -> None:
        """Forget this watch."""
        self._collection.watches.pop(self, None)

    def _selects(self, obj: Json) -> bool:
        if self._namespace and obj["metadata"].get("namespace") != self._namespace:
            return False
        return has_labels(obj, self._pairs)
