"""Workloads that are admitted with places for their pods (E-44, E-57, E-62, E-69, E-70)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from multiqueue.api.v1beta2.workload import PodSetTopologyRequest
from multiqueue.engine.options import EngineOptions, TopologyScheduling
from multiqueue.engine.plan import Admit, CyclePlan, Preempt
from multiqueue.model.cluster_queue import (
    ClusterQueue,
    Preemption,
    PreemptionPolicy,
    QueueingStrategy,
)
from multiqueue.model.resource_flavor import ResourceFlavor, Topology
from multiqueue.model.topology import TopologyAssignment
from multiqueue.model.workload import Workload
from tests.builders.engine import NAMESPACE, flavor_quotas, make_queue, make_workload, pod_set
from tests.engine_world import EngineWorld
from tests.topology_world import LEVELS, RACK, make_node

TAS = ResourceFlavor(name="tas", node_labels={"pool": "a"}, topology_name="dc")
PREEMPTING = Preemption(within_cluster_queue=PreemptionPolicy.LOWER_PRIORITY)


def make_world(
    nodes: dict[str, int], *queues: ClusterQueue, options: EngineOptions | None = None
) -> EngineWorld:
    """Make a world with nodes of so many cores; by default one queue with ample quota."""
    queues = queues or (tas_queue(),)
    world = EngineWorld(*queues, flavors=[TAS], options=options)
    world.engine.upsert_topology(Topology(name="dc", levels=LEVELS))
    for name, cores in nodes.items():
        world.engine.upsert_node(make_node(name, cores))
    world.cycle()
    world.cycle(after=2)
    return world


def tas_queue(name: str = "cq", cpu: int = 100, **fields: object) -> ClusterQueue:
    return make_queue(name, flavor_quotas("tas", cpu=cpu), **fields)


def gang(name: str, count: int, **fields: object) -> Workload:
    """A workload of single-core pods in one rack, unless told otherwise."""
    request = fields.pop("request", PodSetTopologyRequest(required=RACK))
    pods = pod_set(count=count, cpu=1, topology_request=request)
    return make_workload(name, pod_sets=[pods], **fields)


def places(plan: CyclePlan) -> dict[str, dict[str, int]]:
    """Return the pods by node, by name of the admitted workload."""
    return {
        d.workload.partition("/")[2]: on_nodes(d.admission.pod_sets[0].topology)
        for d in plan.decisions
        if isinstance(d, Admit)
    }


def on_nodes(topology: TopologyAssignment | None) -> dict[str, int]:
    domains = topology.domains if topology is not None else ()
    return {domain.values[-1]: domain.count for domain in domains}


def test_an_admission_says_where_the_pods_go() -> None:
    world = make_world({"b0-r0-h0": 2, "b0-r1-h0": 4})
    world.submit(gang("a", 3))
    assert places(world.cycle()) == {"a": {"b0-r1-h0": 3}}


def test_room_comes_back_with_the_end_of_a_workload() -> None:
    world = make_world({"b0-r0-h0": 4})
    world.submit(gang("a", 4))
    world.write_back(world.cycle())
    world.submit(gang("b", 2))
    assert places(world.cycle()) == {}
    assert world.reason("b") == (
        "WaitingForQuota: couldn't assign flavors to pod set main: topology \"dc\" doesn't allow "
        'to fit any of 2 pod(s). Total nodes: 1; excluded: resource "cpu": 1'
    )
    world.finish("a")
    assert places(world.cycle(after=2)) == {"b": {"b0-r0-h0": 2}}


def test_what_fits_nowhere_says_so() -> None:
    world = make_world({"b0-r0-h0": 4, "b0-r1-h0": 4})
    world.submit(gang("a", 5))
    world.cycle()
    assert world.reason("a") == (
        "TopologyPlacementFailed: couldn't assign flavors to pod set main: "
        'topology "dc" allows to fit only 4 out of 5 pod(s)'
    )


def test_pods_that_fit_find_room_whichever_pod_set_comes_first() -> None:
    """The first one would take some of the only rack that the second one fits into (E-135)."""
    world = make_world({**{f"b0-r0-h{i}": 1 for i in range(5)}, "b0-r1-h0": 4})
    request = PodSetTopologyRequest(required=RACK)
    small = pod_set("small", count=1, cpu=1, topology_request=request)
    large = pod_set("large", count=2, cpu=2, topology_request=request)
    world.submit(make_workload("a", pod_sets=[small, large]))
    (decision,) = world.cycle().decisions
    assert isinstance(decision, Admit)
    found = {each.name: on_nodes(each.topology) for each in decision.admission.pod_sets}
    assert found == {"small": {"b0-r0-h0": 1}, "large": {"b0-r1-h0": 2}}


def test_pod_sets_that_do_not_fit_together_say_which_one_lacks_room() -> None:
    world = make_world({"b0-r0-h0": 4})
    request = PodSetTopologyRequest(required=RACK)
    names = ("first", "second")
    sets = [pod_set(name, count=3, cpu=1, topology_request=request) for name in names]
    world.submit(make_workload("a", pod_sets=sets))
    assert places(world.cycle()) == {}
    assert "pod set second" in world.reason("a")


def test_a_new_node_wakes_who_waits() -> None:
    world = make_world({"b0-r0-h0": 2})
    world.submit(gang("a", 4))
    assert places(world.cycle()) == {}
    world.engine.upsert_node(make_node("b0-r0-h1", 2))
    assert places(world.cycle(after=2)) == {"a": {"b0-r0-h0": 2, "b0-r0-h1": 2}}


def test_the_end_of_another_pod_wakes_who_waits() -> None:
    world = make_world({"b0-r0-h0": 4})
    world.engine.set_pod_usage("kube-system/p", "b0-r0-h0", {"cpu": 1000})
    world.submit(gang("a", 4))
    assert places(world.cycle()) == {}
    world.engine.set_pod_usage("kube-system/p", "b0-r0-h0", None)
    assert places(world.cycle(after=2)) == {"a": {"b0-r0-h0": 4}}


def test_no_quota_is_no_place() -> None:
    world = make_world({"b0-r0-h0": 9}, tas_queue(cpu=2))
    world.submit(gang("a", 3))
    assert places(world.cycle()) == {}
    assert "insufficient quota for cpu in flavor tas" in world.reason("a")


@pytest.mark.parametrize(
    ("request_", "want"),
    [
        pytest.param(
            PodSetTopologyRequest(required="row"),
            'Flavor "tas" does not contain the requested level',
            id="unknown level",
        ),
        pytest.param(
            PodSetTopologyRequest(
                required=RACK, pod_set_slice_required_topology="row", pod_set_slice_size=2
            ),
            'Flavor "tas" does not contain the requested level',
            id="unknown level of slices",
        ),
    ],
)
def test_a_level_that_the_topology_lacks(request_: PodSetTopologyRequest, want: str) -> None:
    world = make_world({"b0-r0-h0": 4})
    world.submit(gang("a", 2, request=request_))
    world.cycle()
    assert world.reason("a").endswith(want)


def test_a_queue_of_topologies_only_places_everything() -> None:
    world = make_world({"b0-r0-h0": 4, "b0-r0-h1": 2})
    world.submit(gang("a", 2, request=None))
    assert places(world.cycle()) == {"a": {"b0-r0-h1": 2}}


def test_without_the_gate_nothing_is_placed() -> None:
    world = make_world({"b0-r0-h0": 1}, options=EngineOptions(topology=None))
    world.submit(gang("a", 5))
    assert places(world.cycle()) == {"a": {}}


# -------------------------------------------------------------------- heads of one cycle


@pytest.mark.parametrize("recompute", [True, False])
def test_heads_of_one_cycle_do_not_share_nodes(recompute: bool) -> None:
    queues = [tas_queue(name, cohort="co") for name in ("one", "two")]
    options = EngineOptions(topology=TopologyScheduling(recompute=recompute))
    world = make_world({"b0-r0-h0": 3, "b0-r1-h0": 4}, *queues, options=options)
    world.submit(gang("a", 3, queue="one"), gang("b", 3, queue="two"))
    got = places(world.cycle())
    assert got == {"a": {"b0-r0-h0": 3}, "b": {"b0-r1-h0": 3}}


def test_trees_share_nodes() -> None:
    world = make_world({"b0-r0-h0": 4}, tas_queue("one"), tas_queue("two"))
    world.submit(gang("a", 3, queue="one"))
    world.write_back(world.cycle())
    world.submit(gang("b", 3, queue="two"))
    assert places(world.cycle()) == {}
    world.finish("a")
    assert places(world.cycle(after=2)) == {"b": {"b0-r0-h0": 3}}


@pytest.mark.parametrize("strategy", QueueingStrategy)
def test_freed_nodes_are_tried_though_the_tree_was_woken_for_another_reason_before(
    strategy: QueueingStrategy,
) -> None:
    queues = tas_queue("one"), tas_queue("two", strategy=strategy)
    world = make_world({"b0-r0-h0": 4}, *queues)
    world.submit(gang("a", 3, queue="one"))
    world.write_back(world.cycle())
    world.submit(gang("b", 3, queue="two"))
    assert places(world.cycle()) == {}
    world.engine.upsert_cluster_queue(tas_queue("two", cpu=99, strategy=strategy))
    assert places(world.cycle(after=2)) == {}
    world.finish("a")
    assert places(world.cycle(after=2)) == {"b": {"b0-r0-h0": 3}}


def test_freed_nodes_wake_no_tree_that_lacks_only_quota() -> None:
    """E-27: only its own tree looks again, because a wake costs a cycle for each head."""
    world = make_world({"b0-r0-h0": 9}, tas_queue("one"), tas_queue("two", cpu=2))
    world.submit(gang("a", 3, queue="one"), gang("b", 3, queue="two"), gang("c", 2, queue="two"))
    world.write_back(world.cycle())
    world.cycle(after=2)
    world.finish("a")
    plan = world.cycle(after=2)
    assert (plan.cycles, plan.decisions) == (1, ()), "one cycle of the tree without waiters"
    world.finish("c")
    assert [decision.workload for decision in world.cycle(after=2).decisions] == [f"{NAMESPACE}/b"]


# -------------------------------------------------------------------- preemption


def victims(plan: CyclePlan) -> list[str]:
    return [
        victim.workload.partition("/")[2]
        for decision in plan.decisions
        if isinstance(decision, Preempt)
        for victim in decision.victims
    ]


def test_who_holds_the_only_rack_is_preempted_though_there_is_quota() -> None:
    world = make_world({"b0-r0-h0": 4, "b0-r1-h0": 2}, tas_queue(preemption=PREEMPTING))
    world.submit(gang("big", 3), gang("small", 2))
    world.write_back(world.cycle())
    world.submit(gang("urgent", 4, priority=10))
    plan = world.cycle()
    assert victims(plan) == ["big"]
    assert world.reason("urgent").startswith("WaitingForPreemptedWorkloads: ")
    world.finish("big")
    assert places(world.cycle(after=2)) == {"urgent": {"b0-r0-h0": 4}}


def test_nobody_is_preempted_where_even_an_empty_rack_is_too_small() -> None:
    world = make_world({"b0-r0-h0": 4}, tas_queue(preemption=PREEMPTING))
    world.submit(gang("a", 3))
    world.write_back(world.cycle())
    world.submit(gang("urgent", 5, priority=10))
    assert victims(world.cycle()) == []
    assert world.reason("urgent").startswith("TopologyPlacementFailed: ")


def test_a_head_that_waits_for_others_to_leave_keeps_its_nodes_in_the_cycle() -> None:
    queues = [
        tas_queue("one", cohort="co", preemption=PREEMPTING),
        tas_queue("two", cohort="co"),
    ]
    world = make_world({"b0-r0-h0": 4}, *queues)
    world.submit(gang("a", 3, queue="one"))
    world.write_back(world.cycle())
    world.submit(gang("urgent", 4, queue="one", priority=10), gang("late", 1, queue="two"))
    plan = world.cycle()
    assert victims(plan) == ["a"]
    assert places(plan) == {}


def move(world: EngineWorld, name: str, node: str) -> None:
    """Let all pods of a workload be on another node."""
    held = world.workloads[f"{NAMESPACE}/{name}"]
    assert held.reservation is not None
    pods = held.reservation.admission.pod_sets[0]
    assert pods.topology is not None
    moved = replace(pods.topology.domains[0], values=(node,))
    admission = replace(
        held.reservation.admission,
        pod_sets=(replace(pods, topology=TopologyAssignment(pods.topology.levels, (moved,))),),
    )
    world.submit(replace(held, reservation=replace(held.reservation, admission=admission)))


def test_pods_move_with_what_the_status_says() -> None:
    world = make_world({"b0-r0-h0": 4, "b0-r1-h0": 4})
    world.submit(gang("a", 4))
    world.write_back(world.cycle())
    move(world, "a", "b0-r1-h0")
    world.submit(gang("b", 4))
    assert places(world.cycle(after=2)) == {"b": {"b0-r0-h0": 4}}


def test_pods_that_move_wake_who_waits_for_their_nodes_in_any_tree() -> None:
    world = make_world({"b0-r0-h0": 4, "b0-r1-h0": 2}, tas_queue("one"), tas_queue("two"))
    world.submit(gang("a", 3, queue="one"))
    world.write_back(world.cycle())
    world.submit(gang("b", 4, queue="two"))
    assert places(world.cycle(after=2)) == {}
    move(world, "a", "b0-r1-h0")
    assert places(world.cycle(after=2)) == {"b": {"b0-r0-h0": 4}}


def test_pods_of_its_own_workloads_are_no_news_from_outside_a_tree() -> None:
    """What they take or leave does not let those preempt each other again that did in vain."""
    world = make_world({"b0-r0-h0": 4})
    world.submit(gang("a", 3))
    tree = world.engine.parts.cache.tree_by_queue["cq"]
    version, epoch = tree.version, tree.epoch
    world.write_back(world.cycle())
    assert (tree.version > version, tree.epoch) == (True, epoch)
    world.engine.set_pod_usage("kube-system/p", "b0-r0-h0", {"cpu": 1000})
    assert tree.epoch > epoch
