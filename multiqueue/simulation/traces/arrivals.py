"""When people submit jobs: more by day, less at lunch and dinner, little at weekends."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from random import Random

from multiqueue.simulation.traces.trace import TraceJob, in_order

NIGHT = (0.75, 0.6, 0.5, 0.42, 0.38, 0.36, 0.4, 0.5)
MORNING = (0.75, 1.1, 1.35, 1.4)
AFTERNOON = (1.05, 1.15, 1.4, 1.5, 1.5, 1.4)
EVENING = (1.05, 1.2, 1.3, 1.25, 1.1, 0.95)
HOURS = (*NIGHT, *MORNING, *AFTERNOON, *EVENING)
"""Relative number of submissions in each hour of a day, 1 on average."""
WEEKEND = 0.7
HOUR = 3600.0
FRIDAY = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Burst:
    """Similar jobs of one user, one after another.

    Attributes:
        jobs: The jobs, in order.
        every: Seconds between two jobs.
    """

    jobs: tuple[TraceJob, ...]
    every: float = 0.0


def arrange(random: Random, bursts: Sequence[Burst], span: float) -> tuple[TraceJob, ...]:
    """Give each burst a time within the span, which begins on a Monday at midnight."""
    total = _sum_up(span)
    hours = len(total)
    jobs: list[TraceJob] = []
    for burst in bursts:
        begin = _draw(random, total) * span / (hours * HOUR)
        for number, job in enumerate(burst.jobs):
            jobs.append(replace(job, submit=min(span, round(begin + number * burst.every, 3))))
    return in_order(jobs)


def time_of_share(share: float, span: float) -> float:
    """Return when a share (0 to 1) of the submissions of a span has come, as `arrange` has them."""
    total = _sum_up(span)
    target = share * total[-1]
    hour = bisect(total, target, hi=len(total) - 1)
    before = total[hour - 1] if hour else 0.0
    part = (target - before) / (total[hour] - before)
    return (hour + part) * span / len(total)


def _sum_up(span: float) -> list[float]:
    """Return how many submissions have come by the end of each hour, relative to each other."""
    hours = max(1, int(span // HOUR) + (span % HOUR > 0))
    return list(accumulate(_intensity(hour) for hour in range(hours)))


def _intensity(hour: int) -> float:
    day = hour // 24 % 7
    return HOURS[hour % 24] * (WEEKEND if day > FRIDAY else 1.0)


def _draw(random: Random, total: Sequence[float]) -> float:
    target = random.random() * total[-1]
    hour = bisect(total, target)
    return (hour + random.random()) * HOUR
