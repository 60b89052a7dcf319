"""Which Workloads must leave a drained worker. Drains write it, the observer reads it."""

from __future__ import annotations

from collections.abc import Collection


class Departures:
    """The reason why a Workload must leave a worker, by worker name and Workload key."""

    def __init__(self) -> None:
        self._reasons: dict[tuple[str, str], str] = {}

    def find(self, worker: str, key: str) -> str:
        """Return why a Workload must leave a worker; empty if it may stay."""
        return self._reasons.get((worker, key), "")

    def add(self, worker: str, key: str, reason: str) -> bool:
        """Note that a Workload must leave a worker; return whether that is new."""
        if (worker, key) in self._reasons:
            return False
        self._reasons[worker, key] = reason
        return True

    def retain(self, worker: str, keys: Collection[str]) -> None:
        """Let all Workloads but these stay on a worker."""
        for name, key in list(self._reasons):
            if name == worker and key not in keys:
                del self._reasons[name, key]
