"""Slices of pods that stay together, and slices within slices (E-132, E-133, E-138, E-142)."""

from __future__ import annotations

import pytest

from multiqueue.engine.tas.request import TopologyRequestError, interpret
from multiqueue.model.topology import HOSTNAME
from tests.topology_world import BLOCK, LEVELS, RACK, layers, make_forest, make_pods, place

RACKS = {"b0-r0-h0": 3, "b0-r0-h1": 3, "b0-r1-h0": 3, "b0-r1-h1": 2}


def by_rack(got: dict[str, int] | str) -> dict[str, int]:
    assert isinstance(got, dict), got
    racks: dict[str, int] = {}
    for host, count in got.items():
        rack = host.rpartition("-")[0]
        racks[rack] = racks.get(rack, 0) + count
    return racks


@pytest.mark.parametrize(
    ("pods", "size", "want"),
    [
        pytest.param(8, 4, {"b0-r0": 4, "b0-r1": 4}, id="one slice in each rack"),
        pytest.param(6, 3, {"b0-r0": 6}, id="two slices in the rack that holds them exactly"),
        pytest.param(9, 3, {"b0-r0": 6, "b0-r1": 3}, id="three slices in two racks"),
    ],
)
def test_slices_are_whole_in_a_rack(pods: int, size: int, want: dict[str, int]) -> None:
    request = {"pod_set_slice_required_topology": RACK, "pod_set_slice_size": size}
    got = place(make_forest(RACKS), make_pods(pods, required=BLOCK, **request))
    assert by_rack(got) == want


def test_a_slice_on_each_node() -> None:
    request = {"pod_set_slice_required_topology": HOSTNAME, "pod_set_slice_size": 2}
    got = place(make_forest(RACKS), make_pods(4, required=RACK, **request))
    assert got == {"b0-r1-h0": 2, "b0-r1-h1": 2}
    got = place(make_forest({**RACKS, "b1-r0-h0": 8}), make_pods(8, required=BLOCK, **request))
    assert got == {"b1-r0-h0": 8}


def test_slices_only_begin_at_the_widest_level_with_the_least_free() -> None:
    request = {"pod_set_slice_required_topology": RACK, "pod_set_slice_size": 4}
    assert by_rack(place(make_forest(RACKS), make_pods(4, **request))) == {"b0-r1": 4}


def test_within_a_slice_the_smaller_nodes_are_filled_first() -> None:
    forest = make_forest({"b0-r0-h0": 4, "b0-r0-h1": 1, "b0-r0-h2": 2})
    request = {"pod_set_slice_required_topology": RACK, "pod_set_slice_size": 4}
    got = place(forest, make_pods(4, required=RACK, **request))
    assert got == {"b0-r0-h0": 1, "b0-r0-h1": 1, "b0-r0-h2": 2}


def test_pods_that_fill_no_slice_are_placed_too() -> None:
    request = {"pod_set_slice_required_topology": RACK, "pod_set_slice_size": 4}
    got = place(make_forest(RACKS), make_pods(7, required=BLOCK, **request))
    assert isinstance(got, dict)
    assert sum(got.values()) == 7


def test_slices_within_slices_are_whole_on_their_level() -> None:
    forest = make_forest({"b0-r0-h0": 3, "b0-r0-h1": 3, "b0-r1-h0": 4, "b0-r1-h1": 4})
    request = {"podset_slice_required_topology_constraints": layers((RACK, 4), (HOSTNAME, 2))}
    got = place(forest, make_pods(8, required=BLOCK, **request))
    assert got == {"b0-r1-h0": 4, "b0-r1-h1": 4}
    got = place(forest, make_pods(12, required=BLOCK, **request))
    assert got == {"b0-r0-h0": 2, "b0-r0-h1": 2, "b0-r1-h0": 4, "b0-r1-h1": 4}


def test_what_is_missing_is_told_for_every_layer() -> None:
    forest = make_forest({"b0-r0-h0": 3, "b0-r0-h1": 3})
    request = {"podset_slice_required_topology_constraints": layers((RACK, 4), (HOSTNAME, 2))}
    assert place(forest, make_pods(8, required=BLOCK, **request)) == (
        'topology "dc" doesn\'t allow to fit; 1/2 slice(s) fit on level rack; '
        "2/4 slice(s) fit on level kubernetes.io/hostname"
    )


@pytest.mark.parametrize(
    ("request_", "want"),
    [
        pytest.param(
            {"required": RACK, "pod_set_slice_required_topology": BLOCK, "pod_set_slice_size": 2},
            "podset slice topology block is above the podset topology rack",
            id="slices wider than everything",
        ),
        pytest.param({"required": "row"}, "no requested topology level: row", id="unknown level"),
        pytest.param(
            {"pod_set_slice_required_topology": "row", "pod_set_slice_size": 2},
            "no requested topology level for slices: row",
            id="unknown level of slices",
        ),
        pytest.param(
            {"pod_set_slice_required_topology": RACK},
            "slice topology requested, but slice size not provided",
            id="no size",
        ),
        pytest.param(
            {"podset_slice_required_topology_constraints": layers((RACK, 4), (RACK, 2))},
            "additional slice layer topology rack must be at a lower level than rack",
            id="layers of one level",
        ),
        pytest.param(
            {"podset_slice_required_topology_constraints": layers((RACK, 4), (HOSTNAME, 3))},
            "additional slice layer size 3 must evenly divide parent layer size 4",
            id="sizes that do not divide",
        ),
        pytest.param({"pod_index_label": "i"}, "topology level not specified", id="no level"),
    ],
)
def test_requests_without_a_meaning(request_: dict[str, object], want: str) -> None:
    pods = make_pods(4, **request_)
    with pytest.raises(TopologyRequestError) as caught:
        interpret(LEVELS, pods.topology_request)
    assert str(caught.value) == want
    assert place(make_forest(RACKS), pods) == want
