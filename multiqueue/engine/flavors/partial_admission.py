"""Find the largest gang that fits when a workload accepts fewer pods (E-60)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from multiqueue.model.workload import PodSet

T = TypeVar("T")


def find_reduced(
    pod_sets: Sequence[PodSet], try_counts: Callable[[list[int]], T | None]
) -> T | None:
    """Search the smallest reduction that `try_counts` accepts; None if none helps.

    All pod sets shrink in proportion, from their counts down to their minima. The search is binary
    and takes for granted that what fits still fits when it is smaller.
    """
    spans = [max(0, ps.count - (ps.min_count or ps.count)) for ps in pod_sets]
    total = sum(spans)
    low, high = 0, total + 1
    best: T | None = None
    while total and low < high:
        middle = (low + high) // 2
        counts = [
            ps.count - span * middle // total for ps, span in zip(pod_sets, spans, strict=True)
        ]
        found = try_counts(counts)
        if found is None:
            low = middle + 1
        else:
            best, high = found, middle
    return best
