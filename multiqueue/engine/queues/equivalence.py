"""Workloads of one ClusterQueue that are equal in all that counts (E-25, E-26).

When one of them cannot be admitted, none can: the whole class parks, and wakes, in O(1).
"""

from __future__ import annotations

from collections.abc import Mapping

from multiqueue.engine.explain import Explanation
from multiqueue.engine.queues.entry import Entry
from multiqueue.lib.heap import KeyedHeap
from multiqueue.model.workload import Shape


class EquivalenceClass:
    """Entries of one shape; the active ones and the parked ones, each in queue order.

    Shape: ``verdict`` is set from the moment the class parked until the next wake; workloads of the
    shape that arrive meanwhile park at once. ``lane`` is the LocalQueue where those take turns by
    past usage, else "": the classes of one shape then differ in it alone, and share the verdict.
    ``active_of`` and ``parked_of`` count the entries by LocalQueue.
    """

    __slots__ = ("active", "active_of", "lane", "parked", "parked_of", "shape", "verdict")

    def __init__(self, shape: Shape, lane: str = "") -> None:
        self.shape = shape
        self.lane = lane
        self.active: KeyedHeap[Entry] = KeyedHeap()
        self.parked: KeyedHeap[Entry] = KeyedHeap()
        self.active_of: dict[str, int] = {}
        self.parked_of: dict[str, int] = {}
        self.verdict: Explanation | None = None

    def __len__(self) -> int:
        return len(self.active) + len(self.parked)

    def activate(self, entry: Entry) -> None:
        """Take in an entry, or move it to its new rank."""
        if entry not in self.active:
            count(self.active_of, entry.workload.queue, 1)
        self.active.push(entry, entry.rank)

    def hold(self, entry: Entry) -> None:
        """Take in an entry that waits for a wake."""
        count(self.parked_of, entry.workload.queue, 1)
        self.parked.push(entry, entry.rank)

    def remove(self, entry: Entry) -> bool:
        """Take out an entry; whether it was active."""
        was_active = self.active.remove(entry)
        if was_active or self.parked.remove(entry):
            count(self.active_of if was_active else self.parked_of, entry.workload.queue, -1)
        return was_active

    def park(self) -> Mapping[str, int]:
        """Let all wait for a wake; return how many of each LocalQueue were active."""
        moved = self.active_of
        self.parked.absorb(self.active)
        self.active_of, self.parked_of = {}, _merged(self.parked_of, moved)
        return moved

    def wake(self) -> Mapping[str, int]:
        """Let all be tried again; return how many of each LocalQueue were parked."""
        moved = self.parked_of
        self.active.absorb(self.parked)
        self.parked_of, self.active_of = {}, _merged(self.active_of, moved)
        return moved


def count(counts: dict[str, int], local_queue: str, change: int) -> None:
    """Change a count; what is not there counts as nothing."""
    number = counts.get(local_queue, 0) + change
    if number:
        counts[local_queue] = number
    else:
        del counts[local_queue]


def _merged(counts: dict[str, int], more: dict[str, int]) -> dict[str, int]:
    if not counts:
        return more
    for local_queue, number in more.items():
        count(counts, local_queue, number)
    return counts
