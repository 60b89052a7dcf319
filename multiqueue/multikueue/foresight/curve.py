"""How long a job takes, as a distribution. Pure.

Runtimes of jobs are spread over orders of magnitude, so their logarithms are looked at: normal
below the median and normal above it, each half as wide as its tenth says. What has run longer than
almost all were expected to is of another kind than was thought: the longer it ran, the longer it
goes on.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from statistics import NormalDist

from multiqueue.plugins.forecast import Basis, Runtime

UNKNOWN = Runtime(expected=timedelta(hours=1), low=timedelta(minutes=2), high=timedelta(hours=24))
"""A job of which nothing is known: half of the GPU jobs of public traces (Helios, Acme, Philly) end
within an hour or less, one in ten takes a day."""
TENTH = NormalDist().inv_cdf(0.9)
NARROWEST = 0.05
"""Nothing is known better than within a twentieth."""
OVERDUE = 0.98
"""Who has outlived so many of its kind is of another kind."""
LINDY = 2.0
"""How fast those end: half of them before their age has grown by 41 %."""
_NORMAL = NormalDist()


@dataclass(frozen=True, slots=True)
class Curve:
    """A runtime as a distribution; seconds in, seconds out.

    Attributes:
        median: In seconds.
        below: Standard deviation of the logarithm below the median.
        above: The same above it.
    """

    median: float
    below: float
    above: float

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
        )

    def share(self, seconds: float) -> float:
        """Return how many of its kind have ended by then, from 0 to 1."""
        if seconds < 1e-6:
            return 0.0
        distance = math.log(seconds / self.median)
        return _NORMAL.cdf(distance / (self.below if distance < 0 else self.above))

    def quantile(self, share: float) -> float:
        """Return when so many of its kind have ended."""
        deviations = _NORMAL.inv_cdf(share)
        width = self.below if deviations < 0 else self.above
        return self.median * math.exp(deviations * width)

    def ends(self, age: float, shares: Sequence[float]) -> list[float]:
        """Return when so many end of those that have run for ``age``; never less than the age."""
        ended = self.share(age)
        if ended >= OVERDUE:
            return [age * float((1.0 - share) ** (-1.0 / LINDY)) for share in shares]
        left, most = 1.0 - ended, 1.0 - 1e-9
        median, below, above = self.median, self.below, self.above
        found = []
        for share in shares:
            deviations = _NORMAL.inv_cdf(min(most, ended + share * left))
            width = below if deviations < 0 else above
            found.append(max(age, median * math.exp(deviations * width)))
        return found


def scale(runtime: Runtime, speed: int) -> Runtime:
    """Return the runtime on hardware of another speed, in thousandths of the reference."""
    if speed == 1000 or speed <= 0:
        return runtime
    return Runtime(
        expected=runtime.expected * 1000 / speed,
        low=runtime.low * 1000 / speed,
        high=runtime.high * 1000 / speed,
        basis=runtime.basis,
    )


def summarize(seconds: list[float], basis: Basis = Basis.HISTORICAL) -> Runtime:
    """Return what some runs say of the next; of few the tenths are guessed wider."""
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
