"""References to objects that Events are about."""

from __future__ import annotations

from multiqueue.api.v1beta2 import Workload
from multiqueue.api.v1beta2.meta import ObjectMeta
from multiqueue.kube.resources import WORKLOADS, Resource


def reference_of(resource: Resource, metadata: ObjectMeta) -> dict[str, str]:
    """Return the reference to one of our typed objects."""
    reference = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "namespace": metadata.namespace,
        "name": metadata.name,
        "uid": metadata.uid,
        "resourceVersion": metadata.resource_version,
    }
    return {key: value for key, value in reference.items() if value}


def owner_references(workload: Workload) -> list[dict[str, str]]:
    """Return the references to the job of a Workload: its controller, if it has one."""
    return [
        {
            "apiVersion": owner.api_version,
            "kind": owner.kind,
            "namespace": workload.metadata.namespace,
            "name": owner.name,
            "uid": owner.uid,
        }
        for owner in workload.metadata.owner_references
        if owner.controller
    ]


def workload_reference(workload: Workload) -> dict[str, str]:
    """Return the reference to a Workload."""
    return reference_of(WORKLOADS, workload.metadata)
