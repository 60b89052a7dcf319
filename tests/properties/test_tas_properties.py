"""What holds of every placement, whatever the nodes and the pods (E-137 to E-145)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from multiqueue.engine.tas.failure import PlacementFailure
from multiqueue.engine.tas.flavor_tree import FlavorTree, Profile
from multiqueue.engine.tas.placement import PodsToPlace, leader_and_workers, place_group
from multiqueue.engine.tas.usage import PlacedPods
from multiqueue.model.topology import HOSTNAME, TopologyAssignment
from tests.topology_world import (
    BLOCK,
    LEVELS,
    RACK,
    layers,
    make_forest,
    make_node,
    make_pods,
    tree_of,
)

PROFILES = st.builds(Profile, mixed=st.booleans(), balanced=st.booleans())
NODES = st.dictionaries(
    st.builds("b{}-r{}-h{}".format, st.integers(0, 2), st.integers(0, 2), st.integers(0, 2)),
    st.integers(0, 7),
    min_size=1,
    max_size=14,
)


@st.composite
def wishes(draw: st.DrawFn) -> dict[str, object]:
    """Draw a topology request whose slices make sense."""
    kind = draw(st.sampled_from(["required", "preferred", "unconstrained", "slices only"]))
    level = draw(st.sampled_from(LEVELS))
    request: dict[str, object] = {}
    if kind in ("required", "preferred"):
        request[kind] = level
    elif kind == "unconstrained":
        return {"unconstrained": True}
    if kind == "slices only" or draw(st.booleans()):
        lowest = 0 if kind == "slices only" else LEVELS.index(level)
        outer = draw(st.integers(lowest, 2))
        constraints = [(LEVELS[outer], draw(st.sampled_from([2, 4])))]
        if outer < 2 and draw(st.booleans()):
            constraints.append((LEVELS[draw(st.integers(outer + 1, 2))], 2))
        request["podset_slice_required_topology_constraints"] = layers(*constraints)
    return request


@st.composite
def gangs(draw: st.DrawFn) -> list[PodsToPlace]:
    """Draw a pod set, at times with another one that leads it."""
    request = draw(wishes())
    size = 4 if "podset_slice_required_topology_constraints" in request else 1
    count = draw(st.integers(1, 3)) * size if size > 1 else draw(st.integers(1, 9))
    group = [make_pods(count, draw(st.integers(1, 3)), **request)]
    if draw(st.booleans()):
        group.append(make_pods(1, draw(st.integers(1, 3)), name="leader"))
    return group


STEPS = st.lists(
    st.one_of(gangs(), st.integers(0, 5), st.tuples(st.integers(0, 13), st.integers(0, 5))),
    min_size=1,
    max_size=8,
)


class Runner:
    """Runs gangs on a forest, and counts for itself what each node has left."""

    def __init__(self, nodes: dict[str, int], profile: Profile) -> None:
        self.forest = make_forest(nodes, profile=profile)
        self.nodes = sorted(nodes)
        self.cores = dict(nodes)
        self.running: list[tuple[str, list[PlacedPods]]] = []

    def step(self, step: list[PodsToPlace] | int | tuple[int, int], index: int) -> None:
        """Place a gang, end one, or change what pods of others take of a node."""
        if isinstance(step, int):
            if step < len(self.running):
                self.forest.release(self.running.pop(step)[0])
        elif isinstance(step, tuple):
            node, cores = self.nodes[step[0] % len(self.nodes)], step[1]
            if self.left()[node] + self.others(node) >= cores:
                self.forest.set_pod(node, node, {"cpu": cores * 1000})
        else:
            found = place_group(tree_of(self.forest), step)
            if not isinstance(found, PlacementFailure):
                placed = [PlacedPods("tas", pods.requests, found[pods.name]) for pods in step]
                assert self.forest.fits(placed)
                self.forest.charge(str(index), placed)
                self.running.append((str(index), placed))

    def others(self, node: str) -> int:
        """Return the cores that pods of others take."""
        had = self.forest.inventory.free_on([self.forest.inventory.nodes[node]])["cpu"]
        return self.cores[node] - had // 1000

    def left(self) -> Counter[str]:
        """Return the free cores of each node."""
        left = Counter({node: cores - self.others(node) for node, cores in self.cores.items()})
        for _, placed in self.running:
            for pods in placed:
                for domain in pods.assignment.domains:
                    left[domain.values[0]] -= domain.count * dict(pods.requests)["cpu"] // 1000
        return left


@settings(max_examples=150)
@given(NODES, PROFILES, STEPS)
def test_no_node_is_ever_given_more_than_it_has(
    nodes: dict[str, int], profile: Profile, steps: Sequence[list[PodsToPlace]]
) -> None:
    runner = Runner(nodes, profile)
    for index, step in enumerate(steps):
        runner.step(step, index)
        assert min(runner.left().values()) >= 0


@settings(max_examples=150)
@given(NODES, PROFILES, STEPS, gangs())
def test_counts_kept_along_the_way_are_those_counted_anew(
    nodes: dict[str, int],
    profile: Profile,
    steps: Sequence[list[PodsToPlace]],
    gang: list[PodsToPlace],
) -> None:
    runner = Runner(nodes, profile)
    for index, step in enumerate(steps):
        place_group(tree_of(runner.forest), gang)
        runner.step(step, index)
    got = place_group(tree_of(runner.forest), gang)
    kept = tree_of(runner.forest)
    assert got == place_group(FlavorTree(kept.tree, kept.profile), gang)
    assert got == place_group(_rebuilt(runner), gang)


def _rebuilt(runner: Runner) -> FlavorTree:
    forest = make_forest([], profile=tree_of(runner.forest).profile)
    for name in reversed(runner.nodes):
        forest.set_node(name, make_node(name, runner.cores[name]))
        forest.set_pod(name, name, {"cpu": runner.others(name) * 1000})
    for owner, placed in reversed(runner.running):
        forest.charge(owner, placed)
    return tree_of(forest)


@settings(max_examples=200)
@given(NODES, PROFILES, gangs())
def test_a_gang_is_placed_whole_where_it_asked_to_be(
    nodes: dict[str, int], profile: Profile, gang: list[PodsToPlace]
) -> None:
    found = place_group(tree_of(make_forest(nodes, profile=profile)), gang)
    if isinstance(found, PlacementFailure):
        return
    for pods in gang:
        assert sum(domain.count for domain in found[pods.name].domains) == pods.count
    _, workers = leader_and_workers(gang)
    request = workers.topology_request
    assert request is not None
    everything = list(found.values())
    if request.required:
        assert len(_pods_by(request.required, everything)) == 1
    for layer in request.podset_slice_required_topology_constraints:
        sizes = _pods_by(layer.topology, [found[workers.name]]).values()
        assert all(size % layer.size == 0 for size in sizes)


def _pods_by(level: str, assignments: list[TopologyAssignment]) -> Counter[str]:
    length = {BLOCK: 1, RACK: 2, HOSTNAME: 3}[level]
    pods: Counter[str] = Counter()
    for assignment in assignments:
        for domain in assignment.domains:
            pods["-".join(domain.values[0].split("-")[:length])] += domain.count
    return pods


@settings(max_examples=150)
@given(
    NODES,
    PROFILES,
    st.integers(1, 20),
    st.sampled_from(LEVELS),
    st.sampled_from(["required", "preferred"]),
)
def test_pods_are_refused_only_where_there_is_no_room(
    nodes: dict[str, int], profile: Profile, count: int, level: str, kind: str
) -> None:
    request: dict[str, Any] = {kind: level}
    found = place_group(tree_of(make_forest(nodes, profile=profile)), [make_pods(count, **request)])
    rooms: Counter[str] = Counter()
    length = {BLOCK: 1, RACK: 2, HOSTNAME: 3}[level]
    for node, cores in nodes.items():
        rooms["-".join(node.split("-")[:length])] += cores
    has_room = max(rooms.values()) >= count if kind == "required" else sum(rooms.values()) >= count
    assert isinstance(found, dict) == has_room
