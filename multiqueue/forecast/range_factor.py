"""The factor by which ranges of estimates are widened or narrowed. Pure. Parity: S-107."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import replace
from datetime import datetime, timedelta

from multiqueue.plugins.forecast import StartEstimate
from multiqueue.views.calibration import ENOUGH
from multiqueue.views.start import SLACK

INSIDE_PERCENT = 80
"""How many of the judged starts the ranges are to have inside."""
LEAST, MOST = 0.5, 4.0
STEPS = 100
"""Factors have two decimals."""


def find_factor(needed: Collection[float], before: float = 1.0) -> float:
    """Return the smallest factor with which four in five judged ranges would have held.

    Args:
        needed: The factor that each judged estimate needed.
        before: The factor with fewer of them than `ENOUGH`.
    """
    if len(needed) < ENOUGH:
        return before
    place = -(-len(needed) * INSIDE_PERCENT // 100) - 1
    found = min(MOST, max(LEAST, sorted(needed)[place]))
    return math.ceil(found * STEPS) / STEPS


def find_needed(late_by: timedelta, below: timedelta, above: timedelta) -> float:
    """Return the factor with which a range would have reached the start.

    Args:
        late_by: How much later than the median it started; less than zero: earlier.
        below: The range below the median, before any factor.
        above: The range above the median, before any factor.
    """
    missed, side = (late_by, above) if late_by > timedelta() else (-late_by, below)
    if missed <= timedelta():
        return 0.0
    return missed / side if side > timedelta() else math.inf


def less_slack(late_by: timedelta) -> timedelta:
    """Return how far a start is from the median, less the half minute that never counts."""
    slack = min(SLACK, abs(late_by))
    return late_by - slack if late_by > timedelta() else late_by + slack


def widen(start: StartEstimate, factor: float, now: datetime) -> StartEstimate:
    """Return an estimate whose range is so many times as wide, but does not begin in the past."""
    return replace(
        start,
        earliest=max(start.at - (start.at - start.earliest) * factor, min(start.earliest, now)),
        latest=start.at + (start.latest - start.at) * factor,
    )
