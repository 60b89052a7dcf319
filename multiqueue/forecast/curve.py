"""The runtime of a job as a distribution. Pure.

Runtimes of jobs vary by orders of magnitude, so their logarithms are used: normal below the median
and normal above it, each with the width that its tenth implies. Some jobs are outliers; about them,
no more is known than about jobs in general. The longer a job runs, the more likely it is an
outlier. If a job has run longer than almost all of both groups, its expected remaining time grows
with its age.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from statistics import NormalDist

from multiqueue.plugins.forecast import TENTH, Basis, Runtime

UNKNOWN = Runtime(expected=timedelta(hours=1), low=timedelta(minutes=2), high=timedelta(hours=24))
"""The runtime if nothing is known: half of the GPU jobs of public traces (Helios, Acme, Philly) end
within an hour or less, and one in ten takes a day."""
NARROWEST = 0.05
"""The narrowest distribution: no runtime is known better than to a twentieth."""
OVERDUE = 0.98
"""A job that outlived this share of its kind and of the outliers is of a third kind."""
LINDY = 2.0
"""How fast jobs of the third kind end: half of them before their age has grown by 41 %."""
RARE = 1e-9
SURE = 1.0 - RARE
_NORMAL = NormalDist()
_WIDE_BELOW = math.log(UNKNOWN.expected / UNKNOWN.low) / TENTH
_WIDE_ABOVE = math.log(UNKNOWN.high / UNKNOWN.expected) / TENTH


@dataclass(frozen=True, slots=True)
class Curve:
    """A runtime as a distribution; all times are in seconds.

    Attributes:
        median: The median.
        below: Standard deviation of the logarithm below the median.
        above: Standard deviation of the logarithm above the median.
        astray: Share of outliers.
    """

    median: float
    below: float
    above: float
    astray: float = 0.0

    @classmethod
    def of(cls, runtime: Runtime) -> Curve:
        """Return the distribution that a runtime describes."""
        median = max(1.0, runtime.expected.total_seconds())
        low = max(0.1, runtime.low.total_seconds())
        high = max(0.1, runtime.high.total_seconds())
        return cls(
            median=median,
            below=max(NARROWEST, math.log(median / low) / TENTH),
            above=max(NARROWEST, math.log(high / median) / TENTH),
            astray=runtime.astray,
        )

    def share(self, seconds: float) -> float:
        """Return the share of jobs that have ended by then, from 0 to 1."""
        kind, others = self._shares(seconds)
        return kind + self.astray * (others - kind)

    def tell_astray(self, seconds: float) -> float:
        """Return how likely a job that took so long was an outlier, from 0 to 1."""
        if not self.astray:
            return 0.0
        distance = math.log(max(1e-6, seconds) / self.median)
        width, wide = (self.below, _WIDE_BELOW) if distance < 0 else (self.above, _WIDE_ABOVE)
        kind = (1.0 - self.astray) * _NORMAL.pdf(distance / width) / width
        others = self.astray * _NORMAL.pdf(distance / wide) / wide
        return others / (kind + others) if kind + others > 0 else 1.0

    def ends(self, age: float, shares: Sequence[float]) -> list[float]:
        """Return the ends at these quantiles for jobs of this age; never less than the age."""
        kind, others = self._shares(age)
        left = (1.0 - self.astray) * (1.0 - kind), self.astray * (1.0 - others)
        both = left[0] + left[1]
        if min(kind, others) >= OVERDUE:
            return [age * float((1.0 - share) ** (-1.0 / LINDY)) for share in shares]
        split = left[1] / both
        median, inverse = self.median, _NORMAL.inv_cdf
        found = []
        for share in shares:
            # The lowest shares belong to the outliers: this is exact and needs no equation solver.
            if share < split:
                part = others + share / split * (1.0 - others)
                deviations = inverse(min(SURE, max(RARE, part)))
                width = _WIDE_BELOW if deviations < 0 else _WIDE_ABOVE
            else:
                part = kind + (share - split) / (1.0 - split) * (1.0 - kind)
                deviations = inverse(min(SURE, max(RARE, part)))
                width = self.below if deviations < 0 else self.above
            found.append(max(age, median * math.exp(deviations * width)))
        return found

    def _shares(self, seconds: float) -> tuple[float, float]:
        """Return the share that has ended by then, of its kind and of the outliers."""
        if seconds < 1e-6:
            return 0.0, 0.0
        distance = math.log(seconds / self.median)
        width, wide = (self.below, _WIDE_BELOW) if distance < 0 else (self.above, _WIDE_ABOVE)
        kind = _NORMAL.cdf(distance / width)
        return kind, _NORMAL.cdf(distance / wide) if self.astray else kind


def scale(runtime: Runtime, speed: int) -> Runtime:
    """Return the runtime on hardware of another speed, in thousandths of the reference."""
    if speed == 1000 or speed <= 0:
        return runtime
    return replace(
        runtime,
        expected=runtime.expected * 1000 / speed,
        low=runtime.low * 1000 / speed,
        high=runtime.high * 1000 / speed,
    )


def summarize(seconds: list[float], basis: Basis = Basis.HISTORICAL) -> Runtime:
    """Return the expected runtime of the next job; with few runs, the tenths are wider."""
    logs = sorted(math.log(max(0.1, value)) for value in seconds)
    count = len(logs)
    low, middle, high = (_between(logs, share * count - 0.5) for share in (0.1, 0.5, 0.9))
    wider = 1.0 + 1.5 / count
    return Runtime(
        expected=timedelta(seconds=math.exp(middle)),
        low=timedelta(seconds=math.exp(middle - (middle - low) * wider)),
        high=timedelta(seconds=math.exp(middle + (high - middle) * wider)),
        basis=basis,
    )


def _between(values: list[float], position: float) -> float:
    """Return the value at a position between two of a sorted list."""
    position = max(0.0, min(len(values) - 1.0, position))
    index = int(position)
    after = values[min(index + 1, len(values) - 1)]
    return values[index] + (after - values[index]) * (position - index)
