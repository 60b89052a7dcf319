"""Usage of other workloads taken out of the tree for a while, to see what would fit then.

Always leaves the tree as it found it: callers restore in a ``finally``, or use `without`. The
version of the tree does not change, so memos of the real usage stay valid and must not be read
meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from multiqueue.engine.cache.tree import Tree
from multiqueue.engine.queues.entry import Entry


class Simulation:
    """What is taken out of one tree right now."""

    __slots__ = ("_removed", "_tree")

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._removed: dict[str, Entry] = {}

    def __contains__(self, entry: Entry) -> bool:
        return entry.key in self._removed

    def remove(self, entry: Entry) -> None:
        """Take out what a workload holds."""
        node = self._tree.queues[entry.charged].node
        for flavor_resource, amount in entry.usage.items():
            node.remove_usage(node.slot(flavor_resource), amount)
        self._removed[entry.key] = entry

    def put_back(self, entry: Entry) -> None:
        """Count again what a workload holds."""
        node = self._tree.queues[entry.charged].node
        for flavor_resource, amount in entry.usage.items():
            node.add_usage(node.slot(flavor_resource), amount)
        del self._removed[entry.key]

    def restore(self) -> None:
        """Put everything back."""
        for entry in list(self._removed.values()):
            self.put_back(entry)


@contextmanager
def without(tree: Tree, entries: Iterable[Entry]) -> Iterator[Simulation]:
    """Have the usage of these workloads taken out inside the block."""
    simulation = Simulation(tree)
    try:
        for entry in entries:
            simulation.remove(entry)
        yield simulation
    finally:
        simulation.restore()
