"""Forecasts: what a cluster would do with a Workload, before anything is sent there.

The manager tries each decision on its own copy of the worker's queues. A forecast is no promise:
the worker decides, and others submit jobs there too.

Units: amounts as in `multiqueue.plugins.view`; speeds in thousandths of the speed of the reference
hardware; money in thousandths of the operator's currency; times aware, in UTC.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from statistics import NormalDist

TENTH = NormalDist().inv_cdf(0.9)
"""Standard deviations from the median to a tenth of a normal distribution."""


class Prospect(StrEnum):
    """What a worker's engine would do with the Workload now, the best first."""

    FITS = "Fits"
    """It fits within the queue's own quota."""
    BORROWS = "Borrows"
    """It fits, partly on quota lent by other queues, which may take it back."""
    PREEMPTS = "Preempts"
    """It fits once other Workloads are stopped."""
    WAITS = "Waits"
    """The queue can hold the gang, but not now."""
    UNKNOWN = "Unknown"
    """The manager may not read enough of the worker to say."""
    NEVER = "Never"
    """The gang is larger than the queue can ever hold, or asks for other hardware."""


class Basis(StrEnum):
    """The source of a runtime, the most reliable first."""

    DECLARED = "Declared"
    """The job declares it (``multiqueue.dev/runtime``)."""
    HISTORICAL = "Historical"
    """Finished jobs of the same class took that long."""
    LIMITED = "Limited"
    """The job's maximum execution time limits it."""
    ASSUMED = "Assumed"
    """Nothing is known about this job; the value is typical of jobs in general."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """How long a job runs on the reference hardware.

    Attributes:
        expected: The median.
        low: One in ten jobs is shorter.
        high: One in ten jobs is longer.
        basis: The source of these values.
        astray: The share, from 0 to 1, of outliers among jobs with this basis: jobs whose runtime
            was nothing like the expected one. ``low`` and ``high`` describe the other jobs.
    """

    expected: timedelta
    low: timedelta
    high: timedelta
    basis: Basis = Basis.ASSUMED
    astray: float = 0.0

    @property
    def mean(self) -> timedelta:
        """The mean of all such jobs, at most ``high``.

        The less is known, the further it is above the median, because a few jobs are very long.
        Lengths are log-normal above the median.
        """
        if not timedelta() < self.expected < self.high:
            return self.expected
        longer = math.log(self.high / self.expected)
        above = (longer / TENTH) ** 2 / 2
        return self.high if above >= longer else self.expected * math.exp(above)


@dataclass(frozen=True, slots=True, kw_only=True)
class StartEstimate:
    """When a Workload would start; four in five start between ``earliest`` and ``latest``.

    Attributes:
        at: The median.
        earliest: One in ten starts before.
        latest: One in ten starts after.
        ahead: Number of Workloads that are expected to start there before it.
        spare: How much of its scarce resource stays free there when it starts.
    """

    at: datetime
    earliest: datetime
    latest: datetime
    ahead: int = 0
    spare: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StoppedWorkload:
    """A Workload that would be stopped (preempted).

    Attributes:
        key: ``namespace/name`` on the worker.
        queue: Its ClusterQueue on the worker.
        priority: Its priority on the worker.
        lost: GPU time that has to be repeated, summed over all its GPUs: since it began, or since
            its last checkpoint if it reports one.
    """

    key: str
    queue: str = ""
    priority: int = 0
    lost: timedelta = timedelta()


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """What a cluster would do with the Workload.

    Attributes:
        prospect: The outcome, in one word.
        reason: The reason, in words and with numbers.
        taken: What the Workload would get, by flavor and resource; empty if it gets nothing now.
        borrowed: How much of ``taken`` is lent by other queues.
        victims: Workloads that would be stopped for it, in the engine's order.
        left: What would stay free in the flavors of ``taken``, by flavor and resource.
        start: When it would start; None if that is unknown (`Prospect.UNKNOWN`) or never.
        largest: With `Prospect.NEVER`: the most pods of this gang that the queue could ever hold,
            if its size is the reason.
    """

    prospect: Prospect
    reason: str = ""
    taken: Mapping[tuple[str, str], int] = field(default_factory=dict)
    borrowed: Mapping[tuple[str, str], int] = field(default_factory=dict)
    victims: tuple[StoppedWorkload, ...] = ()
    left: Mapping[tuple[str, str], int] = field(default_factory=dict)
    start: StartEstimate | None = None
    largest: int | None = None
