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
    hours = max(1, int(span // HOUR) + (span % HOUR > 0))
    total = list(accumulate(_intensity(hour) for hour in range(hours)))
    jobs: list[TraceJob] = []
    for burst in bursts:
        begin = _draw(random, total) * span / (hours * HOUR)
        for number, job in enumerate(burst.jobs):
            jobs.append(replace(job, submit=min(span, round(begin + number * burst.every, 3))))
    return in_order(jobs)


def _intensity(hour: int) -> float:
    day = hour // 24 % 7
    return HOURS[hour % 24] * (WEEKEND if day > FRIDAY else 1.0)


def _draw(random: Random, total: Sequence[float]) -> float:
    target = random.random() * total[-1]
    hour = bisect(total, target)
    return (hour + random.random()) * HOUR
