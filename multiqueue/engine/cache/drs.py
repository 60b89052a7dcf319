"""Dominant resource shares: how much a queue or cohort uses of what others lend (E-66).

Pure questions to one node of the quota tree, now or with more usage. A share depends on the node's
own usage only; what its parent could lend is fixed until the tree is built anew.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final, NamedTuple

from multiqueue.engine.cache.quota_node import QuotaNode
from multiqueue.lib.amount import Amount, add

NO_USAGE: Final[Mapping[int, Amount]] = {}
LARGEST_REPORTED: Final = 2**63 - 1
"""The share in the status of a borrower with weight zero."""


class Share(NamedTuple):
    """A weighted share; a smaller one has the first call on quota. Compares as the reference does.

    Args:
        is_endless: something is borrowed with weight zero; more than every other share.
        value: thousandths of what could be lent, of the resource with most of it, by weight; not
            divided if it is endless.
    """

    is_endless: bool
    value: float

    @property
    def reported(self) -> int:
        """The number in the status: rounded up."""
        return LARGEST_REPORTED if self.is_endless else math.ceil(self.value)

    @property
    def measured(self) -> float:
        """The number in the metrics; NaN if it is endless."""
        return math.nan if self.is_endless else self.value


NO_SHARE: Final = Share(is_endless=False, value=0.0)


def share_of(node: QuotaNode, extra: Mapping[int, Amount] = NO_USAGE) -> Share:
    """Return the share of a node, with additional usage by slot; a root has none.

    Usage beyond the quota is summed over the flavors of a resource. What no spec of the subtree
    names does not count. Nothing is a share of nothing: if nobody can lend, the share is zero,
    whatever the weight. All divisions are float64, in the order of the reference.
    """
    ratio = _ratio(node, extra) if extra else _ratio_now(node)
    if ratio <= 0:
        return NO_SHARE
    if node.weight == 0:
        return Share(True, ratio)
    return Share(False, ratio / node.weight)


def is_borrowing(node: QuotaNode) -> bool:
    """Whether anything is used beyond the quota; the share is zero if nobody can lend it."""
    return _ratio_now(node) >= 0


def is_borrowing_any_of(node: QuotaNode, requested: Mapping[int, Amount]) -> bool:
    """Whether a node uses more than its quota of anything requested, with that much more usage."""
    return node.parent is not None and any(
        slot < node.declared and node.usage[slot] + amount > node.subtree_quota[slot]
        for slot, amount in requested.items()
    )


def passed_up(node: QuotaNode, requested: Mapping[int, Amount]) -> dict[int, Amount]:
    """Return how much of additional usage the parent would have to hold, by its slots (E-33).

    Keeps what the local quota holds as zeros: it is requested all the same.
    """
    passed = {}
    for slot, amount in requested.items():
        unused = node.local_quota[slot] - node.usage[slot]
        passed[node.up[slot]] = max(0, amount - unused) if unused > 0 else amount
    return passed


def _ratio_now(node: QuotaNode) -> float:
    """Return the ratio at the current usage, which is requested many times."""
    ratio = node.ratio
    if ratio is None:
        ratio = node.ratio = _ratio(node, NO_USAGE)
    return ratio


def _ratio(node: QuotaNode, extra: Mapping[int, Amount]) -> float:
    """Return the borrowed part in thousandths of what could be lent; -1 if nothing is borrowed."""
    if node.parent is None:
        return -1.0
    borrowed: dict[str, Amount] = {}
    usage, quota = node.usage, node.subtree_quota
    for slot in range(node.declared):
        over = usage[slot] - quota[slot]
        if slot in extra:
            over += extra[slot]
        if over > 0:
            resource = node.resources[slot]
            borrowed[resource] = borrowed.get(resource, 0) + over
    if not borrowed:
        return -1.0
    lendable = _lendable(node.parent)
    ratio = 0.0
    for resource, amount in borrowed.items():
        most = lendable.get(resource, 0)
        if most > 0:
            ratio = max(ratio, float(amount) * 1000.0 / float(most))
    return ratio


def _lendable(node: QuotaNode) -> Mapping[str, Amount]:
    """Return the most that could ever be used below a node, by resource.

    Sums over everything that the tree knows, also where the node itself has no slot for it.
    """
    if node.lendable is None:
        lendable: dict[str, Amount] = {}
        root = node
        while root.parent is not None:
            root = root.parent
        for flavor_resource in root.slot_by_flavor_resource:
            resource = flavor_resource[1]
            nearest = node
            while flavor_resource not in nearest.slot_by_flavor_resource:
                assert nearest.parent is not None, "the root knows everything in its tree"
                nearest = nearest.parent
            potential = nearest.potential[nearest.slot_by_flavor_resource[flavor_resource]]
            lendable[resource] = add(lendable.get(resource, 0), potential)
        node.lendable = lendable
    return node.lendable
