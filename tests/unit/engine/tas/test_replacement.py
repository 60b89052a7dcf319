"""Another node for the pods of a failed one (E-150)."""

from __future__ import annotations

import pytest

from multiqueue.engine.tas.failure import PlacementFailure
from multiqueue.engine.tas.forest import Forest
from multiqueue.engine.tas.placement import PodsToPlace
from multiqueue.engine.tas.replacement import replace_node
from multiqueue.engine.tas.usage import PlacedPods
from multiqueue.model.topology import HOSTNAME, TopologyAssignment, TopologyDomain
from tests.topology_world import BLOCK, RACK, layers, make_forest, make_pods, tree_of

NODES = {"b0-r0-h0": 4, "b0-r0-h1": 4, "b0-r0-h2": 4, "b0-r1-h0": 4, "b1-r0-h0": 2}


def replace_on(forest: Forest, pods: PodsToPlace, failed: str, **now: int) -> dict[str, int] | str:
    """Replace a node; keywords say where the pods are: ``b0_r0_h0=2``."""
    domains = tuple(TopologyDomain((k.replace("_", "-"),), n) for k, n in now.items())
    assignment = TopologyAssignment((HOSTNAME,), domains)
    forest.charge("it", [PlacedPods("tas", pods.requests, assignment)])
    forest.set_node(failed, None)
    found = replace_node(tree_of(forest), pods, assignment, failed)
    if isinstance(found, PlacementFailure):
        return found.message
    return {domain.values[0]: domain.count for domain in found.domains}


@pytest.mark.parametrize(
    ("request_", "want"),
    [
        pytest.param({"required": RACK}, {"b0-r0-h0": 2, "b0-r0-h2": 3}, id="in the same rack"),
        pytest.param(
            {"required": BLOCK}, {"b0-r0-h0": 2, "b0-r1-h0": 3}, id="tightest rack of the block"
        ),
        pytest.param({"unconstrained": True}, {"b0-r0-h0": 2, "b0-r0-h2": 3}, id="anywhere"),
    ],
)
def test_pods_move(request_: dict[str, object], want: dict[str, int]) -> None:
    got = replace_on(
        make_forest(NODES), make_pods(5, **request_), "b0-r0-h1", b0_r0_h0=2, b0_r0_h1=3
    )
    assert got == want


def test_pods_join_others_on_a_node_that_stayed() -> None:
    got = replace_on(
        make_forest(NODES), make_pods(3, required=RACK), "b0-r0-h1", b0_r0_h0=2, b0_r0_h1=1
    )
    assert got == {"b0-r0-h0": 3}


def test_the_required_rack_is_full() -> None:
    forest = make_forest({"b0-r0-h0": 2, "b0-r0-h1": 4, "b0-r1-h0": 4})
    got = replace_on(forest, make_pods(4, required=RACK), "b0-r0-h1", b0_r0_h0=2, b0_r0_h1=2)
    assert got == (
        'topology "dc" doesn\'t allow to fit any of 2 pod(s). Total nodes: 2; excluded: '
        'resource "cpu": 1, topologyDomain: 1'
    )


def test_all_pods_were_on_the_node() -> None:
    got = replace_on(make_forest(NODES), make_pods(4, required=RACK), "b0-r0-h0", b0_r0_h0=4)
    assert got == {"b0-r1-h0": 4}


def test_another_node_has_gone_too() -> None:
    forest = make_forest({"b0-r0-h1": 4, "b0-r0-h2": 4})
    got = replace_on(forest, make_pods(4, required=RACK), "b0-r0-h1", b0_r0_h0=2, b0_r0_h1=2)
    assert got == (
        "Cannot replace the node, because the existing topologyAssignment is invalid, as it "
        "contains the stale domain b0-r0-h0"
    )


def test_a_slice_is_completed_in_its_rack() -> None:
    forest = make_forest({**NODES, "b0-r1-h1": 1})
    pods = make_pods(4, preferred=BLOCK, pod_set_slice_required_topology=RACK, pod_set_slice_size=4)
    got = replace_on(forest, pods, "b0-r0-h0", b0_r0_h0=1, b0_r0_h1=3)
    assert got == {"b0-r0-h1": 4}


def test_the_innermost_broken_slice_is_completed_where_it_is() -> None:
    forest = make_forest({"b0-r0-h0": 2, "b0-r0-h1": 4, "b0-r1-h0": 2, "b0-r1-h1": 2})
    pods = make_pods(
        8,
        required=BLOCK,
        podset_slice_required_topology_constraints=layers((RACK, 4), (HOSTNAME, 2)),
    )
    got = replace_on(forest, pods, "b0-r0-h0", b0_r0_h0=2, b0_r0_h1=2, b0_r1_h0=2, b0_r1_h1=2)
    assert got == {"b0-r0-h1": 4, "b0-r1-h0": 2, "b0-r1-h1": 2}
