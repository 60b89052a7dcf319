"""How fast jobs usually are by hardware: what an hour of it is worth. Pure, and bounded.

A job that is twice as fast on an H100 gains nothing from one that others are three times as fast
on: what counts is its speed beside the usual one. Only jobs count of which it is known; later ones
count for more, and those that take more device-hours do.
"""

from __future__ import annotations

from collections.abc import Mapping

from multiqueue.forecast.traits import FinishedRun

REFERENCE = 1000
"""The speed of a job on all hardware together, and of hardware of which nothing is known."""
KINDS, NAMED = 64, 16
"""Names of hardware that are remembered, those named last; and how many one job may name."""
FADES = 0.5 ** (1 / 500)
"""What a run still counts for after another one: half after 500."""


class UsualSpeeds:
    """A mean over finished runs."""

    def __init__(self) -> None:
        self._sums: dict[str, float] = {}
        self._weights: dict[str, float] = {}

    def learn(self, run: FinishedRun, speeds: Mapping[str, int]) -> None:
        """Take in a run, and how fast its job is by hardware, in thousandths of any reference."""
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
        """Return the usual speed by flavor or node label, in thousandths of that on all of it."""
        return {
            name: max(1, round(REFERENCE * total / self._weights[name]))
            for name, total in sorted(self._sums.items())
            if self._weights[name] > 0
        }
