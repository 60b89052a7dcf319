"""One node of the quota tree: quotas, limits and usage per (flavor, resource), as flat int lists.

Each node numbers the flavor-resources of its subtree as *slots*; `up` gives the slot of the parent,
so usage bubbles along one path to the root and touches nothing else (E-31 to E-36). Quotas may be
Unlimited and saturate; usage is an exact sum of bounded requests. Mutated by `engine.cache` only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from multiqueue.lib.amount import UNLIMITED, Amount, add, subtract
from multiqueue.model.cluster_queue import Quota, ResourceGroup

FlavorResource: TypeAlias = tuple[str, str]
"""(flavor, resource)."""


class QuotaNode:
    """A ClusterQueue or a Cohort in the tree.

    Shape: all lists are indexed by slot. ``borrowing_limit`` and ``lending_limit`` are None where
    unset. ``potential`` is the most that could ever be used here (E-35). The first ``declared``
    slots come from specs, the others only from usage. ``weight`` is that of fair sharing.
    ``lendable`` and ``ratio`` are memos of `cache.drs`: the one holds until the tree is built
    anew, the other until the usage changes.
    """

    __slots__ = (
        "borrowing_limit",
        "declared",
        "height",
        "lendable",
        "lending_limit",
        "local_quota",
        "name",
        "nominal",
        "parent",
        "potential",
        "ratio",
        "resources",
        "slot_by_flavor_resource",
        "subtree_quota",
        "up",
        "usage",
        "weight",
    )

    def __init__(self, name: str, parent: QuotaNode | None) -> None:
        self.name = name
        self.parent = parent
        self.height = 0
        self.weight = 1.0
        self.declared = 0
        self.lendable: dict[str, Amount] | None = None
        self.ratio: float | None = None
        self.resources: list[str] = []
        self.slot_by_flavor_resource: dict[FlavorResource, int] = {}
        self.up: list[int] = []
        self.nominal: list[Amount] = []
        self.borrowing_limit: list[Amount | None] = []
        self.lending_limit: list[Amount | None] = []
        self.subtree_quota: list[Amount] = []
        self.local_quota: list[Amount] = []
        self.potential: list[Amount] = []
        self.usage: list[Amount] = []

    def slot(self, flavor_resource: FlavorResource) -> int:
        """Return the slot of a flavor-resource; a new one without quota if there is none.

        Usage may name what the spec no longer has, and still counts.
        """
        slot = self.slot_by_flavor_resource.get(flavor_resource)
        if slot is not None:
            return slot
        slot = len(self.usage)
        self.slot_by_flavor_resource[flavor_resource] = slot
        self.resources.append(flavor_resource[1])
        self.nominal.append(0)
        self.borrowing_limit.append(None)
        self.lending_limit.append(None)
        self.subtree_quota.append(0)
        self.local_quota.append(0)
        self.usage.append(0)
        if self.parent is None:
            self.up.append(-1)
            self.potential.append(0)
        else:
            above = self.parent.slot(flavor_resource)
            self.up.append(above)
            self.potential.append(self.parent.potential[above])
        return slot

    def declare(self, groups: Iterable[ResourceGroup]) -> None:
        """Take over the quotas of a spec; every named pair gets a slot, also with nothing in it."""
        for group in groups:
            for flavor in group.flavors:
                for resource in [*group.covered_resources, *sorted(flavor.quotas)]:
                    self.slot((flavor.name, resource))
                self._declare_flavor(flavor.name, flavor.quotas)

    def _declare_flavor(self, flavor: str, quotas: Mapping[str, Quota]) -> None:
        for resource, quota in quotas.items():
            slot = self.slot((flavor, resource))
            self.nominal[slot] = quota.nominal
            self.borrowing_limit[slot] = quota.borrowing_limit
            self.lending_limit[slot] = quota.lending_limit
            self.subtree_quota[slot] = quota.nominal

    def lend_upwards(self) -> None:
        """Fix the local quota and add the rest to the parent's subtree quota (E-32).

        Children before parents, and once only.
        """
        for slot, lending_limit in enumerate(self.lending_limit):
            quota = self.subtree_quota[slot]
            local = 0 if lending_limit is None else max(0, subtract(quota, lending_limit))
            self.local_quota[slot] = local
            if self.parent is not None:
                above = self.up[slot]
                lent = subtract(quota, local)
                self.parent.subtree_quota[above] = add(self.parent.subtree_quota[above], lent)

    def limit_potential(self) -> None:
        """Compute the most that could ever be used here (E-35). Parents before children.

        Everything is declared by now.
        """
        self.declared = len(self.subtree_quota)
        for slot, quota in enumerate(self.subtree_quota):
            potential = quota
            if self.parent is not None:
                potential = add(self.local_quota[slot], self.parent.potential[self.up[slot]])
                limit = self.borrowing_limit[slot]
                if limit is not None:
                    potential = min(potential, add(quota, limit))
            self.potential[slot] = potential

    def add_usage(self, slot: int, amount: Amount) -> None:
        """Use more; what the local quota does not hold is borrowed from the parent (E-33)."""
        node: QuotaNode | None = self
        while node is not None:
            local_free = node.local_quota[slot] - node.usage[slot]
            node.usage[slot] += amount
            node.ratio = None
            if local_free > 0:
                amount -= local_free
            if amount <= 0:
                return
            slot = node.up[slot]
            node = node.parent

    def remove_usage(self, slot: int, amount: Amount) -> None:
        """Use less; the exact reverse of `add_usage`."""
        node: QuotaNode | None = self
        while node is not None:
            borrowed = node.usage[slot] - node.local_quota[slot]
            node.usage[slot] -= amount
            node.ratio = None
            amount = min(amount, borrowed)
            if amount <= 0:
                return
            slot = node.up[slot]
            node = node.parent

    def available(self, slot: int) -> Amount:
        """Return how much more can be used now, own and borrowed; negative if overused (E-34).

        The hottest function of the engine: saturating arithmetic is written out, because almost
        every quota is bounded.
        """
        parent, quota, usage = self.parent, self.subtree_quota[slot], self.usage[slot]
        if parent is None:
            return UNLIMITED if quota >= UNLIMITED else quota - usage
        borrowable = parent.available(self.up[slot])
        local = self.local_quota[slot]
        limit = self.borrowing_limit[slot]
        if limit is not None and limit < UNLIMITED:
            borrowed = usage - local if usage > local else 0
            ceiling = add(subtract(subtract(quota, local), borrowed), limit)
            borrowable = min(borrowable, ceiling)
        if local <= usage:
            return borrowable
        return add(borrowable, subtract(local, usage))

    def borrow_height(self, slot: int, amount: Amount) -> tuple[int, bool]:
        """Return (height of the subtree that can lend it, whether there is anything above) (E-37).

        A subtree borrows when its quota is less than its usage with that much more (E-36). Nothing
        is borrowed at height 0. Of two flavors, the one with the lower height disturbs
        fewer other queues.
        """
        node, parent = self, self.parent
        quota = node.subtree_quota[slot]
        if parent is None or quota >= UNLIMITED or quota >= node.usage[slot] + amount:
            return 0, parent is not None
        while parent is not None:
            unused = node.local_quota[slot] - node.usage[slot]
            if unused > 0:
                amount -= unused
            slot = node.up[slot]
            node, parent = parent, parent.parent
            quota = node.subtree_quota[slot]
            if quota >= UNLIMITED or quota >= node.usage[slot] + amount:
                break
        return node.height, parent is not None
