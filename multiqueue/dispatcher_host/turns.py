"""Ask questions one at a time, and give each profile its share of the time.

Questions are asked one after another, because two dispatchers that see the same free room would
both give it away. A dispatcher that uses its whole budget for every answer must not delay other
queues until all its Workloads are decided. So the next turn goes to the profile that has used the
least time so far.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class DismissedError(Exception):
    """Too many questions of one profile wait for their turn."""


class Turns:
    """A lock that is fair by time, as start-time fair queueing is."""

    def __init__(self) -> None:
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        self._used: dict[str, float] = {}
        self._clock = 0.0
        self._is_taken = False

    def count_waiting(self, who: str) -> int:
        """Return how many questions of a profile wait for a turn."""
        return len(self._waiting.get(who, ()))

    @asynccontextmanager
    async def turn(self, who: str) -> AsyncIterator[None]:
        """Wait for a turn; it lasts as long as the block does.

        Raises:
            DismissedError: `dismiss` ended the wait.
        """
        await self._take(who)
        loop = asyncio.get_running_loop()
        begun = loop.time()
        try:
            yield
        finally:
            self._used[who] += loop.time() - begun
            self._pass_on()

    async def _take(self, who: str) -> None:
        if who not in self._waiting:
            # A profile does not save up time in which it asked nothing.
            self._used[who] = max(self._used.get(who, 0.0), self._clock)
        if not self._is_taken:
            self._is_taken, self._clock = True, self._used[who]
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(who, deque()).append(future)
        try:
            await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled():
                self._pass_on()  # the turn came at the same moment
            elif future in self._waiting.get(who, ()):
                self._leave(who, future)
            raise

    def dismiss(self, who: str, *, keep: int) -> None:
        """End the wait of a profile's newest questions; keep the given number of them."""
        while self.count_waiting(who) > keep:
            future = self._waiting[who][-1]
            self._leave(who, future)
            if not future.done():
                future.set_exception(DismissedError)

    def _pass_on(self) -> None:
        while self._waiting:
            # On a tie, the profile that waits longest: a dict keeps insertion order.
            who = min(self._waiting, key=lambda each: self._used[each])
            future = self._waiting[who][0]
            self._leave(who, future)
            if not future.done():
                self._clock = self._used[who]
                future.set_result(None)
                return
        self._is_taken = False
        self._used.clear()
        self._clock = 0.0

    def _leave(self, who: str, future: asyncio.Future[None]) -> None:
        self._waiting[who].remove(future)
        if not self._waiting[who]:
            del self._waiting[who]
