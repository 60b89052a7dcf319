"""Taints of clusters in the words of kubectl, and annotations that are refused."""

from __future__ import annotations

import pytest

from multiqueue.api.cluster_taints import format_taint, parse_taints, parse_tolerations
from multiqueue.api.names import (
    CLUSTER_NAMES,
    CLUSTER_SELECTOR,
    CLUSTER_TAINTS,
    CLUSTER_TOLERATIONS,
    DISPATCHER,
    GROUP,
)
from multiqueue.api.v1beta2.meta import Taint, Toleration
from multiqueue.api.validation.cluster_constraints import OF_JOBS, validate_annotations
from multiqueue.api.validation.others import (
    validate_multikueue_cluster_create,
    validate_multikueue_cluster_update,
    validate_multikueue_config_create,
)


def test_taints_are_read_as_kubectl_writes_them():
    text = "team=x:NoSchedule, example.com/spot:PreferNoSchedule,"
    got = parse_taints(text)
    assert got == (
        Taint(key="team", value="x", effect="NoSchedule"),
        Taint(key="example.com/spot", effect="PreferNoSchedule"),
    )
    assert [format_taint(taint) for taint in got] == [
        "team=x:NoSchedule",
        "example.com/spot:PreferNoSchedule",
    ]
    assert parse_taints(" ") == ()


def test_tolerations_may_leave_out_value_and_effect():
    assert parse_tolerations("a=b:NoSchedule,a=,c:PreferNoSchedule,d,*") == (
        Toleration(key="a", operator="Equal", value="b", effect="NoSchedule"),
        Toleration(key="a", operator="Equal"),
        Toleration(key="c", operator="Exists", effect="PreferNoSchedule"),
        Toleration(key="d", operator="Exists"),
        Toleration(operator="Exists"),
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("team", '"team" must be key:effect or key=value:effect'),
        ("team=x:NoExecute", "an effect of NoSchedule or PreferNoSchedule"),
        ("team=x:", "must be key:effect"),
        ("=x:NoSchedule", '"" is no key'),
        ("a b:NoSchedule", '"a b" is no key'),
        ("a=b c:NoSchedule", '"b c" is no value'),
        ("a:NoSchedule,b", '"b" must be'),
    ],
)
def test_a_malformed_taint_is_named(text, words):
    with pytest.raises(ValueError, match=words):
        parse_taints(text)


@pytest.mark.parametrize("text", ["a b", "a:NoExecute", "a=b=c", ":NoSchedule", "a:"])
def test_a_malformed_toleration_is_named(text):
    with pytest.raises(ValueError, match=f'"{text}"'):
        parse_tolerations(text)


def cluster(taints: str) -> dict:
    return {
        "metadata": {"name": "c", "annotations": {CLUSTER_TAINTS: taints}},
        "spec": {"clusterSource": {"kubeConfig": {"location": "s"}}},
    }


def test_malformed_taints_are_refused_on_clusters_and_block_nothing_once_they_are_there():
    (error,) = validate_multikueue_cluster_create(cluster("a"))
    assert error.path == "metadata.annotations[multiqueue.dev/taints]"
    assert "must be key:effect" in error.detail
    assert validate_multikueue_cluster_create(cluster("a:NoSchedule")) == []
    assert validate_multikueue_cluster_update(cluster("a"), cluster("a")) == []
    assert validate_multikueue_cluster_update(cluster("b"), cluster("a")) != []


def test_malformed_wishes_are_refused_on_jobs():
    annotations = {
        CLUSTER_NAMES: "a,B C",
        CLUSTER_SELECTOR: "a in",
        CLUSTER_TOLERATIONS: "a b",
        f"{GROUP}/x": "y",
    }
    got = list(validate_annotations({"metadata": {"annotations": annotations}}, OF_JOBS))
    assert [error.path for error in got] == [
        f"metadata.annotations[{CLUSTER_NAMES}]",
        f"metadata.annotations[{CLUSTER_SELECTOR}]",
        f"metadata.annotations[{CLUSTER_TOLERATIONS}]",
    ]
    fine = {CLUSTER_NAMES: "a, b.c,", CLUSTER_SELECTOR: "a in (b)", CLUSTER_TOLERATIONS: "a"}
    assert list(validate_annotations({"metadata": {"annotations": fine}}, OF_JOBS)) == []


@pytest.mark.parametrize(
    ("name", "is_fine"),
    [("score", True), ("example.com/mine", True), ("", False), ("two words", False), ("a/", False)],
)
def test_what_can_be_no_dispatcher_is_refused_on_configurations(name, is_fine):
    config = {"metadata": {"annotations": {DISPATCHER: name}}, "spec": {"clusters": ["a"]}}
    errors = validate_multikueue_config_create(config)
    assert [e.path for e in errors] == ([] if is_fine else [f"metadata.annotations[{DISPATCHER}]"])
