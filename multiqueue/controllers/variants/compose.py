"""Composes the variant of a parent for one flavor, complete for a single write. Pure."""

from __future__ import annotations

from typing import Any

from multiqueue.api import names
from multiqueue.api.serde import encode
from multiqueue.api.v1beta2 import Workload
from multiqueue.jobs.framework.compose import (
    HASH_LENGTH,
    MAX_NAME,
    build_pod_set,
    workload_digest,
)
from multiqueue.jobs.framework.gvk import GroupVersionKind
from multiqueue.kube.resources import WORKLOADS

GVK = GroupVersionKind.of_resource(WORKLOADS)
_PARENTS_ONLY = frozenset(
    {
        names.CONCURRENT_ADMISSION_PARENT,
        names.MULTIKUEUE_ORIGIN,
        names.MULTIKUEUE_ORIGIN_UID,
        names.MANAGER,
        names.DISPATCH_EPOCH,
    }
)
"""Labels and annotations of the parent alone. A manager elsewhere deletes objects that have its
origin and are none of its copies."""


def variant_name(parent: Workload, flavor: str, *, limit: int = MAX_NAME) -> str:
    """Return the name of a variant; it is always the same for the same parent and flavor."""
    name, uid = parent.metadata.name, parent.metadata.uid
    digest = workload_digest(GVK, name, uid, extra=flavor)
    base = name.rpartition("-")[0] or name
    return f"{f'{base}-variant-{flavor}'[: limit - HASH_LENGTH - 1]}-{digest}"


def compose_variant(
    parent: Workload, flavor: str, *, order: int = 0, limit: int = MAX_NAME
) -> dict[str, Any]:
    """Return the variant to create.

    Its execution time is not limited: that of the parent is, through all variants.
    """
    metadata, spec = parent.metadata, parent.spec
    gates = [gate.name for gate in spec.preemption_gates if gate.name != names.VARIANT_GATE]
    labels = {k: v for k, v in metadata.labels.items() if k not in _PARENTS_ONLY}
    annotations = {k: v for k, v in metadata.annotations.items() if k not in _PARENTS_ONLY}
    return {
        "apiVersion": names.V1BETA2,
        "kind": "Workload",
        "metadata": {
            "name": variant_name(parent, flavor, limit=limit),
            "namespace": metadata.namespace,
            "labels": labels,
            "annotations": {
                **annotations,
                names.WORKLOAD_ALLOWED_FLAVORS: flavor,
                names.VARIANT_ORDER: str(order),
            },
            "ownerReferences": [
                {
                    "apiVersion": names.V1BETA2,
                    "kind": "Workload",
                    "name": metadata.name,
                    "uid": metadata.uid,
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
            "finalizers": [names.RESOURCE_IN_USE],
        },
        "spec": {
            "queueName": spec.queue_name,
            "podSets": [build_pod_set(pod_set) for pod_set in spec.pod_sets],
            "active": spec.active,
            "preemptionGates": [{"name": name} for name in (*gates, names.VARIANT_GATE)],
            **followed_spec(parent),
        },
    }


def followed_spec(workload: Workload) -> dict[str, Any]:
    """Return the fields of a spec that may change at any time, and that variants follow."""
    spec = workload.spec
    fields: dict[str, Any] = {"priority": spec.priority, "priorityClassRef": None}
    if spec.priority_class_ref is not None:
        fields["priorityClassRef"] = encode(spec.priority_class_ref)
    return {key: value for key, value in fields.items() if value is not None}
