"""Saturating int64 arithmetic for quotas, with an Unlimited that no request can exhaust.

An `Amount` is a plain int: cpu in milli units, everything else in base units (E-1). Quotas may be
`UNLIMITED`; usage is a sum of requests and always bounded. All code that adds or compares quota
calls this module, except that the hot path of `engine.cache` has its own copy of `subtract`.
"""

from __future__ import annotations

from typing import Final, TypeAlias

Amount: TypeAlias = int
"""Units: cpu in milli, memory and storage in bytes, others in whole units."""

UNLIMITED: Final[Amount] = 2**63 - 1
"""More than any bounded amount; survives adding and subtracting."""
LARGEST: Final[Amount] = UNLIMITED - 1
"""The largest bounded amount; a request that would overflow is clamped to it."""
SMALLEST: Final[Amount] = -(2**63)


def clamp(value: int) -> Amount:
    """Saturate a number at both ends of int64; too much becomes `UNLIMITED`."""
    return max(SMALLEST, min(UNLIMITED, value))


def add(left: Amount, right: Amount) -> Amount:
    """Return left + right; anything plus Unlimited is Unlimited."""
    if left >= UNLIMITED or right >= UNLIMITED:
        return UNLIMITED
    return clamp(left + right)


def subtract(left: Amount, right: Amount) -> Amount:
    """Return left - right; Unlimited minus something bounded stays Unlimited.

    Bounded minus Unlimited is `SMALLEST`, and Unlimited minus Unlimited is 0.
    """
    if left >= UNLIMITED:
        return 0 if right >= UNLIMITED else UNLIMITED
    if right >= UNLIMITED:
        return SMALLEST
    return clamp(left - right)


def multiply(value: Amount, count: int) -> Amount:
    """Return value times a number of pods, clamped to a bounded amount."""
    return max(SMALLEST, min(LARGEST, value * count))
