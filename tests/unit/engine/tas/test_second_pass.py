"""Places for pods of workloads that hold quota already (E-71, E-134, E-150, E-151)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from multiqueue.api.conditions import CheckState, Reason
from multiqueue.api.names import MULTIKUEUE_CONTROLLER, PROVISIONING_REQUEST_CONTROLLER
from multiqueue.engine.options import EngineOptions, TopologyScheduling
from multiqueue.engine.plan import Admit, Evict, PlaceFailed, PlacePods
from multiqueue.model.cluster_queue import AdmissionCheckInfo, ClusterQueue
from multiqueue.model.placement import Placement
from multiqueue.model.workload import Admission, PodSetAssignment, Workload
from tests.builders.engine import NAMESPACE, check_rule, reserved, seconds
from tests.engine_world import EngineWorld
from tests.topology_world import make_node
from tests.unit.engine.tas.test_engine_topology import gang, make_world, move, on_nodes, tas_queue

NODES = {"b0-r0-h0": 4, "b0-r0-h1": 4, "b0-r1-h0": 4}
SLOW = EngineOptions(topology=TopologyScheduling(fail_fast=False))


def run(world: EngineWorld, name: str, count: int) -> Workload:
    """Have a gang run; return it as it was written."""
    world.submit(gang(name, count))
    world.write_back(world.cycle())
    return world.workloads[f"{NAMESPACE}/{name}"]


def pods_of(admission: Admission) -> PodSetAssignment:
    return admission.pod_sets[0]


def fail(world: EngineWorld, workload: Workload, node: str) -> None:
    """Have a node fail under a workload."""
    world.engine.upsert_node(make_node(node, ready=False))
    world.submit(replace(workload, unhealthy_nodes=(node,)))


# -------------------------------------------------------------------- failed nodes


def test_pods_of_a_failed_node_get_another_a_second_later() -> None:
    world = make_world(NODES)
    workload = run(world, "a", 3)
    fail(world, workload, "b0-r1-h0")
    assert world.cycle(after=0.9).decisions == ()
    (decision,) = world.cycle(after=0.1).decisions
    assert isinstance(decision, PlacePods)
    assert on_nodes(pods_of(decision.admission).topology) == {"b0-r0-h0": 3}
    assert world.cycle(after=60).decisions == ()


def test_the_new_node_is_taken_at_once_and_the_old_one_free() -> None:
    world = make_world(NODES)
    fail(world, run(world, "a", 3), "b0-r1-h0")
    world.cycle(after=1)
    world.submit(gang("b", 4))
    (decision,) = world.cycle().decisions
    assert isinstance(decision, Admit)
    assert on_nodes(pods_of(decision.admission).topology) == {"b0-r0-h1": 4}


def test_a_tree_that_is_gone_is_not_told_of_free_nodes() -> None:
    world = make_world(NODES, tas_queue("one", cohort="co"), tas_queue("two"))
    world.submit(gang("a", 3, queue="one"), gang("b", 1, queue="two"))
    world.write_back(world.cycle())
    fail(world, world.workloads[f"{NAMESPACE}/a"], "b0-r1-h0")
    (decision,) = world.cycle(after=1).decisions
    assert isinstance(decision, PlacePods)
    world.engine.upsert_cluster_queue(tas_queue("one"))
    world.finish("b")
    assert world.cycle(after=5).failures == ()


def test_a_write_that_failed_is_decided_again() -> None:
    world = make_world(NODES)
    fail(world, run(world, "a", 3), "b0-r1-h0")
    world.cycle(after=1)
    world.engine.places_failed(f"{NAMESPACE}/a", world.now)
    (decision,) = world.cycle(after=1).decisions
    assert isinstance(decision, PlacePods)
    world.engine.places_written(decision.workload, decision.admission)
    world.engine.places_failed(f"{NAMESPACE}/a", world.now)
    assert world.cycle(after=5).decisions == ()


def test_places_that_were_written_say_nothing_of_a_newer_admission() -> None:
    world = make_world(NODES)
    workload = run(world, "a", 3)
    fail(world, workload, "b0-r1-h0")
    (place,) = world.cycle(after=1).decisions
    assert isinstance(place, PlacePods)
    world.submit(replace(workload, reservation=None))
    assert world.admitted(after=1) == ["a"]
    world.engine.places_written(place.workload, place.admission)
    world.engine.forget(place.workload, world.now, retry_at=world.now + seconds(60))
    world.submit(gang("b", 8))
    assert world.admitted(after=5) == ["b"]


def test_a_workload_that_was_made_again_meanwhile_is_looked_at_itself() -> None:
    world = make_world(NODES)
    workload = run(world, "a", 3)
    fail(world, workload, "b0-r1-h0")
    world.submit(replace(world.workloads[workload.key], uid="another"))
    (decision,) = world.cycle(after=1).decisions
    assert isinstance(decision, PlacePods)


def test_without_another_node_it_is_evicted() -> None:
    world = make_world({"b0-r0-h0": 4})
    fail(world, run(world, "a", 3), "b0-r0-h0")
    (decision,) = world.cycle(after=1).decisions
    assert decision == Evict(
        workload=f"{NAMESPACE}/a",
        cluster_queue="cq",
        reason=Reason.NODE_FAILURES,
        message="Workload was evicted as there was no replacement for a failed node: b0-r0-h0",
    )


def test_an_eviction_that_could_not_be_written_is_decided_again() -> None:
    world = make_world({"b0-r0-h0": 4})
    fail(world, run(world, "a", 3), "b0-r0-h0")
    world.cycle(after=1)
    assert world.cycle(after=5).decisions == ()
    world.engine.preemption_failed(f"{NAMESPACE}/a", world.now)
    (decision,) = world.cycle(after=1).decisions
    assert isinstance(decision, Evict)


def test_without_fail_fast_it_is_tried_again_ever_more_rarely() -> None:
    world = make_world({"b0-r0-h0": 4}, options=SLOW)
    fail(world, run(world, "a", 3), "b0-r0-h0")
    world.cycle()
    waits = []
    for wait in (1, 2, 4, 8, 16, 30, 30):
        assert world.cycle(after=wait - 0.5).decisions == ()
        (decision,) = world.cycle(after=0.5).decisions
        waits.append(decision)
    assert all(isinstance(decision, PlaceFailed) for decision in waits)
    assert "no topology domains" in waits[0].message  # type: ignore[union-attr]
    world.engine.upsert_node(make_node("b0-r0-h1"))
    (decision,) = world.cycle(after=30).decisions
    assert isinstance(decision, PlacePods)


def test_a_node_that_is_healthy_again_needs_no_replacement() -> None:
    world = make_world(NODES)
    workload = run(world, "a", 3)
    fail(world, workload, "b0-r1-h0")
    world.engine.upsert_node(make_node("b0-r1-h0"))
    world.submit(replace(workload, unhealthy_nodes=()))
    assert world.cycle(after=5).decisions == ()


def test_a_failed_node_of_others_is_no_concern() -> None:
    world = make_world(NODES)
    fail(world, run(world, "a", 3), "b0-r0-h0")
    assert world.cycle(after=5).decisions == ()


def test_without_the_gate_nodes_are_not_replaced() -> None:
    options = EngineOptions(topology=TopologyScheduling(replace_failed_nodes=False))
    world = make_world(NODES, options=options)
    fail(world, run(world, "a", 3), "b0-r1-h0")
    assert world.cycle(after=5).decisions == ()


# -------------------------------------------------------------------- delayed topologies


def checked_queue() -> ClusterQueue:
    return tas_queue(checks=(check_rule("prov"),))


def provisioned(controller: str = PROVISIONING_REQUEST_CONTROLLER) -> tuple[EngineWorld, Workload]:
    """Have a gang reserve quota whose nodes are still to come."""
    world = make_world({}, checked_queue())
    info = AdmissionCheckInfo(name="prov", active=True, controller_name=controller)
    world.engine.upsert_admission_check(info)
    world.cycle()
    world.submit(gang("a", 3))
    plan = world.cycle(after=2)
    (decision,) = plan.decisions
    assert isinstance(decision, Admit)
    assert not decision.admitted
    assert pods_of(decision.admission).delayed_topology == "Pending"
    assert pods_of(decision.admission).topology is None
    world.write_back(plan)
    return world, world.workloads[f"{NAMESPACE}/a"]


@pytest.mark.parametrize("state", [CheckState.PENDING, CheckState.READY])
def test_nodes_that_are_provisioned_are_taken_when_the_check_is_ready(state: CheckState) -> None:
    world, workload = provisioned()
    world.engine.upsert_node(make_node("b0-r0-h0"))
    world.submit(replace(workload, checks={"prov": state}))
    decisions = world.cycle(after=2).decisions
    if state is CheckState.PENDING:
        assert decisions == ()
        return
    (decision,) = decisions
    assert isinstance(decision, PlacePods)
    assert on_nodes(pods_of(decision.admission).topology) == {"b0-r0-h0": 3}
    assert pods_of(decision.admission).delayed_topology == "Ready"
    assert pods_of(decision.admission).flavors == {"cpu": "tas"}


def test_nodes_are_taken_also_where_the_queue_is_heard_of_last() -> None:
    _, workload = provisioned()
    world = make_world({"b0-r0-h0": 4}, tas_queue("other"))
    world.add_check("prov")
    world.submit(replace(workload, checks={"prov": CheckState.READY}))
    assert world.engine.next_cycle_at(world.now) is None
    world.engine.upsert_cluster_queue(checked_queue())
    (decision,) = world.cycle(after=2).decisions
    assert isinstance(decision, PlacePods)
    assert on_nodes(pods_of(decision.admission).topology) == {"b0-r0-h0": 3}


def test_nobody_is_looked_at_whose_queue_is_gone() -> None:
    world, workload = provisioned()
    world.submit(replace(workload, checks={"prov": CheckState.READY}))
    world.engine.delete_cluster_queue("cq")
    world.cycle(after=5)
    assert world.engine.next_cycle_at(world.now) is None


def test_what_the_check_adds_to_the_pods_decides_about_nodes() -> None:
    world, workload = provisioned()
    world.engine.upsert_node(make_node("b0-r0-h0"))
    world.engine.upsert_node(make_node("b0-r0-h1", labels={"request": "a"}))
    update = {"main": Placement(node_selector=(("request", "a"),))}
    world.submit(replace(workload, checks={"prov": CheckState.READY}, placement_updates=update))
    (decision,) = world.cycle(after=1).decisions
    assert isinstance(decision, PlacePods)
    assert on_nodes(pods_of(decision.admission).topology) == {"b0-r0-h1": 3}


def test_nodes_that_are_not_there_yet_are_waited_for() -> None:
    world, workload = provisioned()
    world.submit(replace(workload, checks={"prov": CheckState.READY}))
    (failed,) = world.cycle(after=1).decisions
    assert failed == PlaceFailed(
        workload=f"{NAMESPACE}/a",
        cluster_queue="cq",
        message="no topology domains at level: rack",
    )
    world.engine.upsert_node(make_node("b0-r0-h0"))
    (decision,) = world.cycle(after=2).decisions
    assert isinstance(decision, PlacePods)


def test_a_workload_that_was_placed_holds_what_its_status_says() -> None:
    world, workload = provisioned()
    world.engine.upsert_node(make_node("b0-r0-h0"))
    world.submit(replace(workload, checks={"prov": CheckState.READY}))
    (decision,) = world.cycle(after=1).decisions
    assert isinstance(decision, PlacePods)
    world.engine.places_written(decision.workload, decision.admission)
    world.submit(reserved(workload, decision.admission))
    world.finish("a")
    assert world.engine.parts.cache.forest.usage.of(f"{NAMESPACE}/a") == ()


def test_pods_that_move_while_checks_become_ready_wake_who_waits_for_their_nodes() -> None:
    queues = [tas_queue("one", checks=(check_rule("prov"),)), tas_queue("two")]
    world = make_world({"b0-r0-h0": 4, "b0-r1-h0": 2}, *queues)
    world.add_check("prov")
    world.cycle(after=2)
    world.submit(gang("a", 3, queue="one"))
    world.write_back(world.cycle())
    world.submit(gang("b", 4, queue="two"))
    assert world.admitted(after=2) == []
    held = world.workloads[f"{NAMESPACE}/a"].reservation
    assert held is not None
    world.workloads[f"{NAMESPACE}/a"] = replace(
        world.workloads[f"{NAMESPACE}/a"], reservation=replace(held, admitted=True)
    )
    move(world, "a", "b0-r1-h0")
    assert world.admitted(after=2) == ["b"]


def test_the_topology_of_other_clusters_is_decided_there() -> None:
    world, workload = provisioned(MULTIKUEUE_CONTROLLER)
    world.engine.upsert_node(make_node("b0-r0-h0"))
    world.submit(replace(workload, checks={"prov": CheckState.READY}))
    assert world.cycle(after=60).decisions == ()
