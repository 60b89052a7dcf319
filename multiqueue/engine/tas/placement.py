"""Place the pods of a group of pod sets in one flavor: all of them, or none (E-136 to E-145)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from multiqueue.api.v1beta2.workload import PodSetTopologyRequest
from multiqueue.engine.tas.balanced import select_balanced
from multiqueue.engine.tas.counts import CountShape, CountTable, Requests, count_shape
from multiqueue.engine.tas.descend import descend
from multiqueue.engine.tas.failure import PlacementFailure
from multiqueue.engine.tas.flavor_tree import FlavorTree
from multiqueue.engine.tas.node_filter import build_filter
from multiqueue.engine.tas.request import PlacementRequest, TopologyRequestError, interpret
from multiqueue.engine.tas.select import DomainSelection, NoRoom, select
from multiqueue.engine.tas.spread import DomainShare
from multiqueue.engine.tas.tree import DomainTree
from multiqueue.engine.value import Value
from multiqueue.lib.amount import Amount
from multiqueue.model.placement import Placement
from multiqueue.model.resources import PODS
from multiqueue.model.topology import TopologyAssignment, TopologyDomain


class PodsToPlace(Value, frozen=True, kw_only=True, gc=False):
    """Equal pods of one pod set; ``requests`` are what one of them takes of a node."""

    name: str
    count: int
    requests: Requests
    placement: Placement
    topology_request: PodSetTopologyRequest | None = None
    implied: bool = False


def requests_of(node_requests: Mapping[str, Amount]) -> Requests:
    """Return what one pod takes of a node: its requests, and one of ``pods`` (E-130)."""
    asked = {**node_requests, PODS: node_requests.get(PODS, 0) + 1}
    return tuple(sorted((name, amount) for name, amount in asked.items() if amount > 0))


def leader_and_workers(
    group: Sequence[PodsToPlace],
) -> tuple[PodsToPlace | None, PodsToPlace]:
    """Return who leads a group, None in a group of one (E-136)."""
    if len(group) == 1:
        return None, group[0]
    first, second = group[0], group[1]
    return (first, second) if second.count > first.count else (second, first)


def place_group(
    flavor: FlavorTree,
    group: Sequence[PodsToPlace],
    *,
    empty: bool = False,
    within: tuple[int, int] | None = None,
) -> dict[str, TopologyAssignment] | PlacementFailure:
    """Find domains for pod sets that are placed together.

    Args:
        flavor: the domains of the flavor, and the profile.
        group: one pod set, or two of which one has a single pod that leads.
        empty: as if no pod with a topology ran there.
        within: (level, domain) that everything has to stay in.

    Returns:
        The assignments by name of the pod set, or why there is no room.
    """
    tree = flavor.tree
    leader, workers = leader_and_workers(group)
    try:
        request = interpret(tree.levels, workers.topology_request, implied=workers.implied)
    except TopologyRequestError as error:
        return PlacementFailure(topology=tree.topology, detail=str(error))
    if not tree.keys:
        detail = f"no topology domains at level: {tree.levels[request.level]}"
        return PlacementFailure(topology=tree.topology, detail=detail)
    table = flavor.table(_shape(flavor, request, workers, leader, empty=empty, within=within))
    # A rest of pods that fills no slice, as of a job of which some pods are done, gets a slice too.
    need = -(-workers.count // request.slice_size)
    leaders = 0 if leader is None else 1
    shares = _find_shares(flavor, table, request, need, leaders)
    if isinstance(shares, NoRoom):
        return explain_failure(tree, table, request, shares, workers.count)
    shares.sort()
    assignments = {workers.name: _assignment(tree, _trim(shares, workers.count))}
    if leader is not None:
        led = [(share.domain, share.leaders) for share in shares if share.leaders]
        assignments[leader.name] = _assignment(tree, led)
    return assignments


def _shape(
    flavor: FlavorTree,
    request: PlacementRequest,
    workers: PodsToPlace,
    leader: PodsToPlace | None,
    *,
    empty: bool,
    within: tuple[int, int] | None,
) -> CountShape:
    tree = flavor.tree
    node_filter = None
    if tree.names_nodes:
        node_filter = build_filter(
            workers.placement,
            tree.flavor,
            respects_preferred=flavor.profile.respects_preferred_affinity,
        )
    return count_shape(
        request,
        workers.requests,
        leader=None if leader is None else leader.requests,
        node_filter=node_filter,
        empty=empty,
        within=within,
    )


def _find_shares(
    flavor: FlavorTree, table: CountTable, request: PlacementRequest, need: int, leaders: int
) -> list[DomainShare] | NoRoom:
    profile, tree = flavor.profile, flavor.tree
    if profile.balanced and not request.required and not request.unconstrained:
        balanced = select_balanced(tree, table, request, need, leaders)
        if balanced is not None:
            shares = descend(tree, table, request, balanced, least_free=False, keeps_parents=True)
            if shares is not None:
                return shares
    least_free = request.unconstrained and profile.mixed
    selection = select(table, request, need, leaders, least_free=least_free)
    if not isinstance(selection, DomainSelection):
        return selection
    found = descend(tree, table, request, selection, least_free=least_free)
    return NoRoom(0, selection.level) if found is None else found


def _trim(shares: Sequence[DomainShare], count: int) -> list[tuple[int, int]]:
    """Take pods that nobody asked for from the last domains."""
    pods = [(share.domain, share.units) for share in shares]
    extra = sum(units for _, units in pods) - count
    while extra > 0:
        domain, units = pods.pop()
        if units > extra:
            pods.append((domain, units - extra))
        extra -= units
    return pods


def _assignment(tree: DomainTree, pods: Sequence[tuple[int, int]]) -> TopologyAssignment:
    """Name the domains in order of their values, and only nodes if they are nodes (E-143)."""
    return TopologyAssignment(
        levels=tree.levels[-1:] if tree.names_nodes else tree.levels,
        domains=tuple(TopologyDomain(tree.keys[leaf], count) for leaf, count in pods if count),
    )


def explain_failure(
    tree: DomainTree, table: CountTable, request: PlacementRequest, room: NoRoom, count: int
) -> PlacementFailure:
    """Put the counts that were too low in a failure."""
    layers: list[tuple[str, int, int]] = []
    counts = table.levels[room.level]
    if request.is_multi_layer and counts.slices:
        best = max(range(len(counts.slices)), key=lambda domain: (counts.slices[domain], -domain))
        for level, size in request.layers:
            domains: Sequence[int] = [best]
            for above in range(room.level, level):
                domains = [child for d in domains for child in tree.children[above][d]]
            fit = sum(table.levels[level].pods[domain] // size for domain in domains)
            layers.append((tree.levels[level], fit, count // size))
    return PlacementFailure(
        topology=tree.topology,
        fit=room.fit,
        asked=-(-count // request.slice_size),
        slice_size=request.slice_size,
        layers=tuple(layers),
        nodes=len(tree.keys),
        excluded=tuple(sorted((why, n) for why, n in table.excluded.items() if why and n)),
    )
