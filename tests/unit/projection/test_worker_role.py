"""The role of a manager on a worker, as the program carries it along."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from multiqueue.jobs.rights import build_worker_aggregate
from multiqueue.projection import worker_role
from multiqueue.projection.worker_role import Right, grants, list_rights

ROLE = Path(__file__).parents[3] / "config" / "worker-role" / "role.yaml"


def test_the_program_carries_the_role_of_config() -> None:
    copied = Path(worker_role.__file__).with_name("worker_role.yaml")
    assert copied.read_text() == ROLE.read_text(), "run: make roles"


def test_the_sum_of_the_declared_kinds_is_that_of_config() -> None:
    role, binding = build_worker_aggregate("multikueue-manager")
    file = ROLE.with_name("declared_kinds.yaml")
    assert [{**role, "rules": []}, binding] == list(yaml.safe_load_all(file.read_text()))


def test_rights_are_listed_one_by_one() -> None:
    rights = list_rights()
    assert Right("batch", "jobs", "create") in rights
    assert Right("kueue.x-k8s.io", "workloads", "patch", "status") in rights
    assert Right("", "namespaces", "get", name="kube-system") in rights
    assert len(rights) == len(set(rights))


def test_a_right_is_told_as_kubectl_would_ask_for_it() -> None:
    assert str(Right("kueue.x-k8s.io", "workloads", "patch", "status")) == (
        "patch workloads/status.kueue.x-k8s.io"
    )
    assert str(Right("", "namespaces", "get", name="kube-system")) == (
        'get namespaces "kube-system"'
    )


@pytest.mark.parametrize(
    ("changes", "granted"),
    [
        ({}, True),
        ({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}, True),
        ({"resources": ["*/log"]}, True),
        ({"resources": ["pods"]}, False),
        ({"resources": ["pods/*"]}, False),
        ({"apiGroups": ["apps"]}, False),
        ({"verbs": ["list"]}, False),
        ({"resourceNames": ["a"]}, False),
        ({"resources": []}, False),
    ],
)
def test_a_rule_grants_a_right_as_rbac_says(changes: dict[str, list[str]], granted: bool) -> None:
    rule = {"apiGroups": [""], "resources": ["pods/log"], "verbs": ["get"], **changes}
    assert grants(rule, Right("", "pods", "get", "log")) is granted


def test_a_rule_for_one_object_grants_a_right_on_that_only() -> None:
    rule = {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"], "resourceNames": ["a"]}
    assert grants(rule, Right("", "secrets", "get", name="a"))
    assert not grants(rule, Right("", "secrets", "get", name="b"))
    assert not grants(rule, Right("", "secrets", "get"))
