"""Counts of Workloads by their state that no queue knows: not admitted, by reason; and finished.

Each event of a Workload moves it from one count to another, so nothing is walked. Variants are not
counted: their parent is (E-171).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from multiqueue.api.conditions import Reason, WorkloadCondition
from multiqueue.api.config import Gate
from multiqueue.api.v1beta2 import Workload
from multiqueue.api.variants import parent_of
from multiqueue.api.workload_state import find
from multiqueue.controllers.metrics.local_queue import LocalQueueGauges
from multiqueue.jobs.context import ManagerContext


class _Counted(NamedTuple):
    """Where a Workload is counted; the labels of the two gauges."""

    finished: bool
    cluster_queue: tuple[str, ...]
    local_queue: tuple[str, ...]


class WorkloadCounts:
    """Keeps the gauges of unadmitted and of finished Workloads.

    Args:
        context: The manager's context.
        cluster_queue_of: Returns the ClusterQueue of a LocalQueue, by ``namespace/name``.
    """

    name = "workload-counts"

    def __init__(
        self, context: ManagerContext, cluster_queue_of: Callable[[str], str | None]
    ) -> None:
        self._informer = context.informers.workloads
        self._metrics = context.metrics
        self._local_gauges = LocalQueueGauges(context)
        self._cluster_queue_of = cluster_queue_of
        self._shows_unadmitted = context.config.gates.enabled(
            Gate.UNADMITTED_WORKLOADS_OBSERVABILITY
        )
        self._counted: dict[str, _Counted] = {}

    async def run(self) -> None:
        """Count until cancelled."""
        await self._informer.settled.wait()
        for workload in self._informer.store.list():
            self.on_workload(None, workload)
        self._informer.add_handler(self.on_workload)
        await asyncio.Event().wait()

    def on_workload(self, old: Workload | None, new: Workload | None) -> None:
        """Count a new state of a Workload."""
        workload = new or old
        assert workload is not None
        now = None if new is None else self._judge(new)
        before = self._counted.get(workload.metadata.uid)
        if now == before:
            return
        if before is not None:
            self._count(before, -1)
            del self._counted[workload.metadata.uid]
        if now is not None:
            self._count(now, 1)
            self._counted[workload.metadata.uid] = now

    def _judge(self, workload: Workload) -> _Counted | None:
        if parent_of(workload) is not None:
            return None
        finished = _is_true(workload, WorkloadCondition.FINISHED)
        if not finished and not self._is_unadmitted(workload):
            return None
        key = f"{workload.metadata.namespace}/{workload.spec.queue_name}"
        admission = workload.status.admission
        queue = admission.cluster_queue if admission else self._cluster_queue_of(key) or ""
        own = self._local_gauges.labels_of(workload) or ()
        if finished:
            return _Counted(finished=True, cluster_queue=(queue,), local_queue=own)
        reasons = _reasons(workload)
        return _Counted(
            finished=False,
            cluster_queue=(queue, *reasons),
            local_queue=(*own, queue, *reasons) if own else (),
        )

    def _is_unadmitted(self, workload: Workload) -> bool:
        return (
            self._shows_unadmitted
            and not workload.metadata.deletion_timestamp
            and not _is_true(workload, WorkloadCondition.ADMITTED)
        )

    def _count(self, counted: _Counted, change: int) -> None:
        metrics = self._metrics
        if counted.finished:
            families = (metrics.finished_workloads, metrics.local_queue_finished_workloads)
        else:
            families = (metrics.unadmitted_workloads, metrics.local_queue_unadmitted_workloads)
        for family, labels in zip(families, counted[1:], strict=True):
            if labels:
                family.child(*labels).inc(change)


def _reasons(workload: Workload) -> tuple[str, str]:
    """Return the reason of the condition Admitted, and that of QuotaReserved if it is false."""
    admitted = find(workload.status, WorkloadCondition.ADMITTED)
    reserved = find(workload.status, WorkloadCondition.QUOTA_RESERVED)
    reason = admitted.reason if admitted is not None else str(Reason.NO_RESERVATION)
    if reserved is None:
        return reason, str(Reason.PENDING_EVALUATION)
    return reason, "" if reserved.status == "True" else reserved.reason


def _is_true(workload: Workload, condition: WorkloadCondition) -> bool:
    found = find(workload.status, condition)
    return found is not None and found.status == "True"
