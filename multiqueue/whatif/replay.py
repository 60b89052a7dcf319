"""Replays a snapshot: the engine decides at the snapshot's time until nothing changes. Pure.

The engine is the manager's own, with its DisruptionPolicies. An eviction takes no time here, and
neither does a notice before it: a preempted Workload is in its queue again at once. Nothing else
happens: no job ends, none arrives, no backoff passes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple

import msgspec

from multiqueue.api import v1beta2 as api
from multiqueue.api.conditions import Reason, WorkloadCondition, find_condition
from multiqueue.api.disruptions import Stop as RecordedStop
from multiqueue.api.disruptions import record_stop
from multiqueue.api.serde import decode
from multiqueue.api.workload_state import (
    complete_eviction,
    evict,
    has_quota,
    is_finished,
    preempt,
    reserve_quota,
    sync_admitted,
)
from multiqueue.engine.engine import Engine
from multiqueue.engine.plan import Admit, Decision, EndNotice, Evict, PlacePods, Preempt
from multiqueue.model.build_workload import admission_to_wire
from multiqueue.model.resources import is_accelerator
from multiqueue.model.workload import Admission, Workload
from multiqueue.visibility.explanation_status import add_words, build_status
from multiqueue.visibility.positions import Positions
from multiqueue.whatif.fleet import count_worker_gpus
from multiqueue.whatif.outcome import (
    ReplayedWorkload,
    ReplayFate,
    ReplayOutcome,
    Stop,
    sum_queues,
)
from multiqueue.whatif.snapshot import Snapshot, SnapshotError
from multiqueue.whatif.snapshot_engine import SnapshotEngine

MAX_STOPS = 3
"""How often a replay stops the same Workload; more means that the decisions go round in circles."""


class StopWords(NamedTuple):
    """For which Workload one is stopped, and why; ``notice`` is in seconds."""

    by: str
    reason: str
    message: str
    notice: int = 0


def list_holders(snapshot: Snapshot) -> dict[str, api.Workload]:
    """Return the unfinished Workloads that have quota, by key."""
    found = snapshot.workloads().items()
    return {key: obj for key, obj in found if has_quota(obj.status) and not is_finished(obj.status)}


def replay(snapshot: Snapshot, original: Snapshot | None = None) -> ReplayOutcome:
    """Decide until nothing changes.

    Args:
        snapshot: The objects; not changed.
        original: The objects before the change that is tried. A Workload that had quota there and
            has none here counts as stopped.

    Raises:
        SnapshotError: the configuration cannot be read, or the engine failed.
    """
    run = ReplayRun(snapshot, list_holders(original or snapshot))
    outcome = run.decide()
    run.explain(outcome, outcome.workloads)
    return outcome


class ReplayRun:
    """One replay.

    Args:
        snapshot: The objects; not changed.
        held: The Workloads that had quota before the change that is tried.

    Attributes:
        engine: The engine that decides.
        left_out: The objects that cannot be read, each in a sentence.
        problem: Why it ended early; empty if it did not.

    Raises:
        SnapshotError: the configuration cannot be read.
    """

    def __init__(self, snapshot: Snapshot, held: Mapping[str, api.Workload]) -> None:
        self._snapshot = snapshot
        self._now = snapshot.taken_at
        self.problem = ""
        self._held = held
        self._stops: dict[str, Stop] = {}
        self._stop_counts: Counter[str] = Counter()
        self._admissions: dict[str, Admit] = {}
        self._workloads: dict[str, api.Workload] = {}
        self._built: dict[str, Workload] = {}
        workloads = snapshot.workloads()
        self._feed = SnapshotEngine(snapshot, workloads)
        self.engine = self._feed.engine
        self.left_out = self._feed.left_out
        self._orders: dict[str, Positions] = {}
        unfinished = [
            (key, each) for key, each in workloads.items() if not is_finished(each.status)
        ]
        # Holders first: no cycle runs in between, but queues need not be sorted twice.
        for key, workload in sorted(unfinished, key=lambda item: not has_quota(item[1].status)):
            # The replay does not wait for an eviction that has begun.
            settled = complete_eviction(workload.status, now=self._now)
            self._write(key, msgspec.structs.replace(workload, status=settled))
            if key in held and not has_quota(settled):
                self._note_evicted(key, settled)

    def decide(self) -> ReplayOutcome:
        """Run cycles until nothing changes; return the outcome without why Workloads wait.

        Raises:
            SnapshotError: the engine failed.
        """
        self._run_cycles()
        return ReplayOutcome(
            workloads=self._describe_all(),
            queues=sum_queues(self.engine, self._snapshot.of("ClusterQueue")),
            worker_gpus=count_worker_gpus(self._snapshot),
            problem="; ".join(filter(None, (*self.left_out, self.problem))),
        )

    def explain(self, outcome: ReplayOutcome, keys: Iterable[str]) -> None:
        """Add to an outcome of this replay why some of its Workloads wait.

        A reason takes longer than the decision, and what-ifs tell only those of few Workloads.
        """
        for key in list(keys):
            found = outcome.workloads.get(key)
            if found is not None and self._built[key].reservation is None:
                outcome.workloads[key] = self._add_why(found)

    def _run_cycles(self) -> None:
        while not self.problem:
            plan = self.engine.run_cycle(self._now)
            for failure in plan.failures:
                raise SnapshotError(
                    f"the engine failed on the cohort tree {failure.tree}: {failure.error!r}"
                ) from failure.error
            for decision in plan.decisions:
                self._apply(decision)
            next_at = self.engine.next_cycle_at(self._now)
            if next_at is None or next_at > self._now:
                return

    def _write(self, key: str, workload: api.Workload) -> None:
        self._workloads[key] = workload
        self._built[key] = self._feed.upsert(workload)

    def _apply(self, decision: Decision) -> None:
        if isinstance(decision, Admit):
            self._admissions.pop(decision.workload, None)
            self._admissions[decision.workload] = decision
            self._reserve(decision.workload, decision.admission, admitted=decision.admitted)
            if decision.replaces:
                self._workloads.pop(decision.replaces, None)
                self.engine.delete_workload(decision.replaces, self._now)
        elif isinstance(decision, PlacePods):
            self._reserve(decision.workload, decision.admission, admitted=True)
            self.engine.places_written(decision.workload, decision.admission)
        elif isinstance(decision, Preempt):
            for victim in decision.victims:
                notice = victim.notice - self._now.timestamp() if victim.notice else 0
                why = StopWords(decision.workload, victim.reason, victim.message, round(notice))
                self._stop(victim.workload, why, victim.stop)
        elif isinstance(decision, EndNotice):
            why = StopWords(decision.preemptor, decision.reason, decision.message)
            self._stop(decision.workload, why, decision.stop)
        elif isinstance(decision, Evict):
            self._stop(decision.workload, StopWords("", decision.reason, decision.message))

    def _reserve(self, key: str, admission: Admission, *, admitted: bool) -> None:
        workload = self._workloads[key]
        wire = decode(api.Admission, admission_to_wire(admission))
        status = reserve_quota(workload.status, wire, now=self._now)
        if admitted:
            status = sync_admitted(status, now=self._now)
        self._write(key, msgspec.structs.replace(workload, status=status))

    def _stop(self, key: str, why: StopWords, record: RecordedStop | None = None) -> None:
        """Take the quota of a Workload, and queue it again; budgets count the record."""
        before = self._workloads[key]
        if not has_quota(before.status):
            return
        self._admissions.pop(key, None)
        self._stop_counts[key] += 1
        if self._stop_counts[key] > MAX_STOPS:
            self.problem = (
                "the replay ended early: the decisions go round in circles, "
                f"{why.by or key} stops {key} every time"
            )
            return
        change = preempt if why.by else evict
        status = change(before.status, Reason(why.reason), why.message, now=self._now)
        if record is not None:
            status = record_stop(status, record)
        status = complete_eviction(status, now=self._now)
        if key in self._held and key not in self._stops:
            self._note_stop(key, why)
        self._write(key, msgspec.structs.replace(before, status=status))

    def _note_evicted(self, key: str, status: api.WorkloadStatus) -> None:
        """Note a Workload that the tried change itself stops, or whose eviction has begun."""
        evicted = find_condition(status.conditions, WorkloadCondition.EVICTED)
        assert evicted is not None, "nothing else takes quota"
        self._note_stop(key, StopWords("", evicted.reason, evicted.message))

    def _note_stop(self, key: str, why: StopWords) -> None:
        before = self._held[key]
        self._stops[key] = Stop(
            by=why.by,
            reason=why.reason,
            message=why.message,
            notice_seconds=why.notice,
            lost_seconds=_run_seconds(before.status, self._now),
            released=self._usage(before),
        )

    def _usage(self, workload: api.Workload) -> dict[tuple[str, str], int]:
        held = self._feed.build(workload).reservation
        return held.admission.usage() if held is not None else {}

    # ------------------------------------------------------------ the result

    def _describe_all(self) -> dict[str, ReplayedWorkload]:
        """Return what became of each Workload, by key."""
        queues = self.engine.parts.pending
        self._orders = {name: read_order(self.engine, name) for name in sorted(queues)}
        numbers = {key: number for number, key in enumerate(self._admissions, start=1)}
        return {
            key: self._describe(key, workload, numbers.get(key))
            for key, workload in sorted(self._workloads.items())
        }

    def _describe(self, key: str, obj: api.Workload, order: int | None) -> ReplayedWorkload:
        built = self._built[key]
        target = self.engine.local_queue_target(built.queue) or ""
        told = ReplayedWorkload(
            key=key,
            job=_job_of(obj),
            queue=obj.spec.queue_name,
            cluster_queue=target,
            priority=built.priority,
            gpus=_count_gpus(built),
            created_at=built.created_at,
            fate=self._fate(key, obj),
            stop=self._stops.get(key),
        )
        if built.reservation is None:
            return self._add_reason(told)
        admitted = self._admissions.get(key)
        held = built.reservation.admission
        flavors = {flavor for flavor, _ in held.usage()}
        return replace(
            told,
            cluster_queue=held.cluster_queue,
            order=order,
            flavors=tuple(sorted(flavors)),
            borrows=admitted is not None and admitted.borrowing > 0,
            worker=obj.status.cluster_name or "",
        )

    def _fate(self, key: str, obj: api.Workload) -> ReplayFate:
        stopped = key in self._stops
        if has_quota(obj.status):
            kept = ReplayFate.KEEPS if key in self._held else ReplayFate.STARTS
            return ReplayFate.RESTARTS if stopped else kept
        return ReplayFate.STOPS if stopped else ReplayFate.WAITS

    def _add_reason(self, told: ReplayedWorkload) -> ReplayedWorkload:
        """Add for which reason a Workload waits, and its place."""
        explanation = self.engine.workload_reason(told.key)
        if explanation is None:
            return replace(told, why="it is in no queue: it is inactive, or its LocalQueue is")
        order = self._orders.get(told.cluster_queue)
        place = order.places.get(told.key) if order is not None else None
        return replace(
            told,
            position=place + 1 if place is not None else None,
            reason=str(explanation.reason),
        )

    def _add_why(self, told: ReplayedWorkload) -> ReplayedWorkload:
        """Add why a Workload waits, in the words of the manager's explanations."""
        queue = told.cluster_queue
        order = self._orders.get(queue)
        status = build_status(self.engine, told.key, queue, order, leading=True)
        if not status["pending"]:
            return told
        add_words(status)
        refusal = status.get("preemption", {}).get("refusal", "")
        return replace(told, why=status.get("why", ""), refusal=refusal)


def read_order(engine: Engine, cluster_queue: str) -> Positions:
    """Return the order of a ClusterQueue's waiting Workloads."""
    order = Positions()
    for piece in engine.pending_in_steps(cluster_queue):
        for key, local_queue in piece:
            order.add(key, local_queue)
    return order


def _job_of(workload: api.Workload) -> str:
    owners = workload.metadata.owner_references
    owner = next((each for each in owners if each.controller), next(iter(owners), None))
    return f"{owner.kind}/{owner.name}" if owner is not None else workload.metadata.name


def _count_gpus(workload: Workload) -> int:
    """Return the accelerators that it has, or else asks for."""
    if workload.reservation is not None:
        held = workload.reservation.admission.usage()
        return sum(amount for (_, resource), amount in held.items() if is_accelerator(resource))
    return sum(
        amount * pod_set.count
        for pod_set in workload.pod_sets
        for resource, amount in pod_set.requests.items()
        if is_accelerator(resource)
    )


def _run_seconds(status: api.WorkloadStatus, now: datetime) -> float:
    admitted = find_condition(status.conditions, WorkloadCondition.ADMITTED)
    if admitted is None or admitted.status != "True":
        return 0
    return max(0.0, (now - admitted.transitioned_at).total_seconds())
