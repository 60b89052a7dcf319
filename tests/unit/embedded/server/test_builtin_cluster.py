"""Namespaces, nodes, priority classes."""

from typing import Any

import pytest

from tests.unit.embedded.server.kind_builders import (
    RequestWorld,
    admitted,
    create_causes,
    created,
    fields,
    kind_of,
    texts,
    update_causes,
)


def named(name: str, **more: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, **more}


def test_a_namespace_is_active_and_carries_its_name_and_finalizer() -> None:
    got = created("", "namespaces", named("team"))
    assert got["metadata"]["labels"] == {"kubernetes.io/metadata.name": "team"}
    assert got["spec"] == {"finalizers": ["kubernetes"]}
    assert got["status"] == {"phase": "Active"}


def test_an_update_does_not_change_the_finalizers_of_a_namespace() -> None:
    kind = kind_of("", "namespaces")
    old = created("", "namespaces", named("team"))
    new = {**old, "spec": {}}
    kind.hooks.prepare_update(new, old, RequestWorld())
    assert new["spec"] == {"finalizers": ["kubernetes"]}


def test_a_namespace_is_named_like_a_label() -> None:
    assert fields(create_causes("", "namespaces", named("a.b"))) == ["metadata.name"]


def test_capacity_is_allocatable_unless_said_otherwise() -> None:
    got = admitted("", "nodes", named("n", status={"capacity": {"cpu": 8}})).obj
    assert got["status"]["allocatable"] == {"cpu": "8"}


def test_a_cordoned_node_has_the_taint() -> None:
    node = named("n", spec={"unschedulable": True, "taints": [{"key": "a", "effect": "NoExecute"}]})
    got = created("", "nodes", node)
    keys = [taint["key"] for taint in got["spec"]["taints"]]
    assert keys == ["a", "node.kubernetes.io/unschedulable"]
    uncordoned = {**got, "spec": {"taints": got["spec"]["taints"]}}
    kind_of("", "nodes").hooks.prepare_update(uncordoned, got, RequestWorld())
    assert uncordoned["spec"]["taints"] == [{"key": "a", "effect": "NoExecute"}]


@pytest.mark.parametrize(
    ("taint", "field"),
    [
        ({"key": "a b", "effect": "NoExecute"}, "spec.taints[0].key"),
        ({"key": "a"}, "spec.taints[0].effect"),
        ({"key": "a", "effect": "Sometimes"}, "spec.taints[0].effect"),
        ({"key": "a", "effect": "NoExecute", "value": "a b"}, "spec.taints[0].value"),
    ],
    ids=["key", "no effect", "unknown effect", "value"],
)
def test_taints_are_checked(taint: dict, field: str) -> None:
    assert fields(create_causes("", "nodes", named("n", spec={"taints": [taint]}))) == [field]


def test_a_taint_is_unique_by_key_and_effect() -> None:
    taint = {"key": "a", "effect": "NoExecute"}
    got = create_causes("", "nodes", named("n", spec={"taints": [taint, {**taint, "value": "b"}]}))
    assert fields(got) == ["spec.taints[1]"]


def test_node_resources_are_sane() -> None:
    capacity = {"cpu": "-1", "nvidia.com/gpu": "0.5"}
    node = named("n", status={"capacity": capacity, "allocatable": {"cpu": "1"}})
    got = fields(create_causes("", "nodes", node))
    assert got == ["status.capacity[cpu]", "status.capacity[nvidia.com/gpu]"]


CLASSES = ("scheduling.k8s.io", "priorityclasses")


def test_a_priority_class_keeps_its_value() -> None:
    old = created(*CLASSES, named("high", value=5))
    got = texts(update_causes(*CLASSES, old, {**old, "value": 6}))
    assert got == ["value: Forbidden: may not be changed in an update."]


@pytest.mark.parametrize(
    ("obj", "field"),
    [
        (named("high", value=5, preemptionPolicy="Maybe"), "preemptionPolicy"),
    ],
    ids=["unknown policy"],
)
def test_priority_classes_are_checked(obj: dict, field: str) -> None:
    assert fields(create_causes(*CLASSES, obj)) == [field]
