"""Usage of other workloads taken out of the tree for a while, to see what would fit then.

Placed pods are taken off their nodes too, unless only some flavor-resources are searched.
Always leaves the tree as it found it: callers restore in a ``finally``, or use `without`. The
version of the tree does not change, so memos of the real usage stay valid and must not be read
meanwhile.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager

from multiqueue.engine.cache.quota_node import FlavorResource, QuotaNode
from multiqueue.engine.cache.tree import Tree
from multiqueue.engine.queues.entry import Entry
from multiqueue.engine.tas.usage import Charge
from multiqueue.lib.amount import Amount


class Simulation:
    """What is taken out of one tree right now.

    Args:
        tree: which everything removed holds quota of.
        only: the flavor-resources that somebody looks at; None for all.
    """

    __slots__ = ("_only", "_places", "_removed", "_tree")

    def __init__(self, tree: Tree, only: Collection[FlavorResource] | None = None) -> None:
        self._tree = tree
        self._only = only
        self._removed: dict[str, Entry] = {}
        self._places: dict[str, tuple[Charge, ...]] = {}

    def remove(self, entry: Entry) -> None:
        """Take out what a workload holds."""
        node, only = self._tree.queues[entry.charged].node, self._only
        for flavor_resource, amount in entry.usage.items():
            if only is None or flavor_resource in only:
                node.remove_usage(node.slot(flavor_resource), amount)
        self._removed[entry.key] = entry
        if only is None and (places := self._tree.forest.release(entry.key)):
            self._places[entry.key] = places

    def put_back(self, entry: Entry) -> None:
        """Count again what a workload holds."""
        node, only = self._tree.queues[entry.charged].node, self._only
        for flavor_resource, amount in entry.usage.items():
            if only is None or flavor_resource in only:
                node.add_usage(node.slot(flavor_resource), amount)
        del self._removed[entry.key]
        if places := self._places.pop(entry.key, None):
            self._tree.forest.restore(entry.key, places)

    def restore(self) -> None:
        """Put everything back."""
        for entry in list(self._removed.values()):
            self.put_back(entry)


@contextmanager
def without(
    tree: Tree, entries: Iterable[Entry], only: Collection[FlavorResource] | None = None
) -> Iterator[Simulation]:
    """Have the usage of these workloads taken out inside the block; see `Simulation`."""
    simulation = Simulation(tree, only)
    try:
        for entry in entries:
            simulation.remove(entry)
        yield simulation
    finally:
        simulation.restore()


class LeavingUsage:
    """The usage of workloads that leave, summed up for each queue.

    It is taken out as sums, so a question that is asked often does not go through all of them.

    Args:
        tree: which they all hold quota of.
    """

    __slots__ = ("_keys", "_sums", "_tree")

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._keys: list[str] = []
        self._sums: dict[tuple[str, int], Amount] = {}

    def add(self, entry: Entry) -> None:
        """Add one that leaves, too."""
        node = self._tree.queues[entry.charged].node
        self._keys.append(entry.key)
        for flavor_resource, amount in entry.usage.items():
            place = entry.charged, node.slot(flavor_resource)
            self._sums[place] = self._sums.get(place, 0) + amount

    @contextmanager
    def taken_out(self) -> Iterator[None]:
        """Have the usage of all of them taken out inside the block."""
        queues, forest = self._tree.queues, self._tree.forest
        taken: list[tuple[QuotaNode, int, Amount]] = []
        places: dict[str, tuple[Charge, ...]] = {}
        try:
            for (name, slot), amount in self._sums.items():
                node = queues[name].node
                node.remove_usage(slot, amount)
                taken.append((node, slot, amount))
            for key in self._keys:
                places[key] = forest.release(key)
            yield
        finally:
            for key, charges in places.items():
                if charges:
                    forest.restore(key, charges)
            for node, slot, amount in taken:
                node.add_usage(slot, amount)
