"""All trees of domains, what is used of them, and the question whether pods fit.

Owned by the engine's cache: the only place that writes to trees and usage. Trees are built when
they are asked for, so that a burst of changed nodes costs one build.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from multiqueue.engine.options import TopologyScheduling
from multiqueue.engine.tas.flavor_tree import FlavorTree, Profile
from multiqueue.engine.tas.inventory import Inventory, PodRequests, is_member
from multiqueue.engine.tas.tree import DomainTree, LeafKey
from multiqueue.engine.tas.usage import Charge, PlacedPods, PlacedUsage, Pool
from multiqueue.model.resource_flavor import ResourceFlavor, Topology
from multiqueue.model.topology import HOSTNAME, Node

DEFAULT_PROFILE = Profile()


def build_forest(options: TopologyScheduling | None) -> Forest:
    """Return an empty forest."""
    if options is None:
        return Forest()
    profile = Profile(
        mixed=options.mixed_profile,
        balanced=options.balanced_placement,
        respects_preferred_affinity=options.preferred_affinity,
    )
    return Forest(profile, shares_nodes=options.overlapping_flavors)


class Forest:
    """Trees by flavor.

    Args:
        profile: how domains are chosen.
        shares_nodes: gate TASHandleOverlappingFlavors.

    Shape: ``lacked_room`` says that pods found no room on nodes since it was last set to false.
    """

    def __init__(self, profile: Profile = DEFAULT_PROFILE, *, shares_nodes: bool = True) -> None:
        self.inventory = Inventory()
        self.usage = PlacedUsage(shares_nodes=shares_nodes)
        self._profile = profile
        self._flavors: dict[str, ResourceFlavor] = {}
        self._topologies: dict[str, Topology] = {}
        self._trees: dict[str, FlavorTree] = {}
        self.lacked_room = False

    # ---------------------------------------------------------------- what there is

    def set_flavor(self, name: str, flavor: ResourceFlavor | None) -> None:
        """Add, change or (None) remove a flavor."""
        self._trees.pop(name, None)
        self._flavors.pop(name, None)
        if flavor is not None and flavor.topology_name is not None:
            self._flavors[name] = flavor

    def set_topology(self, name: str, topology: Topology | None) -> None:
        """Add, change or (None) remove a topology."""
        self._topologies.pop(name, None)
        if topology is not None:
            self._topologies[name] = topology
        for flavor in self._flavors.values():
            if flavor.topology_name == name:
                self._trees.pop(flavor.name, None)

    def set_node(self, name: str, node: Node | None) -> set[str]:
        """Add, change or (None) remove a node; return the flavors in which it counts or did."""
        old = self.inventory.nodes.get(name)
        if not self.inventory.set_node(name, node):
            return set()
        touched = set(self._flavors_of(old)) | set(self._flavors_of(node))
        for flavor in touched:
            self._trees.pop(flavor, None)
        return touched

    def set_pod(self, key: str, node: str, requests: PodRequests | None) -> set[str]:
        """Note what a pod without a topology takes of its node; return the flavors of the node."""
        touched: set[str] = set()
        for name in self.inventory.set_pod(key, node, requests):
            for flavor in self._flavors_of(self.inventory.nodes.get(name)):
                touched.add(flavor)
                grown = self._trees.get(flavor)
                if grown is not None:
                    leaf = grown.tree.leaf_by_node[name]
                    grown.tree.set_free(leaf, self.inventory.free_on(grown.tree.nodes[leaf]))
        return touched

    def _flavors_of(self, node: Node | None) -> Iterator[str]:
        if node is None:
            return
        for name, flavor in self._flavors.items():
            topology = self._topologies.get(flavor.topology_name or "")
            if topology is not None and is_member(node, flavor, topology):
                yield name

    def tree(self, flavor: str) -> FlavorTree | None:
        """Return the tree of a flavor; None if it has no topology, or an unknown one."""
        grown = self._trees.get(flavor)
        if grown is not None:
            return grown
        known = self._flavors.get(flavor)
        topology = self._topologies.get((known.topology_name if known else None) or "")
        if known is None or topology is None:
            return None
        tree = DomainTree(known, topology, self.inventory.usable(known, topology))
        pool = self.usage.pool(flavor, names_nodes=tree.names_nodes)
        tree.used = [self.usage.room(pool, key) for key in tree.keys]
        tree.free = [self.inventory.free_on(nodes) for nodes in tree.nodes]
        grown = self._trees[flavor] = FlavorTree(tree, self._profile)
        return grown

    # ---------------------------------------------------------------- usage

    def charge(self, owner: str, placed: Iterable[PlacedPods]) -> None:
        """Have a workload use these domains, and no others (idempotent)."""
        self._note(self.usage.replace(owner, self.usage.charges_of(placed)))

    def release(self, owner: str) -> tuple[Charge, ...]:
        """Have a workload use nothing; return what it used, for `restore`."""
        charges = self.usage.of(owner)
        if not charges:
            return ()
        self._note(self.usage.replace(owner, ()))
        return charges

    def restore(self, owner: str, charges: tuple[Charge, ...]) -> None:
        """Have a workload use again what it used."""
        self._note(self.usage.replace(owner, charges))

    def _note(self, changed: Iterable[tuple[Pool, LeafKey]]) -> None:
        for pool, key in sorted(changed):
            for tree in self._trees_of(pool):
                leaf = tree.leaf_by_key.get(key)
                if leaf is not None:
                    tree.note_change(leaf)

    def _trees_of(self, pool: Pool) -> Iterator[DomainTree]:
        for flavor, grown in self._trees.items():
            if self.usage.pool(flavor, names_nodes=grown.tree.names_nodes) == pool:
                yield grown.tree

    def flavors_with(self, charges: Iterable[Charge]) -> set[str]:
        """Return the flavors with a topology that have leaves of these pools."""
        pools = {charge.pool for charge in charges}
        return {
            name
            for name, flavor in self._flavors.items()
            if self.usage.pool(name, names_nodes=self._names_nodes(flavor)) in pools
        }

    def _names_nodes(self, flavor: ResourceFlavor) -> bool:
        topology = self._topologies.get(flavor.topology_name or "")
        return topology is not None and topology.levels[-1:] == (HOSTNAME,)

    @contextmanager
    def assuming(self, placed: Sequence[PlacedPods]) -> Iterator[None]:
        """Have these pods run inside the block, even where all others are thought away (E-136)."""
        charges = self.usage.charges_of(placed)
        self._take(charges, 1)
        try:
            yield
        finally:
            self._take(charges, -1)

    def _take(self, charges: Iterable[Charge], sign: int) -> None:
        for charge in charges:
            for tree in self._trees_of(charge.pool):
                leaf = tree.leaf_by_key.get(charge.key)
                if leaf is not None:
                    tree.take_free(leaf, dict(charge.requests), sign * charge.pods)

    # ---------------------------------------------------------------- fits

    def fits(self, placed: Sequence[PlacedPods]) -> bool:
        """Whether these pods still find the room that they were placed in (E-69).

        What several pod sets put on one node is summed up.
        """
        asked: dict[tuple[str, LeafKey], dict[str, int]] = {}
        for pods in placed:
            for charge in self.usage.charges_of((pods,)):
                at = asked.setdefault((pods.flavor, charge.key), {})
                for resource, amount in charge.requests:
                    at[resource] = at.get(resource, 0) + amount * charge.pods
        found = all(self._has_room(flavor, key, total) for (flavor, key), total in asked.items())
        self.lacked_room = self.lacked_room or not found
        return found

    def _has_room(self, flavor: str, key: LeafKey, asked: Mapping[str, int]) -> bool:
        grown = self.tree(flavor)
        leaf = grown.tree.leaf_by_key.get(key) if grown is not None else None
        if grown is None or leaf is None:
            return False
        free, used = grown.tree.free[leaf], grown.tree.used[leaf]
        return all(
            free.get(resource, 0) - used.get(resource, 0) >= amount
            for resource, amount in asked.items()
        )
