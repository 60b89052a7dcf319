"""Past usage of a LocalQueue; older usage counts less (E-120, E-121). Pure arithmetic.

Units: nanos, 1/1,000,000,000 of a whole unit (core, byte, device): what a quantity can tell apart,
so that the status of a LocalQueue holds exactly what is counted here. Scaling rounds down: what is
scaled again and again ends at nothing, and equal histories stay equal.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import TypeAlias

from multiqueue.lib.amount import Amount
from multiqueue.lib.quantity import NANO, Quantity
from multiqueue.model.resources import CPU

Nanos: TypeAlias = Mapping[str, int]
"""Resource -> nanos; missing resources count as zero."""

_ZERO = timedelta(0)


class PastUsage:
    """Mutable record of one LocalQueue; owned by the `PastUsageRecords`.

    Shape: ``consumed`` is the decayed history up to ``updated_at``; ``penalties`` by workload are
    entry penalties that are not part of it yet, ``pending`` is their sum. ``persisted_at`` is the
    time of the newest status that is known to be part of the history; None until one was read or
    written. ``value`` is what LocalQueues are compared by. It is that of all LocalQueues that count
    as one with this one (P-121).
    """

    __slots__ = ("consumed", "penalties", "pending", "persisted_at", "updated_at", "value")

    def __init__(self) -> None:
        self.consumed: Nanos = {}
        self.penalties: dict[str, Nanos] = {}
        self.pending: Nanos = {}
        self.updated_at: datetime | None = None
        self.persisted_at: datetime | None = None
        self.value = 0.0

    @property
    def has_pending(self) -> bool:
        """Whether a penalty that is greater than zero waits."""
        return any(self.pending.values())

    def penalize(self, workload: str, penalty: Nanos) -> None:
        """Record the penalty of a workload; it replaces an earlier one."""
        self.pending = add(self.pending, subtract(penalty, self.penalties.get(workload, {})))
        self.penalties[workload] = penalty

    def acquit(self, workload: str) -> Nanos | None:
        """Remove the penalty of a workload; None if it has none."""
        penalty = self.penalties.pop(workload, None)
        if penalty is not None:
            self.pending = subtract(self.pending, penalty)
        return penalty

    @property
    def total(self) -> Nanos:
        """The history and the penalties that wait."""
        return add(self.consumed, self.pending)

    def decay(self, current: Nanos, now: datetime, half_life: timedelta) -> Nanos:
        """Return the history up to now, with what is used at present since the last update."""
        elapsed = max(_ZERO, now - self.updated_at) if self.updated_at is not None else _ZERO
        rate = decay_rate(elapsed, half_life)
        return add(scale(self.consumed, 1 - rate), scale(current, rate))

    def advance(self, consumed: Nanos, now: datetime) -> None:
        """Take over a history up to now; the time of it never moves backwards."""
        self.consumed = consumed
        if self.updated_at is None or self.updated_at < now:
            self.updated_at = now


def weigh(total: Nanos, resource_weights: Mapping[str, float], weight: float) -> float:
    """Return what usage is compared by (E-120); with weight zero it comes after all others."""
    if weight <= 0:
        return math.inf
    weighed = (
        resource_weights.get(resource, 1.0) * (nanos / NANO)
        for resource, nanos in sorted(total.items())
    )
    return sum(weighed) / weight


def decay_rate(elapsed: timedelta, half_life: timedelta) -> float:
    """Return how much of the history is replaced after some time; nothing without a half-life."""
    if half_life == _ZERO:
        return 0.0
    return float(1 - 0.5 ** (elapsed / half_life))


def scale(nanos: Nanos, factor: float) -> Nanos:
    """Return a fraction of amounts, rounded down."""
    numerator, denominator = factor.as_integer_ratio()
    return {resource: value * numerator // denominator for resource, value in nanos.items()}


def add(one: Nanos, other: Nanos) -> Nanos:
    """Return the sum by resource."""
    return {
        resource: one.get(resource, 0) + other.get(resource, 0) for resource in {**one, **other}
    }


def subtract(one: Nanos, other: Nanos) -> Nanos:
    """Return the difference by resource."""
    return add(one, {resource: -value for resource, value in other.items()})


def nanos_of(resource: str, amount: Amount) -> int:
    """Return an amount of the engine in nanos; cpu is counted in milli there."""
    return amount * (NANO // 1000 if resource == CPU else NANO)


def nanos_in(quantities: Mapping[str, Quantity]) -> Nanos:
    """Return the amounts of the quantities."""
    return {resource: quantity.nano for resource, quantity in quantities.items()}


def quantities_of(nanos: Nanos) -> dict[str, Quantity]:
    """Return the amounts as quantities; those that decayed to zero are left out."""
    return {resource: Quantity(value) for resource, value in nanos.items() if value}
