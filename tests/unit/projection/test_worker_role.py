"""The role of a manager on a worker, as the program carries it along."""

from __future__ import annotations

from pathlib import Path

import yaml

from multiqueue.jobs.rights import build_worker_aggregate
from multiqueue.projection import worker_role
from multiqueue.projection.worker_role import Right, list_rights

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
