"""A ClusterQueue in the cache: spec, quota node, activity, and what its workloads hold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from multiqueue.api.serde import encode
from multiqueue.engine.cache.activity import Activity
from multiqueue.engine.cache.quota_node import FlavorResource, QuotaNode
from multiqueue.lib.amount import Amount
from multiqueue.lib.selectors import LabelSelector, label_selector_from
from multiqueue.model.cluster_queue import ClusterQueue, ResourceGroup


class Room(NamedTuple):
    """What can be used of a flavor-resource right now: the queue's own free quota, and the rest."""

    available: Amount
    free: Amount
    borrowable: Amount


class CachedQueue:
    """Mutable; written by the cache only.

    Shape: ``generation`` is the allocatableResourceGeneration (E-38): quota may have become free.
    ``has_only_topologies`` is true if every flavor has a topology (E-39), ``has_topologies``
    if any has. ``remote_check`` is the admission check that sends its workloads to other
    clusters, "" if they run here. ``slots_by_flavor`` has the slots of the spec's pairs, by
    flavor and resource. ``reserving`` and ``admitted`` count workloads; ``admitted_usage`` is the
    admitted part of the node's usage.
    """

    __slots__ = (
        "_rooms",
        "activity",
        "admitted",
        "admitted_usage",
        "generation",
        "group_by_resource",
        "has_only_topologies",
        "has_topologies",
        "node",
        "remote_check",
        "reserving",
        "rooms_version",
        "selector",
        "slots_by_flavor",
        "spec",
    )

    def __init__(self, spec: ClusterQueue) -> None:
        self.node = QuotaNode(spec.name, None)
        self.activity = Activity()
        self.generation = 0
        self.reserving = 0
        self.admitted = 0
        self.has_only_topologies = False
        self.has_topologies = False
        self.remote_check = ""
        self._rooms: dict[int, Room] = {}
        self.rooms_version = -1
        self.slots_by_flavor: dict[str, dict[str, int]] = {}
        self.admitted_usage: dict[FlavorResource, Amount] = {}
        self.set_spec(spec)

    @property
    def name(self) -> str:
        """Name of the ClusterQueue."""
        return self.spec.name

    @property
    def is_active(self) -> bool:
        """Whether the queue may admit."""
        return self.activity.reason is None

    def set_spec(self, spec: ClusterQueue) -> None:
        """Take over a spec; the quota node follows with the rebuild of the tree."""
        self.spec = spec
        self.node.weight = float(spec.weight)
        selector = spec.namespace_selector
        self.selector: LabelSelector = label_selector_from(
            None if selector is None else encode(selector)
        )
        self.group_by_resource: dict[str, ResourceGroup] = {
            resource: group
            for group in spec.resource_groups
            for resource in group.covered_resources
        }

    def set_node(self, node: QuotaNode) -> None:
        """Take a node in a new tree; the builder of the tree carries the usage over."""
        node.declare(self.spec.resource_groups)
        node.weight = float(self.spec.weight)
        self.node = node
        self.rooms_version = -1
        self.generation += 1
        self.slots_by_flavor = {}
        for (flavor, resource), slot in node.slot_by_flavor_resource.items():
            self.slots_by_flavor.setdefault(flavor, {})[resource] = slot

    def room_memo(self, version: int) -> dict[int, Room]:
        """Return a memo of the room by slot; it is empty after each change of the tree.

        Many heads are judged between two changes of usage.
        """
        if self.rooms_version != version:
            self.rooms_version = version
            self._rooms = {}
        return self._rooms

    def flavors(self) -> Iterator[str]:
        """Iterate over the flavors of all resource groups, in the order of the spec."""
        for group in self.spec.resource_groups:
            for flavor in group.flavors:
                yield flavor.name

    def usage(self) -> dict[FlavorResource, Amount]:
        """Return the usage by flavor-resource, without zeros."""
        node = self.node
        return {
            flavor_resource: node.usage[slot]
            for flavor_resource, slot in node.slot_by_flavor_resource.items()
            if node.usage[slot]
        }

    def add_admitted(self, usage: Mapping[FlavorResource, Amount], sign: int) -> None:
        """Add (1) or subtract (-1) the usage of an admitted workload."""
        self.admitted += sign
        add_to(self.admitted_usage, usage, sign)

    def checks_for(self, flavors: set[str]) -> tuple[str, ...]:
        """Return the admission checks that apply to the flavors, sorted (E-111)."""
        return tuple(
            sorted(
                {
                    rule.name
                    for rule in self.spec.checks
                    if not rule.on_flavors or rule.on_flavors & flavors
                }
            )
        )


def add_to(
    total: dict[FlavorResource, Amount], usage: Mapping[FlavorResource, Amount], sign: int
) -> None:
    """Add or subtract usage, and drop sums that became zero."""
    for flavor_resource, amount in usage.items():
        value = total.get(flavor_resource, 0) + sign * amount
        if value:
            total[flavor_resource] = value
        else:
            total.pop(flavor_resource, None)
