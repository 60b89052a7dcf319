"""Why Workloads wait, in the words of `multiqueue why`, for rows that somebody reads.

The condition of a Workload has upstream's words, and numbers of the cycle that wrote it. Rows have
the numbers of now. The words of one moment are kept for `LEAST_SECONDS`, or twenty times as long
as it took to find them, so they take at most one twentieth of the time.
"""

from __future__ import annotations

import asyncio

from multiqueue.engine.engine import Engine
from multiqueue.engine.state import ClusterQueueState
from multiqueue.visibility.explanation_status import tell_why

LEAST_SECONDS, SHARE = 2.0, 20


class RowReasons:
    """Keeps the words of one moment.

    Args:
        engine: Knows why Workloads wait.
        leading: Set while this manager leads; only the leader knows.
    """

    def __init__(self, engine: Engine, leading: asyncio.Event) -> None:
        self._engine = engine
        self._leading = leading
        self._queues: dict[str, ClusterQueueState | None] = {}
        self._words: dict[str, str] = {}
        self._moment, self._due_at, self._took = 0, 0.0, 0.0

    def renew(self) -> int:
        """Begin a new moment if this one is over; return its number."""
        now = asyncio.get_running_loop().time()
        if now >= self._due_at:
            self._queues.clear()
            self._words.clear()
            self._moment += 1
            self._due_at, self._took = now + LEAST_SECONDS, 0.0
        return self._moment

    def find_words(self, key: str, cluster_queue: str) -> str:
        """Return what a Workload waits for; empty if that is not known here."""
        if not self._leading.is_set():
            return ""
        self.renew()
        found = self._words.get(key)
        if found is None:
            begun = asyncio.get_running_loop().time()
            found = self._words[key] = self._tell(key, cluster_queue)
            ended = asyncio.get_running_loop().time()
            self._took += ended - begun
            self._due_at = max(self._due_at, ended + SHARE * self._took)
        return found

    def _tell(self, key: str, cluster_queue: str) -> str:
        if cluster_queue not in self._queues:
            self._queues[cluster_queue] = self._engine.cluster_queue_state(cluster_queue)
        state = self._queues[cluster_queue]
        return "" if state is None else tell_why(self._engine, key, state)
