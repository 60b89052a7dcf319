"""What devices cost, day by day. Pure. Parity: S-163."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # `multiqueue usage` starts faster without the configuration
    from multiqueue.api.config.types import UsagePrice


class Prices:
    """Finds prices.

    Args:
        prices: Those of the configuration, in any order.

    Attributes:
        currency: The unit of all of them.
    """

    def __init__(self, prices: Iterable[UsagePrice]) -> None:
        ordered = sorted(prices, key=lambda price: price.valid_from)
        self.currency = ordered[0].currency if ordered else ""
        self._by_flavor: dict[str, list[UsagePrice]] = {}
        for price in ordered:
            self._by_flavor.setdefault(price.flavor, []).append(price)

    def find(self, flavor: str, day: str) -> float | None:
        """Return the price of a device for an hour on a day; None if there is none."""
        known = self._by_flavor.get(flavor, ())
        place = bisect_right(known, day, key=lambda price: price.valid_from)
        return known[place - 1].per_gpu_hour if place else None
