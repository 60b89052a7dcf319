"""The source of wall-clock time: everything below the shell takes ``now`` as an argument.

Durations (timeouts, backoff, leases) use the event loop's clock instead, which never jumps.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Protocol


class Clock(Protocol):
    """Tells the time."""

    def now(self) -> datetime:
        """Return the time, aware, in UTC."""
        ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> datetime:
        """Return the time, aware, in UTC."""
        return datetime.now(UTC)


class Moment:
    """A moment that this process saw, or knows the age of; a clock that is set does not move it.

    Args:
        ago: How long ago it was when this process learned of it.
    """

    __slots__ = ("_at",)

    def __init__(self, *, ago: timedelta = timedelta()) -> None:
        self._at = asyncio.get_running_loop().time() - ago.total_seconds()

    def elapsed(self) -> timedelta:
        """Return how long ago it was."""
        return timedelta(seconds=asyncio.get_running_loop().time() - self._at)


def format_micro_time(moment: datetime) -> str:
    """Format a metav1.MicroTime, as Leases and Events use it."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
