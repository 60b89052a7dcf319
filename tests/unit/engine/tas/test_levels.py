"""At which level pods are placed, and in which domains (E-139 to E-143)."""

from __future__ import annotations

import pytest

from multiqueue.engine.tas.flavor_tree import Profile
from tests.topology_world import BLOCK, RACK, make_forest, make_pods, place

TWO_BLOCKS = {
    "b0-r0-h0": 4,
    "b0-r0-h1": 2,
    "b0-r1-h0": 3,
    "b1-r0-h0": 6,
    "b1-r1-h0": 1,
}


@pytest.mark.parametrize(
    ("pods", "request_", "want"),
    [
        pytest.param(3, {"required": RACK}, {"b0-r1-h0": 3}, id="tightest rack, not the first"),
        pytest.param(4, {"required": RACK}, {"b0-r0-h0": 4}, id="fewest nodes of the rack"),
        pytest.param(5, {"required": RACK}, {"b0-r0-h0": 4, "b0-r0-h1": 1}, id="whole node first"),
        pytest.param(7, {"required": BLOCK}, {"b1-r0-h0": 6, "b1-r1-h0": 1}, id="tightest block"),
        pytest.param(
            8,
            {"preferred": RACK},
            {"b0-r0-h0": 4, "b0-r1-h0": 3, "b0-r0-h1": 1},
            id="the level above, where the nodes of all racks compete",
        ),
        pytest.param(
            10,
            {"preferred": RACK},
            {"b0-r0-h0": 4, "b1-r0-h0": 6},
            id="several blocks, and the fewest nodes of them",
        ),
        pytest.param(1, {"unconstrained": True}, {"b1-r1-h0": 1}, id="least free node"),
        pytest.param(
            7,
            {"unconstrained": True},
            {"b0-r0-h1": 2, "b0-r1-h0": 3, "b0-r0-h0": 1, "b1-r1-h0": 1},
            id="the fullest nodes are filled up where none has room for all",
        ),
    ],
)
def test_domains(pods: int, request_: dict[str, object], want: dict[str, int]) -> None:
    assert place(make_forest(TWO_BLOCKS), make_pods(pods, **request_)) == want


def test_unconstrained_uses_the_best_fit_without_the_mixed_profile() -> None:
    forest = make_forest(TWO_BLOCKS, profile=Profile(mixed=False))
    got = place(forest, make_pods(7, unconstrained=True))
    assert got == {"b1-r0-h0": 6, "b1-r1-h0": 1}


def test_implied_is_any_place() -> None:
    assert place(make_forest(TWO_BLOCKS), make_pods(2, implied=True)) == {"b0-r0-h1": 2}


def test_levels_without_hosts_name_all_values() -> None:
    got = place(make_forest(TWO_BLOCKS, (BLOCK, RACK)), make_pods(5, preferred=RACK))
    assert got == {"b0/b0-r0": 5}


def test_domains_come_in_the_order_of_their_values() -> None:
    forest = make_forest({"b0-r0-h10": 1, "b0-r0-h2": 1, "b0-r0-h1": 1})
    got = place(forest, make_pods(3, required=RACK))
    assert list(got) == ["b0-r0-h1", "b0-r0-h10", "b0-r0-h2"]


def test_pods_take_what_others_left() -> None:
    forest = make_forest({"b0-r0-h0": 4, "b0-r1-h0": 4})
    assert place(forest, make_pods(3, required=RACK), owner="a") == {"b0-r0-h0": 3}
    assert place(forest, make_pods(2, required=RACK), owner="b") == {"b0-r1-h0": 2}
    assert place(forest, make_pods(1, required=RACK), owner="c") == {"b0-r0-h0": 1}
    forest.release("a")
    assert place(forest, make_pods(3, required=RACK)) == {"b0-r0-h0": 3}


def test_charging_twice_counts_once() -> None:
    forest = make_forest({"b0-r0-h0": 4})
    place(forest, make_pods(2, required=RACK), owner="a")
    place(forest, make_pods(2, required=RACK), owner="a")
    assert place(forest, make_pods(2, required=RACK)) == {"b0-r0-h0": 2}


def test_thinking_all_placed_pods_away() -> None:
    forest = make_forest({"b0-r0-h0": 4})
    place(forest, make_pods(4, required=RACK), owner="a")
    assert place(forest, make_pods(4, required=RACK), empty=True) == {"b0-r0-h0": 4}
    assert place(forest, make_pods(5, required=RACK), empty=True) == (
        'topology "dc" allows to fit only 4 out of 5 pod(s)'
    )
