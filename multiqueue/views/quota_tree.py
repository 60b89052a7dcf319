"""Rows of the quota tree: one for each ClusterQueue and Cohort, with who lends to whom. Pure.

Amounts are plain numbers in the units of `multiqueue.lib.amount`; None means unlimited.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from multiqueue.engine.cache.quota_node import FlavorResource, QuotaNode
from multiqueue.engine.cache.tree import Tree
from multiqueue.engine.state import ClusterQueueState
from multiqueue.lib.amount import UNLIMITED, Amount
from multiqueue.model.resources import is_accelerator
from multiqueue.views.flows import Flow, build_flows

Json = dict[str, Any]
CohortFlows = dict[FlavorResource, list[Flow]]

OWN, PARENT = "own", "parent"
"""Lenders that are no members: the quota of the cohort itself, and the cohort above it."""


def queue_key(name: str) -> str:
    """Return the key of a ClusterQueue's row."""
    return f"clusterqueue:{name}"


def cohort_key(name: str) -> str:
    """Return the key of a Cohort's row."""
    return f"cohort:{name}"


def find_flows(tree: Tree, cohort: QuotaNode) -> CohortFlows:
    """Return who lends to whom directly below a cohort, by flavor and resource.

    A child cohort counts as one member, with what it borrows or could lend as a whole.
    """
    members = [
        *((cohort_key(node.name), node) for node in tree.child_cohorts.get(cohort.name, ())),
        *((queue_key(queue.name), queue.node) for queue in tree.child_queues.get(cohort.name, ())),
    ]
    found = {}
    for pair, slot in cohort.slot_by_flavor_resource.items():
        borrowed, lendable = {}, {}
        for key, node in members:
            own = node.slot_by_flavor_resource.get(pair)
            if own is None:
                continue
            over = node.usage[own] - node.subtree_quota[own]
            if over > 0:
                borrowed[key] = over
            elif (spare := _lendable(node, own)) > 0:
                lendable[key] = spare
        if borrowed:
            lendable[OWN] = cohort.nominal[slot]
            if cohort.parent is not None:
                lendable[PARENT] = max(0, cohort.usage[slot] - cohort.subtree_quota[slot])
            found[pair] = build_flows(borrowed, lendable)
    return found


def _lendable(node: QuotaNode, slot: int) -> Amount:
    """Return what a member leaves unused and may lend."""
    local = node.local_quota[slot]
    return node.subtree_quota[slot] - local - max(0, node.usage[slot] - local)


def sum_lent(flows: CohortFlows) -> dict[str, dict[FlavorResource, int]]:
    """Return what each lender lends, by its key."""
    lent: dict[str, dict[FlavorResource, int]] = defaultdict(lambda: defaultdict(int))
    for pair, each in flows.items():
        for flow in each:
            lent[flow.lender][pair] += flow.amount
    return lent


def build_queue_row(
    state: ClusterQueueState,
    node: QuotaNode,
    *,
    pending_gpus: int,
    lent: Mapping[FlavorResource, int],
) -> Json:
    """Return the fields of a ClusterQueue's row.

    Args:
        state: Its state in the engine.
        node: Its node of the quota tree.
        pending_gpus: The accelerators that its waiting Workloads request.
        lent: What it lends, by flavor and resource.
    """
    return {
        "kind": "ClusterQueue",
        "cohort": cohort_key(node.parent.name) if node.parent is not None else None,
        "active": state.active,
        "why": "" if state.active else state.message,
        "pending": state.pending,
        "pendingGpus": pending_gpus,
        "inadmissible": state.inadmissible,
        "reserving": state.reserving,
        "admitted": state.admitted,
        "weight": node.weight,
        "share": state.weighted_share.reported if state.weighted_share is not None else None,
        "quotas": [
            {
                "flavor": flavor,
                "resource": resource,
                "nominal": show_amount(nominal),
                **_limits(node, (flavor, resource)),
                "used": state.reservation[flavor][resource].total,
                "admitted": state.usage[flavor][resource].total,
                "borrowed": state.reservation[flavor][resource].borrowed,
                "lent": lent.get((flavor, resource), 0),
                "free": show_amount(state.free[flavor][resource]),
                "borrowable": show_amount(state.borrowable[flavor][resource]),
            }
            for flavor, by_resource in state.nominal.items()
            for resource, nominal in by_resource.items()
        ],
        "flows": [],
    }


def build_cohort_row(
    node: QuotaNode,
    members: Mapping[str, int],
    *,
    flows: CohortFlows,
    lent: Mapping[FlavorResource, int],
    share: int | None,
) -> Json:
    """Return the fields of a Cohort's row.

    Args:
        node: Its node of the quota tree.
        members: The sums over the ClusterQueues below it, such as ``pending``.
        flows: Who lends to whom directly below it.
        lent: What it lends as a whole to others.
        share: Its weighted share in thousandths; None without fair sharing.
    """
    return {
        "kind": "Cohort",
        "cohort": cohort_key(node.parent.name) if node.parent is not None else None,
        "active": True,
        "why": "",
        **members,
        "weight": node.weight,
        "share": share,
        "quotas": [_cohort_quota(node, pair, slot, lent) for pair, slot in _declared(node)],
        "flows": [
            {"flavor": flavor, "resource": resource, **flow._asdict()}
            for (flavor, resource), each in flows.items()
            for flow in each
        ],
    }


def _cohort_quota(
    node: QuotaNode, pair: FlavorResource, slot: int, lent: Mapping[FlavorResource, int]
) -> Json:
    quota, used = node.subtree_quota[slot], node.usage[slot]
    free = UNLIMITED if quota >= UNLIMITED else max(0, quota - used)
    available = max(0, node.available(slot))
    return {
        "flavor": pair[0],
        "resource": pair[1],
        "nominal": show_amount(quota),
        **_limits(node, pair),
        "used": used,
        "admitted": None,
        "borrowed": max(0, used - quota),
        "lent": lent.get(pair, 0),
        "free": show_amount(free),
        "borrowable": show_amount(available - min(free, available)),
    }


def _declared(node: QuotaNode) -> Iterator[tuple[FlavorResource, int]]:
    for pair, slot in node.slot_by_flavor_resource.items():
        if slot < node.declared:
            yield pair, slot


def _limits(node: QuotaNode, pair: FlavorResource) -> Json:
    slot = node.slot_by_flavor_resource[pair]
    borrowing, lending = node.borrowing_limit[slot], node.lending_limit[slot]
    return {
        "borrowingLimit": show_amount(borrowing) if borrowing is not None else None,
        "lendingLimit": show_amount(lending) if lending is not None else None,
    }


def show_amount(amount: Amount) -> int | None:
    """Return an amount for JSON; None if it is unlimited."""
    return None if amount >= UNLIMITED else amount


def sum_accelerators(tree: Tree) -> dict[FlavorResource, tuple[int, int, int]]:
    """Return (quota, used, borrowed) of a whole tree, for each flavor of an accelerator.

    Unlimited quota counts as what is used of it.
    """
    sums: dict[FlavorResource, list[int]] = defaultdict(lambda: [0, 0, 0])
    for node in tree.cohorts.values():
        for pair, slot in node.slot_by_flavor_resource.items():
            if is_accelerator(pair[1]):
                sums[pair][0] += _bounded(node.nominal[slot], 0)
    for queue in tree.queues.values():
        for pair, slot in queue.node.slot_by_flavor_resource.items():
            if is_accelerator(pair[1]):
                used, nominal = queue.node.usage[slot], queue.node.nominal[slot]
                sums[pair][0] += _bounded(nominal, used)
                sums[pair][1] += used
                sums[pair][2] += max(0, used - nominal)
    return {pair: (each[0], each[1], each[2]) for pair, each in sums.items()}


def _bounded(amount: Amount, otherwise: int) -> int:
    return otherwise if amount >= UNLIMITED else amount
