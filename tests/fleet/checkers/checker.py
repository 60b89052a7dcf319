"""What every checker is."""

from __future__ import annotations

from collections.abc import Callable

from tests.fleet.history import Change
from tests.fleet.world import FleetWorld

SLACK = 3.0
"""Seconds by which times on the wire, which have no fractions, may be off."""
Report = Callable[[str], None]


class Checker:
    """One promise.

    Args:
        world: What is looked at.
        report: Called with words for each breach.
    """

    def __init__(self, world: FleetWorld, report: Report) -> None:
        self.world = world
        self.report = report

    def on_change(self, change: Change) -> None:
        """Look at a change."""

    def on_pods(self, cluster: str, key: str, *, begin: bool) -> None:
        """Look at pods that begin or end; `key` is the Workload's."""

    def on_step(self) -> None:
        """Look at the world."""

    def at_end(self) -> None:
        """Look at the world after healing, when nothing is left to do."""

    def is_given_up(self, cluster: str) -> bool:
        """Whether a worker has been out of the managers' reach for the lost timeout."""
        return self.world.truth.lost_for(cluster) >= self._grace

    def is_blind(self, cluster: str) -> bool:
        """Whether managers have not been shown the jobs of a worker for the lost timeout."""
        return self.world.truth.blind_for(cluster) >= self._grace

    @property
    def _grace(self) -> float:
        slack = SLACK + sum(map(abs, self.world.plan.skews.values()))
        return self.world.plan.lost_timeout - slack
