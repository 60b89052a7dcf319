"""Which DisruptionPolicy governs which ClusterQueue.

The nearest one counts, whole: that of the ClusterQueue, else of its Cohort, and so on. Budgets of
all policies on the way up count. What is found is kept until a spec or a policy changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from multiqueue.engine.cache.cache import Cache
from multiqueue.engine.cache.quota_node import FlavorResource, QuotaNode
from multiqueue.engine.cache.tree import Tree
from multiqueue.engine.disruption.cost import count_devices
from multiqueue.lib.amount import Amount
from multiqueue.model.disruption_policy import NO_RULES, BudgetRule, DisruptionRules

NOT_THERE = "is not there; create it, or change the annotation"


class Governed(NamedTuple):
    """What governs one ClusterQueue: the nearest policy, and the budgets on the way up."""

    rules: DisruptionRules
    budgets: tuple[BudgetRule, ...]


UNGOVERNED = Governed(NO_RULES, ())


class Governance:
    """The policies by name, and whom they govern. Mutable; owned by the engine."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._policies: dict[str, DisruptionRules] = {}
        self._trees: dict[Tree, Mapping[str, Governed] | None] = {}
        self._devices: dict[str, int] = {}
        self.ordered: set[Tree] = set()
        """The trees whose queues have the turns that their policies say."""

    def set_policy(self, name: str, rules: DisruptionRules | None) -> bool:
        """Add, change or (None) remove a policy; return whether that changed anything."""
        old = self._policies.get(name)
        if rules is None:
            self._policies.pop(name, None)
        else:
            self._policies[name] = rules
        self.forget()
        return old != rules

    def forget(self) -> None:
        """Drop what was found, because a queue, a Cohort or a policy changed."""
        self._trees.clear()
        self._devices.clear()
        self.ordered.clear()

    def of_tree(self, tree: Tree) -> Mapping[str, Governed] | None:
        """Return what governs each queue of a tree; None if no policy changes anything there."""
        try:
            return self._trees[tree]
        except KeyError:
            found = {name: self._govern(queue.node) for name, queue in tree.queues.items()}
            is_free = all(each.rules.is_empty and not each.budgets for each in found.values())
            self._trees[tree] = None if is_free else found
            return self._trees[tree]

    def of_tree_of(self, cluster_queue: str) -> Mapping[str, Governed] | None:
        """Return what governs the tree of a queue; None if no policy changes anything there."""
        tree = self._cache.tree_by_queue.get(cluster_queue)
        return None if tree is None else self.of_tree(tree)

    def of_queue(self, cluster_queue: str) -> Governed:
        """Return what governs a queue."""
        found = self.of_tree_of(cluster_queue)
        return UNGOVERNED if found is None else found.get(cluster_queue, UNGOVERNED)

    def devices_under(self, policy: str) -> int:
        """Return the devices in the nominal quota of all queues and Cohorts under a policy."""
        if policy not in self._devices:
            nodes = (
                node
                for tree in self._cache.trees.values()
                for node in (*tree.cohorts.values(), *(q.node for q in tree.queues.values()))
            )
            self._devices[policy] = count_nominal(n for n in nodes if policy in self._path(n))
        return self._devices[policy]

    def devices_of(self, cluster_queue: str) -> int:
        """Return the devices in the nominal quota of a queue."""
        queue = self._cache.queues.get(cluster_queue)
        return 0 if queue is None else count_nominal([queue.node])

    def _govern(self, node: QuotaNode) -> Governed:
        policies = [self._find(name) for name in self._path(node)]
        budgets = tuple(budget for rules in policies for budget in rules.budgets)
        return Governed(policies[0] if policies else NO_RULES, budgets)

    def _find(self, name: str) -> DisruptionRules:
        return self._policies.get(name) or DisruptionRules(name=name, problem=NOT_THERE)

    def _path(self, node: QuotaNode) -> tuple[str, ...]:
        """Return the names of the policies from a queue or Cohort up to the root, each once."""
        return tuple(dict.fromkeys(name for name in self._names(node) if name))

    def _names(self, node: QuotaNode) -> Iterator[str]:
        queue = self._cache.queues.get(node.name)
        if queue is not None and queue.node is node:
            yield queue.spec.disruption_policy
        else:
            yield self._cache.cohort(node.name).disruption_policy
        if node.parent is not None:
            yield from self._names(node.parent)


def count_nominal(nodes: Iterable[QuotaNode]) -> int:
    """Return the devices in the nominal quota of queues and Cohorts, as `count_devices` does."""
    total: dict[FlavorResource, Amount] = {}
    for node in nodes:
        for pair, slot in node.slot_by_flavor_resource.items():
            total[pair] = total.get(pair, 0) + node.nominal[slot]
    return count_devices(total)
