"""Where an import sends jobs, and what it finds wrong. No cluster is needed."""

from __future__ import annotations

from typing import Any

import pytest

from multiqueue.api import names
from multiqueue.api import v1beta2 as api
from multiqueue.api.serde import decode
from multiqueue.cli.errors import UsageProblem
from multiqueue.cli.importing.decide import (
    ImportProblem,
    ImportSettings,
    ImportSkip,
    PlannedImport,
    decide_import,
)
from multiqueue.cli.importing.mapping import (
    ImportRule,
    NoQueue,
    TwoQueues,
    build_label_rules,
    build_namespace_rules,
    find_queue,
    parse_pairs,
    read_rules,
)
from multiqueue.cli.importing.tally import ImportTally, find_shortages
from multiqueue.cli.importing.world import ImportWorld
from multiqueue.jobs.reading import find_integration
from multiqueue.model.surroundings import NamespaceSurroundings
from tests.builders.queues import make_cluster_queue, make_flavor, make_local_queue
from tests.builders.workloads import NAMESPACE
from tests.pod_objects import make_pod, running

A_TO_LQ = build_label_rules("src", {"a": "lq"})


def make_world(
    *,
    queue: dict[str, Any] | None = None,
    local_queue: dict[str, Any] | None = None,
    flavors: tuple[dict[str, Any], ...] = (),
    nodes: dict[str, dict[str, str]] | None = None,
) -> ImportWorld:
    found = [decode(api.ResourceFlavor, each) for each in flavors or (make_flavor(),)]
    local = decode(api.LocalQueue, local_queue or make_local_queue())
    cluster_queue = decode(api.ClusterQueue, queue or make_cluster_queue())
    return ImportWorld(
        namespaces={NAMESPACE: {}},
        local_queues={local.metadata.key: local},
        cluster_queues={cluster_queue.metadata.name: cluster_queue},
        flavors={each.metadata.name: each for each in found},
        nodes=nodes or {},
        surroundings={NAMESPACE: NamespaceSurroundings()},
    )


def running_pod(
    *, labels: dict[str, str] | None = None, controller: dict[str, str] | None = None, **pod: Any
) -> dict[str, Any]:
    """A running pod that nobody queued."""
    made = running(make_pod(**pod))
    metadata = {**made["metadata"], "labels": {"src": "a", **(labels or {})}, "finalizers": []}
    if controller:
        metadata["ownerReferences"] = [{**controller, "name": "o", "uid": "u", "controller": True}]
    return {**made, "apiVersion": "v1", "kind": "Pod", "metadata": metadata}


def decide(job: dict[str, Any], world: ImportWorld, **settings: Any) -> Any:
    kind = find_integration(job)
    assert kind is not None
    return decide_import(job, kind, ImportSettings(**{"rules": A_TO_LQ, **settings}), world)


def problem(job: dict[str, Any], world: ImportWorld, **settings: Any) -> str:
    got = decide(job, world, **settings)
    assert isinstance(got, ImportProblem), got
    return got.message


# ---------------------------------------------------------------- rules


@pytest.mark.parametrize(
    ("labels", "priority_class", "want"),
    [
        pytest.param({"type": "gpu", "team": "x"}, "", "x-gpu", id="all labels must match"),
        pytest.param({"type": "gpu"}, "", NoQueue.UNMAPPED, id="a label is missing"),
        pytest.param({"type": "cpu"}, "spot", "spot", id="the priority class matches"),
        pytest.param({"type": "cpu"}, "other", NoQueue.UNMAPPED, id="another priority class"),
        pytest.param({"type": "old"}, "", NoQueue.SKIPPED, id="skipped"),
    ],
)
def test_a_rule_matches_labels_and_priority_class(
    labels: dict[str, str], priority_class: str, want: Any
) -> None:
    document = [
        {"match": {"labels": {"type": "old"}}, "skip": True},
        {"match": {"labels": {"type": "gpu", "team": "x"}}, "toLocalQueue": "x-gpu"},
        {
            "match": {"labels": {"type": "cpu"}, "priorityClassName": "spot"},
            "toLocalQueue": "spot",
        },
    ]
    assert find_queue(read_rules(document, "file"), "ns", labels, priority_class) == want


def test_two_rules_with_different_queues_are_an_error_that_names_both() -> None:
    rules = [*A_TO_LQ, *build_namespace_rules({"ns": "other"})]
    got = find_queue(rules, "ns", {"src": "a"}, "")
    assert got == TwoQueues(rules[0], rules[1])
    assert find_queue(rules, "ns", {}, "") == "other"
    skip_first = [ImportRule(source="s", namespace="ns"), *rules]
    assert find_queue(skip_first, "ns", {"src": "a"}, "") is NoQueue.SKIPPED


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ({}, "expected a list of rules"),
        ([{"match": {}, "toLocalQueue": "q", "skip": True}], "either toLocalQueue or skip"),
        ([{"match": {}}], "either toLocalQueue or skip"),
        ([{"matches": {}, "toLocalQueue": "q"}], "unknown field matches"),
        ([{"match": {"label": {}}, "toLocalQueue": "q"}], "unknown field label"),
        ([{"match": {"labels": {"a": 1}}, "toLocalQueue": "q"}], "put numbers"),
        ([{"match": [], "toLocalQueue": "q"}], "match is no mapping"),
        ([{"match": {"namespace": 3}, "toLocalQueue": "q"}], "match.namespace"),
    ],
)
def test_a_bad_mapping_file_is_refused_with_its_rule(document: Any, words: str) -> None:
    with pytest.raises(UsageProblem, match=words):
        read_rules(document, '"m.yaml"')


def test_one_label_value_has_one_queue() -> None:
    assert parse_pairs(["a=q1,b=q2", "a=q1"], "--queue-mapping") == {"a": "q1", "b": "q2"}
    with pytest.raises(UsageProblem, match='"a" is mapped to "q1" and to "q2"'):
        parse_pairs(["a=q1,a=q2"], "--queue-mapping")
    with pytest.raises(UsageProblem, match="KEY=VALUE"):
        parse_pairs(["a"], "--queue-mapping")


# ---------------------------------------------------------------- decisions


def test_a_pod_gets_the_workload_that_its_manager_would_give_it() -> None:
    got = decide(running_pod(cpu="1500m"), make_world(), add_labels={"team": "x"})
    assert isinstance(got, PlannedImport)
    assert got.usage() == {("cq", "default", "cpu"): 1500}
    metadata = got.body["metadata"]
    assert metadata["labels"] == {names.JOB_UID: "uid-p0", "team": "x"}
    assert metadata["ownerReferences"][0]["uid"] == "uid-p0"
    assert got.body["spec"]["queueName"] == "lq"
    assert got.body["spec"]["podSets"][0]["name"] == "main"


def test_a_resource_is_charged_to_the_flavor_of_the_node() -> None:
    queue = make_cluster_queue()
    group = queue["spec"]["resourceGroups"][0]
    group["flavors"] = [{**group["flavors"][0], "name": name} for name in ("a100", "h100")]
    flavors = (make_flavor("a100", gpu="a"), make_flavor("h100", gpu="h"))
    got = decide(
        running_pod(), make_world(queue=queue, flavors=flavors, nodes={"n1": {"gpu": "h"}})
    )
    assert got.usage() == {("cq", "h100", "cpu"): 1000}
    lost = make_world(queue=queue, flavors=flavors, nodes={"n1": {}})
    assert "labels of none of the flavors" in problem(running_pod(), lost)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"local_queue": make_local_queue("other")}, f'LocalQueue "{NAMESPACE}/lq" not found'),
        ({"queue": make_cluster_queue("cq2")}, 'ClusterQueue "cq" not found'),
        ({"queue": make_cluster_queue(stopPolicy="Hold")}, "is stopped"),
        (
            {
                "queue": make_cluster_queue(
                    admissionChecksStrategy={"admissionChecks": [{"name": "mk"}]}
                )
            },
            "has AdmissionChecks (mk)",
        ),
        (
            {"queue": make_cluster_queue(namespaceSelector={"matchLabels": {"a": "b"}})},
            "namespaceSelector does not select",
        ),
        ({"queue": make_cluster_queue(resourceGroups=[])}, 'no quota for resource "cpu"'),
        ({"flavors": (make_flavor("other"),)}, 'flavor "default" not found'),
    ],
)
def test_a_queue_that_cannot_take_the_pod_is_named(change: dict[str, Any], words: str) -> None:
    assert words in problem(running_pod(), make_world(**change))


@pytest.mark.parametrize(
    ("pod", "words"),
    [
        ({"labels": {"src": "b"}}, "no rule matches"),
        ({"labels": {names.QUEUE_NAME: "other"}}, 'names "other", the rules say "lq"'),
        ({"labels": {names.POD_GROUP_NAME: "g"}}, "group of pods"),
    ],
)
def test_a_pod_that_cannot_be_imported_is_a_problem(pod: dict[str, Any], words: str) -> None:
    assert words in problem(running_pod(**pod), make_world())


@pytest.mark.parametrize(
    ("pod", "words"),
    [
        ({"labels": {names.MANAGED: "true"}}, "queued"),
        ({"labels": {names.PODSET: "main"}}, "queued"),
        ({"annotations": {names.IMPORTED_AT: "2026-01-01T00:00:00Z"}}, "imported"),
        ({"controller": {"apiVersion": "batch/v1", "kind": "Job"}}, "imported as a whole"),
    ],
)
def test_a_pod_that_is_counted_already_is_skipped(pod: dict[str, Any], words: str) -> None:
    got = decide(running_pod(**pod), make_world())
    assert isinstance(got, ImportSkip)
    assert words in got.reason


def test_the_pods_of_jobs_are_imported_alone_if_only_pods_are() -> None:
    pod = running_pod(controller={"apiVersion": "batch/v1", "kind": "Job"})
    assert isinstance(decide(pod, make_world(), with_jobs=False), PlannedImport)


def test_equal_problems_are_counted_together_with_an_example() -> None:
    tally, world = ImportTally(), make_world()
    for name in ("p1", "p2", "p3"):
        tally.add(f"pod {name}", decide(running_pod(name=name, labels={"src": "b"}), world))
    (found,) = tally.to_dict()["problems"]
    assert (found["jobs"], found["example"]) == (3, "pod p1")


def test_too_little_quota_is_told_with_the_numbers() -> None:
    tally, world = ImportTally(), make_world(queue=make_cluster_queue(cpu="2"))
    for name in ("p1", "p2"):
        tally.add(name, decide(running_pod(name=name, cpu="1500m"), world))
    (text,) = find_shortages(tally, world.cluster_queues)
    assert "0 used and 3 to import, of 2 nominal" in text
