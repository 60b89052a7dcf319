"""The runner of upstream's scheduler benchmark, over the API: users and workloads in one.

Creates bare Workloads at the generator's rate, ends each its run time after it was admitted, and
completes the evictions of preempted ones as a job controller would (E-104). Everything that is
written to a Workload passes here, so that what is not the runner's own is the manager's.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, NamedTuple

from multiqueue.api import names
from multiqueue.api.serde import decode
from multiqueue.api.v1beta2 import Workload, WorkloadStatus
from multiqueue.api.workload_state import (
    complete_eviction,
    finish,
    has_quota,
    is_admitted,
    is_evicted,
    is_finished,
)
from multiqueue.jobs.workload_writer import WorkloadWriter
from multiqueue.kube import resources
from multiqueue.kube.client import KubeClient
from multiqueue.kube.clock import SystemClock
from multiqueue.kube.informer import Informer
from multiqueue.model.cluster_queue import Preemption
from tests.bench.upstream_generators import BORROWING, NOMINAL, Generator, WorkloadSet
from tests.bench.upstream_world import T0, CohortMeter
from tests.builders.workloads import make_template
from tests.integration.waiting import condition, until

NAMESPACE = "default"
FLAVOR = "default"
CREATORS, ENDERS = 8, 16
"""Requests of users and of ends at a time: ends must not wait behind a burst of creations."""
EVENTS_SECONDS = 1.0


class Arrival(NamedTuple):
    at: float
    number: int
    name: str
    queue: str
    cohort: int
    work: WorkloadSet


@dataclass
class Runner:
    """One run. Times are seconds of the event loop since the first arrival was due."""

    client: KubeClient
    generator: Generator
    preemption: Preemption
    created: dict[str, float] = field(default_factory=dict)
    waits: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    writes: Counter[str] = field(default_factory=Counter)
    finished: int = 0
    makespan: float = 0.0

    def __post_init__(self) -> None:
        self.workloads: Informer[Workload] = Informer(
            self.client, resources.WORKLOADS, decode=lambda data: decode(Workload, data)
        )
        self.meters = [CohortMeter() for _ in range(self.generator.cohorts)]
        self._writer = WorkloadWriter(self.client, self.workloads)
        self._clock = SystemClock()
        self._arrivals = {f"{NAMESPACE}/{each.name}": each for each in self._plan()}
        self._admitted: set[str] = set()
        self._ends: asyncio.Queue[str] = asyncio.Queue()
        self._done = asyncio.Event()
        self._begun = 0.0

    def _plan(self) -> list[Arrival]:
        numbers = itertools.count()
        return [
            Arrival(at, next(numbers), f"cq-{c}-{q}-{work.name}-{i}", f"cq-{c}-{q}", c, work)
            for c in range(self.generator.cohorts)
            for q in range(self.generator.queues)
            for at, work, i in self.generator.arrivals()
        ]

    async def run(self, seconds: float) -> None:
        """Run until every Workload is finished; fails after so many seconds."""
        await self._make_queues()
        await self._until_open()
        self.workloads.add_handler(self._on_workload)
        self._begun = asyncio.get_running_loop().time()
        waiting = sorted(self._arrivals.values())
        heapq.heapify(waiting)
        try:
            async with asyncio.timeout(seconds), asyncio.TaskGroup() as tasks:
                running = [
                    tasks.create_task(self.workloads.run()),
                    *(tasks.create_task(self._create(waiting)) for _ in range(CREATORS)),
                    *(tasks.create_task(self._end()) for _ in range(ENDERS)),
                ]
                await self._done.wait()
                for task in running:
                    task.cancel()
        except TimeoutError:
            total = self.generator.total
            raise AssertionError(f"{self.finished} of {total} finished in {seconds} s") from None

    async def _make_queues(self) -> None:
        flavor = {"kind": "ResourceFlavor", "metadata": {"name": FLAVOR}, "spec": {}}
        await self.client.create(resources.RESOURCE_FLAVORS, _kueue(flavor))
        for cohort in range(self.generator.cohorts):
            await self.client.create(
                resources.COHORTS,
                _kueue({"kind": "Cohort", "metadata": {"name": f"cohort-{cohort}"}, "spec": {}}),
            )
            for number in range(self.generator.queues):
                name = f"cq-{cohort}-{number}"
                spec = make_queue_spec(f"cohort-{cohort}", self.preemption)
                queue = {"kind": "ClusterQueue", "metadata": {"name": name}, "spec": spec}
                await self.client.create(resources.CLUSTER_QUEUES, _kueue(queue))
                local = {
                    "kind": "LocalQueue",
                    "metadata": {"name": name, "namespace": NAMESPACE},
                    "spec": {"clusterQueue": name},
                }
                await self.client.create(resources.LOCAL_QUEUES, _kueue(local))

    async def _until_open(self) -> None:
        """Wait for the manager: it begins with telling of each ClusterQueue that it is active."""
        queues = self.generator.cohorts * self.generator.queues
        await until(
            self.client,
            resources.CLUSTER_QUEUES,
            lambda found: (
                sum(condition(q, "Active").get("status") == "True" for q in found) == queues
            ),
            seconds=60,
        )

    async def _create(self, waiting: list[Arrival]) -> None:
        while waiting:
            arrival = heapq.heappop(waiting)
            await asyncio.sleep(arrival.at - self._now())
            key = f"{NAMESPACE}/{arrival.name}"
            self.created[key] = self._now()
            self.meters[arrival.cohort].change(self._moment(), waiting=1)
            body = make_workload_body(arrival)
            await self.client.create(resources.WORKLOADS, body, decode=bytes)

    async def _end(self) -> None:
        while True:
            await self._writer.update_status(await self._ends.get(), self._ended)

    def _ended(self, newest: Workload) -> WorkloadStatus:
        status, generation = newest.status, newest.metadata.generation
        now = self._clock.now()
        if is_evicted(status):
            return complete_eviction(status, now=now, generation=generation)
        if not is_admitted(status):
            return status
        return finish(status, "ByTest", "By the runner", now=now, generation=generation)

    # ---------------------------------------------------------------- what is seen

    def _on_workload(self, old: Workload | None, new: Workload | None) -> None:
        if old is None or new is None:
            return
        key = new.metadata.key
        arrival = self._arrivals[key]
        change = find_change(old.status, new.status)
        self.writes[change] += 1
        meter = self.meters[arrival.cohort]
        if change == "admitted":
            meter.change(self._moment(), used=arrival.work.request, waiting=-1)
            if key not in self._admitted:
                self._admitted.add(key)
                self.waits[arrival.work.name].append(self._now() - self.created[key])
            asyncio.get_running_loop().call_later(
                arrival.work.runtime_ms / 1000, self._ends.put_nowait, key
            )
        elif change == "evicted":
            self._ends.put_nowait(key)
        elif change == "stopped":
            meter.change(self._moment(), used=-arrival.work.request, waiting=1)
        elif change == "finished":
            meter.change(self._moment(), used=-arrival.work.request)
            self.finished += 1
            if self.finished == self.generator.total:
                self.makespan = self._now()
                self._done.set()

    def _now(self) -> float:
        return asyncio.get_running_loop().time() - self._begun

    def _moment(self) -> Any:
        return T0 + timedelta(seconds=self._now())

    # ---------------------------------------------------------------- figures

    @property
    def admissions(self) -> int:
        return self.writes["admitted"]

    @property
    def manager_writes(self) -> int:
        """Every change of a Workload that the runner did not make."""
        return sum(self.writes.values()) - self.writes["stopped"] - self.writes["finished"]

    @property
    def usage(self) -> float:
        """Part of the quota in use from the first arrival to the last end."""
        used = sum(meter.core_seconds for meter in self.meters)
        return used / (self.makespan * self.generator.capacity * self.generator.cohorts)

    @property
    def usage_while_work_waits(self) -> float:
        """Part of a cohort's quota in use while something in it waits."""
        used = sum(meter.waiting_core_seconds for meter in self.meters)
        waiting = sum(meter.waiting_seconds for meter in self.meters)
        return used / (waiting * self.generator.capacity)

    async def events(self) -> Counter[str]:
        """Events about Workloads by reason, each as often as it was told.

        They are written behind what matters more: read once no more of them come.
        """
        last = ""
        while True:
            listed = await self.client.list(resources.EVENTS, namespace=NAMESPACE)
            newest = max((e["metadata"]["resourceVersion"] for e in listed.items), key=int)
            if newest == last:
                break
            last = newest
            await asyncio.sleep(EVENTS_SECONDS)
        told: Counter[str] = Counter()
        for event in listed.items:
            if event["involvedObject"]["kind"] == "Workload":
                told[event["reason"]] += event.get("count") or 1
        return told


def find_change(old: WorkloadStatus, new: WorkloadStatus) -> str:
    """Return what a write did: who admits and who evicts is the manager."""
    if is_finished(new) and not is_finished(old):
        return "finished"
    if is_admitted(new) and not is_admitted(old):
        return "admitted"
    if has_quota(old) and not has_quota(new):
        return "stopped"
    if is_evicted(new) and not is_evicted(old):
        return "evicted"
    return "other" if has_quota(new) or is_finished(new) else "explained"


def make_queue_spec(cohort: str, preemption: Preemption) -> dict[str, Any]:
    """Return a ClusterQueue of the benchmark; quota in cores."""
    limits = {"name": "cpu", "nominalQuota": NOMINAL, "borrowingLimit": BORROWING}
    return {
        "cohortName": cohort,
        "namespaceSelector": {},
        "preemption": {
            "withinClusterQueue": preemption.within_cluster_queue.value,
            "reclaimWithinCohort": preemption.reclaim_within_cohort.value,
        },
        "resourceGroups": [
            {
                "coveredResources": ["cpu"],
                "flavors": [{"name": FLAVOR, "resources": [limits]}],
            }
        ],
    }


def make_workload_body(arrival: Arrival) -> dict[str, Any]:
    """Return a bare Workload of one pod."""
    template = make_template(cpu=str(arrival.work.request))
    return _kueue(
        {
            "kind": "Workload",
            "metadata": {"name": arrival.name, "namespace": NAMESPACE},
            "spec": {
                "queueName": arrival.queue,
                "priority": arrival.work.priority,
                "podSets": [{"name": "main", "count": 1, "template": template}],
            },
        }
    )


def _kueue(body: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": names.V1BETA2, **body}
