"""The state that a timeline begins at. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import NamedTuple

from multiqueue.engine.cache.quota_node import FlavorResource
from multiqueue.engine.cache.tree import Tree
from multiqueue.engine.queues.entry import Rank
from multiqueue.forecast.curve import Curve
from multiqueue.forecast.runs import Runs
from multiqueue.forecast.sites import ForecastNodes
from multiqueue.forecast.wants import Wants

Gate = tuple[tuple[int, int], ...]
"""Slots and amounts."""


@dataclass(frozen=True, slots=True)
class Waiter:
    """A Workload that waits; ``curve`` is its runtime."""

    key: str
    rank: Rank
    queue: str
    curve: Curve


class QueueLine(NamedTuple):
    """Equals of one queue, by rank, and what each of them wants.

    If the first does not fit, no other does.
    """

    wants: Wants
    waiters: Sequence[Waiter]


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastInput:
    """Who holds what, and who waits.

    Attributes:
        tree: Of the queue that is asked.
        runs: What holds quota in each queue of the tree.
        lines: Who waits in the tree; the last is the line of the one who asks.
        strict: Queues in which nobody passes.
        now: Seconds since the epoch.
    """

    tree: Tree
    runs: Sequence[Runs]
    lines: Sequence[QueueLine]
    strict: frozenset[str]
    now: float


class ForecastStage:
    """What is the same in all futures of a scene.

    Attributes:
        forecast_input: It.
        asked: Who asks.
        scarce: What the first choice of who asks takes most of: devices, where there are any.
        amounts: How much of that each line wants.
        before: How many of each line come before who asks.
        gates: What each line needs most of, by option.
        nodes: Of quota, by queue.
        sites: The nodes of the worker.
    """

    def __init__(self, forecast_input: ForecastInput) -> None:
        self.forecast_input = forecast_input
        self.asked = forecast_input.lines[-1].waiters[0]
        self.scarce = _find_scarce(forecast_input.lines[-1].wants)
        self.amounts = [_amount(line.wants, self.scarce) for line in forecast_input.lines]
        rank, rank_of = self.asked.rank, attrgetter("rank")
        self.before = [
            bisect_left(line.waiters, rank, key=rank_of) for line in forecast_input.lines
        ]
        self.nodes = {name: queue.node for name, queue in forecast_input.tree.queues.items()}
        self.gates = [self._gate(line) for line in forecast_input.lines]
        self.sites = ForecastNodes(forecast_input.tree, self.scarce[1])

    @property
    def ahead(self) -> int:
        """How many come before who asks."""
        return sum(self.before)

    def _gate(self, line: QueueLine) -> Gate:
        if not line.wants.needs:
            return ()
        node = self.nodes[line.waiters[0].queue]
        most = (max(option, key=_weight) for option in line.wants.needs[0] if option)
        return tuple((node.slot(pair), amount) for pair, amount in most)


def _weight(item: tuple[FlavorResource, int]) -> tuple[bool, int]:
    (_, resource), amount = item
    return "/" in resource, amount


def _find_scarce(wants: Wants) -> FlavorResource:
    options = [options[0] for options in wants.needs if options]
    amounts = [("/" in pair[1], amount, pair) for option in options for pair, amount in option]
    return max(amounts)[2] if amounts else ("", "")


def _amount(wants: Wants, scarce: FlavorResource) -> int:
    options = (options[0] for options in wants.needs if options)
    return sum(amount for option in options for pair, amount in option if pair == scarce)
