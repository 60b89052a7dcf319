"""Events and metrics of Workloads, from their transitions: whoever wrote one, it is told once.

`find_transitions` is pure; `TransitionRecorder` compares what the informer had with what it gets.
What happened while no manager ran is not told again.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import datetime
from enum import Enum

from multiqueue.api.conditions import Reason, WorkloadCondition
from multiqueue.api.v1beta2 import Workload
from multiqueue.api.workload_state import DEACTIVATED_DUE_TO, find
from multiqueue.jobs.context import ManagerContext
from multiqueue.jobs.references import workload_reference

HOPELESS = frozenset({Reason.EXCEEDS_MAX_QUOTA, Reason.NO_MATCHING_FLAVOR})
"""Why a Workload waits that no other Workload's end will change."""


class Step(Enum):
    """What can happen to a Workload that is worth telling."""

    QUOTA_RESERVED = WorkloadCondition.QUOTA_RESERVED
    ADMITTED = WorkloadCondition.ADMITTED
    EVICTED = WorkloadCondition.EVICTED
    PREEMPTED = WorkloadCondition.PREEMPTED
    FINISHED = WorkloadCondition.FINISHED
    PENDING = "Pending"


@dataclass(frozen=True, slots=True, kw_only=True)
class Transition:
    """One thing that happened."""

    step: Step
    reason: str
    message: str
    at: datetime


def find_transitions(old: Workload, new: Workload) -> list[Transition]:
    """Return what happened between two states, in the order in which it must have happened."""
    found: list[Transition] = []
    for step in (
        Step.QUOTA_RESERVED,
        Step.ADMITTED,
        Step.EVICTED,
        Step.PREEMPTED,
        Step.FINISHED,
    ):
        before = find(old.status, WorkloadCondition(step.value))
        after = find(new.status, WorkloadCondition(step.value))
        if after is None or after.status != "True":
            continue
        again = before is not None and before.status == "True"
        if again and not (step is Step.EVICTED and before and before.reason != after.reason):
            continue
        found.append(
            Transition(
                step=step, reason=after.reason, message=after.message, at=after.transitioned_at
            )
        )
    before = find(old.status, WorkloadCondition.QUOTA_RESERVED)
    after = find(new.status, WorkloadCondition.QUOTA_RESERVED)
    if after is not None and after.status == "False":
        was = (before.status, before.reason) if before else None
        if was != (after.status, after.reason):
            found.append(
                Transition(
                    step=Step.PENDING,
                    reason=after.reason,
                    message=after.message,
                    at=after.transitioned_at,
                )
            )
    return found


def queued_at(workload: Workload) -> datetime:
    """When the Workload last began to wait: its creation, or its requeuing."""
    requeued = find(workload.status, WorkloadCondition.REQUEUED)
    if requeued is not None and requeued.status == "True":
        return requeued.transitioned_at
    return workload.metadata.created_at


def split_eviction(reason: str) -> tuple[str, str]:
    """Return reason and underlying cause of an eviction."""
    if reason.startswith(DEACTIVATED_DUE_TO):
        return (Reason.DEACTIVATED, reason.removeprefix(DEACTIVATED_DUE_TO))
    return (reason, "")


class TransitionRecorder:
    """Records events and metrics while it runs."""

    name = "workload-events"

    def __init__(self, context: ManagerContext) -> None:
        self._context = context

    async def run(self) -> None:
        """Record until cancelled."""
        informer = self._context.informers.workloads
        await informer.settled.wait()
        informer.add_handler(self._on_workload)
        await asyncio.Event().wait()

    def _on_workload(self, old: Workload | None, new: Workload | None) -> None:
        # The first sight of a Workload is no transition: it may have happened long ago.
        if old is None or new is None:
            return
        for transition in find_transitions(old, new):
            self._record(old, new, transition)

    def _record(self, old: Workload, new: Workload, transition: Transition) -> None:
        metrics = self._context.metrics
        reference = new.spec.priority_class_ref
        priority = reference.name if reference else ""
        admission = new.status.admission or old.status.admission
        queue = admission.cluster_queue if admission else ""
        match transition.step:
            case Step.QUOTA_RESERVED:
                waited = _seconds(queued_at(old), transition.at)
                metrics.quota_reserved_workloads_total.child(queue, priority).inc()
                metrics.quota_reserved_wait_time_seconds.child(queue, priority).observe(waited)
                words = f"{transition.message}, wait time since queued was {waited:.0f}s"
                self._event(new, "QuotaReserved", words)
            case Step.ADMITTED:
                reserved = find(new.status, WorkloadCondition.QUOTA_RESERVED)
                waited = _seconds(
                    reserved.transitioned_at if reserved else transition.at, transition.at
                )
                metrics.admitted_workloads_total.child(queue, priority).inc()
                metrics.admission_wait_time_seconds.child(queue, priority).observe(
                    _seconds(queued_at(old), transition.at)
                )
                self._event(
                    new,
                    "Admitted",
                    f"Admitted by ClusterQueue {queue}, wait time since reservation was"
                    f" {waited:.0f}s",
                )
            case Step.EVICTED:
                reason, cause = split_eviction(transition.reason)
                metrics.evicted_workloads_total.child(queue, reason, cause, priority).inc()
                self._event(new, f"EvictedDueTo{transition.reason}", transition.message)
            case Step.PREEMPTED:
                self._event(new, "Preempted", transition.message)
            case Step.FINISHED:
                metrics.finished_workloads_total.child(queue, priority).inc()
            case Step.PENDING:
                self._event(new, transition.reason, transition.message, kind="Warning")
                if transition.reason in HOPELESS:
                    self._tell_owner(new, transition)

    def _tell_owner(self, workload: Workload, transition: Transition) -> None:
        """Say on the job itself that waiting will not help: that is where its user looks."""
        for owner in workload.metadata.owner_references:
            if owner.controller:
                reference = {
                    "apiVersion": owner.api_version,
                    "kind": owner.kind,
                    "namespace": workload.metadata.namespace,
                    "name": owner.name,
                    "uid": owner.uid,
                }
                self._context.recorder.event(
                    reference, "Warning", transition.reason, transition.message
                )

    def _event(self, workload: Workload, reason: str, message: str, kind: str = "Normal") -> None:
        self._context.recorder.event(workload_reference(workload), kind, reason, message)


def _seconds(begin: datetime, end: datetime) -> float:
    return max(0.0, (end - begin).total_seconds())
