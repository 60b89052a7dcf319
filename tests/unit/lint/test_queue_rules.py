from __future__ import annotations

import pytest

from multiqueue.lint.finding import Severity
from tests.unit.lint.objects import (
    cluster_queue,
    find,
    flavor,
    local_queue,
    namespace,
    node,
    obj,
    priority,
    quota,
    told,
)

TAINT = {"key": "gpu", "value": "x", "effect": "NoSchedule"}
A100 = {"gpu": "a100"}


@pytest.mark.parametrize(
    ("others", "complete", "severity", "says"),
    [
        ([], [], Severity.INFO, "is not among what was read"),
        ([cluster_queue("other")], [], Severity.WARNING, "is not among what was read"),
        ([], ["ClusterQueue"], Severity.ERROR, "does not exist"),
    ],
    ids=["nothing of the kind was read", "some were", "all were"],
)
def test_what_is_missing_weighs_by_what_was_read(
    others: list[dict[str, object]], complete: list[str], severity: Severity, says: str
) -> None:
    (found,) = find("cluster-queue-missing", local_queue(), *others, complete=complete)
    assert (found.severity, found.path) == (severity, "spec.clusterQueue")
    assert found.what == f'ClusterQueue "cq" {says}'
    assert not find("cluster-queue-missing", local_queue(), cluster_queue())


def test_a_missing_flavor_is_named_where_it_is_used() -> None:
    assert told("flavor-missing", cluster_queue(), complete=["ResourceFlavor"]) == [
        'spec.resourceGroups[0].flavors[0].name: ResourceFlavor "f" does not exist'
    ]
    assert not find("flavor-missing", cluster_queue(), flavor())


def test_a_missing_topology_is_named() -> None:
    racked = flavor(nodeLabels={"a": "b"}, topologyName="racks")
    assert told("flavor-topology-missing", racked, complete=["Topology"]) == [
        'spec.topologyName: Topology "racks" does not exist'
    ]
    assert not find("flavor-topology-missing", racked, obj("Topology", "racks", {"levels": []}))
    assert not find("flavor-topology-missing", flavor())


def test_a_namespace_must_be_selected() -> None:
    selector = {"matchLabels": {"team": "a"}}
    queue = cluster_queue(namespaceSelector=selector)
    assert told("namespace-not-selected", local_queue(), queue, namespace("n", team="b")) == [
        'spec.clusterQueue: ClusterQueue "cq" does not select namespace "n"'
    ]
    assert not find("namespace-not-selected", local_queue(), queue, namespace("n", team="a"))
    assert not find("namespace-not-selected", local_queue(), queue)


def test_a_namespace_has_its_name_as_a_label() -> None:
    selector = {
        "matchExpressions": [
            {"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["n"]}
        ]
    }
    queue = cluster_queue(namespaceSelector=selector)
    assert not find("namespace-not-selected", local_queue(), queue, namespace("n"))
    (found,) = find(
        "namespace-not-selected",
        local_queue(namespace="m"),
        queue,
        namespace("m"),
    )
    assert "kubernetes.io/metadata.name In n" in found.todo


def test_no_selector_selects_nothing() -> None:
    queue = cluster_queue()
    del queue["spec"]["namespaceSelector"]
    assert find("selects-no-namespace", queue)
    assert "matches no namespace" in told("namespace-not-selected", local_queue(), queue)[0]
    assert not find("selects-no-namespace", cluster_queue())


def test_stopped_queues_are_told() -> None:
    for policy in ("Hold", "HoldAndDrain"):
        objects = [cluster_queue(stopPolicy=policy), local_queue(stopPolicy=policy)]
        assert [f.kind for f in find("queue-stopped", *objects)] == ["ClusterQueue", "LocalQueue"]
    assert not find("queue-stopped", cluster_queue(stopPolicy="None"))


def test_strict_order_holds_up_others() -> None:
    assert find("strict-fifo", cluster_queue(queueingStrategy="StrictFIFO"))
    assert not find("strict-fifo", cluster_queue())


def test_a_cycle_of_cohorts_is_shown() -> None:
    cohorts = [obj("Cohort", a, {"parentName": b}) for a, b in ("ab", "bc", "cb")]
    assert told("cohort-cycle", *cohorts) == [
        "spec.parentName: is part of a cycle: b -> c -> b",
        "spec.parentName: is part of a cycle: c -> b -> c",
    ]


def test_a_flavor_needs_a_node() -> None:
    objects = [flavor(nodeLabels=A100), cluster_queue()]
    assert told("flavor-without-nodes", *objects, node("n")) == [
        "spec.nodeLabels: no node has the labels gpu=a100"
    ]
    assert not find("flavor-without-nodes", *objects, node("n", labels=A100))
    assert not find("flavor-without-nodes", *objects)
    assert not find("flavor-without-nodes", objects[0], node("n"))
    assert find("flavor-without-nodes", *objects, complete=["Node"])


@pytest.mark.parametrize(
    ("spec", "bars"),
    [
        ({}, True),
        ({"nodeTaints": [TAINT]}, False),
        ({"tolerations": [{"key": "gpu", "operator": "Exists"}]}, False),
        ({"tolerations": [{"operator": "Exists"}]}, False),
        ({"tolerations": [{"key": "gpu", "value": "x", "effect": "NoSchedule"}]}, False),
        ({"tolerations": [{"key": "gpu", "value": "y"}]}, True),
        ({"tolerations": [{"key": "gpu", "operator": "Exists", "effect": "NoExecute"}]}, True),
        ({"tolerations": [{"value": "x"}]}, True),
    ],
)
def test_taints_must_be_tolerated_or_named(spec: dict[str, object], *, bars: bool) -> None:
    objects = [flavor(**spec), cluster_queue(), node("n", taints=[TAINT])]
    assert bool(find("flavor-taints", *objects)) is bars


def test_taints_of_some_nodes_are_a_hint() -> None:
    objects = [flavor(), cluster_queue(), node("a"), node("b", taints=[TAINT])]
    (found,) = find("flavor-taints", *objects)
    assert found.severity is Severity.INFO
    assert "1 of 2 nodes" in found.what
    assert "gpu:NoSchedule" in found.what


def test_passing_taints_do_not_count() -> None:
    passing = [
        {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"},
        {"key": "x", "effect": "PreferNoSchedule"},
    ]
    assert not find("flavor-taints", flavor(), cluster_queue(), node("n", taints=passing))


def test_flavors_that_mean_the_same_nodes_overlap() -> None:
    objects = [
        flavor("all"),
        flavor("gpu", nodeLabels=A100),
        cluster_queue("a", flavor="all"),
        cluster_queue("b", flavor="gpu"),
    ]
    assert told("flavors-overlap", *objects) == [
        'spec.nodeLabels: all of its nodes match flavor "gpu" too, and both have quota for cpu'
    ]
    assert "1 of its nodes match" in told("flavors-overlap", *objects, node("n", labels=A100))[0]
    assert not find("flavors-overlap", *objects, node("n"))


def test_flavors_do_not_overlap_by_resource_label_or_taint() -> None:
    queues = [cluster_queue("a", flavor="x"), cluster_queue("b", flavor="y")]
    gpus = cluster_queue("b", quota("nvidia.com/gpu"), flavor="y")
    assert find("flavors-overlap", flavor("x"), flavor("y"), *queues)
    assert not find("flavors-overlap", flavor("x"), flavor("y"), queues[0], gpus)
    spot = flavor("y", nodeTaints=[TAINT])
    assert not find("flavors-overlap", flavor("x"), spot, *queues)
    other = flavor("y", nodeLabels={"gpu": "h100"})
    assert not find("flavors-overlap", flavor("x", nodeLabels=A100), other, *queues)


def test_nodes_of_a_topology_need_every_level() -> None:
    levels = [{"nodeLabel": "rack"}, {"nodeLabel": "kubernetes.io/hostname"}]
    objects = [
        obj("Topology", "t", {"levels": levels}),
        flavor(nodeLabels=A100, topologyName="t"),
        node("a", labels={**A100, "rack": "1", "kubernetes.io/hostname": "a"}),
        node("b", labels={**A100, "kubernetes.io/hostname": "b"}),
        node("c"),
    ]
    (found,) = find("topology-labels", *objects)
    assert found.what == '1 of 2 nodes lack the label "rack", such as "b"'
    assert found.severity is Severity.WARNING
    del objects[2]
    assert find("topology-labels", *objects)[0].severity is Severity.ERROR


LOW, HIGH = priority("low", 100), priority("high", 1000)


def test_priorities_only_order_where_nothing_is_preempted() -> None:
    (got,) = told("priority-never-preempts", cluster_queue(), LOW, HIGH)
    assert got.startswith("spec.preemption.withinClusterQueue: is Never")
    assert '"high" (1000)' in got
    lower = cluster_queue(preemption={"withinClusterQueue": "LowerPriority"})
    reclaims = cluster_queue(cohortName="c", preemption={"reclaimWithinCohort": "Any"})
    for queue in (lower, reclaims):
        assert not find("priority-never-preempts", queue, LOW, HIGH)
    assert not find("priority-never-preempts", cluster_queue(), LOW)


def test_a_threshold_below_all_classes_preempts_nobody() -> None:
    def borrowing(threshold: int) -> dict[str, object]:
        borrow = {"policy": "LowerPriority", "maxPriorityThreshold": threshold}
        preemption = {"reclaimWithinCohort": "Any", "borrowWithinCohort": borrow}
        return cluster_queue(cohortName="c", preemption=preemption)

    (got,) = told("threshold-below-all", borrowing(99), LOW, HIGH)
    assert got.endswith('is 99, but the lowest class, "low", has 100')
    assert not find("threshold-below-all", borrowing(100), LOW, HIGH)
    assert not find("threshold-below-all", borrowing(99))


def test_classes_of_pods_count_where_there_are_none_of_workloads() -> None:
    def pod_class(name: str, value: int) -> dict[str, object]:
        version = "scheduling.k8s.io/v1"
        never = {"preemptionPolicy": "Never"}
        return {**obj("PriorityClass", name, version=version), "value": value, **never}

    classes = [pod_class("a", 1), pod_class("b", 2), pod_class("system", 2_000_000_000)]
    (got,) = told("priority-never-preempts", cluster_queue(), *classes)
    assert 'class "b" (2)' in got
    assert len(find("preemption-policy-of-class", *classes)) == 3
