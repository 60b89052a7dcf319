"""Which Workloads must leave a worker, and stay off it. Drains write it, the observer reads it."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import NamedTuple

from multiqueue.api.disruptions import Stop


class Departure(NamedTuple):
    """Why a Workload must leave a worker, and the stop for its record; None: none is recorded."""

    reason: str
    stop: Stop | None = None


class Departures:
    """Why Workloads must leave a worker, or may not come back, by worker name and Workload key."""

    def __init__(self) -> None:
        self._departures: dict[tuple[str, str], Departure] = {}
        self._kept_off: dict[tuple[str, str], tuple[str, datetime]] = {}

    def find(self, worker: str, key: str) -> Departure | None:
        """Return why a Workload must leave a worker; None if it may stay."""
        return self._departures.get((worker, key))

    def add(self, worker: str, key: str, reason: str, stop: Stop | None = None) -> bool:
        """Note that a Workload must leave a worker; return whether that is new."""
        if (worker, key) in self._departures:
            return False
        self._departures[worker, key] = Departure(reason, stop)
        return True

    def retain(self, worker: str, keys: Collection[str]) -> None:
        """Let all Workloads but these stay on a worker."""
        for name, key in list(self._departures):
            if name == worker and key not in keys:
                del self._departures[name, key]

    def keep_off(self, worker: str, key: str, why: str, until: datetime) -> None:
        """Have a Workload not sent to a worker for a while: others get the room that it leaves."""
        self._kept_off[worker, key] = why, until

    def find_kept_off(self, worker: str, key: str, now: datetime) -> tuple[str, datetime] | None:
        """Return why a Workload may not come back to a worker, and until when; None: it may."""
        found = self._kept_off.get((worker, key))
        if found is None or now < found[1]:
            return found
        del self._kept_off[worker, key]
        return None
