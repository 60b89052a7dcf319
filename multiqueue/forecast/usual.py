"""How fast jobs in general are by hardware. Pure, and bounded.

A job that is twice as fast on an H100 is badly placed there if other jobs are three times as fast:
what matters is its speed relative to the usual speed. Only jobs with known speeds count. Later
jobs, and jobs with more device-hours, have more weight.
"""

from __future__ import annotations

from collections.abc import Mapping

from multiqueue.forecast.traits import FinishedRun

REFERENCE = 1000
"""The speed of a job over all hardware together, and on hardware without known speed."""
KINDS, NAMED = 64, 16
"""Most remembered names of hardware (the last named), and most names that one job may add."""
FADES = 0.5 ** (1 / 500)
"""The factor by which each new run reduces the weight of older ones: half after 500."""


class UsualSpeeds:
    """Weighted mean speeds over finished runs."""

    def __init__(self) -> None:
        self._sums: dict[str, float] = {}
        self._weights: dict[str, float] = {}

    def learn(self, run: FinishedRun, speeds: Mapping[str, int]) -> None:
        """Learn a run and its job's speeds by hardware, in thousandths of any reference."""
        if not 0 < len(speeds) <= NAMED:
            return
        for name in (run.flavor, *sorted(speeds)):
            self._sums[name] = self._sums.pop(name, 0.0)
            self._weights.setdefault(name, 0.0)
        for name in list(self._sums)[:-KINDS]:
            del self._sums[name], self._weights[name]
        if len(self._sums) < 2:
            return
        mean = sum(speeds.get(name, REFERENCE) for name in self._sums) / len(self._sums)
        weight = run.took.total_seconds() * run.devices
        for name in self._sums:
            share = speeds.get(name, REFERENCE) / mean
            self._sums[name] = self._sums[name] * FADES + share * weight
            self._weights[name] = self._weights[name] * FADES + weight

    def by_hardware(self) -> dict[str, int]:
        """Return the usual speed by flavor or node label, in thousandths of the speed over all."""
        return {
            name: max(1, round(REFERENCE * total / self._weights[name]))
            for name, total in sorted(self._sums.items())
            if self._weights[name] > 0
        }
