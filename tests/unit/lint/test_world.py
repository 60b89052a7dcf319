from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from multiqueue.cli.lint_files import read_sources
from multiqueue.lint.catalogue import RULES
from multiqueue.lint.finding import Severity
from multiqueue.lint.run import lint
from multiqueue.lint.world import LintEntry, LintInput, LintSurroundings, Sight
from tests.unit.lint.objects import (
    cluster_queue,
    find,
    flavor,
    local_queue,
    obj,
    quota,
    told,
    world,
)

ROOT = Path(__file__).parents[3]


def test_every_rule_has_an_id_of_its_own_and_words() -> None:
    assert Counter(rule.id for rule in RULES).most_common(1)[0][1] == 1
    for rule in RULES:
        assert rule.kinds
        assert rule.title
        assert rule.why.endswith((".", ")")), rule.id


def test_both_versions_are_one() -> None:
    old = {**cluster_queue(), "apiVersion": "kueue.x-k8s.io/v1beta1"}
    old["spec"]["cohort"] = "c"
    (got,) = world(old).all("ClusterQueue")
    assert got["apiVersion"] == "kueue.x-k8s.io/v1beta2"
    assert got["spec"]["cohortName"] == "c"


@pytest.mark.parametrize(
    "stranger",
    [
        {"apiVersion": "kueue.x-k8s.io/v1alpha1", "kind": "ClusterQueue"},
        {"apiVersion": "v1", "kind": "ClusterQueue"},
        {"apiVersion": "apps/v1", "kind": "Deployment"},
        {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Whatever"},
        {"kind": None},
    ],
)
def test_unknown_kinds_are_ignored(stranger: dict[str, object]) -> None:
    assert world(stranger).count == 0


def test_a_namespaced_object_without_namespace_is_in_the_default_one() -> None:
    queue = obj("LocalQueue", "q", {"clusterQueue": "cq"})
    assert world(queue).get("LocalQueue", "q", "default") is not None


def test_sight_tells_some_from_all() -> None:
    some = world(flavor(), complete=["Node"])
    kinds = ("ResourceFlavor", "Node", "Cohort")
    assert [some.sight(kind) for kind in kinds] == [Sight.SOME, Sight.ALL, Sight.NONE]


def test_findings_come_by_severity_and_say_where_they_stand() -> None:
    entries = [
        LintEntry(cluster_queue("b", queueingStrategy="StrictFIFO"), "x.yaml:7"),
        LintEntry(cluster_queue("a", quota(borrowingLimit="1")), "x.yaml:1"),
        LintEntry(flavor(), "x.yaml:20"),
        LintEntry(local_queue(to="nope"), "x.yaml:30"),
    ]
    got = [(f.severity, f.rule, f.source) for f in lint(LintInput(entries), RULES)]
    assert got == [
        (Severity.WARNING, "limit-without-cohort", "x.yaml:1"),
        (Severity.WARNING, "cluster-queue-missing", "x.yaml:30"),
        (Severity.INFO, "strict-fifo", "x.yaml:7"),
    ]


def test_the_order_of_the_objects_changes_nothing() -> None:
    objects = [cluster_queue("a"), cluster_queue("b"), local_queue(), local_queue("p")]
    assert lint(world(*objects), RULES) == lint(world(*reversed(objects)), RULES)


def test_fields_that_do_not_exist_are_named_with_what_was_meant() -> None:
    queue = cluster_queue("a", cohort="c")
    queue["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["nominalquota"] = 1
    found = find("unknown-field", queue)
    assert [(f.path, f.todo) for f in found] == [
        (
            "spec.resourceGroups[0].flavors[0].resources[0].nominalquota",
            'did you mean "nominalQuota"?',
        ),
        ("spec.cohort", 'did you mean "cohortName"?'),
    ]


def test_labels_and_parameters_may_hold_anything() -> None:
    parameters = {"anything": "goes"}
    spec = {"provisioningClassName": "x", "parameters": parameters}
    config = obj("ProvisioningRequestConfig", "c", spec, labels={"a": "b"})
    template = {"metadata": {"labels": {"x": "y"}}, "spec": {"nodeSelector": {"a": "b"}}}
    workload = obj("Workload", "w", {"podSets": [{"name": "main", "template": template}]})
    assert not find("unknown-field", config, workload)


def test_what_is_refused_is_told_as_the_server_would() -> None:
    (found,) = find("invalid", cluster_queue("a", quota(nominal="-1")))
    assert found.path == "spec.resourceGroups[0].flavors[0].resources[0].nominalQuota"
    assert found.what == 'Invalid value: "-1": must be greater than or equal to 0'
    assert not find("invalid", cluster_queue("a"))


def test_an_order_that_upstream_refuses_is_a_warning() -> None:
    queue = cluster_queue("a", quota("memory"), quota("cpu"))
    queue["spec"]["resourceGroups"][0]["coveredResources"] = ["cpu", "memory"]
    assert "another order" in told("refused-upstream", queue)[0]
    assert not find("refused-upstream", cluster_queue("a", quota(borrowingLimit="1")))


@pytest.mark.parametrize(
    "text", [{}, {"spec": None}, {"spec": []}, {"spec": {"resourceGroups": 3}}]
)
@pytest.mark.parametrize("kind", sorted({kind for rule in RULES for kind in rule.kinds}))
def test_objects_of_any_shape_are_survived(kind: str, text: dict[str, object]) -> None:
    versions = {"Job": "batch/v1", "PodDisruptionBudget": "policy/v1"}
    versions["PriorityClass"] = "scheduling.k8s.io/v1"
    versions["DispatchProfile"] = "multiqueue.dev/v1alpha1"
    version = versions.get(kind, "kueue.x-k8s.io/v1beta2")
    lint(world({"apiVersion": version, "kind": kind, "metadata": {"name": "x"}, **text}), RULES)


def samples(name: str) -> list[tuple[str, str]]:
    entries = read_sources((str(ROOT / "config" / name),)).entries
    return [(f.severity, f.rule) for f in lint(LintInput(entries), RULES)]


def test_our_samples_are_clean() -> None:
    for name in ("samples", "samples-provisioning", "samples-topology", "samples-dispatch"):
        assert samples(name) == [], name
    assert {severity for severity, _ in samples("samples-worker")} <= {Severity.INFO}


def test_the_manager_and_the_workers_of_the_samples_match() -> None:
    config = ROOT / "config"
    workers = {
        name: LintInput(read_sources((str(config / "samples-worker" / name),)).entries)
        for name in ("worker-a100", "worker-h100")
    }
    here = read_sources((str(config / "samples"),)).entries
    found = lint(LintInput(here, LintSurroundings(workers=workers)), RULES)
    assert {f.severity for f in found} <= {Severity.INFO}


def test_the_page_lists_every_rule() -> None:
    page = (ROOT / "docs" / "lint.md").read_text()
    rows = [line for line in page.splitlines() if line.startswith("| `")]
    assert rows == [f"| `{r.id}` | {r.severity} | {r.title} | {r.why} |" for r in RULES]
