"""What became of each Workload of a benchmark, from the changes that a watch shows.

A moment is when the change was seen, in seconds of a monotonic clock: conditions have whole
seconds only, and the Workloads of the benchmark run for less.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from statistics import mean

import msgspec

from multiqueue.lib.quantity import parse_quantity

CLASS = "kueue.x-k8s.io/performance-scheduler-class"
MILLI = 1000
LAST = "last"
"""Class and cohort of the Workload that only tells the runner when to end."""


class SeenCondition(msgspec.Struct):
    """A condition of a Workload."""

    type: str
    status: str


class SeenStatus(msgspec.Struct):
    """What a Workload's status says about its course."""

    conditions: list[SeenCondition] = []


class SeenContainer(msgspec.Struct):
    """What a container requests, by resource; quantities as written."""

    resources: dict[str, dict[str, str]] = {}


class SeenPodSpec(msgspec.Struct):
    containers: list[SeenContainer] = []


class SeenTemplate(msgspec.Struct):
    spec: SeenPodSpec


class SeenPodSet(msgspec.Struct):
    template: SeenTemplate
    count: int = 1


class SeenSpec(msgspec.Struct, rename="camel"):
    pod_sets: list[SeenPodSet] = []


class SeenMetadata(msgspec.Struct, rename="camel"):
    namespace: str
    name: str
    resource_version: str
    labels: dict[str, str] = {}


class SeenWorkload(msgspec.Struct):
    """A Workload, as far as the benchmark looks at it."""

    metadata: SeenMetadata
    spec: SeenSpec = msgspec.field(default_factory=SeenSpec)
    status: SeenStatus = msgspec.field(default_factory=SeenStatus)

    @property
    def milli_cores(self) -> int:
        """The request of all its pods."""
        return sum(
            each.count * parse_quantity(container.resources["requests"]["cpu"]).milli_value()
            for each in self.spec.pod_sets
            for container in each.template.spec.containers
        )

    @property
    def cohort(self) -> str:
        """The runner names a queue's namespace after set, number and cohort: cq-0-5-cohort-1."""
        return self.metadata.namespace.split("-", 3)[-1]


@dataclass(slots=True)
class CohortUse:
    """What a cohort uses over time, and what while something waits in it."""

    used: int = 0
    waiting: int = 0
    since: float = 0.0
    waiting_seconds: float = 0.0
    waiting_used: float = 0.0

    def change(self, now: float, *, used: int = 0, waiting: int = 0) -> None:
        """Take a change into account; ``used`` in milli-cores."""
        if self.waiting:
            self.waiting_seconds += now - self.since
            self.waiting_used += (now - self.since) * self.used
        self.since = now
        self.used += used
        self.waiting += waiting


@dataclass(slots=True)
class Life:
    """One Workload up to now."""

    work_class: str
    milli_cores: int
    created: float
    true: frozenset[str] = frozenset()
    admitted_after: float | None = None
    """Seconds to the newest admission, as upstream's recorder counts."""

    @property
    def holds_quota(self) -> bool:
        return "QuotaReserved" in self.true and "Finished" not in self.true


@dataclass
class Course:
    """All Workloads of one run."""

    lives: dict[str, Life] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    cohorts: dict[str, CohortUse] = field(default_factory=lambda: defaultdict(CohortUse))
    began: float | None = None
    ended: float = 0.0

    @property
    def finished(self) -> int:
        return self.counts["finished"]

    def see(self, now: float, seen: SeenWorkload) -> None:
        """Take what a watch shows of a Workload into account."""
        if seen.metadata.labels.get(CLASS) == LAST:
            return
        key = f"{seen.metadata.namespace}/{seen.metadata.name}"
        cohort = self.cohorts[seen.cohort]
        life = self.lives.get(key)
        if life is None:
            labels = seen.metadata.labels
            life = Life(labels.get(CLASS, ""), seen.milli_cores, now)
            self.lives[key] = life
            self.began = now if self.began is None else self.began
            cohort.change(now, waiting=1)
        had, before = life.holds_quota, life.true
        life.true = frozenset(c.type for c in seen.status.conditions if c.status == "True")
        self._count(now, life, life.true - before)
        has, finished = life.holds_quota, "Finished" in life.true
        if has and not had:
            cohort.change(now, used=life.milli_cores, waiting=-1)
        elif had and not has:
            self.counts["stopped"] += not finished
            cohort.change(now, used=-life.milli_cores, waiting=0 if finished else 1)

    def _count(self, now: float, life: Life, new: frozenset[str]) -> None:
        if "Admitted" in new:
            self.counts["admitted"] += 1
            life.admitted_after = now - life.created
        if "Evicted" in new:
            self.counts["evicted"] += 1
        if "Finished" in new:
            self.counts["finished"] += 1
            self.ended = now

    def wall_seconds(self) -> float:
        """From the first Workload to the last end."""
        return self.ended - (self.began or 0.0)

    def seconds_to_admission(self) -> dict[str, float]:
        """The mean of each class, largest class first."""
        waits = defaultdict(list)
        for life in self.lives.values():
            if life.admitted_after is not None:
                waits[life.work_class].append((life.milli_cores, life.admitted_after))
        largest_first = sorted(waits, key=lambda name: (-waits[name][0][0], name))
        return {name: mean(after for _, after in waits[name]) for name in largest_first}

    def usage_while_work_waits(self, cohort_cores: int) -> float:
        """Part of a cohort's quota in use while something waits in it."""
        used = sum(each.waiting_used for each in self.cohorts.values())
        seconds = sum(each.waiting_seconds for each in self.cohorts.values())
        return used / (seconds * cohort_cores * MILLI) if seconds else 0.0
