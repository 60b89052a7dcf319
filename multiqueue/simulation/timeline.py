"""GPUs in use by cluster, and waiting jobs, over the time of a run. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from multiqueue.simulation.records import RunRecord


@dataclass(frozen=True, slots=True)
class Steps:
    """A step function: ``values[i]`` from ``times[i]`` on, 0 before."""

    times: Sequence[float]
    values: Sequence[float]

    def at(self, moment: float) -> float:
        """Return the value at a moment."""
        place = bisect_right(self.times, moment)
        return self.values[place - 1] if place else 0.0

    def integrate(self, begin: float, end: float) -> float:
        """Return the integral between two moments, in value times seconds."""
        total = 0.0
        for place, value in enumerate(self.values):
            until = self.times[place + 1] if place + 1 < len(self.times) else end
            total += value * max(0.0, min(until, end) - max(self.times[place], begin))
        return total


@dataclass(frozen=True, slots=True)
class Timeline:
    """Usage and waiting over a run.

    Attributes:
        clusters: GPUs in use, by cluster.
        waiting: Number of waiting jobs.
    """

    clusters: Mapping[str, Steps]
    waiting: Steps

    def idle_while_waiting(self, total: int, begin: float, end: float) -> float:
        """Return the unused GPU-seconds at times when jobs wait."""
        times = sorted({begin, end, *self.waiting.times, *_all_times(self.clusters)})
        times = [moment for moment in times if begin <= moment <= end]
        idle = 0.0
        for moment, until in pairwise(times):
            if self.waiting.at(moment) > 0:
                used = sum(steps.at(moment) for steps in self.clusters.values())
                idle += (total - used) * (until - moment)
        return idle


def build_timeline(run: RunRecord) -> Timeline:
    """Return the timeline of a run."""
    used: dict[str, dict[float, float]] = {cluster.name: {} for cluster in run.fleet.clusters}
    waiting: dict[float, float] = {}
    for record in run.jobs:
        since = record.job.submit
        for stay in record.stays:
            assert stay.ended is not None
            _add(waiting, since, 1)
            _add(waiting, stay.begun, -1)
            gpus = record.job.gpus_on(stay.flavor)
            _add(used[stay.cluster], stay.begun, gpus)
            _add(used[stay.cluster], stay.ended, -gpus)
            since = stay.ended
    return Timeline({name: _sum_up(changes) for name, changes in used.items()}, _sum_up(waiting))


def _add(changes: dict[float, float], moment: float, change: float) -> None:
    changes[moment] = changes.get(moment, 0.0) + change


def _sum_up(changes: Mapping[float, float]) -> Steps:
    times, values, level = sorted(changes), [], 0.0
    for moment in times:
        level += changes[moment]
        values.append(level)
    return Steps(times, values)


def _all_times(clusters: Mapping[str, Steps]) -> set[float]:
    return {moment for steps in clusters.values() for moment in steps.times}
