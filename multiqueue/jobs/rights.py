"""The rights that the integration of a kind needs, as rules of a ClusterRole. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from multiqueue.api.job_kinds import KnownKind

Rule = dict[str, Any]


def manager_rules(row: KnownKind) -> Sequence[Rule]:
    """Return the manager's rights: start and stop jobs, copy statuses back, delete by retention.

    A kind that is queued through its pods is only read.
    """
    if row.implies_pods:
        return [rule_of(row, row.plural, "get", "list", "watch")]
    return [
        rule_of(row, row.plural, "delete", "get", "list", "patch", "watch"),
        rule_of(row, f"{row.plural}/status", "patch"),
        rule_of(row, f"{row.plural}/finalizers", "update"),
    ]


def worker_rules(row: KnownKind) -> Sequence[Rule]:
    """Return a manager's rights on a worker: make, follow, resize and remove copies of jobs."""
    return [rule_of(row, row.plural, "create", "delete", "get", "list", "patch", "watch")]


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


WORKER_ROLE = "multikueue-manager-job-kinds-role"
"""The role of a manager on a worker for the built-in kinds beside Job."""
MANAGER_LABEL = "rbac.kueue.x-k8s.io/job-kind"
WORKER_LABEL = "rbac.kueue.x-k8s.io/remote-job-kind"
"""Labels of roles that are part of the manager's rights, here and on workers."""


def build_worker_aggregate(account: str) -> Sequence[dict[str, Any]]:
    """Return the ClusterRole on a worker that sums up those of declared kinds, and its binding.

    The rules are left to the controller of Kubernetes that fills them in.
    """
    name = "multikueue-manager-declared-kinds-role"
    role, binding = build_role(name, account, ())
    del role["rules"]
    chosen = [{"matchLabels": {WORKER_LABEL: "true"}}]
    return [{**role, "aggregationRule": {"clusterRoleSelectors": chosen}}, binding]


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


def rule_of(row: KnownKind, resource: str, *verbs: str) -> Rule:
    """Return a rule about a resource of the kind's group."""
    return {"apiGroups": [row.group], "resources": [resource], "verbs": list(verbs)}
