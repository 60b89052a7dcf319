"""Notices in drains: a job may save its work before it leaves, as before a preemption (P-49, P-60).

The state of a notice is the condition ``multiqueue.dev/PreemptionNotice`` of its Workload, so a new
manager goes on with it. The annotation of the job where it runs follows the condition. The engine
does not count these notices: who leaves a worker makes room for nobody in particular.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime, timedelta

from multiqueue.api import v1beta2 as api
from multiqueue.api.conditions import PREEMPTION_NOTICE, NoticeEnd, Reason, find_condition
from multiqueue.api.names import LAST_CHECKPOINT
from multiqueue.api.notices import Notice, end_notice, give_notice, parse_notice
from multiqueue.api.workload_state import has_quota, is_evicted, is_finished
from multiqueue.drain.stop_time import find_notice_length
from multiqueue.jobs.context import ManagerContext
from multiqueue.jobs.informers import BY_CLUSTER
from multiqueue.jobs.references import workload_reference
from multiqueue.kube.errors import NotFound
from multiqueue.model.disruption_policy import (
    CLOCK_SKEW,
    parse_last_checkpoint,
)
from multiqueue.workers.connections.fleet import Fleet


def find_notice(workload: api.Workload) -> Notice | None:
    """Return the notice of a drain that is in force for a Workload."""
    notice = parse_notice(workload.status.conditions)
    if notice is None or not notice.is_of_drain or is_evicted(workload.status):
        return None
    return notice


def was_taken_back(workload: api.Workload, notice: Notice) -> bool:
    """Whether a notice that a Workload had is not in force any more, though nobody stopped it."""
    known = find_condition(workload.status.conditions, PREEMPTION_NOTICE)
    if known is None or known.status == "True" or is_evicted(workload.status):
        return False
    return known.transitioned_at.timestamp() >= notice.given_at


class DrainNotices:
    """Gives notices to the jobs that a drain moves, and says when they are over.

    Args:
        context: The manager's context.
        fleet: The workers, on which the jobs report that they saved their work.
    """

    def __init__(self, context: ManagerContext, fleet: Fleet) -> None:
        self._context = context
        self._fleet = fleet

    def length_for(self, workload: api.Workload) -> int:
        """Return the seconds of notice that a Workload gets; 0: it is stopped at once."""
        informers = self._context.informers
        return find_notice_length(
            workload,
            informers.cluster_queues.store.get,
            informers.cohorts.store.get,
            informers.disruption_policies.store.get,
        )

    async def give(self, workload: api.Workload, seconds: int, why: str) -> Notice | None:
        """Tell a Workload to save its work; return its notice, None if it runs no more.

        A notice that is in force stays as it is (P-52), that of a preemption, too.
        """
        now, uid = self._context.clock.now(), workload.metadata.uid
        is_new = False

        def change(newest: api.Workload) -> api.WorkloadStatus:
            nonlocal is_new
            status, is_new = newest.status, False
            if newest.metadata.uid != uid or not has_quota(status) or is_finished(status):
                return status
            if is_evicted(status) or parse_notice(status.conditions) is not None:
                return status
            is_new, by = True, now + timedelta(seconds=seconds)
            generation = newest.metadata.generation
            return give_notice(
                status, Reason.ADMISSION_CHECK, why, by=by, now=now, generation=generation
            )

        try:
            written = await self._context.writer.update_status(workload.metadata.key, change)
        except NotFound:
            return None
        told = find_condition(written.status.conditions, PREEMPTION_NOTICE)
        if is_new and told is not None:
            self._record(written, "Warning", "PreemptionNotice", told.message)
        notice = parse_notice(written.status.conditions)
        return None if notice is None or not notice.by or is_evicted(written.status) else notice

    async def take_back(self, workload: api.Workload, why: str) -> None:
        """Let a Workload run on that was told to leave by a drain."""
        now, words = self._context.clock.now(), f"goes on: {why}"
        is_over = False

        def change(newest: api.Workload) -> api.WorkloadStatus:
            nonlocal is_over
            is_over = True
            if newest.metadata.uid != workload.metadata.uid or find_notice(newest) is None:
                return newest.status
            is_over, generation = False, newest.metadata.generation
            return end_notice(
                newest.status, NoticeEnd.RESCINDED, words, now=now, generation=generation
            )

        try:
            written = await self._context.writer.update_status(workload.metadata.key, change)
        except NotFound:
            return
        if not is_over:
            self._record(written, "Normal", "PreemptionRescinded", words)
            self.count(written, NoticeEnd.RESCINDED)

    async def take_all_back(self, worker: str, why: str, *, but: Collection[str] = ()) -> None:
        """Let all Workloads of a worker but these run on that were told to leave it."""
        for workload in self._context.informers.workloads.store.by_index(BY_CLUSTER, worker):
            if workload.metadata.key in but or is_finished(workload.status):
                continue
            if find_notice(workload) is not None:
                await self.take_back(workload, why)

    def saved_at(self, workload: api.Workload, notice: Notice, now: datetime) -> datetime | None:
        """Return when a job saved its work since it was told; None if it did not."""
        session = self._fleet.find_session(workload.status.cluster_name or "")
        jobs = () if session is None else session.find_jobs(workload.metadata.key)
        given_at = datetime.fromtimestamp(notice.given_at, UTC)
        for _, job in jobs:
            text = (job["metadata"].get("annotations") or {}).get(LAST_CHECKPOINT)
            saved_at = parse_last_checkpoint(str(text)) if text else None
            if saved_at is not None and given_at <= saved_at <= now + timedelta(seconds=CLOCK_SKEW):
                return min(saved_at, now)
        return None

    def count(self, workload: api.Workload, end: NoticeEnd) -> None:
        """Count a notice that is over."""
        admission = workload.status.admission
        queue = admission.cluster_queue if admission is not None else ""
        self._context.metrics.notices_total.child(queue, end).inc()

    def _record(self, workload: api.Workload, kind: str, reason: str, words: str) -> None:
        self._context.recorder.event(workload_reference(workload), kind, reason, words)
