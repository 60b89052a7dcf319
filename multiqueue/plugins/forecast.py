"""What would become of a Workload on a cluster: what-if answers, known before anything is sent.

The manager tries each decision on its own copy of the worker's queues. Nothing here is a promise:
the worker decides, and others submit there too.

Units: amounts as in `multiqueue.plugins.view`; speeds in thousandths of the speed of the reference
hardware; money in thousandths of whatever currency the operator writes; times aware, in UTC.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum


class Prospect(StrEnum):
    """What a worker's engine would do with the Workload now, the best first."""

    FITS = "Fits"
    """Room within what is guaranteed to the queue."""
    BORROWS = "Borrows"
    """Room, some of it lent by others, who may take it back."""
    PREEMPTS = "Preempts"
    """Room once others are stopped."""
    WAITS = "Waits"
    """It can hold the gang, but not now."""
    UNKNOWN = "Unknown"
    """The manager may not read enough there to say."""
    NEVER = "Never"
    """The gang is larger than everything it has, or asks for other hardware."""


class Basis(StrEnum):
    """Where a runtime is known from, the most reliable first."""

    DECLARED = "Declared"
    """The job says it (``multiqueue.dev/runtime``)."""
    HISTORICAL = "Historical"
    """Finished jobs of the same class took that long."""
    LIMITED = "Limited"
    """Its maximum execution time bounds it."""
    ASSUMED = "Assumed"
    """Nothing is known; what jobs take in general."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """How long a job runs on the reference hardware.

    Attributes:
        expected: The median.
        low: One in ten is shorter.
        high: One in ten is longer.
        basis: Where that is known from.
        astray: The part, from 0 to 1, of jobs known as well as this that turned out to be nothing
            like it; the tenths are those of the others.
    """

    expected: timedelta
    low: timedelta
    high: timedelta
    basis: Basis = Basis.ASSUMED
    astray: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class StartEstimate:
    """When a Workload would start; four in five start between ``earliest`` and ``latest``.

    Attributes:
        at: The median.
        earliest: One in ten starts before.
        latest: One in ten starts after.
        ahead: Workloads that are expected to start there before it.
        spare: How much of the resource that matters most stays free there when it starts.
    """

    at: datetime
    earliest: datetime
    latest: datetime
    ahead: int = 0
    spare: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StoppedWorkload:
    """A Workload that would be stopped.

    Attributes:
        key: ``namespace/name`` there.
        queue: Its ClusterQueue there.
        priority: Its priority there.
        lost: GPU time (of all its GPUs together) since it began, or since its last checkpoint
            where it says so: what has to be done again.
    """

    key: str
    queue: str = ""
    priority: int = 0
    lost: timedelta = timedelta()


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """What a cluster would do with the Workload.

    Attributes:
        prospect: In a word.
        reason: In words, with numbers.
        taken: What it would get, by flavor and resource; empty where it would get nothing now.
        borrowed: How much of ``taken`` is lent by others.
        victims: Who would be stopped for it, in the order of the engine.
        left: What would stay free in the flavors of ``taken``, by flavor and resource.
        start: When it would start; None where that is not known (`Prospect.UNKNOWN`) or never.
        largest: With `Prospect.NEVER`: the most pods of this gang that it could ever hold, where
            size is the reason.
    """

    prospect: Prospect
    reason: str = ""
    taken: Mapping[tuple[str, str], int] = field(default_factory=dict)
    borrowed: Mapping[tuple[str, str], int] = field(default_factory=dict)
    victims: tuple[StoppedWorkload, ...] = ()
    left: Mapping[tuple[str, str], int] = field(default_factory=dict)
    start: StartEstimate | None = None
    largest: int | None = None
