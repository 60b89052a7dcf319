"""Nodes, and the pods on them that no topology placed (E-129, E-130)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from multiqueue.lib.amount import Amount
from multiqueue.model.resource_flavor import ResourceFlavor, Topology
from multiqueue.model.resources import PODS
from multiqueue.model.topology import Node

PodRequests = Mapping[str, Amount]


class Inventory:
    """What the cluster has, by node."""

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}
        self._pods: dict[str, tuple[str, PodRequests]] = {}
        self._pods_by_node: dict[str, dict[str, PodRequests]] = {}

    def set_node(self, name: str, node: Node | None) -> bool:
        """Add, change or (None) remove a node; whether that changed anything."""
        old = self.nodes.pop(name, None)
        if node is not None:
            self.nodes[name] = node
        return old != node

    def set_pod(self, key: str, node: str, requests: PodRequests | None) -> tuple[str, ...]:
        """Note what a running pod takes of its node, None once it takes nothing.

        Returns:
            The nodes on which something else is free now.
        """
        old = self._pods.pop(key, None)
        new = None if requests is None else (node, dict(requests))
        if new is not None:
            self._pods[key] = new
        if old == new:
            return ()
        touched = []
        if old is not None:
            del self._pods_by_node[old[0]][key]
            touched.append(old[0])
        if new is not None:
            self._pods_by_node.setdefault(node, {})[key] = new[1]
            touched.append(node)
        return tuple(dict.fromkeys(touched))

    def free_on(self, nodes: Iterable[Node]) -> dict[str, Amount]:
        """Return what these nodes have, less what pods without a topology take."""
        free: dict[str, Amount] = {}
        for node in nodes:
            for resource, amount in node.allocatable.items():
                free[resource] = free.get(resource, 0) + amount
            pods = self._pods_by_node.get(node.name, {})
            for requests in pods.values():
                for resource, amount in requests.items():
                    free[resource] = free.get(resource, 0) - amount
            free[PODS] = free.get(PODS, 0) - len(pods)
        return free

    def usable(self, flavor: ResourceFlavor, topology: Topology) -> Iterator[Node]:
        """Yield the nodes of a flavor that pods can be placed on (E-129)."""
        for node in self.nodes.values():
            if is_member(node, flavor, topology):
                yield node


def is_member(node: Node, flavor: ResourceFlavor, topology: Topology) -> bool:
    """Whether a node belongs to the domains of a flavor: usable, and with all of the labels."""
    labels = node.labels
    return (
        node.ready
        and node.schedulable
        and all(labels.get(key) == value for key, value in flavor.node_labels.items())
        and all(level in labels for level in topology.levels)
    )
