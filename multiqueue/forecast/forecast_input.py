"""The forecast input: where a timeline begins, and what waiting Workloads need. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import NamedTuple

from multiqueue.engine.cache.quota_node import FlavorResource
from multiqueue.engine.cache.tree import Tree
from multiqueue.engine.eligibility import wants_topology
from multiqueue.engine.queues.entry import Rank
from multiqueue.forecast.curve import Curve
from multiqueue.forecast.needs import Needs, build_needs
from multiqueue.forecast.runs import Runs
from multiqueue.forecast.sites import ForecastNodes, Gang
from multiqueue.model.cluster_queue import ClusterQueue
from multiqueue.model.resource_flavor import ResourceFlavor
from multiqueue.model.workload import Workload

Gate = tuple[tuple[int, int], ...]
"""Slots and amounts of quota."""


@dataclass(frozen=True, slots=True)
class Waiter:
    """A waiting Workload; ``curve`` is its runtime."""

    key: str
    rank: Rank
    queue: str
    curve: Curve


class WaitingClass(NamedTuple):
    """Equal Workloads of one queue, ordered by rank, and what each of them needs.

    If the first does not fit, none of the others fits.
    """

    demand: ShapeDemand
    waiters: Sequence[Waiter]


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastInput:
    """Running and waiting Workloads.

    Attributes:
        tree: The cohort tree of the queue that is asked about.
        runs: Running Workloads of each queue of the tree.
        lines: Waiting Workloads of the tree; the last line is that of the asking Workload.
        strict: Names of StrictFIFO queues.
        now: Seconds since the epoch.
    """

    tree: Tree
    runs: Sequence[Runs]
    lines: Sequence[WaitingClass]
    strict: frozenset[str]
    now: float


class ForecastStage:
    """What all futures of one forecast input share.

    Attributes:
        forecast_input: The forecast input.
        asked: The asking Workload.
        scarce: The resource that its first option takes most of; a device, if there is one.
        amounts: How much of the scarce resource a Workload of each line needs.
        before: How many Workloads of each line come before the asking one.
        gates: The largest need of each line, by option.
        nodes: Quota nodes by queue.
        sites: The nodes of the worker.
    """

    def __init__(self, forecast_input: ForecastInput) -> None:
        self.forecast_input = forecast_input
        self.asked = forecast_input.lines[-1].waiters[0]
        self.scarce = _find_scarce(forecast_input.lines[-1].demand)
        self.amounts = [_amount(line.demand, self.scarce) for line in forecast_input.lines]
        rank, rank_of = self.asked.rank, attrgetter("rank")
        self.before = [
            bisect_left(line.waiters, rank, key=rank_of) for line in forecast_input.lines
        ]
        self.nodes = {name: queue.node for name, queue in forecast_input.tree.queues.items()}
        self.gates = [self._gate(line) for line in forecast_input.lines]
        self.sites = ForecastNodes(forecast_input.tree, self.scarce[1])

    @property
    def ahead(self) -> int:
        """How many Workloads come before the asking one."""
        return sum(self.before)

    def _gate(self, line: WaitingClass) -> Gate:
        if not line.demand.needs:
            return ()
        node = self.nodes[line.waiters[0].queue]
        most = (max(option, key=_weight) for option in line.demand.needs[0] if option)
        return tuple((node.slot(pair), amount) for pair, amount in most)


def _weight(item: tuple[FlavorResource, int]) -> tuple[bool, int]:
    (_, resource), amount = item
    return "/" in resource, amount


def _find_scarce(demand: ShapeDemand) -> FlavorResource:
    options = [options[0] for options in demand.needs if options]
    amounts = [("/" in pair[1], amount, pair) for option in options for pair, amount in option]
    return max(amounts)[2] if amounts else ("", "")


def _amount(demand: ShapeDemand, scarce: FlavorResource) -> int:
    options = (options[0] for options in demand.needs if options)
    return sum(amount for option in options for pair, amount in option if pair == scarce)


@dataclass(frozen=True, slots=True)
class ShapeDemand:
    """The needs of a Workload, computed once for all of its shape in a queue.

    Attributes:
        needs: Its needs of quota.
        flavors: The flavors that it may get, sorted.
        gangs: Its pods that need places in a topology.
    """

    needs: Needs
    flavors: tuple[str, ...]
    gangs: tuple[Gang, ...]


def build_demand(
    workload: Workload, queue: ClusterQueue, flavors: Mapping[str, ResourceFlavor]
) -> ShapeDemand:
    """Return what a Workload needs in a queue."""
    needs = build_needs(workload, queue, flavors)
    names = {pair[0] for options in needs for option in options for pair, _ in option}
    is_implied = all(flavors[name].topology_name for name in names)
    return ShapeDemand(
        needs=needs,
        flavors=tuple(sorted(names)),
        gangs=tuple(
            Gang(pod_set.count, pod_set.node_requests, pod_set.topology_request)
            for pod_set in workload.pod_sets
            if is_implied or wants_topology(pod_set)
        ),
    )
