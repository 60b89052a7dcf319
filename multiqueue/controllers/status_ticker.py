"""Passes changed queues to their status writers, at most once a second (E-193)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from multiqueue.engine.engine import Engine

BATCH_SECONDS = 1.0


class StatusTicker:
    """Asks the engine which queues changed.

    Args:
        engine: Remembers the changes since the last call.
        on_cluster_queue: Called with each changed ClusterQueue.
        on_local_queue: Called with each changed LocalQueue.
        on_cohort: Called with each Cohort above a changed ClusterQueue, with fair sharing.
    """

    name = "queue-status"

    def __init__(
        self,
        engine: Engine,
        *,
        on_cluster_queue: Callable[[str], None],
        on_local_queue: Callable[[str], None],
        on_cohort: Callable[[str], None],
    ) -> None:
        self._engine = engine
        self._on_cluster_queue = on_cluster_queue
        self._on_local_queue = on_local_queue
        self._on_cohort = on_cohort
        self._dirty = asyncio.Event()

    def touch(self) -> None:
        """Note that the engine's state may have changed."""
        self._dirty.set()

    async def run(self) -> None:
        """Pass changes on until cancelled."""
        while True:
            await self._dirty.wait()
            # Changes during the sleep go into the same batch.
            await asyncio.sleep(BATCH_SECONDS)
            self._dirty.clear()
            changed = self._engine.changed_since_last_call()
            for name in changed.cluster_queues:
                self._on_cluster_queue(name)
            for key in changed.local_queues:
                self._on_local_queue(key)
            for name in changed.cohorts:
                self._on_cohort(name)
