"""Which nodes count, what is free on them, and who shares them (E-129 to E-131, E-144)."""

from __future__ import annotations

import pytest

from multiqueue.api.v1beta2.meta import LabelSelectorRequirement, Taint, Toleration
from multiqueue.engine.tas.flavor_tree import Profile
from multiqueue.engine.tas.placement import place_group
from multiqueue.engine.tas.usage import PlacedPods
from multiqueue.model.placement import Placement
from multiqueue.model.resource_flavor import ResourceFlavor
from multiqueue.model.topology import HOSTNAME, Node
from tests.topology_world import (
    BLOCK,
    RACK,
    make_forest,
    make_node,
    make_pods,
    place,
    tree_of,
)

TAINT = Taint(key="gpu", value="yes", effect="NoSchedule")
SSD = (LabelSelectorRequirement(key="disk", operator="In", values=("ssd",)),)


@pytest.mark.parametrize(
    "node",
    [
        pytest.param(make_node("b0-r0-h1", ready=False), id="not ready"),
        pytest.param(make_node("b0-r0-h1", schedulable=False), id="cordoned"),
        pytest.param(make_node("b0-r0-h1", labels={"pool": "b"}), id="of another flavor"),
        pytest.param(Node(name="x", labels={"pool": "a", HOSTNAME: "x"}), id="without a rack"),
    ],
)
def test_nodes_that_do_not_count(node: Node) -> None:
    forest = make_forest([make_node("b0-r0-h0"), node])
    assert tree_of(forest).tree.keys == [("b0-r0-h0",)]


def test_a_node_that_comes_back_counts_again() -> None:
    forest = make_forest([make_node("b0-r0-h0", ready=False)])
    assert place(forest, make_pods(1, required=RACK)) == "no topology domains at level: rack"
    assert forest.set_node("b0-r0-h0", make_node("b0-r0-h0")) == {"tas"}
    assert place(forest, make_pods(1, required=RACK)) == {"b0-r0-h0": 1}
    assert forest.set_node("b0-r0-h0", make_node("b0-r0-h0")) == set()
    assert forest.set_node("b0-r0-h0", None) == {"tas"}
    assert place(forest, make_pods(1, required=RACK)) == "no topology domains at level: rack"


def test_pods_of_others_take_room_until_they_end() -> None:
    forest = make_forest({"b0-r0-h0": 4})
    assert place(forest, make_pods(4, required=RACK)) == {"b0-r0-h0": 4}
    assert forest.set_pod("kube-system/agent", "b0-r0-h0", {"cpu": 500}) == {"tas"}
    assert place(forest, make_pods(4, required=RACK)) == (
        'topology "dc" allows to fit only 3 out of 4 pod(s)'
    )
    assert forest.set_pod("kube-system/agent", "b0-r0-h0", {"cpu": 500}) == set()
    assert forest.set_pod("kube-system/agent", "b0-r0-h0", None) == {"tas"}
    assert place(forest, make_pods(4, required=RACK)) == {"b0-r0-h0": 4}


def test_pods_known_before_their_node_count_too() -> None:
    forest = make_forest({})
    forest.set_pod("default/p", "b0-r0-h0", {"cpu": 3000})
    forest.set_node("b0-r0-h0", make_node("b0-r0-h0"))
    assert place(forest, make_pods(1, required=RACK)) == {"b0-r0-h0": 1}
    assert isinstance(place(forest, make_pods(2, required=RACK)), str)


def test_every_pod_takes_one_of_pods() -> None:
    forest = make_forest([make_node("b0-r0-h0", pods=3)])
    forest.set_pod("default/p", "b0-r0-h0", {})
    assert place(forest, make_pods(3, required=RACK)) == (
        'topology "dc" allows to fit only 2 out of 3 pod(s)'
    )


@pytest.mark.parametrize(
    ("placement", "want"),
    [
        pytest.param(Placement(), "b0-r0-h1", id="a taint"),
        pytest.param(
            Placement(tolerations=(Toleration(key="gpu", operator="Exists"),)),
            "b0-r0-h0",
            id="tolerated",
        ),
        pytest.param(Placement(node_selector=(("disk", "ssd"),)), "b0-r0-h2", id="selector"),
        pytest.param(Placement(affinity_terms=(SSD,)), "b0-r0-h2", id="affinity"),
    ],
)
def test_nodes_that_pods_cannot_run_on(placement: Placement, want: str) -> None:
    forest = make_forest(
        [
            make_node("b0-r0-h0", taints=(TAINT,)),
            make_node("b0-r0-h1"),
            make_node("b0-r0-h2", labels={"disk": "ssd"}),
        ]
    )
    assert place(forest, make_pods(1, required=RACK, placement=placement)) == {want: 1}


def test_a_failure_counts_the_nodes_that_were_left_out() -> None:
    forest = make_forest(
        [
            make_node("b0-r0-h0", taints=(TAINT,), labels={"disk": "ssd"}),
            make_node("b0-r0-h1"),
            make_node("b0-r0-h2", cpu=1, labels={"disk": "ssd"}),
            make_node("b0-r0-h3", cpu=2, labels={"disk": "ssd"}),
        ]
    )
    pods = make_pods(2, 2, required=RACK, placement=Placement(node_selector=(("disk", "ssd"),)))
    assert place(forest, pods) == (
        'topology "dc" allows to fit only 1 out of 2 pod(s). Total nodes: 4; excluded: '
        'nodeSelector: 1, resource "cpu": 1, taint "gpu=yes:NoSchedule": 1'
    )
    forest.set_pod("default/p", "b0-r0-h3", {"cpu": 1000})
    assert place(forest, pods) == (
        'topology "dc" doesn\'t allow to fit any of 2 pod(s). Total nodes: 4; excluded: '
        'nodeSelector: 1, resource "cpu": 2, taint "gpu=yes:NoSchedule": 1'
    )


def test_wider_leaves_look_at_no_single_node() -> None:
    forest = make_forest([make_node("b0-r0-h0", taints=(TAINT,))], (BLOCK, RACK))
    assert place(forest, make_pods(1, required=RACK)) == {"b0/b0-r0": 1}


def test_wishes_for_nodes_come_first_with_the_gate() -> None:
    nodes = [make_node("b0-r0-h0", cpu=2), make_node("b0-r1-h0", cpu=4, labels={"disk": "ssd"})]
    wanted = Placement(preferred_terms=((10, SSD),))
    pods = make_pods(1, required=RACK, placement=wanted)
    assert place(make_forest(nodes), pods) == {"b0-r0-h0": 1}
    profile = Profile(respects_preferred_affinity=True)
    assert place(make_forest(nodes, profile=profile), pods) == {"b0-r1-h0": 1}
    large = make_pods(5, required=RACK, placement=wanted)
    assert isinstance(place(make_forest(nodes, profile=profile), large), str)
    bigger = [make_node("b0-r0-h0", cpu=6), nodes[1]]
    assert place(make_forest(bigger, profile=profile), large) == {"b0-r0-h0": 5}


@pytest.mark.parametrize("shares_nodes", [True, False])
def test_flavors_that_share_nodes(shares_nodes: bool) -> None:
    forest = make_forest({"b0-r0-h0": 4}, shares_nodes=shares_nodes)
    other = ResourceFlavor(name="other", node_labels={"pool": "a"}, topology_name="dc")
    forest.set_flavor("other", other)
    place(forest, make_pods(3, required=RACK), owner="a")
    got = place_group(tree_of(forest, "other"), [make_pods(2, required=RACK)])
    assert isinstance(got, dict) != shares_nodes


def test_a_flavor_has_other_nodes_once_its_labels_change() -> None:
    nodes = [make_node("b0-r0-h0"), make_node("b0-r0-h1", labels={"pool": "b"})]
    forest = make_forest(nodes)
    assert place(forest, make_pods(2, required=RACK)) == {"b0-r0-h0": 2}
    moved = ResourceFlavor(name="tas", node_labels={"pool": "b"}, topology_name="dc")
    forest.set_flavor("tas", moved)
    assert place(forest, make_pods(2, required=RACK)) == {"b0-r0-h1": 2}


def test_assumed_pods_take_room_inside_the_block_only() -> None:
    forest = make_forest({"b0-r0-h0": 4})
    pods = make_pods(3, required=RACK)
    found = place_group(tree_of(forest), [pods])
    assert isinstance(found, dict)
    with forest.assuming([PlacedPods("tas", pods.requests, found["main"])]):
        assert isinstance(place(forest, make_pods(2, required=RACK)), str)
        assert isinstance(place(forest, make_pods(2, required=RACK), empty=True), str)
    assert place(forest, make_pods(4, required=RACK)) == {"b0-r0-h0": 4}


def test_fits_sums_up_what_pod_sets_put_on_a_node() -> None:
    forest = make_forest({"b0-r0-h0": 4})
    pods = make_pods(2, required=RACK)
    found = place_group(tree_of(forest), [pods])
    assert isinstance(found, dict)
    placed = PlacedPods("tas", pods.requests, found["main"])
    assert forest.fits([placed, placed])
    assert not forest.fits([placed, placed, placed])
    forest.charge("a", [placed, placed])
    assert not forest.fits([placed])
    held = forest.release("a")
    assert forest.fits([placed])
    forest.restore("a", held)
    assert not forest.fits([placed])
    forest.set_node("b0-r0-h0", None)
    assert not forest.fits([placed])


def test_a_tree_knows_which_leaves_changed_since_counts_were_taken() -> None:
    tree = tree_of(make_forest([make_node(f"b0-r0-h{i}") for i in range(3)])).tree
    begun = tree.changes
    for leaf in (0, 2, 0, 2, 1):
        tree.note_change(leaf)
    assert sorted(tree.changed_since(begun)) == [0, 1, 2]
    assert tree.changed_since(begun + 3) == [1, 2]
    assert tree.changed_since(tree.changes) == []
