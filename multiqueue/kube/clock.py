"""The source of wall-clock time: everything below the shell takes ``now`` as an argument.

Durations (timeouts, backoff, leases) use the event loop's clock instead, which never jumps.
"""

from __future__ import annotations

from datetime import UTC, datetime
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


def format_micro_time(moment: datetime) -> str:
    """Format a metav1.MicroTime, as Leases and Events use it."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
