"""Whether a node has failed a Workload, and what follows."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import msgspec
import orjson
import pytest

from multiqueue.api.conditions import Reason
from multiqueue.api.config.gates import Gates
from multiqueue.api.v1beta2 import Toleration, UnhealthyNode
from multiqueue.api.workload_state import eviction_reason
from multiqueue.controllers.topology.failures import (
    FAILURE_DELAY,
    FailureRules,
    NodeFailureVerdict,
    NodeHealth,
    Placed,
    judge,
    judged_status,
)
from multiqueue.controllers.topology.placements import PlacementIndex, find_hosts
from multiqueue.jobs.machines.nodes import WatchedNode, read_node
from tests.builders.workloads import T0, make_workload, with_status
from tests.unit.controllers.topology.builders import make_assignment, make_pod, placed

RULES = FailureRules()
BY_TIME = FailureRules(on_pod_termination=False)
LATE = T0 + FAILURE_DELAY
RUNS = Placed(assigned=True, tolerations=[()], pods=(make_pod("a", on="n1", node="n1"),))
ENDS = Placed(
    assigned=True, tolerations=[()], pods=(make_pod("a", on="n1", node="n1", deleted=True),)
)
STUCK = Placed(assigned=True, tolerations=[()], pods=(make_pod("a", on="n1"),))
TAINT = {"key": "broken", "effect": "NoExecute"}


def make_node(ready: str | None = "True", **spec: Any) -> WatchedNode:
    condition = {"type": "Ready", "status": ready, "lastTransitionTime": "2026-01-01T00:00:00Z"}
    return read_node(
        orjson.dumps(
            {
                "metadata": {"name": "n1", "labels": {"kubernetes.io/hostname": "n1"}},
                "spec": spec,
                "status": {
                    "allocatable": {"cpu": "4", "odd": "?"},
                    "conditions": [condition] if ready else [],
                },
            }
        )
    )


@pytest.mark.parametrize(
    ("node", "pods", "rules", "now", "want"),
    [
        pytest.param(None, RUNS, RULES, T0, NodeHealth.UNHEALTHY, id="gone"),
        pytest.param(make_node(None), RUNS, RULES, T0, NodeHealth.UNHEALTHY, id="says nothing"),
        pytest.param(make_node(), RUNS, RULES, T0, NodeHealth.HEALTHY, id="all is well"),
        pytest.param(make_node("False"), RUNS, RULES, LATE, NodeHealth.HEALTHY, id="pods run on"),
        pytest.param(make_node("Unknown"), ENDS, RULES, T0, NodeHealth.UNHEALTHY, id="pods end"),
        pytest.param(make_node("False"), ENDS, BY_TIME, T0, NodeHealth.UNDECIDED, id="too early"),
        pytest.param(
            make_node("False"), RUNS, BY_TIME, LATE, NodeHealth.UNHEALTHY, id="for too long"
        ),
        pytest.param(
            make_node("False"),
            RUNS,
            FailureRules(after_fixed_time=True),
            LATE,
            NodeHealth.UNHEALTHY,
            id="for too long, whatever the pods do",
        ),
        pytest.param(
            make_node(taints=[TAINT]), RUNS, RULES, T0, NodeHealth.HEALTHY, id="taint, runs"
        ),
        pytest.param(make_node(taints=[TAINT]), ENDS, RULES, T0, NodeHealth.UNHEALTHY, id="taint"),
        pytest.param(
            make_node(taints=[TAINT]), RUNS, BY_TIME, T0, NodeHealth.UNHEALTHY, id="taint at once"
        ),
        pytest.param(
            make_node(taints=[TAINT]),
            ENDS,
            FailureRules(on_taints=False),
            T0,
            NodeHealth.HEALTHY,
            id="taints are off",
        ),
        pytest.param(
            make_node(taints=[{**TAINT, "effect": "PreferNoSchedule"}]),
            ENDS,
            RULES,
            T0,
            NodeHealth.HEALTHY,
            id="a mild taint",
        ),
    ],
)
def test_health(
    node: WatchedNode | None, pods: Placed, rules: FailureRules, now: datetime, want: NodeHealth
) -> None:
    """E-148."""
    assert judge(node, pods, rules, now).health is want


@pytest.mark.parametrize(
    ("seconds", "pods", "want"),
    [
        pytest.param(None, ENDS, NodeHealth.HEALTHY, id="for ever"),
        pytest.param(60, RUNS, NodeHealth.HEALTHY, id="for a while, pods run"),
        pytest.param(60, ENDS, NodeHealth.UNHEALTHY, id="for a while, pods end"),
    ],
)
def test_taints_may_be_tolerated(seconds: int | None, pods: Placed, want: NodeHealth) -> None:
    """E-148."""
    toleration = Toleration(key="broken", operator="Exists", toleration_seconds=seconds)
    bearing = Placed(assigned=True, tolerations=[(toleration,)], pods=pods.pods)
    node = make_node(taints=[TAINT])
    assert judge(node, bearing, BY_TIME, T0).health is want


def test_time_decides_where_pods_do_not() -> None:
    verdict = judge(make_node("False"), RUNS, BY_TIME, T0 + timedelta(seconds=10))
    assert verdict.ask_again == timedelta(seconds=20)
    eager = FailureRules(after_fixed_time=True)
    assert judge(make_node("False"), RUNS, eager, T0).ask_again == FAILURE_DELAY


def test_pods_that_wait_for_a_failed_node_are_ended() -> None:
    assert judge(make_node("False"), STUCK, RULES, T0) == NodeFailureVerdict(
        health=NodeHealth.UNHEALTHY, doomed=tuple(STUCK.pods)
    )
    assert judge(make_node("False"), RUNS, RULES, T0).doomed == ()


def test_pods_that_come_late_to_a_node_that_was_replaced_are_ended() -> None:
    late = Placed(assigned=False, pods=STUCK.pods)
    want = NodeFailureVerdict(health=NodeHealth.HEALTHY, doomed=tuple(STUCK.pods))
    assert judge(None, late, RULES, T0) == want
    assert judge(make_node(), late, RULES, T0) == want


def test_the_first_failed_node_is_noted_and_removed_when_it_is_well_again() -> None:
    """E-149."""
    status = placed(make_assignment(("n1", 1), ("n2", 1))).status
    failed = judged_status(status, "n1", NodeHealth.UNHEALTHY, now=T0, generation=1)
    assert failed.unhealthy_nodes == (UnhealthyNode(name="n1"),)
    assert judged_status(failed, "n1", NodeHealth.UNHEALTHY, now=T0, generation=1) is failed
    assert judged_status(failed, "n1", NodeHealth.UNDECIDED, now=T0, generation=1) is failed
    assert judged_status(failed, "n1", NodeHealth.HEALTHY, now=T0, generation=1) == status


def test_the_second_failed_node_evicts() -> None:
    """E-149."""
    status = placed(make_assignment(("n1", 1), ("n2", 1))).status
    failed = judged_status(status, "n1", NodeHealth.UNHEALTHY, now=T0, generation=1)
    evicted = judged_status(failed, "n2", NodeHealth.UNHEALTHY, now=T0, generation=1)
    assert eviction_reason(evicted) == Reason.NODE_FAILURES
    assert evicted.unhealthy_nodes == ()
    (message,) = [c.message for c in evicted.conditions if c.type == "Evicted"]
    assert message.endswith("n1, n2")


def test_nodes_do_not_fail_who_is_not_admitted() -> None:
    status = make_workload().status
    assert judged_status(status, "n1", NodeHealth.UNHEALTHY, now=T0, generation=1) is status


def test_gates_pick_the_rules() -> None:
    assert FailureRules.from_gates(Gates()) == RULES
    gates = Gates.of(
        TASReplaceNodeOnPodTermination=False,
        TASReplaceNodeDueToNotReadyOverFixedTime=True,
        TASReplaceNodeOnNodeTaints=False,
    )
    assert FailureRules.from_gates(gates) == FailureRules(
        on_pod_termination=False, after_fixed_time=True, on_taints=False
    )


def test_workloads_are_found_by_their_hosts() -> None:
    index = PlacementIndex()
    workload = placed(make_assignment(("n1", 1), ("n2", 1)))
    assert index.set("a", find_hosts(workload)) == {"n1", "n2"}
    assert list(index.on("n1")) == ["a"]
    assert index.set("a", frozenset({"n2", "n3"})) == {"n1", "n3"}
    assert list(index.on("n1")) == []
    assert index.set("a", find_hosts(None)) == {"n2", "n3"}


def test_only_hosts_of_this_cluster_can_fail() -> None:
    workload = placed(make_assignment(("n1", 1)))
    elsewhere = msgspec.structs.replace(workload.status, cluster_name="worker")
    assert find_hosts(with_status(workload, elsewhere)) == frozenset()
    assert find_hosts(placed(make_assignment(("r1", 1), levels=("rack",)))) == frozenset()


def test_a_node_is_read_with_what_it_offers() -> None:
    node = make_node(unschedulable=True)
    assert node.node.allocatable == {"cpu": 4000, "odd": 0}
    assert (node.node.ready, node.node.schedulable, node.hostname) == (True, False, "n1")
