"""Admissions that are decided and wait for a writer: the highest priority first.

What waits here can still be removed, because nothing was written. So a Workload that is preempted
before its admission was written costs no request.
"""

from __future__ import annotations

import asyncio
from itertools import count
from typing import Generic, TypeVar

T = TypeVar("T")


class Backlog(Generic[T]):
    """What waits for a writer, by key: the highest priority first, then in order of arrival."""

    def __init__(self) -> None:
        self._order: asyncio.PriorityQueue[tuple[int, int, str]] = asyncio.PriorityQueue()
        self._waiting: dict[str, tuple[int, T]] = {}
        self._turns = count()

    def put(self, key: str, item: T, *, priority: int) -> None:
        """Add an item; it takes the place of an older one with the same key."""
        turn = next(self._turns)
        self._waiting[key] = turn, item
        self._order.put_nowait((-priority, turn, key))

    async def get(self) -> T:
        """Take the next item; wait until there is one."""
        while True:
            _, turn, key = await self._order.get()
            waiting = self._waiting.get(key)
            if waiting is not None and waiting[0] == turn:
                del self._waiting[key]
                return waiting[1]

    def remove(self, key: str) -> bool:
        """Remove an item; return whether it still waited."""
        return self._waiting.pop(key, None) is not None
