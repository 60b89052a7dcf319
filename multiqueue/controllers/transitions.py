"""Events and metrics of Workloads, made from their transitions: each one once, whoever wrote it.

`find_transitions` is pure; `TransitionRecorder` compares an informer's old state with the new one.
Transitions without a running manager are not reported later. `evictions` reports preemptions,
because it knows both Workloads. Quota and admission that follow each other closely become one
Event, because an Event is a write, too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import Enum

from multiqueue.api import names
from multiqueue.api.conditions import CheckState, Reason, WorkloadCondition
from multiqueue.api.config import Gate
from multiqueue.api.slices import is_replaced
from multiqueue.api.v1beta2 import SchedulingStatsEviction, Workload
from multiqueue.api.variants import is_parent, parent_of
from multiqueue.api.workload_checks import checks_in
from multiqueue.api.workload_state import (
    DEACTIVATED_DUE_TO,
    find,
    has_quota,
    is_admitted,
    is_evicted,
)
from multiqueue.controllers.metrics.local_queue import LocalQueueGauges
from multiqueue.jobs.context import ManagerContext
from multiqueue.jobs.references import owner_references, workload_reference

HOLD_SECONDS = 3.0
"""How long the Event of reserved quota waits for the admission, to become one Event with it."""


class TransitionKind(Enum):
    """Transitions of a Workload that are reported."""

    QUOTA_RESERVED = WorkloadCondition.QUOTA_RESERVED
    ADMITTED = WorkloadCondition.ADMITTED
    EVICTED = WorkloadCondition.EVICTED
    PODS_READY = WorkloadCondition.PODS_READY
    FINISHED = WorkloadCondition.FINISHED
    PENDING = "Pending"


_OF_QUOTA = frozenset(
    {TransitionKind.QUOTA_RESERVED, TransitionKind.ADMITTED, TransitionKind.EVICTED}
)
"""These are counted for variants, not for their parent."""
_OF_JOBS = frozenset({TransitionKind.PODS_READY, TransitionKind.FINISHED})
"""These are counted for the parent, not for its variants."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transition:
    """One transition of a Workload."""

    step: TransitionKind
    reason: str
    message: str
    at: datetime


def find_transitions(old: Workload, new: Workload) -> list[Transition]:
    """Return the transitions between two states, in the order in which they must have happened."""
    found: list[Transition] = []
    for step in (
        TransitionKind.QUOTA_RESERVED,
        TransitionKind.ADMITTED,
        TransitionKind.PODS_READY,
        TransitionKind.EVICTED,
        TransitionKind.FINISHED,
    ):
        before = find(old.status, WorkloadCondition(step.value))
        after = find(new.status, WorkloadCondition(step.value))
        if after is None or after.status != "True":
            continue
        again = before is not None and before.status == "True"
        if again and not (
            step is TransitionKind.EVICTED and before and before.reason != after.reason
        ):
            continue
        found.append(
            Transition(
                step=step, reason=after.reason, message=after.message, at=after.transitioned_at
            )
        )
    wait = _find_wait(old, new)
    return [*found, wait] if wait is not None else found


def _find_wait(old: Workload, new: Workload) -> Transition | None:
    """Return a new reason for waiting, unless the Event of an eviction has said it already."""
    before = find(old.status, WorkloadCondition.QUOTA_RESERVED)
    after = find(new.status, WorkloadCondition.QUOTA_RESERVED)
    if after is None or after.status != "False" or after.reason == Reason.DEACTIVATED:
        return None
    if before is not None and (before.status == "True" or before.reason == after.reason):
        return None
    return Transition(
        step=TransitionKind.PENDING,
        reason=after.reason,
        message=after.message,
        at=after.transitioned_at,
    )


def find_progress(workload: Workload, is_ignored: Callable[[str], bool]) -> str:
    """Return what pending checks say while they hold a job with quota back; empty otherwise.

    Args:
        workload: The Workload of the job.
        is_ignored: Whether the check with this name is left out.
    """
    status = workload.status
    if not has_quota(status) or is_admitted(status) or is_evicted(status):
        return ""
    pending = checks_in(status, CheckState.PENDING)
    return "; ".join(
        f"{check.name}: {check.message}"
        for check in pending
        if check.message and not is_ignored(check.name)
    )


def queued_at(workload: Workload) -> datetime:
    """Return when the Workload last began to wait: its creation, or its requeuing."""
    requeued = find(workload.status, WorkloadCondition.REQUEUED)
    if requeued is not None and requeued.status == "True":
        return requeued.transitioned_at
    return workload.metadata.created_at


def split_eviction(reason: str) -> tuple[str, str]:
    """Return reason and underlying cause of an eviction."""
    if reason.startswith(DEACTIVATED_DUE_TO):
        return (Reason.DEACTIVATED, reason.removeprefix(DEACTIVATED_DUE_TO))
    return (reason, "")


def find_counted(old: Workload, new: Workload) -> SchedulingStatsEviction | None:
    """Return the eviction that was counted between two states."""
    before = old.status.scheduling_stats.evictions if old.status.scheduling_stats else ()
    after = new.status.scheduling_stats.evictions if new.status.scheduling_stats else ()
    counts = {(entry.reason, entry.underlying_cause): entry.count for entry in before}
    return next(
        (e for e in after if e.count > counts.get((e.reason, e.underlying_cause), 0)),
        None,
    )


class TransitionRecorder:
    """Records events and metrics while it runs.

    Args:
        context: The manager's context.
        cohorts_above: Returns the cohorts above a ClusterQueue.
    """

    name = "workload-events"

    def __init__(
        self,
        context: ManagerContext,
        *,
        cohorts_above: Callable[[str], Iterable[str]] = lambda _: (),
    ) -> None:
        self._context = context
        self._cohorts_above = cohorts_above
        self._local_gauges = LocalQueueGauges(context)

    async def run(self) -> None:
        """Record until cancelled."""
        informer = self._context.informers.workloads
        await informer.settled.wait()
        informer.add_handler(self.on_workload)
        await asyncio.Event().wait()

    def on_workload(self, old: Workload | None, new: Workload | None) -> None:
        """Record what changed between two states of a Workload."""
        # The first state of a Workload is no transition: it may be old.
        if old is None or new is None:
            return
        self._released(old, new)
        if _is_gated(old) and not (_is_gated(new) or _gates(new)):
            said = "Admission gate cleared, workload is now admissible"
            self._event(new, "AdmissionGateCleared", said)
        self._tell_progress(old, new)
        transitions = find_transitions(old, new)
        if parent_of(new) is not None:
            transitions = [t for t in transitions if t.step not in _OF_JOBS]
        reserved = next((t for t in transitions if t.step is TransitionKind.QUOTA_RESERVED), None)
        at_once = any(t.step is TransitionKind.ADMITTED for t in transitions)
        for transition in transitions:
            if transition.step in _OF_QUOTA and is_parent(new):
                self._tell_parent(new, transition)
            elif transition.step is TransitionKind.QUOTA_RESERVED:
                self._reserved(old, new, transition, silent=at_once)
            else:
                self._report(old, new, transition, reserved)

    def _tell_progress(self, old: Workload, new: Workload) -> None:
        """Write on the job what its checks wait for, because its user looks there.

        Checks of MultiKueue are left out: dispatch records its own Events on the job.
        """
        known = self._context.informers.admission_checks.store

        def dispatches(name: str) -> bool:
            check = known.get(name)
            return check is not None and check.spec.controller_name == names.MULTIKUEUE_CONTROLLER

        said = find_progress(new, dispatches)
        if said and said != find_progress(old, dispatches):
            for job in owner_references(new):
                self._context.recorder.event(job, "Normal", "UpdatedAdmissionCheck", said)

    def _report(
        self, old: Workload, new: Workload, transition: Transition, reserved: Transition | None
    ) -> None:
        match transition.step:
            case TransitionKind.ADMITTED:
                self._admitted(old, new, transition, reserved)
            case TransitionKind.PODS_READY:
                self._ready(old, new, transition)
            case TransitionKind.EVICTED:
                self._evicted(old, new, transition)
            case TransitionKind.FINISHED:
                self._finished(old, new)
            case TransitionKind.PENDING:
                self._pending(new, transition)

    def _reserved(
        self, old: Workload, new: Workload, transition: Transition, *, silent: bool
    ) -> None:
        metrics, labels = self._context.metrics, (_queue(old, new), _priority(new))
        waited = _seconds(queued_at(old), transition.at)
        metrics.quota_reserved_workloads_total.child(*labels).inc()
        metrics.quota_reserved_wait_time_seconds.child(*labels).observe(waited)
        if (own := self._own_labels(new)) is not None:
            metrics.local_queue_quota_reserved_workloads_total.child(*own).inc()
            metrics.local_queue_quota_reserved_wait_time_seconds.child(*own).observe(waited)
        if not silent:
            words = _reserved_words(old, transition)
            self._event(new, "QuotaReserved", words, hold_seconds=HOLD_SECONDS)

    def _admitted(
        self, old: Workload, new: Workload, transition: Transition, at_once: Transition | None
    ) -> None:
        metrics, labels = self._context.metrics, (_queue(old, new), _priority(new))
        waited = _seconds(queued_at(old), transition.at)
        metrics.admitted_workloads_total.child(*labels).inc()
        metrics.admission_wait_time_seconds.child(*labels).observe(waited)
        own = self._own_labels(new)
        if own is not None:
            metrics.local_queue_admitted_workloads_total.child(*own).inc()
            metrics.local_queue_admission_wait_time_seconds.child(*own).observe(waited)
        reserved = find(new.status, WorkloadCondition.QUOTA_RESERVED)
        since = reserved.transitioned_at if reserved else transition.at
        checked = _seconds(since, transition.at)
        metrics.admission_checks_wait_time_seconds.child(*labels).observe(checked)
        if own is not None:
            metrics.local_queue_admission_checks_wait_time_seconds.child(*own).observe(checked)
        self._count_in_cohorts(*labels)
        words = (
            f"Admitted by ClusterQueue {labels[0]}, wait time since reservation was {checked:.0f}s"
        )
        recorder = self._context.recorder
        earlier = recorder.take_back(workload_reference(new), "QuotaReserved")
        if at_once is not None:
            earlier = _reserved_words(old, at_once)
        self._event(new, "Admitted", f"{words}; {earlier}" if earlier else words)

    def _tell_parent(self, parent: Workload, transition: Transition) -> None:
        """Tell of a parent what its variants are counted for (E-171)."""
        if transition.step is TransitionKind.ADMITTED:
            self._event(parent, "Admitted", transition.message)
        elif transition.step is TransitionKind.EVICTED:
            self._event(parent, f"EvictedDueTo{transition.reason}", transition.message)

    def _ready(self, old: Workload, new: Workload, transition: Transition) -> None:
        """Count the first time that all pods were ready after an admission."""
        if transition.reason != Reason.STARTED:
            return
        metrics, labels = self._context.metrics, (_queue(old, new), _priority(new))
        own, waited = self._own_labels(new), _seconds(queued_at(new), transition.at)
        metrics.ready_wait_time_seconds.child(*labels).observe(waited)
        if own is not None:
            metrics.local_queue_ready_wait_time_seconds.child(*own).observe(waited)
        admitted = find(new.status, WorkloadCondition.ADMITTED)
        if admitted is None:
            return
        started = _seconds(admitted.transitioned_at, transition.at)
        metrics.admitted_until_ready_wait_time_seconds.child(*labels).observe(started)
        metrics.stage_seconds.child("start", new.status.cluster_name or "").observe(started)
        if own is not None:
            metrics.local_queue_admitted_until_ready_wait_time_seconds.child(*own).observe(started)

    def _evicted(self, old: Workload, new: Workload, transition: Transition) -> None:
        metrics, queue, priority = self._context.metrics, _queue(old, new), _priority(new)
        reason, cause = split_eviction(transition.reason)
        counted = find_counted(old, new)
        if counted is not None:
            reason, cause = counted.reason, counted.underlying_cause
        labels = (queue, reason, cause, priority)
        metrics.evicted_workloads_total.child(*labels).inc()
        if (own := self._local_gauges.labels_of(new)) is not None:
            own_evicted = metrics.local_queue_evicted_workloads_total
            own_evicted.child(*own, reason, cause, priority).inc()
        if counted is not None and counted.count == 1:
            metrics.evicted_workloads_once_total.child(*labels).inc()
        ready = find(old.status, WorkloadCondition.PODS_READY)
        if ready is not None and ready.status == "True":
            metrics.pods_ready_to_evicted_time_seconds.child(queue, reason, cause).observe(
                _seconds(ready.transitioned_at, transition.at)
            )
        self._event(new, f"EvictedDueTo{transition.reason}", transition.message)

    def _finished(self, old: Workload, new: Workload) -> None:
        metrics = self._context.metrics
        metrics.finished_workloads_total.child(_queue(old, new), _priority(new)).inc()
        finished = find(new.status, WorkloadCondition.FINISHED)
        if finished is not None and is_replaced(new.status):
            metrics.replaced_workload_slices_total.child(_queue(old, new)).inc()
            self._event(new, finished.reason, finished.message)
        own = self._own_labels(new)
        if own is not None:
            metrics.local_queue_finished_workloads_total.child(*own).inc()
        admitted = find(new.status, WorkloadCondition.ADMITTED)
        if finished is None or admitted is None or admitted.status != "True":
            return
        ran = _seconds(admitted.transitioned_at, finished.transitioned_at)
        metrics.execution_time_seconds.child(_queue(old, new), _priority(new)).observe(ran)
        if own is not None:
            metrics.local_queue_execution_time_seconds.child(*own).observe(ran)

    def _released(self, old: Workload, new: Workload) -> None:
        """Measure how long an evicted Workload took to give its quota back."""
        evicted = find(new.status, WorkloadCondition.EVICTED)
        if not has_quota(old.status) or has_quota(new.status) or evicted is None:
            return
        released = find(new.status, WorkloadCondition.QUOTA_RESERVED)
        if evicted.status == "True" and released is not None:
            reason, _ = split_eviction(evicted.reason)
            self._context.metrics.workload_eviction_latency_seconds.child(
                _queue(old, new), reason
            ).observe(_seconds(evicted.transitioned_at, released.transitioned_at))

    def _count_in_cohorts(self, queue: str, priority: str) -> None:
        if not self._context.config.gates.enabled(Gate.METRICS_FOR_COHORTS):
            return
        for cohort in self._cohorts_above(queue):
            self._context.metrics.cohort_subtree_admitted_workloads_total.child(
                cohort, priority
            ).inc()

    def _own_labels(self, workload: Workload) -> tuple[str, str, str] | None:
        """Return LocalQueue and priority class, if the LocalQueue has metrics of its own."""
        own = self._local_gauges.labels_of(workload)
        return None if own is None else (*own, _priority(workload))

    def _pending(self, new: Workload, transition: Transition) -> None:
        if transition.reason == Reason.ADMISSION_GATED:
            self._event(new, "AdmissionGated", f"Workload admission is gated by: {_gates(new)}")
        else:
            self._event(new, transition.reason, transition.message, kind="Warning")

    def _event(
        self,
        workload: Workload,
        reason: str,
        message: str,
        kind: str = "Normal",
        *,
        hold_seconds: float = 0.0,
    ) -> None:
        self._context.recorder.event(
            workload_reference(workload), kind, reason, message, hold_seconds=hold_seconds
        )


def _seconds(begin: datetime, end: datetime) -> float:
    return max(0.0, (end - begin).total_seconds())


def _gates(workload: Workload) -> str:
    return workload.metadata.annotations.get(names.ADMISSION_GATED_BY, "")


def _is_gated(workload: Workload) -> bool:
    condition = find(workload.status, WorkloadCondition.QUOTA_RESERVED)
    return condition is not None and condition.reason == Reason.ADMISSION_GATED


def _queue(old: Workload, new: Workload) -> str:
    admission = new.status.admission or old.status.admission
    return admission.cluster_queue if admission else ""


def _priority(workload: Workload) -> str:
    reference = workload.spec.priority_class_ref
    return reference.name if reference else ""


def _reserved_words(old: Workload, reserved: Transition) -> str:
    waited = _seconds(queued_at(old), reserved.at)
    return f"{reserved.message}, wait time since queued was {waited:.0f}s"
