"""The fleet that a trace is played on: clusters, their hardware, and the teams that share them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from multiqueue.simulation.traces.trace import TraceJob

GPU = "nvidia.com/gpu"
HARDWARE_LABEL = "accelerator"
"""Which label of a flavor says what its nodes are."""
SIZES = (64, 48, 48, 32)
HARDWARE = ("a100", "h100")


class Preempting(StrEnum):
    """Whom a Workload may stop, on the manager and on workers."""

    NOBODY = "none"
    LESS_URGENT = "priority"
    """Those of lower priority, of its own queue and of those that use what they were lent."""
    BORROWERS = "reclaim"
    """Those of lower priority of its own queue, and whoever uses what was lent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """One worker.

    Attributes:
        name: Its name.
        gpus: How many of which hardware, by name of the flavor.
        prices: Of a GPU-hour, in thousandths, by flavor; empty: not given.
    """

    name: str
    gpus: Mapping[str, int]
    prices: Mapping[str, int] = field(default_factory=dict)

    @property
    def total(self) -> int:
        """All of its GPUs."""
        return sum(self.gpus.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedFleet:
    """All workers.

    Attributes:
        clusters: In the order of the MultiKueueConfig.
        preempting: Whom Workloads may stop.
        quota_percent: Quota of the manager, of everything that the workers have.
        speeds: How fast jobs are, by kind or model and by hardware, in thousandths of the
            reference; as `CLASSES` and `MODELS` have it where it says nothing.
        alternatives: With which part of their pods gangs of several do, by hardware.
        watts: What a GPU draws while it is in use, by flavor; empty: not given.
    """

    clusters: tuple[Cluster, ...]
    preempting: Preempting = Preempting.LESS_URGENT
    quota_percent: int = 100
    speeds: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    alternatives: Mapping[str, float] = field(default_factory=dict)
    watts: Mapping[str, float] = field(default_factory=dict)

    @property
    def total(self) -> int:
        """All GPUs."""
        return sum(cluster.total for cluster in self.clusters)

    @property
    def largest(self) -> int:
        """The largest gang that one cluster could ever hold."""
        return max(count for cluster in self.clusters for count in cluster.gpus.values())

    def count(self, flavor: str) -> int:
        """Return how many GPUs of one kind there are."""
        return sum(cluster.gpus.get(flavor, 0) for cluster in self.clusters)


def make_fleet(count: int, preempting: Preempting = Preempting.LESS_URGENT) -> SimulatedFleet:
    """Return that many clusters, of A100 and H100 in turn, in four sizes."""
    clusters = []
    for number in range(count):
        hardware = HARDWARE[number % len(HARDWARE)]
        name = f"{hardware}-{number // len(HARDWARE) + 1}"
        clusters.append(Cluster(name=name, gpus={hardware: SIZES[number % len(SIZES)]}))
    return SimulatedFleet(clusters=tuple(clusters), preempting=preempting)


def find_span(jobs: Iterable[TraceJob], fleet: SimulatedFleet, load: float) -> float:
    """Return in how many seconds jobs have to arrive to be that much of what the fleet can do.

    A load of 1 keeps every GPU busy where each job gets each kind of hardware in equal parts; who
    knows better which job gains most from which hardware is done earlier.
    """
    flavors = sorted({flavor for cluster in fleet.clusters for flavor in cluster.gpus})
    needed = 0.0
    for job in jobs:
        able = sum(
            fleet.count(flavor) * job.speed_on(flavor) * job.gpus / job.gpus_on(flavor)
            for flavor in flavors
        )
        needed += job.work * fleet.total / able
    return needed / (fleet.total * load)
