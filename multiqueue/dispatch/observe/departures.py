"""Which Workloads shall leave a worker that is drained. Drains write it, the observer reads it."""

from __future__ import annotations

from collections.abc import Collection


class Departures:
    """The reason why a Workload shall leave a worker, by name of the worker and key."""

    def __init__(self) -> None:
        self._reasons: dict[tuple[str, str], str] = {}

    def find(self, worker: str, key: str) -> str:
        """Return why a Workload shall leave a worker; empty if it may stay."""
        return self._reasons.get((worker, key), "")

    def add(self, worker: str, key: str, reason: str) -> bool:
        """Have a Workload leave a worker; whether that is new."""
        if (worker, key) in self._reasons:
            return False
        self._reasons[worker, key] = reason
        return True

    def retain(self, worker: str, keys: Collection[str]) -> None:
        """Let all but these stay on a worker."""
        for name, key in list(self._reasons):
            if name == worker and key not in keys:
                del self._reasons[name, key]
