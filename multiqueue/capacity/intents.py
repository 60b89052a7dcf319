"""Workloads that were just nominated to a worker and have no copy there yet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from multiqueue.api.names import key_of
from multiqueue.plugins import WorkloadView

INTENT_SECONDS = 10.0
"""How long a nomination counts before its copy must have appeared."""


@dataclass(frozen=True, slots=True)
class Intent:
    """A nomination whose copy has not appeared yet."""

    workload: WorkloadView
    until: float

    @property
    def local_queue(self) -> str:
        """``namespace/name`` of its LocalQueue."""
        return key_of(self.workload.namespace, self.workload.queue)


class Intents:
    """The intents of one worker by Workload key, the oldest first.

    Args:
        monotonic: A clock that never jumps, in seconds.

    Attributes:
        expired: How many were removed because their time was over.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self.expired = 0
        self._monotonic = monotonic
        self._by_key: dict[str, Intent] = {}
        self._by_local_queue: Counter[str] = Counter()

    def __contains__(self, key: str) -> bool:
        return key in self._by_key

    def __len__(self) -> int:
        return len(self._by_key)

    def __iter__(self) -> Iterator[Intent]:
        return iter(self._by_key.values())

    def count(self, local_queue: str) -> int:
        """How many intents are of a LocalQueue."""
        return self._by_local_queue[local_queue]

    def is_of(self, key: str, local_queue: str) -> bool:
        """Whether a Workload has an intent, for that LocalQueue."""
        return key in self._by_key and self._by_key[key].local_queue == local_queue

    def add(self, workload: WorkloadView) -> bool:
        """Add an intent, or restart its time without moving it; return whether it is new."""
        known = self._by_key.get(workload.key)
        if known is not None:
            self._by_local_queue[known.local_queue] -= 1
        self._put(Intent(workload, self._monotonic() + INTENT_SECONDS))
        return known is None

    def take(self, intent: Intent) -> None:
        """Add an intent with its remaining time, unless the Workload already has one."""
        if intent.workload.key not in self._by_key:
            self._put(intent)

    def pop(self, key: str) -> Intent | None:
        """Remove an intent and return it; None: there is none."""
        intent = self._by_key.pop(key, None)
        if intent is not None:
            self._by_local_queue[intent.local_queue] -= 1
        return intent

    def expire(self) -> None:
        """Remove intents that have expired; a restarted intent delays the later ones."""
        now = self._monotonic()
        while self._by_key:
            key, intent = next(iter(self._by_key.items()))
            if intent.until > now:
                return
            self.pop(key)
            self.expired += 1

    def _put(self, intent: Intent) -> None:
        self._by_key[intent.workload.key] = intent
        self._by_local_queue[intent.local_queue] += 1
