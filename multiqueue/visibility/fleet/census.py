"""Counts of Workloads and their GPUs, by LocalQueue and by worker.

Handlers only note which Workloads changed. The counts catch up when somebody reads them, in steps
between which other tasks run; with nobody reading, nothing is computed.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import Counter
from collections.abc import Callable
from datetime import datetime
from itertools import islice
from typing import NamedTuple

from multiqueue.api import workload_state
from multiqueue.api.names import key_of
from multiqueue.api.v1beta2 import Workload
from multiqueue.api.v1beta2.meta import parse_time
from multiqueue.model.resources import is_accelerator
from multiqueue.model.workload import Workload as EngineWorkload

MAX_OFFERED = 200
"""Offered Workloads whose start may be the next one."""
STEP = 100
"""Workloads counted before other tasks run; this takes about a millisecond."""


class WorkloadTally(NamedTuple):
    """How one Workload counts.

    Attributes:
        queue: The key of its LocalQueue.
        waits: Whether it has no quota yet.
        gpus: The accelerators that its pods request.
        worker: The worker that it was latched on; empty if there is none.
        offered_to: The workers that it is offered to.
        created: Its creation time, as text that sorts by time.
    """

    queue: str
    waits: bool
    gpus: int
    worker: str
    offered_to: tuple[str, ...]
    created: str


class Census:
    """The counts.

    Args:
        find: Returns a Workload by key.
        find_in_engine: Returns the same Workload as the engine sees it.

    Attributes:
        waiting, holding: Workloads without and with quota, by LocalQueue.
        waiting_gpus: The accelerators that the waiting ones request, by LocalQueue.
        running: Workloads that were latched on a worker, by worker.
        offered: Workloads that are offered to a worker, by worker.
    """

    def __init__(
        self,
        find: Callable[[str], Workload | None],
        find_in_engine: Callable[[str], EngineWorkload | None],
    ) -> None:
        self.waiting: Counter[str] = Counter()
        self.waiting_gpus: Counter[str] = Counter()
        self.holding: Counter[str] = Counter()
        self.running: Counter[str] = Counter()
        self.offered: Counter[str] = Counter()
        self._find = find
        self._find_in_engine = find_in_engine
        self._dirty: dict[str, None] = {}
        self._tallies: dict[str, WorkloadTally] = {}
        self._offered: dict[str, None] = {}
        self._oldest: list[tuple[str, str]] = []
        self._catching_up = asyncio.Lock()

    def note(self, key: str) -> None:
        """Note that a Workload changed, came or went. Cost: O(1)."""
        self._dirty[key] = None

    async def catch_up(self) -> None:
        """Count what changed since the last call."""
        async with self._catching_up:
            while self._dirty:
                for _ in range(min(STEP, len(self._dirty))):
                    key = next(iter(self._dirty))
                    del self._dirty[key]
                    self._count(key)
                await asyncio.sleep(0)

    def list_offered(self) -> list[str]:
        """Return Workloads that are offered to workers, at most `MAX_OFFERED`, oldest first."""
        return list(islice(self._offered, MAX_OFFERED))

    def find_oldest(self) -> datetime | None:
        """Return when the oldest waiting Workload was created; None if none waits."""
        while self._oldest:
            created, key = self._oldest[0]
            tally = self._tallies.get(key)
            if tally is not None and tally.waits and tally.created == created:
                return parse_time(created)
            heapq.heappop(self._oldest)
        return None

    def _count(self, key: str) -> None:
        old = self._tallies.pop(key, None)
        if old is not None:
            self._add(old, -1)
        new = self._read(key)
        if new is None or not new.offered_to:
            self._offered.pop(key, None)
        if new is None:
            return
        if new.offered_to:
            self._offered.setdefault(key)
        self._tallies[key] = new
        self._add(new, 1)
        was_known = old is not None and old.waits and old.created == new.created
        if new.waits and not was_known:
            heapq.heappush(self._oldest, (new.created, key))

    def _add(self, tally: WorkloadTally, sign: int) -> None:
        if tally.waits:
            self.waiting[tally.queue] += sign
            self.waiting_gpus[tally.queue] += sign * tally.gpus
        else:
            self.holding[tally.queue] += sign
        if tally.worker:
            self.running[tally.worker] += sign
        for worker in tally.offered_to:
            self.offered[worker] += sign

    def _read(self, key: str) -> WorkloadTally | None:
        workload = self._find(key)
        if workload is None or workload_state.is_finished(workload.status):
            return None
        holds = workload_state.has_quota(workload.status)
        if not holds and not workload_state.is_active(workload.spec):
            return None
        status = workload.status
        seen = self._find_in_engine(key)
        return WorkloadTally(
            queue=key_of(workload.metadata.namespace, workload.spec.queue_name),
            waits=not holds,
            gpus=count_gpus(seen) if seen is not None else 0,
            worker=status.cluster_name or "",
            offered_to=status.nominated_cluster_names,
            created=workload.metadata.creation_timestamp or "",
        )


def count_gpus(workload: EngineWorkload) -> int:
    """Return the accelerators that all pods request."""
    return sum(
        amount * pod_set.count
        for pod_set in workload.pod_sets
        for resource, amount in pod_set.requests.items()
        if is_accelerator(resource)
    )
