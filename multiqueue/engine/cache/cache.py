"""Mirror of the quota side: flavors, checks, the quota trees and their usage.

Written by the engine facade only, read by the cycle. A change of a spec rebuilds the one or two
trees it touches; workloads only move usage along a path.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar

from multiqueue.api.names import MULTIKUEUE_CONTROLLER
from multiqueue.engine.cache.activity import References, judge_activity
from multiqueue.engine.cache.cached_queue import CachedQueue
from multiqueue.engine.cache.cohort_graph import CohortGraph
from multiqueue.engine.cache.tree import Tree, build_tree
from multiqueue.engine.tas.forest import Forest
from multiqueue.lib.amount import Amount
from multiqueue.model.cluster_queue import AdmissionCheckInfo, ClusterQueue, Cohort
from multiqueue.model.resource_flavor import ResourceFlavor, Topology
from multiqueue.model.topology import Node

T = TypeVar("T")

ALONE = "/"
"""Begins the key of a tree that is one ClusterQueue; no cohort name contains it."""


class Cache:
    """Quota trees by key and ClusterQueues by name.

    Methods that change something return the keys of the trees whose verdicts may change.
    Shape: ``restated`` collects ClusterQueues whose activity changed, until somebody clears it.
    """

    def __init__(self, forest: Forest | None = None) -> None:
        self.forest = forest or Forest()
        self.flavors: dict[str, ResourceFlavor] = {}
        self.checks: dict[str, AdmissionCheckInfo] = {}
        self.topologies: dict[str, Topology] = {}
        self.namespaces: dict[str, Mapping[str, str]] = {}
        self.queues: dict[str, CachedQueue] = {}
        self.trees: dict[str, Tree] = {}
        self.tree_by_queue: dict[str, Tree] = {}
        self.restated: set[str] = set()
        self._graph = CohortGraph()
        self._members: dict[str, set[str]] = {}
        self._queues_by_flavor: dict[str, set[str]] = {}
        self._queues_by_check: dict[str, set[str]] = {}

    # ---------------------------------------------------------------- ClusterQueues and Cohorts

    def upsert_cluster_queue(self, spec: ClusterQueue) -> set[str]:
        """Add or change a ClusterQueue; return no trees if nothing relevant changed."""
        queue = self.queues.get(spec.name)
        if queue is None:
            queue = self.queues[spec.name] = CachedQueue(spec)
            self._link(queue)
            return self._rebuild({self._key_of(spec)})
        old = queue.spec
        if old == spec:
            return set()
        touched = {self._key_of(old)}
        self._unlink(queue)
        queue.set_spec(spec)
        self._link(queue)
        if old.cohort == spec.cohort and old.resource_groups == spec.resource_groups:
            self._judge(queue)
            return self._touch(touched)
        return self._rebuild(touched | {self._key_of(spec)})

    def delete_cluster_queue(self, name: str) -> set[str]:
        """Remove a ClusterQueue and what it lent."""
        queue = self.queues.pop(name, None)
        if queue is None:
            return set()
        self._unlink(queue)
        del self.tree_by_queue[name]
        return self._rebuild({self._key_of(queue.spec)})

    def upsert_cohort(self, cohort: Cohort) -> set[str]:
        """Add or change a Cohort object."""
        if self._graph.find(cohort.name) == cohort:
            return set()
        touched = {self._graph.root_of(cohort.name)[0]}
        self._graph.set(cohort)
        return self._rebuild(touched | {self._graph.root_of(cohort.name)[0]})

    def delete_cohort(self, name: str) -> set[str]:
        """Remove a Cohort object; its members stay together in an implicit one."""
        if self._graph.find(name) is None:
            return set()
        touched = {self._graph.root_of(name)[0]}
        self._graph.remove(name)
        return self._rebuild(touched | {self._graph.root_of(name)[0]})

    def cohort(self, name: str) -> Cohort:
        """Return a Cohort; one without settings if there is no object."""
        return self._graph.get(name)

    def tree_of_cohort(self, name: str) -> Tree | None:
        """Return the tree that a cohort is in; None if that tree has no queue."""
        return self.trees.get(self._graph.root_of(name)[0])

    # ---------------------------------------------------------------- what queues refer to

    def set_flavor(self, name: str, flavor: ResourceFlavor | None) -> set[str]:
        """Add, change or (None) remove a ResourceFlavor."""
        if not _replace(self.flavors, name, flavor):
            return set()
        self.forest.set_flavor(name, flavor)
        return self._judge_all(self._queues_by_flavor.get(name, set()))

    def set_check(self, name: str, check: AdmissionCheckInfo | None) -> set[str]:
        """Add, change or (None) remove an AdmissionCheck; return the trees of toggled queues."""
        if not _replace(self.checks, name, check):
            return set()
        names = sorted(self._queues_by_check.get(name, set()))
        before = {name: self.queues[name].is_active for name in names}
        self._judge_all(names)
        return {
            self.tree_by_queue[name].key
            for name in names
            if self.queues[name].is_active != before[name]
        }

    def set_topology(self, name: str, topology: Topology | None) -> set[str]:
        """Add, change or (None) remove a Topology."""
        if not _replace(self.topologies, name, topology):
            return set()
        self.forest.set_topology(name, topology)
        users = {f.name for f in self.flavors.values() if f.topology_name == name}
        queues = {q for flavor in users for q in self._queues_by_flavor.get(flavor, set())}
        return self._judge_all(queues)

    def set_node(self, name: str, node: Node | None) -> set[str]:
        """Add, change or (None) remove a node; return the trees that can place pods on it."""
        return self._touch(self._users_of(self.forest.set_node(name, node)))

    def set_pod(self, key: str, node: str, requests: Mapping[str, Amount] | None) -> set[str]:
        """Note the usage of a pod that no topology placed; return the trees with its node."""
        return self._touch(self._users_of(self.forest.set_pod(key, node, requests)))

    def touch_users(self, flavors: Iterable[str]) -> set[str]:
        """Invalidate the verdicts of the trees that use these flavors; return their keys.

        Used when workloads of a tree place or remove pods, which is no change from outside.
        """
        keys = self._users_of(flavors)
        for key in keys:
            self.trees[key].version += 1
        return keys

    def _users_of(self, flavors: Iterable[str]) -> set[str]:
        queues = {queue for flavor in flavors for queue in self._queues_by_flavor.get(flavor, ())}
        return {self.tree_by_queue[name].key for name in queues}

    def set_namespace(self, name: str, labels: Mapping[str, str] | None) -> set[str]:
        """Add, change or (None) remove a namespace; return the trees of newly matching queues."""
        before = self.namespaces.get(name)
        if not _replace(self.namespaces, name, labels):
            return set()
        gained = set()
        for queue in self.queues.values():
            did, does = (
                side is not None and queue.selector.matches(side) for side in (before, labels)
            )
            if did != does:
                self.tree_by_queue[queue.name].version += 1
            if does and not did:
                gained.add(self.tree_by_queue[queue.name].key)
        return gained

    # ---------------------------------------------------------------- trees

    def _key_of(self, spec: ClusterQueue) -> str:
        return self._graph.root_of(spec.cohort)[0] if spec.cohort else ALONE + spec.name

    def _rebuild(self, keys: set[str]) -> set[str]:
        """Build the trees of the keys anew; a tree that lost its root becomes several."""
        keys |= {self._graph.root_of(key)[0] for key in keys if not key.startswith(ALONE)}
        former = [tree for key in sorted(keys) if (tree := self.trees.pop(key, None))]
        orphans = [name for tree in former for name in tree.queues if name in self.queues]
        keys |= {self._key_of(self.queues[name].spec) for name in orphans}
        for key in sorted(keys):
            if key.startswith(ALONE) or self._graph.root_of(key)[0] == key:
                self._build(key)
        return keys

    def _build(self, key: str) -> None:
        self.trees.pop(key, None)
        if key.startswith(ALONE):
            name = key.removeprefix(ALONE)
            queue = self.queues.get(name)
            members = [queue] if queue is not None and not queue.spec.cohort else []
            tree = build_tree(key, (), members, self.forest, in_cycle=False)
        else:
            cohorts = list(self._graph.subtree(key))
            members = [
                self.queues[name]
                for cohort in cohorts
                for name in sorted(self._members.get(cohort.name, ()))
            ]
            in_cycle = self._graph.root_of(key)[1]
            tree = build_tree(key, cohorts, members, self.forest, in_cycle=in_cycle)
        if members:
            self.trees[key] = tree
        for queue in members:
            self.tree_by_queue[queue.name] = tree
            self._judge(queue)
        tree.set_heights()

    # ---------------------------------------------------------------- activity

    def _judge_all(self, names: Iterable[str]) -> set[str]:
        for name in names:
            self._judge(self.queues[name])
        return self._touch({self.tree_by_queue[name].key for name in names})

    def _judge(self, queue: CachedQueue) -> None:
        tree = self.tree_by_queue[queue.name]
        references = References(
            flavors=self.flavors, checks=self.checks, topologies=self.topologies
        )
        was_active = queue.is_active
        activity = judge_activity(queue.spec, references, in_cycle=tree.in_cycle)
        if activity != queue.activity:
            queue.activity = activity
            self.restated.add(queue.name)
        flavors = [self.flavors.get(name) for name in queue.flavors()]
        queue.has_only_topologies = all(f is not None and f.topology_name for f in flavors)
        queue.has_topologies = any(f is not None and f.topology_name for f in flavors)
        queue.remote_check = next(self._remote_checks(queue.spec), "")
        tree.version += 1
        if queue.is_active != was_active:
            tree.set_heights()

    def _remote_checks(self, spec: ClusterQueue) -> Iterator[str]:
        for name in sorted(rule.name for rule in spec.checks):
            check = self.checks.get(name)
            if check is not None and check.controller_name == MULTIKUEUE_CONTROLLER:
                yield name

    def touch_trees(self) -> set[str]:
        """Invalidate all verdicts, because rules changed; return the keys of all trees."""
        return self._touch(set(self.trees))

    def touch_remote(self) -> set[str]:
        """Invalidate verdicts on workloads that run on other clusters; return their trees."""
        remote = {
            queue
            for name, check in self.checks.items()
            if check.controller_name == MULTIKUEUE_CONTROLLER
            for queue in self._queues_by_check.get(name, ())
        }
        return self._touch({self.tree_by_queue[name].key for name in remote})

    def _touch(self, keys: set[str]) -> set[str]:
        for key in keys:
            self.trees[key].version += 1
            self.trees[key].epoch += 1
        return keys

    # ---------------------------------------------------------------- indexes

    def _link(self, queue: CachedQueue) -> None:
        spec = queue.spec
        if spec.cohort:
            self._members.setdefault(spec.cohort, set()).add(spec.name)
        for flavor in queue.flavors():
            self._queues_by_flavor.setdefault(flavor, set()).add(spec.name)
        for rule in spec.checks:
            self._queues_by_check.setdefault(rule.name, set()).add(spec.name)

    def _unlink(self, queue: CachedQueue) -> None:
        spec = queue.spec
        _discard(self._members, spec.cohort, spec.name)
        for flavor in queue.flavors():
            _discard(self._queues_by_flavor, flavor, spec.name)
        for rule in spec.checks:
            _discard(self._queues_by_check, rule.name, spec.name)


def _replace(objects: dict[str, T], name: str, new: T | None) -> bool:
    """Set or (None) delete; return whether that changed anything."""
    old = objects.get(name)
    if new is None:
        objects.pop(name, None)
    else:
        objects[name] = new
    return old != new


def _discard(index: dict[str, set[str]], key: str, name: str) -> None:
    names = index.get(key)
    if names is not None:
        names.discard(name)
        if not names:
            del index[key]
