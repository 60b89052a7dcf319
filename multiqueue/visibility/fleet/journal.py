"""Which rows changed, and in what order: keys and a counter, never the rows themselves.

A reader that is behind asks for the keys that changed since a version, and sends the current rows.
So a slow reader costs no memory, and a row that changed ten times is sent once.

A note costs O(1). The journal keeps the last `MAX_KEYS` keys of each topic; a reader that is
further behind gets a snapshot.
"""

from __future__ import annotations

import secrets
from collections import OrderedDict
from collections.abc import Iterator
from datetime import datetime

from multiqueue.lib.digits import is_number

MAX_KEYS = 20_000
"""Keys of a topic, about 4 MB."""


class Journal:
    """The changes since the start of this replica.

    Attributes:
        epoch: Identifies the start of this replica.
        version: Grows by one with every change. It begins with the milliseconds of the start, so
            that versions of an earlier start are smaller.

    Args:
        started_at: The start of this replica.
        max_keys: How many keys of each topic are kept.
    """

    def __init__(self, started_at: datetime, *, max_keys: int = MAX_KEYS) -> None:
        self.epoch = secrets.token_hex(4)
        self.version = self._first = int(started_at.timestamp() * 1000)
        self._max_keys = max_keys
        self._changed: dict[str, OrderedDict[str, int]] = {}
        self._forgotten: dict[str, int] = {}

    @property
    def mark(self) -> str:
        """The identity of the current state: ``EPOCH.VERSION``."""
        return f"{self.epoch}.{self.version}"

    def note(self, topic: str, key: str) -> None:
        """Note that a row changed, came or went."""
        self.version += 1
        changed = self._changed.setdefault(topic, OrderedDict())
        changed.pop(key, None)
        changed[key] = self.version
        if len(changed) > self._max_keys:
            _, self._forgotten[topic] = changed.popitem(last=False)

    def knows_since(self, topic: str, version: int) -> bool:
        """Whether all changes of a topic after a version are known."""
        return self._forgotten.get(topic, self._first) <= version <= self.version

    def since(self, topic: str, version: int) -> list[tuple[str, int]]:
        """Return the keys that changed after a version, and when, the oldest change first."""
        found = list(self._newest_first(topic, version))
        found.reverse()
        return found

    def _newest_first(self, topic: str, version: int) -> Iterator[tuple[str, int]]:
        for key, changed_at in reversed(self._changed.get(topic, OrderedDict()).items()):
            if changed_at <= version:
                return
            yield key, changed_at

    def read_mark(self, mark: str) -> int | None:
        """Return the version of a mark of this epoch; None for any other text."""
        epoch, _, version = mark.strip('"').partition(".")
        return int(version) if epoch == self.epoch and is_number(version) else None
