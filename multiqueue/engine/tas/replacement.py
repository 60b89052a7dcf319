"""Find another node for the pods of a failed one, and leave the others where they are (E-150)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from msgspec.structs import replace

from multiqueue.api.v1beta2.workload import PodSetTopologyRequest
from multiqueue.engine.tas.failure import PlacementFailure
from multiqueue.engine.tas.flavor_tree import FlavorTree
from multiqueue.engine.tas.placement import PodsToPlace, place_group
from multiqueue.engine.tas.request import slice_layers
from multiqueue.engine.tas.tree import DomainTree
from multiqueue.model.topology import TopologyAssignment, TopologyDomain


def replace_node(
    flavor: FlavorTree, pods: PodsToPlace, assignment: TopologyAssignment, node: str
) -> TopologyAssignment | PlacementFailure:
    """Return the assignment without the node, or why its pods find no other place.

    The new place keeps what the pod set asked for: the domain that is required, and slices that
    lost a part are completed where they are.

    Args:
        flavor: the domains; the pods of the workload itself are still counted as used there.
        pods: the pod set.
        assignment: where its pods are now; names nodes.
        node: the one that failed.
    """
    tree = flavor.tree
    rest = tuple(domain for domain in assignment.domains if domain.values[-1] != node)
    missing = sum(d.count for d in assignment.domains if d.values[-1] == node)
    for domain in rest:
        if domain.values not in tree.leaf_by_key:
            return PlacementFailure(
                topology=tree.topology,
                detail="Cannot replace the node, because the existing topologyAssignment is "
                f"invalid, as it contains the stale domain {domain.values[0]}",
            )
    within, layer = _limits(tree, pods, rest, missing)
    lost = replace(pods, count=missing, topology_request=_reduced(pods, layer, missing, within))
    found = place_group(flavor, [lost], within=within)
    if isinstance(found, PlacementFailure):
        return found
    return _merge(tree, assignment.levels, (*rest, *found[pods.name].domains))


def _limits(
    tree: DomainTree, pods: PodsToPlace, rest: Sequence[TopologyDomain], missing: int
) -> tuple[tuple[int, int] | None, tuple[str, int] | None]:
    """Return the domain that the pods have to stay in, and the slice layer that was broken."""
    request = pods.topology_request
    if not rest:
        return None, None
    layers = slice_layers(request)
    if layers and missing % layers[0][1]:
        broken = next(layer for layer in reversed(layers) if missing % layer[1])
        return _incomplete_slice(tree, rest, missing, broken), broken
    if request is None or not request.required:
        return None, None
    level = tree.levels.index(request.required)
    return (level, tree.ancestor(tree.leaf_by_key[rest[0].values], level)), None


def _incomplete_slice(
    tree: DomainTree, rest: Sequence[TopologyDomain], missing: int, layer: tuple[str, int]
) -> tuple[int, int] | None:
    """Return the first domain in which the missing pods complete the slices."""
    level, size = tree.levels.index(layer[0]), layer[1]
    pods: Counter[int] = Counter()
    for domain in rest:
        pods[tree.ancestor(tree.leaf_by_key[domain.values], level)] += domain.count
    for number in sorted(pods):
        if (pods[number] + missing) % size == 0:
            return level, number
    return None


def _reduced(
    pods: PodsToPlace,
    broken: tuple[str, int] | None,
    missing: int,
    within: tuple[int, int] | None,
) -> PodSetTopologyRequest | None:
    """Ask for the innermost slices that the missing pods fill, if they fill no outer ones."""
    request = pods.topology_request
    if request is None or broken is None or within is None:
        return request
    whole = [layer for layer in slice_layers(request) if missing % layer[1] == 0]
    level, size = whole[-1] if whole else (None, None)
    return PodSetTopologyRequest(
        required=request.required,
        preferred=request.preferred,
        unconstrained=request.unconstrained or not (request.required or request.preferred or whole),
        pod_set_slice_required_topology=level,
        pod_set_slice_size=size,
    )


def _merge(
    tree: DomainTree, levels: tuple[str, ...], domains: Sequence[TopologyDomain]
) -> TopologyAssignment:
    counts: Counter[tuple[str, ...]] = Counter()
    for domain in domains:
        counts[domain.values] += domain.count
    ordered = sorted(counts, key=lambda values: tree.leaf_by_key[values])
    return TopologyAssignment(
        levels=levels, domains=tuple(TopologyDomain(values, counts[values]) for values in ordered)
    )
