"""Counts of Workloads by phase, and who has waited longest, for each ClusterQueue.

Each event of a Workload moves it from one count to another, so nothing is walked. Phases are judged
without the job, so a Workload without the condition PodsReady counts as Admitted while it runs.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import Counter
from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import NamedTuple

from multiqueue.api.v1beta2 import Workload
from multiqueue.api.variants import parent_of
from multiqueue.jobs.context import ManagerContext
from multiqueue.views.phase import PhaseState, find_phase


class _InPhase(NamedTuple):
    cluster_queue: str
    phase: PhaseState
    created_at: datetime


class PhaseCounts:
    """Keeps the gauges of phases and of the longest wait.

    Variants are not counted, because their parent is.

    Args:
        context: The manager's context.
        cluster_queue_of: Returns the ClusterQueue of a LocalQueue, by ``namespace/name``.
    """

    name = "phase-counts"

    def __init__(
        self, context: ManagerContext, cluster_queue_of: Callable[[str], str | None]
    ) -> None:
        self._informer = context.informers.workloads
        self._metrics = context.metrics
        self._clock = context.clock
        self._cluster_queue_of = cluster_queue_of
        self._counted: dict[str, _InPhase] = {}
        self._counts: Counter[tuple[str, str]] = Counter()
        self._waiting: dict[str, list[tuple[datetime, str]]] = {}
        """Who waits in each queue, as a heap; who has left goes when it is at the top."""
        self._oldest: dict[str, datetime | None] = {}

    async def run(self) -> None:
        """Count until cancelled."""
        await self._informer.settled.wait()
        for workload in self._informer.store.list():
            self.on_workload(None, workload)
        self._informer.add_handler(self.on_workload)
        await asyncio.Event().wait()

    def on_workload(self, old: Workload | None, new: Workload | None) -> None:
        """Count a new state of a Workload."""
        known = new or old
        assert known is not None
        uid = known.metadata.uid
        before = self._counted.get(uid)
        now = None if new is None else self._judge(new)
        if now == before:
            return
        if before is not None:
            del self._counted[uid]
            self._add(before, -1)
        if now is not None:
            self._counted[uid] = now
            self._add(now, 1)
            if now.phase is PhaseState.QUEUED:
                waiting = self._waiting.setdefault(now.cluster_queue, [])
                heapq.heappush(waiting, (now.created_at, uid))
        for queue in {each.cluster_queue for each in (before, now) if each is not None}:
            self._note_oldest(queue)

    def _judge(self, workload: Workload) -> _InPhase | None:
        if parent_of(workload) is not None:
            return None
        admission = workload.status.admission
        key = f"{workload.metadata.namespace}/{workload.spec.queue_name}"
        queue = admission.cluster_queue if admission else self._cluster_queue_of(key) or ""
        return _InPhase(queue, find_phase(workload).state, workload.metadata.created_at)

    def _add(self, counted: _InPhase, change: int) -> None:
        labels = (counted.cluster_queue, str(counted.phase))
        self._counts[labels] += change
        self._metrics.phase_workloads.child(*labels).set(self._counts[labels])

    def _note_oldest(self, queue: str) -> None:
        waiting = self._waiting.get(queue, [])
        while waiting and not self._waits(queue, *waiting[0]):
            heapq.heappop(waiting)
        self._oldest[queue] = waiting[0][0] if waiting else None
        # Read when somebody scrapes, in another thread: one look-up, nothing is computed. Set each
        # time, because a queue that was deleted and made again has a new gauge.
        age = self._metrics.oldest_waiting_seconds.child(queue)
        age.set_function(partial(self._find_age, queue))

    def _waits(self, queue: str, created_at: datetime, uid: str) -> bool:
        return self._counted.get(uid) == (queue, PhaseState.QUEUED, created_at)

    def _find_age(self, queue: str) -> float:
        since = self._oldest.get(queue)
        return 0.0 if since is None else max(0.0, (self._clock.now() - since).total_seconds())
