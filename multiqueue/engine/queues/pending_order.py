"""All waiting workloads of a ClusterQueue in queue order (E-14, E-128), for readers.

The cycle needs only the head and never calls this.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TypeAlias

from multiqueue.engine.queues.entry import Entry, Rank
from multiqueue.engine.queues.pending_queue import PendingQueue
from multiqueue.model.cluster_queue import QueueingStrategy

STEP = 4096
"""Workloads per step, which takes a few milliseconds."""

Placed: TypeAlias = tuple[str, str]
"""(key of the workload, key of its LocalQueue)"""
_Row: TypeAlias = tuple[float, bool, Rank, str]


def ordered_in_steps(pending: PendingQueue, step: int = STEP) -> Iterator[Sequence[Placed]]:
    """Yield waiting workloads in queue order, in pieces; other tasks may run between them.

    The set is fixed by the first ``next``; empty pieces come while it is being sorted.
    Cost: O(n log n) in all, O(step log n) between two pieces.
    """
    entries = list(pending.members.values())
    runs: list[list[_Row]] = []
    for start in range(0, len(entries), step):
        runs.append(_sorted_rows(pending, entries[start : start + step]))
        yield ()
    merged = heapq.merge(*runs)
    while piece := [(rank[3], queue) for _, _, rank, queue in islice(merged, step)]:
        yield piece


def _sorted_rows(pending: PendingQueue, entries: Sequence[Entry]) -> list[_Row]:
    """Sort entries; in BestEffortFIFO the sticky one is first among equal past usage."""
    first = None if pending.strategy is QueueingStrategy.STRICT_FIFO else pending.sticky
    usage_of = pending.usage_of
    if usage_of is None:
        return sorted((0.0, e is not first, e.rank, e.workload.queue) for e in entries)
    return sorted(
        (usage_of(e.workload.queue), e is not first, e.rank, e.workload.queue) for e in entries
    )
