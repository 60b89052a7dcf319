"""A pod set that leads another one: both in the same domain (E-136 to E-138, E-142)."""

from __future__ import annotations

from multiqueue.engine.tas.placement import PodsToPlace, leader_and_workers
from tests.topology_world import BLOCK, RACK, make_forest, make_pods, place


def leader(cpu: int = 1) -> PodsToPlace:
    return make_pods(1, cpu, name="leader", required=RACK)


def test_the_second_leads_unless_it_is_larger() -> None:
    one, four = make_pods(1, name="one"), make_pods(4, name="four")
    assert leader_and_workers([four, one]) == (one, four)
    assert leader_and_workers([one, four]) == (one, four)
    assert leader_and_workers([one, one]) == (one, one)
    assert leader_and_workers([four]) == (None, four)


def test_leader_and_workers_share_a_rack() -> None:
    forest = make_forest({"b0-r0-h0": 4, "b0-r1-h0": 3, "b0-r1-h1": 2})
    got = place(forest, make_pods(4, required=RACK), leader())
    assert got == {"leader/b0-r1-h0": 1, "b0-r1-h0": 2, "b0-r1-h1": 2}


def test_a_leader_that_fits_nowhere_keeps_the_workers_out() -> None:
    forest = make_forest({"b0-r0-h0": 4})
    got = place(forest, make_pods(2, required=RACK), leader(cpu=5))
    assert got == 'topology "dc" allows to fit only 4 out of 2 pod(s)'


def test_the_leader_goes_where_it_costs_the_workers_least() -> None:
    forest = make_forest({"b0-r0-h0": 4, "b0-r0-h1": 5})
    got = place(forest, make_pods(4, 2, required=RACK), leader())
    assert got == {"leader/b0-r0-h1": 1, "b0-r0-h0": 2, "b0-r0-h1": 2}


def test_a_group_that_needs_several_blocks() -> None:
    forest = make_forest({"b0-r0-h0": 3, "b1-r0-h0": 3})
    got = place(forest, make_pods(5, preferred=BLOCK), leader())
    assert got == {"leader/b0-r0-h0": 1, "b0-r0-h0": 2, "b1-r0-h0": 3}


def test_no_block_has_room_for_a_leader_of_many() -> None:
    forest = make_forest({"b0-r0-h0": 3, "b1-r0-h0": 3})
    got = place(forest, make_pods(6, preferred=BLOCK), leader())
    assert got == 'topology "dc" allows to fit only 5 out of 6 pod(s)'


def test_a_leader_with_slices() -> None:
    forest = make_forest({"b0-r0-h0": 4, "b0-r1-h0": 5, "b0-r2-h0": 4})
    request = {"pod_set_slice_required_topology": RACK, "pod_set_slice_size": 2}
    got = place(forest, make_pods(12, required=BLOCK, **request), leader())
    assert got == {"leader/b0-r1-h0": 1, "b0-r0-h0": 4, "b0-r1-h0": 4, "b0-r2-h0": 4}
