"""Writes evictions: victims of preemptions, their notices, and Workloads that the engine evicts.

Called synchronously after each cycle; a few writers write. The job framework sees Evicted, stops
the job and releases the quota (E-104). A victim whose admission still waits to be written is not
admitted, so nothing is written. A victim that left meanwhile needs no write, either. A victim that
already leaves for another reason keeps that reason. If a write fails, the engine is told
after a delay, which grows with each failure in a row, and decides again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

import structlog

from multiqueue.api.conditions import (
    ACTIVE,
    PREEMPTION_NOTICE,
    NoticeEnd,
    Reason,
    find_condition,
    is_true,
)
from multiqueue.api.disruptions import Stop, record_stop
from multiqueue.api.notices import end_notice
from multiqueue.api.v1beta2 import Workload, WorkloadStatus
from multiqueue.api.workload_state import evict, preempt
from multiqueue.controllers.disruption.notice_changes import GivenNotice, Rescission, can_leave
from multiqueue.controllers.plan_applier import PendingAdmission
from multiqueue.engine.plan import CyclePlan, Decision, EndNotice, Evict, Preempt, RescindNotice
from multiqueue.jobs.build_options import build_options
from multiqueue.jobs.context import ManagerContext
from multiqueue.jobs.references import workload_reference
from multiqueue.kube.backoff import exponential
from multiqueue.kube.errors import KubeError, NotFound
from multiqueue.model.build_workload import effective_priority

WRITERS = 32
"""Evictions written at a time. Deviates (E-102): upstream writes 8. With more, who preempts many on
a slow API server does not wait for them one after another."""
TAKE_BACK_SECONDS = 0.1
"""How long a victim keeps its quota whose admission waits to be written: as long as an eviction
takes. Two Workloads that take the same room from each other must not do so in an endless loop."""
RETRY_SECONDS = 0.1
MAX_RETRY_SECONDS = 30.0
"""Delay before the engine is told of a failure; doubles with each one in a row."""
HOLD_SECONDS = 1.0
"""How long the preemptor's Event waits for more victims. Their evictions are written within
milliseconds of each other on a quiet server, and within a second on a slow one."""

log = structlog.get_logger("multiqueue.scheduler")


@dataclass(frozen=True, slots=True, kw_only=True)
class Eviction:
    """A workload that has to leave; ``preemptor`` and its queue are "" without a preemptor.

    Shape: ``stop`` is written into its record with the eviction, where a policy governs its tree.
    ``end`` is how its notice ended, if it had one, ``seconds`` after it was given.
    """

    workload: str
    uid: str
    reason: Reason
    message: str
    preemptor: str = ""
    cluster_queue: str
    stop: Stop | None = None
    end: NoticeEnd | None = None
    seconds: int = 0

    def change(self, newest: Workload, now: datetime) -> WorkloadStatus:
        """Return the status with the eviction; the unchanged status if it has that already."""
        status, generation = newest.status, newest.metadata.generation
        if not can_leave(newest, self.uid):
            return status
        change = preempt if self.preemptor else evict
        status = change(status, self.reason, self.message, now=now, generation=generation)
        if self.end is not None:
            words = f"stopped after {self.seconds}s"
            status = end_notice(status, self.end, words, now=now, generation=generation)
        return status if self.stop is None else record_stop(status, self.stop)


Change = Eviction | GivenNotice | Rescission


class EvictionWriter:
    """Writes the evictions that the engine decided.

    Args:
        context: The manager's context.
        find_unwritten: Answers the admission of a workload that is decided but not yet written.
        take_back: Takes an admission back that waits to be written; answers whether it did.
        on_failed: Called with the key of each workload whose eviction could not be written.
    """

    name = "eviction-writer"

    def __init__(
        self,
        context: ManagerContext,
        *,
        find_unwritten: Callable[[str], PendingAdmission | None],
        take_back: Callable[[PendingAdmission], bool],
        on_failed: Callable[[str], object],
    ) -> None:
        self._context = context
        self._find_unwritten = find_unwritten
        self._take_back = take_back
        self._on_failed = on_failed
        self._build_options = build_options(context.config)
        # Needs no bound: each holder of quota is evicted at most once at a time.
        self._waiting: asyncio.Queue[Change] = asyncio.Queue()
        self._failures: dict[str, int] = {}

    def apply(self, plan: CyclePlan) -> None:
        """Start to write the evictions of a plan; never blocks."""
        for decision in plan.decisions:
            for change in self._changes(decision):
                admission = self._find_unwritten(change.workload)
                if admission is None:
                    self._waiting.put_nowait(change)
                else:
                    loop = asyncio.get_running_loop()
                    loop.call_later(TAKE_BACK_SECONDS, self._end_admission, change, admission)

    def _end_admission(self, change: Change, admission: PendingAdmission) -> None:
        """Take the admission back that a victim had; if it was written, the victim is evicted."""
        if self._take_back(admission):
            self._failures.pop(change.workload, None)
            log.info(
                "admission taken back before it was written",
                workload=change.workload,
                reason=change.message,
                preemptor=change.preemptor if isinstance(change, Eviction) else "",
            )
        elif admission.written is False:
            # It holds nothing, or what it got since then, which nobody asked for.
            self._failures.pop(change.workload, None)
            self._on_failed(change.workload)
        else:
            self._waiting.put_nowait(change)

    async def run(self) -> None:
        """Write until cancelled."""
        self._context.informers.workloads.add_handler(self._on_workload)
        async with asyncio.TaskGroup() as writers:
            for number in range(WRITERS):
                writers.create_task(self._write_all(), name=f"{self.name}-{number}")

    def _on_workload(self, old: Workload | None, new: Workload | None) -> None:
        if new is None and old is not None:
            self._failures.pop(old.metadata.key, None)

    def _changes(self, decision: Decision) -> Iterable[Change]:
        if isinstance(decision, Preempt):
            return _victims(decision, self._may_wait)
        if isinstance(decision, Evict):
            return [self._eviction(decision)]
        if isinstance(decision, EndNotice):
            return [_after_notice(decision)]
        if isinstance(decision, RescindNotice):
            named = {"workload": decision.workload, "uid": decision.uid}
            return [Rescission(**named, notice=decision.notice, message=decision.message)]
        return ()

    def _may_wait(self, victim: str) -> bool:
        """Whether a victim can be told to save its work: its worker has to be there (P-57)."""
        informers = self._context.informers
        workload = informers.workloads.store.get(victim)
        if workload is None or not workload.status.cluster_name:
            return workload is not None
        cluster = informers.multikueue_clusters.store.get(workload.status.cluster_name)
        return cluster is not None and is_true(cluster.status.conditions, ACTIVE)

    def _eviction(self, decision: Evict) -> Eviction:
        workload = self._context.informers.workloads.store.get(decision.workload)
        return Eviction(
            workload=decision.workload,
            uid=workload.metadata.uid if workload is not None else "",
            reason=decision.reason,
            message=decision.message,
            cluster_queue=decision.cluster_queue,
        )

    async def _write_all(self) -> None:
        while True:
            change = await self._waiting.get()
            try:
                await self._write(change)
            except asyncio.CancelledError:
                self._waiting.put_nowait(change)  # a second run starts with it
                raise
            except Exception:
                # An unexpected error for one Workload must not stop the writes of the others.
                log.exception("eviction not written, trying again", workload=change.workload)
                self._fail(change.workload)

    async def _write(self, change: Change) -> None:
        key, now = change.workload, self._context.clock.now()
        before: list[WorkloadStatus] = []

        def write(newest: Workload) -> WorkloadStatus:
            before[:] = [newest.status]
            return change.change(newest, now)

        if self._find_unwritten(key) is not None:
            # Its admission is not written yet; it can be evicted afterwards.
            self._fail(key)
            return
        try:
            written = await self._context.writer.update_status(key, write)
        except NotFound:
            self._failures.pop(key, None)
        except KubeError as error:
            log.warning("eviction not written, trying again", workload=key, error=str(error))
            self._fail(key)
        else:
            if before[0] != written.status:
                self._failures.pop(key, None)
                self._tell(change, written)
            elif not isinstance(change, Eviction):
                self._fail(key)  # it changed meanwhile, so that is decided again
            else:
                self._failures.pop(key, None)

    def _fail(self, key: str) -> None:
        self._failures[key] = failures = self._failures.get(key, 0) + 1
        wait = exponential(failures, base=RETRY_SECONDS, cap=MAX_RETRY_SECONDS)
        asyncio.get_running_loop().call_later(wait, self._on_failed, key)

    def _tell(self, change: Change, victim: Workload) -> None:
        if isinstance(change, Eviction):
            if change.end is not None:
                self._count_end(change.end, victim)
            if change.preemptor:
                self._tell_preemption(change, victim)
            return
        told = find_condition(victim.status.conditions, PREEMPTION_NOTICE)
        assert told is not None, "it was just written"
        reference, recorder = workload_reference(victim), self._context.recorder
        if isinstance(change, GivenNotice):
            recorder.event(reference, "Warning", "PreemptionNotice", told.message)
        else:
            recorder.event(reference, "Normal", "PreemptionRescinded", told.message)
            self._count_end(NoticeEnd.RESCINDED, victim)

    def _count_end(self, end: NoticeEnd, victim: Workload) -> None:
        admission = victim.status.admission
        queue = admission.cluster_queue if admission is not None else ""
        self._context.metrics.notices_total.child(queue, end).inc()

    def _tell_preemption(self, eviction: Eviction, victim: Workload) -> None:
        """Count the preemption, and record it on both Workloads."""
        recorder, metrics = self._context.recorder, self._context.metrics
        metrics.preempted_workloads_total.child(eviction.cluster_queue, eviction.reason).inc()
        if eviction.stop is not None:
            self._count_cost(eviction.stop, victim)
        preemptor = self._context.informers.workloads.store.get(eviction.preemptor)
        message = eviction.message
        if preemptor is not None:
            ranks = f"preemptor {self._rank(preemptor)}; preemptee {self._rank(victim)}"
            message = f"{message}; {ranks}"
            words = (
                f"Preempted workload {victim.metadata.key} (UID: {victim.metadata.uid})"
                f" due to {eviction.reason}"
            )
            self._tell_preemptor(workload_reference(preemptor), words)
        recorder.event(workload_reference(victim), "Normal", "Preempted", message)

    def _count_cost(self, stop: Stop, victim: Workload) -> None:
        admission = victim.status.admission
        queue = admission.cluster_queue if admission is not None else ""
        costs = self._context.metrics.preemption_cost_device_seconds_total
        costs.child(queue, stop.cause).inc(stop.cost)

    def _tell_preemptor(self, reference: dict[str, str], words: str) -> None:
        """Record a victim in the one Event about all victims of this preemption."""
        recorder, reason = self._context.recorder, "PreemptedWorkload"
        if earlier := recorder.take_back(reference, reason):
            words = f"{earlier}; {words}"
        recorder.event(reference, "Normal", reason, words, hold_seconds=HOLD_SECONDS)

    def _rank(self, workload: Workload) -> str:
        base = workload.spec.priority or 0
        effective = effective_priority(workload, self._build_options)
        return f"effective priority: {effective} (base: {base}, boost: {effective - base})"


def _victims(decision: Preempt, may_wait: Callable[[str], bool]) -> Iterator[Change]:
    for victim in decision.victims:
        if not victim.is_new:
            continue
        if victim.notice and may_wait(victim.workload):
            yield GivenNotice(
                workload=victim.workload,
                uid=victim.uid,
                reason=victim.reason,
                message=victim.message,
                by=victim.notice,
            )
        else:
            yield Eviction(
                workload=victim.workload,
                uid=victim.uid,
                reason=victim.reason,
                message=victim.message,
                preemptor="" if victim.reason is Reason.FLAVOR_MIGRATION else decision.workload,
                cluster_queue=decision.cluster_queue,
                stop=victim.stop,
            )


def _after_notice(decision: EndNotice) -> Eviction:
    return Eviction(
        workload=decision.workload,
        uid=decision.uid,
        reason=decision.reason,
        message=decision.message,
        preemptor=decision.preemptor,
        cluster_queue=decision.cluster_queue,
        stop=decision.stop,
        end=decision.end,
        seconds=decision.seconds,
    )
