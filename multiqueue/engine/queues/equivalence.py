"""Workloads of one ClusterQueue that are equal in all that counts (E-25, E-26).

When one of them cannot be admitted, none can: the whole class parks, and wakes, in O(1).
"""

from __future__ import annotations

from multiqueue.engine.explain import Explanation
from multiqueue.engine.queues.entry import Entry
from multiqueue.lib.heap import KeyedHeap
from multiqueue.model.workload import Shape


class EquivalenceClass:
    """Entries of one shape; the active ones and the parked ones, each in queue order.

    Shape: ``verdict`` is set from the moment the class parked until the next wake; workloads of the
    shape that arrive meanwhile park at once. ``lane`` is the LocalQueue where those take turns by
    past usage, else "": the classes of one shape then differ in it alone, and share the verdict.
    """

    __slots__ = ("active", "lane", "parked", "shape", "verdict")

    def __init__(self, shape: Shape, lane: str = "") -> None:
        self.shape = shape
        self.lane = lane
        self.active: KeyedHeap[Entry] = KeyedHeap()
        self.parked: KeyedHeap[Entry] = KeyedHeap()
        self.verdict: Explanation | None = None

    def __len__(self) -> int:
        return len(self.active) + len(self.parked)
