"""The domains of one flavor: which nodes there are, grouped by level, and what is free on them.

Owns the numbering that every phase works with: domains of a level are numbered in the order of
their values, so that children are ranges and the number is the last tie-break (E-140). Structure
never changes; what is free does, and each change of a leaf is noted for `counts`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from multiqueue.engine.tas.node_filter import NodeFilter
from multiqueue.lib.amount import Amount
from multiqueue.model.resource_flavor import ResourceFlavor, Topology
from multiqueue.model.topology import HOSTNAME, Node

LeafKey: TypeAlias = tuple[str, ...]
"""How assignments name a leaf: its hostname alone, or the values of all levels (E-129)."""
Room: TypeAlias = dict[str, Amount]
"""By resource, with ``pods``."""


class DomainTree:
    """Domains of a flavor with a topology.

    Attributes:
        values: by level, the values of each domain from the widest level on.
        children: by level but the last, the numbers of each domain's children one level below.
        parents: by level, the number of each domain's parent; empty at the first level.
        free: by leaf, capacity that is not taken by pods without a topology (E-130).
        used: by leaf, what placed pods take; shared with `usage`, which keeps it.
        changes: how often free or used of a leaf changed; `changed_since` says which leaves.
    """

    def __init__(self, flavor: ResourceFlavor, topology: Topology, nodes: Iterable[Node]) -> None:
        self.flavor = flavor
        self.topology = topology.name
        self.levels = topology.levels
        self.names_nodes = self.levels[-1:] == (HOSTNAME,)
        members: dict[LeafKey, list[Node]] = {}
        for node in sorted(nodes, key=lambda node: node.name):
            path = tuple(node.labels[level] for level in self.levels)
            members.setdefault(path[-1:] if self.names_nodes else path, []).append(node)
        paths = {key: self._path(found[0]) for key, found in members.items()}
        keys = sorted(members, key=lambda key: paths[key])
        self.keys: Sequence[LeafKey] = keys
        self.leaf_by_key = {key: i for i, key in enumerate(keys)}
        self.nodes: Sequence[Sequence[Node]] = [members[key] for key in keys]
        self.leaf_by_node = {node.name: i for i, found in enumerate(self.nodes) for node in found}
        self.values, self.children, self.parents = _number([paths[key] for key in keys])
        self.values = self.values or [[] for _ in self.levels]
        self.free: list[Room] = [{} for _ in keys]
        self.used: list[Room] = [{} for _ in keys]
        self.changes = 0
        self._changed: dict[int, int] = {}  # leaf -> number of its last change, the last at the end
        self._filters: dict[NodeFilter, list[str]] = {}

    def _path(self, node: Node) -> tuple[str, ...]:
        return tuple(node.labels[level] for level in self.levels)

    @property
    def lowest(self) -> int:
        """The number of the last level."""
        return len(self.levels) - 1

    def set_free(self, leaf: int, free: Room) -> None:
        """Replace what is free on a leaf."""
        self.free[leaf] = free
        self.note_change(leaf)

    def take_free(self, leaf: int, requests: Mapping[str, Amount], count: int) -> None:
        """Have that much less free on a leaf; a negative count gives it back."""
        free = self.free[leaf]
        for resource, amount in requests.items():
            free[resource] = free.get(resource, 0) - amount * count
        self.note_change(leaf)

    def note_change(self, leaf: int) -> None:
        """Have counts of this leaf taken again."""
        self.changes += 1
        self._changed.pop(leaf, None)
        self._changed[leaf] = self.changes

    def changed_since(self, number: int) -> list[int]:
        """Return the leaves that changed after so many changes. Cost: O(their number)."""
        leaves = []
        for leaf, changed in reversed(self._changed.items()):
            if changed <= number:
                break
            leaves.append(leaf)
        return leaves

    def ancestor(self, leaf: int, level: int) -> int:
        """Return the number of the domain of that level around a leaf."""
        number = leaf
        for below in range(self.lowest, level, -1):
            number = self.parents[below][number]
        return number

    def refusals(self, node_filter: NodeFilter | None) -> Sequence[str] | None:
        """Return by leaf why pods may not run there, or an empty string; None: they may anywhere.

        Only single nodes are checked; of wider leaves only the room is known (E-131).
        """
        if node_filter is None or not self.names_nodes:
            return None
        found = self._filters.get(node_filter)
        if found is None:
            found = [node_filter.refuse(nodes[0]) for nodes in self.nodes]
            self._filters[node_filter] = found
        return found


def _number(
    paths: Sequence[tuple[str, ...]],
) -> tuple[list[list[tuple[str, ...]]], list[list[range]], list[list[int]]]:
    """Number the domains of sorted paths; return values, children and parents by level."""
    depth = len(paths[0]) if paths else 0
    values: list[list[tuple[str, ...]]] = []
    parents: list[list[int]] = []
    for level in range(depth):
        found: list[tuple[str, ...]] = []
        above: list[int] = []
        parent = -1
        for path in paths:
            if found and found[-1] == path[: level + 1]:
                continue
            if level and (parent < 0 or values[level - 1][parent] != path[:level]):
                parent += 1
            found.append(path[: level + 1])
            above.append(parent)
        values.append(found)
        parents.append(above if level else [])
    return (
        values,
        [_ranges(above, len(up)) for up, above in zip(values, parents[1:], strict=False)],
        parents,
    )


def _ranges(parents: Sequence[int], count: int) -> list[range]:
    ranges: list[range] = []
    start = 0
    for number in range(count):
        end = start
        while end < len(parents) and parents[end] == number:
            end += 1
        ranges.append(range(start, end))
        start = end
    return ranges
