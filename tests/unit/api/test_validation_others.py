from __future__ import annotations

from typing import Any

import pytest

from multiqueue.api.validation.field_error import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    join_errors,
    not_supported,
    refused_status,
    required,
    too_many,
)
from multiqueue.api.validation.kinds import RULES
from multiqueue.api.validation.resource_flavor import default_resource_flavor


def create(kind: str, spec: Any) -> list[str]:
    return [
        str(error)
        for error in RULES[kind].validate_create({"metadata": {"name": "x"}, "spec": spec})
    ]


def update(kind: str, new: Any, old: Any) -> list[str]:
    return [str(e) for e in RULES[kind].validate_update({"spec": new}, {"spec": old})]


@pytest.mark.parametrize(
    ("error", "want"),
    [
        (required("a"), "a: Required value"),
        (required("a", "why"), "a: Required value: why"),
        (invalid("a", {"b": 1}, "no"), 'a: Invalid value: {"b":1}: no'),
        (
            not_supported("a", "x", ["y", "z"]),
            'a: Unsupported value: "x": supported values: "y", "z"',
        ),
        (duplicate("a", 1), "a: Duplicate value: 1"),
        (too_many("a", 3, 2), "a: Too many: 3: must have at most 2 items"),
        (forbidden("a", "not now"), "a: Forbidden: not now"),
    ],
)
def test_errors_read_as_those_of_kubernetes(error: FieldError, want: str) -> None:
    assert str(error) == want


def test_long_values_are_cut() -> None:
    assert len(str(invalid("a", "x" * 999, "no"))) < 300


def test_a_status_has_a_cause_for_each_error() -> None:
    errors = [required("a"), required("a"), forbidden("b", "no")]
    got = refused_status(errors)
    assert got["message"] == "[a: Required value, b: Forbidden: no]"
    assert (got["code"], got["reason"]) == (403, "Forbidden")
    assert got["details"]["causes"][2] == {
        "reason": "FieldValueForbidden",
        "message": "Forbidden: no",
        "field": "b",
    }
    assert join_errors(errors[:1]) == "a: Required value"


@pytest.mark.parametrize(
    ("spec", "paths"),
    [
        ({"nodeLabels": {"a": "b"}, "topologyName": "t"}, []),
        ({"topologyName": "t"}, ["spec.nodeLabels"]),
        ({"nodeLabels": {"a b": "c d"}}, ["spec.nodeLabels", "spec.nodeLabels"]),
        (
            {"nodeTaints": [{"key": "", "effect": "x"}]},
            ["spec.nodeTaints[0].key", "spec.nodeTaints[0].effect"],
        ),
        ({"nodeTaints": [{"key": "a"}]}, ["spec.nodeTaints[0].effect"]),
        (
            {
                "nodeTaints": [
                    {"key": "a", "effect": "NoSchedule"},
                    {"key": "a", "effect": "NoSchedule"},
                ]
            },
            ["spec.nodeTaints[1]"],
        ),
        ({"tolerations": [{"operator": "Exists"}]}, []),
        ({"tolerations": [{"operator": "Equal"}]}, ["spec.tolerations[0].operator"]),
        ({"tolerations": [{"key": "a key", "operator": "Exists"}]}, ["spec.tolerations[0].key"]),
        ({"tolerations": [{"key": "a", "operator": "In"}]}, ["spec.tolerations[0].operator"]),
        (
            {"tolerations": [{"key": "a", "operator": "Exists", "value": "b"}]},
            ["spec.tolerations[0].value"],
        ),
        ({"tolerations": [{"key": "a", "effect": "x"}]}, ["spec.tolerations[0].effect"]),
        ({"tolerations": [{"key": "a", "tolerationSeconds": 1}]}, ["spec.tolerations[0].effect"]),
    ],
)
def test_flavors(spec: dict, paths: list[str]) -> None:
    errors = RULES["ResourceFlavor"].validate_create({"spec": spec})
    assert [error.path for error in errors] == paths


def test_a_flavor_gets_its_finalizer_once() -> None:
    got = default_resource_flavor(default_resource_flavor({"metadata": {"name": "a"}}))
    assert got == {
        "metadata": {"name": "a", "finalizers": ["kueue.x-k8s.io/resource-in-use"]},
        "spec": {},
    }


def test_names_are_checked() -> None:
    assert create("LocalQueue", {"clusterQueue": "A"})
    assert create("AdmissionCheck", {}) == ["spec.controllerName: Required value"]
    assert create("AdmissionCheck", None) == []


def test_what_only_the_old_version_allows_is_refused() -> None:
    """Stored, it could not be changed any more, not even its status."""
    for name in ("", "x" * 254):
        (error,) = create("AdmissionCheck", {"controllerName": name})
        assert error.startswith("spec.controllerName: Invalid value")


def test_an_incomplete_multikueue_check_is_warned_about() -> None:
    """M-18."""
    spec = {"controllerName": "kueue.x-k8s.io/multikueue"}
    warn = RULES["AdmissionCheck"].warn
    assert "stays inactive" in warn({"spec": spec})[0]
    spec["parameters"] = {"apiGroup": "kueue.x-k8s.io", "kind": "MultiKueueConfig", "name": "x"}  # type: ignore[assignment]
    assert warn({"spec": spec}) == []
    assert warn({"spec": {"controllerName": "example.com/other"}}) == []


def levels(*labels: str) -> dict:
    return {"levels": [{"nodeLabel": label} for label in labels]}


HOST = "kubernetes.io/hostname"


@pytest.mark.parametrize(
    ("labels", "path"),
    [
        (("rack", "rack"), "spec.levels[1].nodeLabel"),
        ((HOST, "rack"), "spec.levels[0].nodeLabel"),
        (("a b",), "spec.levels[0].nodeLabel"),
    ],
)
def test_topologies(labels: tuple[str, ...], path: str) -> None:
    (error,) = RULES["Topology"].validate_create({"spec": levels(*labels)})
    assert error.path == path


def test_a_cluster_has_exactly_one_source() -> None:
    """M-10."""
    kube_config, profile = {"location": "a"}, {"name": "b"}
    assert create("MultiKueueCluster", {"clusterSource": {"kubeConfig": kube_config}}) == []
    assert create("MultiKueueCluster", {"clusterSource": {}})
    both = {"clusterSource": {"kubeConfig": kube_config, "clusterProfileRef": profile}}
    assert create("MultiKueueCluster", both)
    assert (
        update("MultiKueueCluster", {"clusterSource": {"clusterProfileRef": profile}}, both) == []
    )


def test_clusters_of_a_config_are_unique() -> None:
    """M-16."""
    assert create("MultiKueueConfig", {"clusters": ["a", "b"]}) == []
    assert create("MultiKueueConfig", {"clusters": ["a", "a"]}) == [
        'spec.clusters[1]: Duplicate value: "a"'
    ]
    assert update("MultiKueueConfig", {"clusters": ["b"]}, {"clusters": ["a"]}) == []


@pytest.mark.parametrize("kind", sorted(RULES))
@pytest.mark.parametrize(
    "spec", [None, "x", 3, [], {}, {"levels": "x", "clusters": 3, "podSets": [1]}]
)
def test_no_rule_trips_over_wrong_types(kind: str, spec: object) -> None:
    obj = {"metadata": {"name": "x"}, "spec": spec, "status": spec}
    rules = RULES[kind]
    rules.validate_create(obj)
    rules.validate_update(obj, obj)
    rules.warn(obj)
