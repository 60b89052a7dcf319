"""A small cache whose entries expire after some seconds."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class ExpiringCache(Generic[K, V]):
    """A bounded cache: above ``limit`` entries, the oldest are removed.

    Args:
        seconds: The lifetime of an entry.
        limit: The greatest number of entries.
        clock: A monotonic clock, in seconds.
    """

    def __init__(
        self, *, seconds: float, limit: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._seconds = seconds
        self._limit = limit
        self._clock = clock
        self._entries: OrderedDict[K, tuple[float, V]] = OrderedDict()

    def get(self, key: K) -> V | None:
        """Return the value, or None if it is missing or has expired."""
        found = self._entries.get(key)
        return found[1] if found is not None and found[0] > self._clock() else None

    def put(self, key: K, value: V) -> None:
        """Store a value."""
        self._entries.pop(key, None)
        self._entries[key] = (self._clock() + self._seconds, value)
        if len(self._entries) > self._limit:
            self._entries.popitem(last=False)
