"""When a stream looks for changes: every interval, unless the event loop is late."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

LATE_SECONDS = 0.05
"""How late the event loop may be; beyond that, admission needs the time more than readers."""
MAX_SKIPPED = 20
"""Ticks that are skipped one after the other at most; a reader must not wait for ever."""


class Pace:
    """The ticks of one stream.

    Args:
        interval: Seconds between two ticks.
        closing: Set when the server stops.
        now: A clock that never jumps, in seconds.

    Attributes:
        skipped: Ticks that were skipped since the stream began.
    """

    def __init__(
        self, interval: float, closing: asyncio.Event, *, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._interval = interval
        self._now = now
        self._closing = closing
        self.skipped = 0

    async def wait(self) -> bool:
        """Wait for the next tick; return whether the stream goes on."""
        for _ in range(MAX_SKIPPED):
            due_at = self._now() + self._interval
            try:
                async with asyncio.timeout(self._interval):
                    await self._closing.wait()
            except TimeoutError:
                if self._now() - due_at <= LATE_SECONDS:
                    return True
                self.skipped += 1
            else:
                return False
        return True
