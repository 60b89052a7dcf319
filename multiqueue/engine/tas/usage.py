"""What placed pods take of each leaf, by workload (E-130)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple, TypeAlias

from multiqueue.engine.tas.counts import Requests
from multiqueue.engine.tas.tree import LeafKey, Room
from multiqueue.model.topology import TopologyAssignment

Pool: TypeAlias = str
"""Leaves of one pool are the same thing in all trees: those of a flavor, or all nodes."""
ALL_NODES: Pool = ""


class PlacedPods(NamedTuple):
    """Equal pods in the domains of a flavor; ``requests`` are of one pod, with ``pods``."""

    flavor: str
    requests: Requests
    assignment: TopologyAssignment


class Charge(NamedTuple):
    """Pods on one leaf."""

    pool: Pool
    key: LeafKey
    requests: Requests
    pods: int


class PlacedUsage:
    """The sum of all placed pods.

    Args:
        shares_nodes: gate TASHandleOverlappingFlavors: a node counts once, whatever flavors it is
            in; else each flavor reckons with its own pods only.
    """

    def __init__(self, *, shares_nodes: bool = True) -> None:
        self._shares_nodes = shares_nodes
        self.charges: dict[str, tuple[Charge, ...]] = {}
        self.rooms: dict[tuple[Pool, LeafKey], Room] = {}

    def pool(self, flavor: str, *, names_nodes: bool) -> Pool:
        """Return the pool that leaves of a flavor are in."""
        return ALL_NODES if self._shares_nodes and names_nodes else flavor

    def room(self, pool: Pool, key: LeafKey) -> Room:
        """Return what is used of a leaf: always the same object, which changes."""
        return self.rooms.setdefault((pool, key), {})

    def charges_of(self, placed: Iterable[PlacedPods]) -> tuple[Charge, ...]:
        """Return what pods take, leaf by leaf."""
        return tuple(self._each(placed))

    def _each(self, placed: Iterable[PlacedPods]) -> Iterator[Charge]:
        for flavor, requests, assignment in placed:
            pool = self.pool(flavor, names_nodes=assignment.names_nodes)
            for domain in assignment.domains:
                values = domain.values[-1:] if assignment.names_nodes else domain.values
                yield Charge(pool, values, requests, domain.count)

    def replace(self, owner: str, charges: tuple[Charge, ...]) -> set[tuple[Pool, LeafKey]]:
        """Have an owner take that instead of what it took; return the leaves that changed."""
        old = self.charges.pop(owner, ())
        if charges:
            self.charges[owner] = charges
        if old == charges:
            return set()
        self._add(old, -1)
        self._add(charges, 1)
        return {(charge.pool, charge.key) for charge in (*old, *charges)}

    def of(self, owner: str) -> tuple[Charge, ...]:
        """Return what an owner takes."""
        return self.charges.get(owner, ())

    def _add(self, charges: Iterable[Charge], sign: int) -> None:
        for charge in charges:
            room = self.room(charge.pool, charge.key)
            for resource, amount in charge.requests:
                room[resource] = room.get(resource, 0) + sign * amount * charge.pods
