"""Virtual time: scheduled actions in the order of their times; ties keep insertion order."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

BEGIN = datetime(2026, 1, 5, tzinfo=UTC)
"""A Monday at midnight; traces count seconds from here."""


class SimulationAgenda:
    """The clock of a simulated world, and its scheduled actions.

    Attributes:
        now: The current virtual time.
    """

    def __init__(self) -> None:
        self.now = BEGIN
        self._count = 0
        self._items: list[tuple[datetime, int, Callable[[], None]]] = []

    @property
    def seconds(self) -> float:
        """Seconds since the beginning."""
        return (self.now - BEGIN).total_seconds()

    def at(self, moment: datetime, act: Callable[[], None]) -> None:
        """Schedule an action for a moment; for now, if that has passed."""
        self._count += 1
        heapq.heappush(self._items, (max(moment, self.now), self._count, act))

    def after(self, seconds: float, act: Callable[[], None]) -> None:
        """Schedule an action for so many seconds from now."""
        self.at(self.now + timedelta(seconds=seconds), act)

    def run(self) -> None:
        """Run actions until none is left."""
        while self._items:
            self.now, _, act = heapq.heappop(self._items)
            act()


class Timer:
    """Calls a function once, at the earliest moment requested since the last call."""

    def __init__(self, agenda: SimulationAgenda, act: Callable[[], None]) -> None:
        self._agenda = agenda
        self._act = act
        self._due: datetime | None = None

    def set(self, moment: datetime) -> None:
        """Request a call no later than this moment."""
        moment = max(moment, self._agenda.now)
        if self._due is None or moment < self._due:
            self._due = moment
            self._agenda.at(moment, lambda: self._ring(moment))

    def set_after(self, seconds: float) -> None:
        """Request a call no later than so many seconds from now."""
        self.set(self._agenda.now + timedelta(seconds=seconds))

    def _ring(self, moment: datetime) -> None:
        if self._due == moment:
            self._due = None
            self._act()
