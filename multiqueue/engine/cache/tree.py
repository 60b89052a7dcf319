"""A cohort tree, or a ClusterQueue on its own: the unit of a decision.

Queues of different trees never influence each other, so each tree has its own cycles and its own
version. Built as a whole when a spec in it changes; usage alone never rebuilds it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from multiqueue.engine.cache.cached_queue import CachedQueue
from multiqueue.engine.cache.quota_node import QuotaNode
from multiqueue.engine.tas.forest import Forest
from multiqueue.lib.amount import Amount
from multiqueue.model.cluster_queue import Cohort


class Tree:
    """Quota nodes of one tree and the ClusterQueues in it.

    Shape: ``key`` names the tree: the root cohort, or the ClusterQueue with a mark that no cohort
    name can have. ``version`` grows with everything that can change a verdict in this tree,
    ``epoch`` when that came from outside: not from one of its workloads preempting another.
    ``forest`` is that of all trees: nodes belong to nobody.
    ``child_cohorts`` and ``child_queues`` are by name of the cohort that they are directly in.
    """

    __slots__ = (
        "child_cohorts",
        "child_queues",
        "cohorts",
        "epoch",
        "forest",
        "in_cycle",
        "key",
        "queues",
        "version",
    )

    def __init__(self, key: str, forest: Forest, *, in_cycle: bool = False) -> None:
        self.key = key
        self.forest = forest
        self.in_cycle = in_cycle
        self.version = 0
        self.epoch = 0
        self.cohorts: dict[str, QuotaNode] = {}
        self.queues: dict[str, CachedQueue] = {}
        self.child_cohorts: dict[str, list[QuotaNode]] = {}
        self.child_queues: dict[str, list[CachedQueue]] = {}

    def add_usage(self, queue: CachedQueue, usage: Mapping[tuple[str, str], Amount]) -> None:
        """Count usage in a queue and along its path to the root."""
        node = queue.node
        for flavor_resource, amount in usage.items():
            node.add_usage(node.slot(flavor_resource), amount)
        self.version += 1

    def remove_usage(self, queue: CachedQueue, usage: Mapping[tuple[str, str], Amount]) -> None:
        """Subtract usage from a queue and along its path to the root."""
        node = queue.node
        for flavor_resource, amount in usage.items():
            node.remove_usage(node.slot(flavor_resource), amount)
        queue.generation += 1
        self.version += 1

    def queues_below(self, cohort: str) -> Iterator[CachedQueue]:
        """Iterate over the ClusterQueues of a cohort and of the cohorts below it."""
        yield from self.child_queues.get(cohort, ())
        for child in self.child_cohorts.get(cohort, ()):
            yield from self.queues_below(child.name)

    def set_heights(self) -> None:
        """Compute the heights of the cohorts; inactive queues are no children (E-37)."""
        for node in reversed(self.cohorts.values()):
            node.height = 0
        for queue in self.queues.values():
            if queue.is_active and queue.node.parent is not None:
                queue.node.parent.height = 1
        for node in reversed(self.cohorts.values()):
            if node.parent is not None:
                node.parent.height = max(node.parent.height, node.height + 1)


def build_tree(
    key: str,
    cohorts: Iterable[Cohort],
    queues: Iterable[CachedQueue],
    forest: Forest,
    *,
    in_cycle: bool,
) -> Tree:
    """Build the nodes of a tree and carry the usage of its queues over.

    Args:
        key: The name of the tree.
        cohorts: The cohorts of this tree, parents before children.
        queues: The queues of this tree; each leaves its old node.
        forest: The nodes on which their pods are placed.
        in_cycle: The cohorts have no root; the queues stand alone and must not be active.
    """
    tree = Tree(key, forest, in_cycle=in_cycle)
    for cohort in () if in_cycle else cohorts:
        node = tree.cohorts[cohort.name] = QuotaNode(cohort.name, tree.cohorts.get(cohort.parent))
        node.weight = float(cohort.weight)
        node.declare(cohort.resource_groups)
        if node.parent is not None:
            tree.child_cohorts.setdefault(node.parent.name, []).append(node)
    used = {}
    for queue in queues:
        used[queue.name] = queue.usage()
        queue.set_node(QuotaNode(queue.name, tree.cohorts.get(queue.spec.cohort)))
        tree.queues[queue.name] = queue
        if queue.node.parent is not None:
            tree.child_queues.setdefault(queue.node.parent.name, []).append(queue)
    nodes = [*tree.cohorts.values(), *(queue.node for queue in tree.queues.values())]
    for node in reversed(nodes):
        node.lend_upwards()
    for node in nodes:
        node.limit_potential()
    for name, usage in used.items():
        queue = tree.queues[name]
        for flavor_resource, amount in usage.items():
            queue.node.add_usage(queue.node.slot(flavor_resource), amount)
    return tree
