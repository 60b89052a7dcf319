"""Active classes of a ClusterQueue whose LocalQueues take turns by past usage (E-14, E-20).

One heap for each LocalQueue, and a small heap of LocalQueues by usage and head: when the usage of
one changes, only that LocalQueue moves, whatever the depth of the queue.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from multiqueue.engine.queues.entry import EquivalenceClass
from multiqueue.lib.heap import KeyedHeap

UsageOf: TypeAlias = Callable[[str], float]
"""Key of a LocalQueue -> its past usage (E-120)."""


class Lanes:
    """Mutable. The LocalQueue of least usage first; equal usage leaves it to the ranks.

    Does what a `KeyedHeap` of classes does, so that a pending queue works with either.
    """

    __slots__ = ("classes", "order", "usage_of")

    def __init__(self, usage_of: UsageOf) -> None:
        self.usage_of = usage_of
        self.classes: dict[str, KeyedHeap[EquivalenceClass]] = {}
        self.order: KeyedHeap[str] = KeyedHeap()

    def push(self, equals: EquivalenceClass, rank: Any) -> None:
        """Insert a class, or move it to another rank."""
        lane = self.classes.get(equals.lane)
        if lane is None:
            lane = self.classes[equals.lane] = KeyedHeap()
        lane.push(equals, rank)
        self._place(equals.lane, lane)

    def remove(self, equals: EquivalenceClass) -> bool:
        """Remove a class; return whether it was there."""
        lane = self.classes.get(equals.lane)
        if lane is None or not lane.remove(equals):
            return False
        self._place(equals.lane, lane)
        return True

    def __len__(self) -> int:
        """Return the number of active classes."""
        return sum(map(len, self.classes.values()))

    def peek(self) -> EquivalenceClass | None:
        """Return the class of the head, or None if nothing is active."""
        first = self.order.peek()
        return None if first is None else self.classes[first].peek()

    def reorder(self, local_queue: str) -> None:
        """Move a LocalQueue to where its usage puts it now."""
        lane = self.classes.get(local_queue)
        if lane is not None:
            self._place(local_queue, lane)

    def are_level(self, one: str, other: str) -> bool:
        """Whether two LocalQueues that have active classes have equal usage."""
        return bool(self.order.rank(one)[0] == self.order.rank(other)[0])

    def _place(self, name: str, lane: KeyedHeap[EquivalenceClass]) -> None:
        head = lane.peek()
        if head is None:
            self.order.remove(name)
            del self.classes[name]
        else:
            self.order.push(name, (self.usage_of(name), lane.rank(head)))
