"""Virtual time: what happens next, and when. Equal moments keep the order of their setting."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

BEGIN = datetime(2026, 1, 5, tzinfo=UTC)
"""A Monday midnight: traces count seconds from here."""


class SimulationAgenda:
    """The clock of a simulated world, and what is to be done when.

    Attributes:
        now: The time.
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
        """Do something at a moment; at once where that has passed."""
        self._count += 1
        heapq.heappush(self._items, (max(moment, self.now), self._count, act))

    def after(self, seconds: float, act: Callable[[], None]) -> None:
        """Do something so many seconds from now."""
        self.at(self.now + timedelta(seconds=seconds), act)

    def run(self) -> None:
        """Go on until nothing is left to do."""
        while self._items:
            self.now, _, act = heapq.heappop(self._items)
            act()


class Timer:
    """Calls a function once, at the earliest moment that it was asked for since the last call."""

    def __init__(self, agenda: SimulationAgenda, act: Callable[[], None]) -> None:
        self._agenda = agenda
        self._act = act
        self._due: datetime | None = None

    def set(self, moment: datetime) -> None:
        """Call no later than this."""
        moment = max(moment, self._agenda.now)
        if self._due is None or moment < self._due:
            self._due = moment
            self._agenda.at(moment, lambda: self._ring(moment))

    def set_after(self, seconds: float) -> None:
        """Call no later than so many seconds from now."""
        self.set(self._agenda.now + timedelta(seconds=seconds))

    def _ring(self, moment: datetime) -> None:
        if self._due == moment:
            self._due = None
            self._act()
