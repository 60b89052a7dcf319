"""The generators of upstream's scheduler benchmark as data, and what they bound.

The figures are those of upstream's performance test: baseline, large-scale and tas.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from multiqueue.api.v1beta2.workload import PodSetTopologyRequest
from multiqueue.model.topology import Node
from tests.topology_world import RACK, make_node

NOMINAL, BORROWING = 20, 100
"""Quota of each ClusterQueue in cores, and what it may borrow."""


class WorkloadSet(NamedTuple):
    """Equal workloads of one ClusterQueue. Units: milliseconds; cores of all pods together."""

    name: str
    size: int
    interval_ms: int
    runtime_ms: int
    priority: int
    request: int
    pods: int = 1
    topology: PodSetTopologyRequest | None = None


class Generator(NamedTuple):
    """A whole benchmark: so many cohorts of so many ClusterQueues, each with all sets.

    Pods are placed by topology where there are nodes.
    """

    cohorts: int
    queues: int
    sets: tuple[WorkloadSet, ...]
    nodes: tuple[Node, ...] = ()

    @property
    def capacity(self) -> int:
        """Cores of one cohort; any of its ClusterQueues may use all."""
        return NOMINAL * self.queues

    @property
    def total(self) -> int:
        return self.cohorts * self.queues * sum(each.size for each in self.sets)

    def arrivals(self) -> Iterator[tuple[float, WorkloadSet, int]]:
        """Yield what each ClusterQueue gets: seconds, set, number in the set."""
        for each in self.sets:
            for i in range(each.size):
                yield (i + 1) * each.interval_ms / 1000, each, i


def scaled(generator: Generator, share: int) -> Generator:
    """Return the generator with one of so many workloads of each set."""
    return generator._replace(
        sets=tuple(each._replace(size=each.size // share) for each in generator.sets)
    )


BASELINE = Generator(
    5,
    6,
    (
        WorkloadSet("small", 350, 100, 200, 50, 1),
        WorkloadSet("medium", 100, 500, 500, 100, 5),
        WorkloadSet("large", 50, 1200, 1000, 200, 20),
    ),
)
LARGE_SCALE = Generator(
    10,
    100,
    (
        WorkloadSet("small", 35, 60, 150, 50, 1),
        WorkloadSet("medium", 11, 300, 350, 100, 5),
        WorkloadSet("large", 4, 700, 700, 200, 20),
    ),
)


def _placed_sets(
    name: str, sizes: tuple[int, int, int], pods: int, slice_size: int, **figures: int
) -> Iterator[WorkloadSet]:
    """One class in three kinds, whose pods want a rack, would like one, or want one per slice."""
    requests = {
        "required": PodSetTopologyRequest(required=RACK),
        "preferred": PodSetTopologyRequest(preferred=RACK),
        "balanced": PodSetTopologyRequest(
            pod_set_slice_required_topology=RACK, pod_set_slice_size=slice_size
        ),
    }
    for size, (kind, topology) in zip(sizes, requests.items(), strict=True):
        yield WorkloadSet(f"{name}-{kind}", size, pods=pods, topology=topology, **figures)


TAS = Generator(
    5,
    6,
    (
        *_placed_sets(
            *("small", (120, 120, 110), 2, 1),
            interval_ms=100,
            runtime_ms=200,
            priority=50,
            request=1,
        ),
        *_placed_sets(
            *("medium", (34, 33, 33), 4, 2),
            interval_ms=500,
            runtime_ms=500,
            priority=100,
            request=5,
        ),
        *_placed_sets(
            *("large", (17, 17, 16), 8, 4),
            interval_ms=1200,
            runtime_ms=1000,
            priority=200,
            request=20,
        ),
    ),
    tuple(make_node(f"b0-r{r}-h{h}", 96, pods=110) for r in range(10) for h in range(64)),
)


def fluid_makespan(generator: Generator) -> float:
    """Return when everything could be done at the earliest, if work were a fluid.

    From each moment on, what arrives later has to be done after it.
    """
    arrivals = sorted(generator.arrivals())
    bound, work = 0.0, 0.0
    for at, each, _ in reversed(arrivals):
        work += each.request * each.runtime_ms / 1000 * generator.queues
        bound = max(bound, at + work / generator.capacity, at + each.runtime_ms / 1000)
    return bound


def fluid_waits(generator: Generator) -> dict[str, float]:
    """Return the mean seconds to admission by set, if work were a fluid served by priority.

    Equals are served in order of arrival. A yardstick, no bound: what some lose to another order
    others gain.
    """
    waits = {}
    rate = generator.capacity / generator.queues
    for each in generator.sets:
        arrivals = sorted(
            (
                (at, other.priority > each.priority, other.request * other.runtime_ms / 1000, other)
                for at, other, _ in generator.arrivals()
                if other.priority >= each.priority
            ),
            key=lambda arrival: arrival[:2],
        )
        higher = [(at, work) for at, is_above, work, _ in arrivals if is_above]
        backlog, clock, total = 0.0, 0.0, 0.0
        for at, _, work, other in arrivals:
            backlog = max(0.0, backlog - (at - clock) * rate)
            clock = at
            if other is each:
                total += _drained(at, backlog, higher, rate) - at
            backlog += work
        waits[each.name] = total / each.size
    return waits


def _drained(at: float, backlog: float, higher: list[tuple[float, float]], rate: float) -> float:
    """When the backlog of a moment is done, with what is more important and comes meanwhile."""
    end = at + backlog / rate
    for comes, work in higher:
        if at < comes < end:
            end += work / rate
    return end
