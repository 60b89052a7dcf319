"""Small data centres for tests of placement: names like ``b0-r1-h2`` say where a node is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from multiqueue.api.v1beta2.workload import PodSetTopologyRequest, SliceConstraint
from multiqueue.engine.tas.failure import PlacementFailure
from multiqueue.engine.tas.flavor_tree import FlavorTree, Profile
from multiqueue.engine.tas.forest import Forest
from multiqueue.engine.tas.placement import PodsToPlace, place_group, requests_of
from multiqueue.engine.tas.usage import PlacedPods
from multiqueue.model.placement import ANYWHERE, Placement
from multiqueue.model.resource_flavor import ResourceFlavor, Topology
from multiqueue.model.topology import HOSTNAME, Node, TopologyAssignment

BLOCK, RACK = "block", "rack"
LEVELS = (BLOCK, RACK, HOSTNAME)


def make_node(
    name: str,
    cpu: int = 4,
    *,
    pods: int = 20,
    labels: Mapping[str, str] | None = None,
    **fields: object,
) -> Node:
    """Make a node called ``block-rack-host``; cpu in whole cores."""
    block, rack, _ = name.split("-")
    own = {BLOCK: block, RACK: f"{block}-{rack}", HOSTNAME: name, "pool": "a", **(labels or {})}
    allocatable = {"cpu": cpu * 1000, "pods": pods}
    return Node(name=name, labels=own, allocatable=allocatable, **fields)  # type: ignore[arg-type]


def make_forest(
    nodes: Mapping[str, int] | Sequence[Node],
    levels: tuple[str, ...] = LEVELS,
    *,
    profile: Profile | None = None,
    shares_nodes: bool = True,
) -> Forest:
    """Make a forest of one flavor, called ``tas``; nodes as objects or as cores by name."""
    forest = Forest(profile or Profile(), shares_nodes=shares_nodes)
    forest.set_flavor(
        "tas", ResourceFlavor(name="tas", node_labels={"pool": "a"}, topology_name="dc")
    )
    forest.set_topology("dc", Topology(name="dc", levels=levels))
    if isinstance(nodes, Mapping):
        nodes = [make_node(name, cpu) for name, cpu in nodes.items()]
    for node in nodes:
        forest.set_node(node.name, node)
    return forest


def tree_of(forest: Forest, flavor: str = "tas") -> FlavorTree:
    """Return a tree that has to be there."""
    tree = forest.tree(flavor)
    assert tree is not None
    return tree


def make_pods(
    count: int,
    cpu: int = 1,
    *,
    name: str = "main",
    placement: Placement = ANYWHERE,
    implied: bool = False,
    **request: Any,
) -> PodsToPlace:
    """Make pods of whole cores; keywords are those of the topology request."""
    return PodsToPlace(
        name=name,
        count=count,
        requests=requests_of({"cpu": cpu * 1000}),
        placement=placement,
        topology_request=PodSetTopologyRequest(**request) if request else None,  # type: ignore[arg-type]
        implied=implied,
    )


def layers(*pairs: tuple[str, int]) -> tuple[SliceConstraint, ...]:
    """Make slices within slices, the largest first."""
    return tuple(SliceConstraint(topology=level, size=size) for level, size in pairs)


def place(
    forest: Forest, *group: PodsToPlace, empty: bool = False, owner: str = ""
) -> dict[str, int] | str:
    """Place pods; return the pods by domain, or the failure; charge them where there is an owner.

    A leader's domains have their pod set in front: ``leader/b0-r0-h0``.
    """
    found = place_group(tree_of(forest), group, empty=empty)
    if isinstance(found, PlacementFailure):
        return found.message
    if owner:
        forest.charge(owner, [PlacedPods("tas", p.requests, found[p.name]) for p in group])
    return {
        (f"{name}/" if name == "leader" else "") + domain_name(assignment, i): domain.count
        for name, assignment in found.items()
        for i, domain in enumerate(assignment.domains)
    }


def domain_name(assignment: TopologyAssignment, index: int) -> str:
    """Return the values of a domain in one word."""
    return "/".join(assignment.domains[index].values)
