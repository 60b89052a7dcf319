"""What the manager knows of how long jobs run: what finished jobs of the same class took."""

from __future__ import annotations

from collections import deque

from multiqueue.multikueue.foresight.curve import summarize
from multiqueue.plugins.forecast import Runtime
from multiqueue.simulation.traces.trace import TraceJob

REMEMBERED = 100
"""Finished jobs of a class that count."""


class Knowledge:
    """Learns from finished jobs; a class is a user's jobs of one kind and size."""

    def __init__(self) -> None:
        self._lengths: dict[tuple[str, str, int], deque[float]] = {}
        self._known: dict[tuple[str, str, int], Runtime] = {}

    def learn(self, job: TraceJob) -> None:
        """Take note of a job that has ended."""
        key = _class_of(job)
        self._lengths.setdefault(key, deque(maxlen=REMEMBERED)).append(job.duration)
        self._known.pop(key, None)

    def find(self, job: TraceJob) -> Runtime | None:
        """Return how long a job runs on the reference hardware, as far as is known."""
        key = _class_of(job)
        known = self._known.get(key)
        if known is None and key in self._lengths:
            known = self._known[key] = summarize(list(self._lengths[key]))
        return known


def _class_of(job: TraceJob) -> tuple[str, str, int]:
    return job.user, job.kind, job.gpus
