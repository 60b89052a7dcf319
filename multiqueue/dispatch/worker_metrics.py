"""Metrics per worker, computed from the manager's Workloads as they change.

Only the API objects are counted, so a restart loses no gauge; and only while this manager leads, so
that two replicas do not count the same thing. Labels are workers and ClusterQueues.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import NoReturn

import structlog

from multiqueue.api import v1beta2 as api
from multiqueue.api.conditions import CheckState, WorkloadCondition
from multiqueue.api.v1beta2.meta import parse_time
from multiqueue.api.workload_state import find, has_quota, is_finished
from multiqueue.jobs.context import ManagerContext


class Rejection(StrEnum):
    """Why a worker did not take a Workload, or did not keep it."""

    REFUSED = "Refused"
    EVICTED = "Evicted"
    OUT_OF_SYNC = "OutOfSync"
    DELETED = "Deleted"
    LOST = "Lost"
    DRAINED = "Drained"
    OTHER = "Other"


_WORDS = (
    ("(OutOfSync)", Rejection.OUT_OF_SYNC),
    ("was evicted on cluster", Rejection.EVICTED),
    ("was deleted on cluster", Rejection.DELETED),
    ("has been out of reach", Rejection.LOST),
    ("is being drained", Rejection.DRAINED),
)
"""Parts of the check messages that the rules write when a worker gives a Workload up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerStanding:
    """The relation of a Workload to the workers.

    Attributes:
        queue: Its ClusterQueue.
        offered: The workers that it is offered to.
        runs_on: The worker that took it; empty for none.
        reserved_at: Since when it holds quota here.
        retried: The message of its check while that is in Retry; otherwise empty.
    """

    queue: str = ""
    offered: frozenset[str] = frozenset()
    runs_on: str = ""
    reserved_at: datetime | None = None
    retried: str = ""


NOWHERE = WorkerStanding()

log = structlog.get_logger("multiqueue.dispatch")


def read_standing(workload: api.Workload | None) -> WorkerStanding:
    """Return a Workload's relation to the workers; `NOWHERE` if it has ended or is gone."""
    if workload is None or is_finished(workload.status) or not has_quota(workload.status):
        return NOWHERE
    status = workload.status
    reserved = find(status, WorkloadCondition.QUOTA_RESERVED)
    retried = [c.message for c in status.admission_checks if c.state == CheckState.RETRY]
    return WorkerStanding(
        queue=status.admission.cluster_queue if status.admission is not None else "",
        offered=frozenset(status.nominated_cluster_names),
        runs_on=status.cluster_name or "",
        reserved_at=parse_time(reserved.last_transition_time) if reserved is not None else None,
        retried="; ".join(retried),
    )


def classify(message: str) -> Rejection:
    """Return the reason for a retry, from the message of the check."""
    return next((reason for words, reason in _WORDS if words in message), Rejection.OTHER)


class WorkerFigures:
    """Keeps the metrics per worker.

    Args:
        context: The manager's context.
    """

    name = "multikueue-figures"

    def __init__(self, context: ManagerContext) -> None:
        self._metrics = context.metrics
        self._clock = context.clock
        self._workloads = context.informers.workloads
        self._leads = False
        self._workloads.add_handler(self._on_workload)
        context.informers.multikueue_clusters.add_handler(self._on_cluster)

    async def run(self) -> NoReturn:
        """Count until cancelled, beginning with the existing Workloads."""
        await self._workloads.settled.wait()
        self._leads = True
        self._metrics.worker_offered_workloads.clear()
        self._metrics.worker_running_workloads.clear()
        try:
            for workload in self._workloads.store.list():
                try:
                    self._hold(read_standing(workload), 1)
                except Exception:  # one Workload must not stop the others
                    log.exception("workload not counted", workload=workload.metadata.key)
            await asyncio.get_running_loop().create_future()
        finally:
            self._leads = False
        raise AssertionError("it is cancelled")

    def _on_workload(self, old: api.Workload | None, new: api.Workload | None) -> None:
        if not self._leads:
            return
        before, after = read_standing(old), read_standing(new)
        if before == after:
            return
        self._hold(before, -1)
        self._hold(after, 1)
        metrics = self._metrics
        for cluster in before.offered - after.offered - {after.runs_on}:
            metrics.worker_wasted_copies_total.child(before.queue, cluster).inc()
        if after.runs_on and not before.runs_on and after.reserved_at is not None:
            seconds = (self._clock.now() - after.reserved_at).total_seconds()
            family = metrics.worker_admission_seconds
            family.child(after.queue, after.runs_on).observe(max(0.0, seconds))
        if before.runs_on and after.retried and not before.retried:
            reason = classify(after.retried)
            family_of_rejections = metrics.worker_rejections_total
            family_of_rejections.child(before.queue, before.runs_on, reason).inc()

    def _hold(self, standing: WorkerStanding, count: int) -> None:
        for cluster in standing.offered:
            self._metrics.worker_offered_workloads.child(cluster).inc(count)
        if standing.runs_on:
            self._metrics.worker_running_workloads.child(standing.runs_on).inc(count)

    def _on_cluster(
        self, old: api.MultiKueueCluster | None, new: api.MultiKueueCluster | None
    ) -> None:
        if new is None and old is not None:
            name, metrics = old.metadata.name, self._metrics
            metrics.worker_rejections_total.forget(cluster=name)
            metrics.worker_wasted_copies_total.forget(cluster=name)
            metrics.worker_admission_seconds.forget(cluster=name)
            metrics.worker_info.forget(cluster=name)
            metrics.stage_seconds.forget(cluster=name)
