"""Balanced placement: as even as possible, for ``preferred`` only (E-145)."""

from __future__ import annotations

import pytest

from multiqueue.engine.tas.flavor_tree import Profile
from tests.topology_world import BLOCK, RACK, make_forest, make_pods, place

BALANCED = Profile(balanced=True)


def racks(*cores: int) -> dict[str, int]:
    """Make a rack of single-core nodes for each number."""
    return {f"b0-r{i}-h{host}": 1 for i, count in enumerate(cores) for host in range(count)}


def by_rack(got: dict[str, int] | str) -> dict[str, int]:
    assert isinstance(got, dict), got
    found: dict[str, int] = {}
    for host, count in got.items():
        rack = host.rpartition("-")[0].rpartition("-")[2]
        found[rack] = found.get(rack, 0) + count
    return found


@pytest.mark.parametrize(
    ("free", "pods", "want"),
    [
        pytest.param((4, 4, 4), 6, {"r0": 3, "r1": 3}, id="even in two racks, not 4 and 2"),
        pytest.param((6, 4), 4, {"r1": 4}, id="one rack that is enough"),
        pytest.param((5, 3, 3), 6, {"r1": 3, "r2": 3}, id="the two racks with least left over"),
        pytest.param((5, 2), 7, {"r0": 5, "r1": 2}, id="as even as there is room"),
    ],
)
def test_racks(free: tuple[int, ...], pods: int, want: dict[str, int]) -> None:
    got = place(
        make_forest(racks(*free), (BLOCK, RACK), profile=BALANCED), make_pods(pods, preferred=RACK)
    )
    assert {k.rpartition("-")[2]: v for k, v in got.items()} == want  # type: ignore[union-attr]


def test_nodes_of_the_preferred_rack() -> None:
    forest = make_forest({"b0-r0-h0": 4, "b0-r0-h1": 4}, profile=BALANCED)
    assert place(forest, make_pods(6, preferred=RACK)) == {"b0-r0-h0": 3, "b0-r0-h1": 3}


def test_required_is_not_balanced() -> None:
    forest = make_forest({"b0-r0-h0": 4, "b0-r0-h1": 4}, profile=BALANCED)
    assert place(forest, make_pods(6, required=RACK)) == {"b0-r0-h0": 4, "b0-r0-h1": 2}


def test_the_leader_has_its_place() -> None:
    forest = make_forest({"b0-r0-h0": 4, "b0-r0-h1": 4}, profile=BALANCED)
    leader = make_pods(1, name="leader")
    got = place(forest, make_pods(6, preferred=RACK), leader)
    assert got == {"leader/b0-r0-h0": 1, "b0-r0-h0": 3, "b0-r0-h1": 3}


def test_what_cannot_be_balanced_is_placed_all_the_same() -> None:
    forest = make_forest({"b0-r0-h0": 4, "b1-r0-h0": 4}, profile=BALANCED)
    assert place(forest, make_pods(6, preferred=RACK)) == {"b0-r0-h0": 4, "b1-r0-h0": 2}


def test_no_room_is_no_room() -> None:
    forest = make_forest({"b0-r0-h0": 4}, profile=BALANCED)
    assert place(forest, make_pods(6, preferred=RACK)) == (
        'topology "dc" allows to fit only 4 out of 6 pod(s)'
    )
