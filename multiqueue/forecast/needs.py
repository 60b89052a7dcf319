"""What a Workload needs from a queue, by flavor, in the form a timeline uses. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from multiqueue.engine.cache.quota_node import FlavorResource, QuotaNode
from multiqueue.engine.eligibility import refuse_placement
from multiqueue.model.cluster_queue import ClusterQueue, ResourceGroup
from multiqueue.model.resource_flavor import ResourceFlavor
from multiqueue.model.resources import PODS
from multiqueue.model.workload import PodSet, Workload

Option = tuple[tuple[FlavorResource, int], ...]
"""What one flavor would have to provide."""
Needs = tuple[tuple[Option, ...], ...]
"""For each pod set and resource group, its options in queue order; one of each is taken."""


def build_needs(
    workload: Workload, queue: ClusterQueue, flavors: Mapping[str, ResourceFlavor]
) -> Needs:
    """Return what a Workload needs; a pod set without a suitable flavor has no option."""
    return tuple(
        _options(pod_set, group, flavors)
        for pod_set in workload.pod_sets
        for group in queue.resource_groups
        if _requests(pod_set, group, pod_set.count)
    )


def try_to_take(needs: Needs, node: QuotaNode) -> list[tuple[int, int]] | None:
    """Take all that is needed from the free quota of a queue, or nothing.

    Returns:
        Slots and amounts; None if nothing was taken.
    """
    taken: list[tuple[int, int]] = []
    for options in needs:
        for option in options:
            if _fits(option, node):
                for pair, amount in option:
                    slot = node.slot(pair)
                    node.add_usage(slot, amount)
                    taken.append((slot, amount))
                break
        else:
            give_back(taken, node)
            return None
    return taken


def give_back(taken: list[tuple[int, int]], node: QuotaNode) -> None:
    """Give back amounts that were taken."""
    for slot, amount in taken:
        node.remove_usage(slot, amount)


def _fits(option: Option, node: QuotaNode) -> bool:
    # A loop, since all() is slower: estimates spend most of their time here.
    for pair, amount in option:  # noqa: SIM110
        if node.available(node.slot(pair)) < amount:
            return False
    return True


def _options(
    pod_set: PodSet, group: ResourceGroup, flavors: Mapping[str, ResourceFlavor]
) -> tuple[Option, ...]:
    return tuple(
        tuple(
            ((item.name, resource), amount)
            for resource, amount in _requests(pod_set, group, _pods(pod_set, flavor))
        )
        for item in group.flavors
        if (flavor := flavors.get(item.name)) is not None
        and refuse_placement(flavor, pod_set.placement) is None
    )


def _pods(pod_set: PodSet, flavor: ResourceFlavor) -> int:
    """Return the number of pods on a flavor; the most, if its hardware is not declared."""
    return pod_set.pods_on(flavor.name, flavor.node_labels)


def _requests(pod_set: PodSet, group: ResourceGroup, pods: int) -> list[tuple[str, int]]:
    return [
        (resource, amount)
        for resource in group.covered_resources
        if (amount := pods * (1 if resource == PODS else pod_set.requests.get(resource, 0))) > 0
    ]
