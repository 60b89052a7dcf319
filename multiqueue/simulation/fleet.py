"""The fleet of a simulation: clusters, their hardware, and the rules of preemption."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from multiqueue.simulation.traces.trace import TraceJob

GPU = "nvidia.com/gpu"
HARDWARE_LABEL = "accelerator"
"""The node label of a flavor that names its hardware."""
SIZES = (64, 48, 48, 32)
HARDWARE = ("a100", "h100")


class Preempting(StrEnum):
    """Which Workloads another one may stop, on the manager and on workers."""

    NOBODY = "none"
    LESS_URGENT = "priority"
    """Those of lower priority, in its own queue and among those that use quota lent by it."""
    BORROWERS = "reclaim"
    """Those of lower priority in its own queue, and all that use quota lent by it."""


class Outage(NamedTuple):
    """A cluster fails: its jobs stop, and nobody can reach it for a time.

    Attributes:
        after: Seconds from the beginning of the trace.
        seconds: How long it lasts.
    """

    after: float
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """One worker.

    Attributes:
        name: Its name.
        gpus: Number of GPUs by flavor.
        prices: Prices of a GPU-hour, in thousandths, by flavor; empty if not declared.
        outage: When it is lost; None: never.
    """

    name: str
    gpus: Mapping[str, int]
    prices: Mapping[str, int] = field(default_factory=dict)
    outage: Outage | None = None

    @property
    def total(self) -> int:
        """The number of all its GPUs."""
        return sum(self.gpus.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedFleet:
    """All workers.

    Attributes:
        clusters: The workers, in the order of the MultiKueueConfig.
        preempting: Which Workloads others may stop.
        fair_sharing: Whether all clusters share by dominant resource shares, not by time.
        quota_percent: The manager's quota, in percent of everything that the workers have.
        speeds: How fast jobs are, by kind or model and by hardware, in thousandths of the
            reference; values that are missing are those of `CLASSES` and `MODELS`.
        alternatives: The share of pods that gangs of several nodes need, by hardware.
        watts: Power of a GPU in use, by flavor; empty if not declared.
    """

    clusters: tuple[Cluster, ...]
    preempting: Preempting = Preempting.LESS_URGENT
    fair_sharing: bool = False
    quota_percent: int = 100
    speeds: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    alternatives: Mapping[str, float] = field(default_factory=dict)
    watts: Mapping[str, float] = field(default_factory=dict)

    @property
    def total(self) -> int:
        """The number of all GPUs."""
        return sum(cluster.total for cluster in self.clusters)

    @property
    def largest(self) -> int:
        """The largest gang that one cluster could ever hold."""
        return max(count for cluster in self.clusters for count in cluster.gpus.values())

    def count(self, flavor: str) -> int:
        """Return the number of GPUs of one flavor."""
        return sum(cluster.gpus.get(flavor, 0) for cluster in self.clusters)


def make_fleet(count: int, preempting: Preempting = Preempting.LESS_URGENT) -> SimulatedFleet:
    """Return that many clusters, alternating A100 and H100, in four sizes."""
    clusters = []
    for number in range(count):
        hardware = HARDWARE[number % len(HARDWARE)]
        name = f"{hardware}-{number // len(HARDWARE) + 1}"
        clusters.append(Cluster(name=name, gpus={hardware: SIZES[number % len(SIZES)]}))
    return SimulatedFleet(clusters=tuple(clusters), preempting=preempting)


def find_span(jobs: Iterable[TraceJob], fleet: SimulatedFleet, load: float) -> float:
    """Return the time in seconds over which jobs must arrive to load a fleet to that degree.

    A load of 1 keeps every GPU busy if each job gets equal parts of all hardware. A dispatcher that
    knows which job gains most from which hardware needs less time.
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
