"""Capacity kept from lower-ranked heads for one cycle only (E-73, E-75, E-78).

A reservation is made for a blocked head, or for a head whose victims are about to leave.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager

from multiqueue.engine.cache.cached_queue import CachedQueue
from multiqueue.engine.flavors.assignment import Assignment
from multiqueue.engine.tas.forest import Forest
from multiqueue.engine.tas.usage import Charge, PlacedPods
from multiqueue.lib.amount import Amount, add, subtract


class Reservations:
    """Requested in the order of the heads; made only when a later head could take something.

    Most cycles in a full tree end without a reservation and cost nothing here. Reservations are
    undone when the cycle ends; usage of admissions stays. Room on nodes is reserved like quota, by
    owners whose names no workload can have.
    """

    __slots__ = ("_asked", "_forest", "_made", "_places")

    def __init__(self, forest: Forest) -> None:
        self._forest = forest
        self._places: dict[str, tuple[Charge, ...]] = {}
        self._asked: list[tuple[CachedQueue, Assignment]] = []
        self._made: list[tuple[CachedQueue, int, Amount]] = []

    def ask(self, queue: CachedQueue, assignment: Assignment) -> None:
        """Request a reservation of the assignment's needs, as far as the queue may use them."""
        self._asked.append((queue, assignment))

    def make(self) -> None:
        """Count all requested reservations as used."""
        for queue, assignment in self._asked:
            node = queue.node
            for slot, amount in assignment.usage.items():
                limit = node.borrowing_limit[slot]
                ceiling = node.nominal[slot]
                if assignment.borrowing > 0:
                    ceiling = node.usage[slot] + amount if limit is None else add(ceiling, limit)
                kept = max(0, min(amount, subtract(ceiling, node.usage[slot])))
                node.add_usage(slot, kept)
                self._made.append((queue, slot, kept))
            self._place(assignment.placed)
        self._asked.clear()

    def hold(self, queue: CachedQueue, assignment: Assignment) -> None:
        """Also count this usage, which becomes free once victims have left (E-75, E-78)."""
        for slot, amount in assignment.usage.items():
            queue.node.add_usage(slot, amount)
            self._made.append((queue, slot, amount))
        self._place(assignment.placed)

    def _place(self, placed: Sequence[PlacedPods]) -> None:
        if placed:
            owner = f"/{len(self._places)}"
            self._forest.charge(owner, placed)
            self._places[owner] = self._forest.usage.of(owner)

    def kept(self) -> Hashable:
        """Return a value that is equal if the same reservations were made."""
        return (tuple(self._made), tuple(self._places.values()))

    @contextmanager
    def lifted(self) -> Iterator[None]:
        """Count only the real usage inside the block."""
        for queue, slot, amount in reversed(self._made):
            queue.node.remove_usage(slot, amount)
        for owner in self._places:
            self._forest.release(owner)
        try:
            yield
        finally:
            for owner, places in self._places.items():
                self._forest.restore(owner, places)
            for queue, slot, amount in self._made:
                queue.node.add_usage(slot, amount)

    def undo(self) -> None:
        """Undo all reservations."""
        for queue, slot, amount in reversed(self._made):
            queue.node.remove_usage(slot, amount)
        for owner in self._places:
            self._forest.release(owner)
        self._made.clear()
        self._places.clear()
