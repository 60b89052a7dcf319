"""The rights that the integration of a kind needs, as rules of a ClusterRole. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from multiqueue.api.job_kinds import KnownKind
from multiqueue.kube.resources import Resource

Rule = dict[str, Any]


def manager_rules(row: KnownKind) -> Sequence[Rule]:
    """Return the manager's rights: start and stop jobs, copy statuses back, delete by retention.

    A kind that is queued through its pods is only read.
    """
    if row.implies_pods:
        return [_rule(row, row.plural, "get", "list", "watch")]
    return [
        _rule(row, row.plural, "delete", "get", "list", "patch", "watch"),
        _rule(row, f"{row.plural}/status", "patch"),
        _rule(row, f"{row.plural}/finalizers", "update"),
    ]


def worker_rules(row: KnownKind) -> Sequence[Rule]:
    """Return a manager's rights on a worker: make, follow, resize and remove copies of jobs."""
    return [_rule(row, row.plural, "create", "delete", "get", "list", "patch", "watch")]


def guard_rules(row: KnownKind) -> Sequence[Rule]:
    """Return the rights of a worker's guard: follow copies of jobs."""
    return [_rule(row, row.plural, "list", "watch")]


def reader_rules(resources: Sequence[Resource]) -> Sequence[Rule]:
    """Return the manager's rights on objects that a kind reads beside its own."""
    return [
        {"apiGroups": [each.group], "resources": [each.plural], "verbs": ["get", "list", "watch"]}
        for each in resources
    ]


def build_role(name: str, account: str, rules: Sequence[Rule]) -> Sequence[dict[str, Any]]:
    """Return a ClusterRole with these rules, and its binding to one of our ServiceAccounts."""
    api = "rbac.authorization.k8s.io"
    role = {
        "apiVersion": f"{api}/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name},
        "rules": list(rules),
    }
    binding = {
        "apiVersion": f"{api}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": f"{name}binding"},
        "roleRef": {"apiGroup": api, "kind": "ClusterRole", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": "kueue-system"}],
    }
    return [role, binding]


MANAGER_LABEL = "rbac.kueue.x-k8s.io/job-kind"
WORKER_LABEL = "rbac.kueue.x-k8s.io/remote-job-kind"
"""Labels of roles that are part of the manager's rights, here and on workers."""


def build_declared_roles(row: KnownKind) -> Sequence[dict[str, Any]]:
    """Return the ClusterRoles for a declared kind: for this cluster, and for workers."""
    name = f"{row.plural}.{row.group}"
    roles = (
        (f"multiqueue-jobs-{name}", MANAGER_LABEL, manager_rules(row)),
        (f"multiqueue-remote-jobs-{name}", WORKER_LABEL, worker_rules(row)),
    )
    return [
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": role, "labels": {label: "true"}},
            "rules": list(rules),
        }
        for role, label, rules in roles
    ]


def _rule(row: KnownKind, resource: str, *verbs: str) -> Rule:
    return {"apiGroups": [row.group], "resources": [resource], "verbs": list(verbs)}
