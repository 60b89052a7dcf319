"""Why Workloads wait, in the words of `multiqueue why`, for rows that somebody reads.

The condition of a Workload has upstream's words, and numbers of the cycle that wrote it. Rows have
the numbers of a moment ago. The words of one moment are kept for `LEAST_SECONDS`, or twenty times
as long as it took to find them, so that they take at most one twentieth of the time. No moment
lasts longer than `MOST_SECONDS`, so they take a larger part if finding them took long.
"""

from __future__ import annotations

import asyncio

from multiqueue.engine.engine import Engine
from multiqueue.engine.state import ClusterQueueState
from multiqueue.visibility.explanation_status import tell_why

LEAST_SECONDS, MOST_SECONDS, SHARE = 2.0, 30.0, 20


class RowReasons:
    """Keeps the words of one moment.

    Args:
        engine: Knows why Workloads wait.
        leading: Set while this manager leads; only the leader knows.
    """

    def __init__(self, engine: Engine, leading: asyncio.Event) -> None:
        self._engine = engine
        self._leading = leading
        self._queues: dict[str, ClusterQueueState] = {}
        self._words: dict[tuple[str, str], str] = {}
        self._moment, self._begun, self._due_at, self._took = 0, 0.0, 0.0, 0.0

    def renew(self) -> int:
        """Begin a new moment if this one is over; return its number."""
        now = asyncio.get_running_loop().time()
        if now >= self._due_at:
            self._queues.clear()
            self._words.clear()
            self._moment += 1
            self._begun, self._due_at, self._took = now, now + LEAST_SECONDS, 0.0
        return self._moment

    def find_words(self, key: str, uid: str, cluster_queue: str) -> str:
        """Return what a Workload waits for; empty if that is not known here.

        Args:
            key: The Workload's key.
            uid: Its uid; another one of this name has other words.
            cluster_queue: Where it waits.
        """
        if not self._leading.is_set():
            return ""
        self.renew()
        found = self._words.get((uid, cluster_queue), "")
        if not found:
            loop = asyncio.get_running_loop()
            begun = loop.time()
            found = self._tell(key, cluster_queue)
            ended = loop.time()
            self._took += ended - begun
            due_at = max(self._due_at, ended + SHARE * self._took)
            self._due_at = min(due_at, self._begun + MOST_SECONDS)
            if found:  # else it may be known any time
                self._words[uid, cluster_queue] = found
        return found

    def _tell(self, key: str, cluster_queue: str) -> str:
        state = self._queues.get(cluster_queue) or self._engine.cluster_queue_state(cluster_queue)
        if state is None:
            return ""
        self._queues[cluster_queue] = state
        return tell_why(self._engine, key, state)
