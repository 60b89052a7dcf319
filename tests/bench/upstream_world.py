"""Upstream's scheduler benchmark on the engine in virtual time.

The generators are upstream's, what is done with them is ours: workloads arrive, run for their time
once admitted and finish. A preempted workload stops in two steps and begins anew later. Each write
takes `round_trip` until everybody has seen it. By default that is nothing, so what is measured is
what the decisions cost, not an API server.
"""

from __future__ import annotations

import heapq
import itertools
import time
from collections import defaultdict
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import NamedTuple

from multiqueue.api.conditions import Reason, WorkloadCondition
from multiqueue.engine.engine import Engine
from multiqueue.engine.options import EngineOptions
from multiqueue.engine.plan import Admit, Preempt
from multiqueue.model.cluster_queue import LocalQueue, Preemption, PreemptionPolicy
from multiqueue.model.resource_flavor import ResourceFlavor, Topology
from multiqueue.model.workload import Admission, PodSet, Workload
from tests.bench.upstream_generators import BORROWING, NOMINAL, Generator, WorkloadSet
from tests.builders.engine import (
    NAMESPACE,
    T0,
    condition,
    flavor_quotas,
    make_queue,
    make_workload,
    pod_set,
    quota,
    reserved,
    seconds,
    with_changes,
)
from tests.topology_world import LEVELS

EVICTION_STEP = 0.010
"""Seconds that each of the two steps of an eviction takes at least, as long as a slow write."""


class Event(NamedTuple):
    """``number`` keeps events of one moment in the order in which they were planned."""

    at: datetime
    number: int
    kind: str
    key: str
    token: int


@dataclass
class Job:
    """A workload in the simulation; ``token`` counts its admissions, ``first`` is the first."""

    workload: Workload
    work: WorkloadSet
    cohort: int
    token: int = 0
    first: datetime | None = None
    admission: Admission | None = None
    admitted_at: datetime = T0


@dataclass
class CohortMeter:
    """Cores in use over time, and the time in which something waits."""

    used: int = 0
    waiting: int = 0
    since: datetime = T0
    core_seconds: float = 0.0
    waiting_seconds: float = 0.0
    waiting_core_seconds: float = 0.0

    def change(self, now: datetime, *, used: int = 0, waiting: int = 0) -> None:
        passed = (now - self.since).total_seconds()
        self.core_seconds += passed * self.used
        if self.waiting:
            self.waiting_seconds += passed
            self.waiting_core_seconds += passed * self.used
        self.since = now
        self.used += used
        self.waiting += waiting


@dataclass
class Simulation:
    """One run; ``spent`` is the engine's CPU time in seconds, ``round_trip`` that of a write."""

    generator: Generator
    options: EngineOptions = field(default_factory=EngineOptions)
    round_trip: float = 0.0
    now: datetime = T0
    spent: float = 0.0
    finished: int = 0
    preempted: int = 0
    waits: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    def __post_init__(self) -> None:
        self.engine = Engine(self.options)
        self.jobs: dict[str, Job] = {}
        self.meters = [CohortMeter() for _ in range(self.generator.cohorts)]
        self._events: list[Event] = []
        self._writes = 0
        self._numbers = itertools.count()
        self.engine.upsert_namespace(NAMESPACE, {})
        self._add_flavor()
        policy = Preemption(
            within_cluster_queue=PreemptionPolicy.LOWER_PRIORITY,
            reclaim_within_cohort=PreemptionPolicy.ANY,
        )
        quotas = flavor_quotas("default", cpu=quota("cpu", NOMINAL, borrow=BORROWING))
        for cohort in range(self.generator.cohorts):
            for i in range(self.generator.queues):
                name = f"cq-{cohort}-{i}"
                spec = make_queue(name, quotas, cohort=f"cohort-{cohort}", preemption=policy)
                self.engine.upsert_cluster_queue(spec)
                local_queue = LocalQueue(key=f"{NAMESPACE}/{name}", cluster_queue=name)
                self.engine.upsert_local_queue(local_queue)
                self._plan_arrivals(cohort, name)

    def _add_flavor(self) -> None:
        flavor = ResourceFlavor(name="default")
        if self.generator.nodes:
            self.engine.upsert_topology(Topology(name="dc", levels=LEVELS))
            flavor = replace(flavor, node_labels={"pool": "a"}, topology_name="dc")
        self.engine.upsert_resource_flavor(flavor)
        for node in self.generator.nodes:
            self.engine.upsert_node(node)

    def _plan_arrivals(self, cohort: int, queue: str) -> None:
        for at, work, i in self.generator.arrivals():
            name = f"{queue}-{work.name}-{i}"
            workload = make_workload(
                name,
                queue=queue,
                at=T0 + seconds(at),
                priority=work.priority,
                pod_sets=[make_pods(work)],
            )
            self.jobs[workload.key] = Job(workload, work, cohort)
            self._plan(at + self._latency(), "arrive", workload.key)

    def _plan(self, after: float, kind: str, key: str, token: int = 0) -> None:
        at, job = self.now + seconds(after), self.jobs[key]
        if kind == "admit":
            job.admitted_at = at
        elif kind == "evict":
            at = max(at, job.admitted_at)  # an eviction is written after the admission
        event = Event(at, next(self._numbers), kind, key, token)
        heapq.heappush(self._events, event)

    def run(self) -> None:
        """Run until every workload is finished."""
        while self.finished < self.generator.total:
            self._decide()
            begun = time.process_time()
            timer = self.engine.next_cycle_at(self.now)
            self.spent += time.process_time() - begun
            moments = [event.at for event in self._events[:1]]
            moments += [] if timer is None else [timer]
            assert moments, "workloads wait and nothing will happen any more"
            self.now = max(self.now, min(moments))
            while self._events and self._events[0].at <= self.now:
                self._happen(heapq.heappop(self._events))

    def _decide(self) -> None:
        while True:
            begun = time.process_time()
            plan = self.engine.run_cycle(self.now)
            self.spent += time.process_time() - begun
            acted = False
            for decision in plan.decisions:
                if isinstance(decision, Admit):
                    self._admit(decision)
                    acted = True
                elif isinstance(decision, Preempt):
                    acted |= self._preempt(decision)
            if not acted and not plan.exhausted:
                return

    def _admit(self, decision: Admit) -> None:
        job = self.jobs[decision.workload]
        job.token += 1
        job.admission = decision.admission
        if self.round_trip:
            self._plan(self._latency(), "admit", decision.workload, job.token)
        else:
            self._start(job)

    def _start(self, job: Job) -> None:
        if job.first is None:
            job.first = self.now
            waited = (self.now - job.workload.created_at).total_seconds()
            self.waits[job.work.name].append(waited)
        self.meters[job.cohort].change(self.now, used=job.work.request, waiting=-1)
        done = with_changes(job.workload, evicted=None, requeued=None)
        assert job.admission is not None
        self._tell(job, reserved(done, job.admission, at=self.now))
        ends = job.work.runtime_ms / 1000 + self._latency()
        self._plan(ends, "finish", job.workload.key, job.token)

    def _latency(self) -> float:
        """Seconds of the next write: from half to one and a half round trips, in turn."""
        self._writes += 1
        return self.round_trip * (0.5 + self._writes * 0.618 % 1)

    def _preempt(self, decision: Preempt) -> bool:
        new = [victim for victim in decision.victims if victim.is_new]
        for victim in new:
            step = max(EVICTION_STEP, self._latency())
            self._plan(step, "evict", victim.workload, self.jobs[victim.workload].token)
        return bool(new)

    def _happen(self, event: Event) -> None:
        job = self.jobs[event.key]
        if job.token != event.token:
            return  # an end or an eviction of an earlier admission
        meter = self.meters[job.cohort]
        if event.kind == "arrive":
            meter.change(self.now, waiting=1)
            self._tell(job, job.workload)
        elif event.kind == "admit":
            self._start(job)
        elif event.kind == "finish":
            job.token += 1
            self.finished += 1
            meter.change(self.now, used=-job.work.request)
            self._tell(job, with_changes(job.workload, finished=True))
        elif event.kind == "evict":
            job.token += 1  # its pods stop: it does not finish any more
            self.preempted += 1
            self._tell(job, with_changes(job.workload, evicted=self._gone("EVICTED")))
            self._plan(max(EVICTION_STEP, self._latency()), "release", event.key, job.token)
        else:
            meter.change(self.now, used=-job.work.request, waiting=1)
            requeued = self._gone("REQUEUED")
            self._tell(job, with_changes(job.workload, reservation=None, requeued=requeued))

    def _gone(self, kind: str) -> object:
        type_ = WorkloadCondition[kind]
        return condition(type_, status=True, reason=Reason.PREEMPTED, at=self.now)

    def _tell(self, job: Job, workload: Workload) -> None:
        job.workload = workload
        begun = time.process_time()
        self.engine.upsert_workload(workload, self.now)
        self.spent += time.process_time() - begun

    # ---------------------------------------------------------------- figures

    @property
    def makespan(self) -> float:
        return (self.now - T0).total_seconds()

    @property
    def usage(self) -> float:
        """Part of the quota in use from the first event to the last."""
        used = sum(meter.core_seconds for meter in self.meters)
        return used / (self.makespan * self.generator.capacity * self.generator.cohorts)

    @property
    def usage_while_work_waits(self) -> float:
        """Part of a cohort's quota in use while something in it waits."""
        used = sum(meter.waiting_core_seconds for meter in self.meters)
        waiting = sum(meter.waiting_seconds for meter in self.meters)
        return used / (waiting * self.generator.capacity)


def make_pods(work: WorkloadSet) -> PodSet:
    milli = work.request * 1000 // work.pods
    return pod_set(count=work.pods, topology_request=work.topology, cpu=f"{milli}m")
