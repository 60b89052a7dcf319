"""A decaying histogram of demand, small enough for a status. Pure.

Amounts are those of `Amount`. A weight is in thousandths of a sample, and halves in each half-life.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import timedelta
from itertools import pairwise

from multiqueue.lib.amount import Amount
from multiqueue.lib.digits import is_number

MOST_BUCKETS = 40
"""Buckets of one histogram; the two nearest ones become one when there are more (P-104)."""
SAMPLE = 1000
"""The weight of a new sample."""


class DemandHistogram:
    """How often which demand was seen.

    Args:
        buckets: Weight by amount.
    """

    def __init__(self, buckets: dict[Amount, float] | None = None) -> None:
        self._buckets = dict(buckets or {})

    @property
    def weight(self) -> float:
        """The weight of all samples."""
        return sum(self._buckets.values())

    def add(self, amount: Amount, weight: float = SAMPLE) -> None:
        """Add a sample."""
        self._buckets[amount] = self._buckets.get(amount, 0.0) + weight
        if len(self._buckets) > MOST_BUCKETS:
            self._merge()

    def decay(self, factor: float) -> None:
        """Multiply all weights."""
        self._buckets = {amount: weight * factor for amount, weight in self._buckets.items()}

    def percentile(self, percent: int) -> Amount:
        """Return the least amount that is as high as this part of the samples; 0 without any."""
        wanted, seen = self.weight * percent / 100, 0.0
        for amount, weight in self:
            seen += weight
            if seen >= wanted:
                return amount
        return max(self._buckets, default=0)  # rounding

    def excess_over(self, amount: Amount) -> float:
        """Return how much of the demand is above an amount, on average."""
        whole = self.weight
        above = sum(max(0, each - amount) * weight for each, weight in self)
        return above / whole if whole else 0.0

    def __iter__(self) -> Iterator[tuple[Amount, float]]:
        return iter(sorted(self._buckets.items()))

    def _merge(self) -> None:
        """Make one bucket of the two whose union moves the least weight the least far."""

        def cost(pair: tuple[tuple[Amount, float], tuple[Amount, float]]) -> float:
            (low, light), (high, heavy) = pair
            return (high - low) * light * heavy / (light + heavy)

        ordered = list(self)
        (low, light), (high, heavy) = min(pairwise(ordered), key=cost)
        del self._buckets[low], self._buckets[high]
        middle = round((low * light + high * heavy) / (light + heavy))
        self._buckets[middle] = light + heavy


def format_histogram(histogram: DemandHistogram) -> str:
    """Return ``amount:weight`` of each bucket, without those that have decayed to nothing."""
    return " ".join(f"{amount}:{int(weight)}" for amount, weight in histogram if weight >= 1)


def parse_histogram(text: str) -> DemandHistogram:
    """Read what `format_histogram` wrote; unreadable buckets count as never seen."""
    buckets: dict[Amount, float] = {}
    for part in text.split():
        amount, _, weight = part.partition(":")
        if is_number(amount) and is_number(weight):
            buckets[int(amount)] = float(weight)
    return DemandHistogram(buckets)


def full_weight(period: timedelta, every: timedelta, half_life: timedelta) -> float:
    """Return the weight of a period without a hole, at its end."""
    factor = decay_of(every, half_life)
    return SAMPLE * (1 - math.pow(factor, period / every)) / (1 - factor)


def decay_of(time: timedelta, half_life: timedelta) -> float:
    """Return what is left of a weight after some time."""
    return math.pow(0.5, time / half_life)
