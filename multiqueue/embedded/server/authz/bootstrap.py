"""Creates the roles and bindings that every cluster has, and repairs them at every start."""

from collections.abc import Iterator
from datetime import datetime

from multiqueue.api.v1beta2.meta import format_time
from multiqueue.embedded.server.authz import bootstrap_rules as wanted
from multiqueue.embedded.server.authz.aggregation import aggregate_all
from multiqueue.embedded.server.authz.policy import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    GROUP,
    ROLE_BINDINGS,
    ROLES,
)
from multiqueue.embedded.server.kinds import GroupPlural, JsonObject
from multiqueue.embedded.server.metadata import generated_uid
from multiqueue.embedded.server.store import ObjectStore

AUTO_UPDATE = "rbac.authorization.kubernetes.io/autoupdate"
LABELS = {"kubernetes.io/bootstrapping": "rbac-defaults"}

_LISTS = {ROLES: "rules", CLUSTER_ROLES: "rules"}


def create_policy(store: ObjectStore, now: datetime) -> None:
    """Create missing roles and bindings, and restore removed rules and subjects.

    Objects whose annotation turns repairs off are left alone.
    """
    for key, obj in _objects():
        metadata = obj["metadata"]
        entry = store.get(key, metadata.get("namespace", ""), metadata["name"])
        if entry is None:
            metadata |= {"uid": generated_uid(), "creationTimestamp": format_time(now)}
            store.put(key, obj)
            continue
        stored = entry.decode()
        if _repair(stored, obj, _LISTS.get(key, "subjects")):
            store.put(key, stored)
    aggregate_all(store)


def _repair(stored: JsonObject, obj: JsonObject, field: str) -> bool:
    """Add missing items to a field; return whether any were missing."""
    annotations = stored["metadata"].get("annotations") or {}
    if annotations.get(AUTO_UPDATE) != "true" or "aggregationRule" in obj:
        return False
    has = stored.get(field) or []
    missing = [each for each in obj[field] if each not in has]
    stored[field] = [*has, *missing]
    return bool(missing)


def _objects() -> Iterator[tuple[GroupPlural, JsonObject]]:
    for name, rules in wanted.CLUSTER_ROLES.items():
        yield CLUSTER_ROLES, {**_object("ClusterRole", name), "rules": list(rules)}
    for name in wanted.AGGREGATED:
        selector = {"matchLabels": {f"{wanted.AGGREGATE}{name}": "true"}}
        rule = {"clusterRoleSelectors": [selector]}
        yield CLUSTER_ROLES, {**_object("ClusterRole", name), "aggregationRule": rule, "rules": []}
    for name, groups in wanted.CLUSTER_ROLE_BINDINGS.items():
        subjects = [wanted.subject("Group", group) for group in groups]
        yield (
            CLUSTER_ROLE_BINDINGS,
            {
                **_object("ClusterRoleBinding", name),
                "roleRef": _reference("ClusterRole", name),
                "subjects": subjects,
            },
        )
    reader = _object("Role", wanted.READER, "kube-system")
    yield ROLES, {**reader, "rules": list(wanted.READER_RULES)}
    yield (
        ROLE_BINDINGS,
        {
            **_object("RoleBinding", f"system::{wanted.READER}", "kube-system"),
            "roleRef": _reference("Role", wanted.READER),
            "subjects": [wanted.subject("User", name) for name in wanted.READERS],
        },
    )


def _object(kind: str, name: str, namespace: str = "") -> JsonObject:
    metadata: JsonObject = {
        "name": name,
        "labels": {**LABELS, **wanted.labels_of(name)},
        "annotations": {AUTO_UPDATE: "true"},
    }
    if namespace:
        metadata["namespace"] = namespace
    return {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": metadata}


def _reference(kind: str, name: str) -> JsonObject:
    return {"apiGroup": GROUP, "kind": kind, "name": name}
