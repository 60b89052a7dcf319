"""Completion indexes of an Indexed Job: ``0-3,7`` and the like. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from multiqueue.lib.digits import is_number


def count_indexes(texts: Iterable[str], *, below: int) -> int:
    """Count the different indexes in [0, below) listed; what cannot be read is skipped."""
    intervals = sorted(
        interval
        for text in texts
        for part in text.split(",")
        if (interval := _interval(part, below)) is not None
    )
    count, end = 0, -1
    for first, last in intervals:
        begin = max(first, end + 1)
        if last >= begin:
            count += last - begin + 1
            end = last
    return count


def _interval(text: str, below: int) -> tuple[int, int] | None:
    first, dash, last = text.strip().partition("-")
    if not is_number(first) or (dash and not is_number(last)):
        return None
    low, high = int(first), int(last) if dash else int(first)
    high = min(high, below - 1)
    return (low, high) if low <= high else None
