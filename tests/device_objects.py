"""Objects of dynamic resource allocation, as on the wire, and their kinds for the embedded server.

A real API server of 1.34 or newer serves the kinds itself; the embedded one does not, so tests
install them as custom resources.
"""

from __future__ import annotations

from typing import Any

from tests.builders.queues import make_cluster_queue
from tests.builders.workloads import NAMESPACE

GROUP_VERSION = "resource.k8s.io/v1"
GPU_CLASS = "gpu.example.com"


def make_crd(plural: str, kind: str, *, namespaced: bool) -> dict[str, Any]:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{plural}.resource.k8s.io",
            "annotations": {"api-approved.kubernetes.io": "https://example.com/tests"},
        },
        "spec": {
            "group": "resource.k8s.io",
            "names": {"plural": plural, "kind": kind, "singular": kind.lower()},
            "scope": "Namespaced" if namespaced else "Cluster",
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                }
            ],
        },
    }


DEVICE_CRDS = (
    make_crd("deviceclasses", "DeviceClass", namespaced=False),
    make_crd("resourceclaimtemplates", "ResourceClaimTemplate", namespaced=True),
)


def make_device_class(name: str = GPU_CLASS, *, extended: str = "") -> dict[str, Any]:
    spec: dict[str, Any] = {
        "selectors": [{"cel": {"expression": f'device.driver == "{GPU_CLASS}"'}}]
    }
    if extended:
        spec["extendedResourceName"] = extended
    return {
        "apiVersion": GROUP_VERSION,
        "kind": "DeviceClass",
        "metadata": {"name": name},
        "spec": spec,
    }


def make_claim_template(
    name: str, *, count: int = 1, device_class: str = GPU_CLASS, **exactly: Any
) -> dict[str, Any]:
    wanted = {
        "deviceClassName": device_class,
        "allocationMode": "ExactCount",
        "count": count,
        **exactly,
    }
    request = {
        "name": "devices",
        "exactly": {key: value for key, value in wanted.items() if value is not None},
    }
    return {
        "apiVersion": GROUP_VERSION,
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"spec": {"devices": {"requests": [request]}}},
    }


def claiming(job: dict[str, Any], template: str) -> dict[str, Any]:
    """The Job with pods that name a ResourceClaimTemplate."""
    pod = job["spec"]["template"]["spec"]
    pod["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": template}]
    pod["containers"][0]["resources"]["claims"] = [{"name": "gpu"}]
    return job


def requesting(job: dict[str, Any], resource: str, count: int) -> dict[str, Any]:
    """The Job with pods that request an extended resource."""
    resources = job["spec"]["template"]["spec"]["containers"][0]["resources"]
    for part in ("requests", "limits"):
        resources[part] = {**resources.get(part, {}), resource: str(count)}
    return job


def make_device_queue(resource: str = "gpu", quota: int = 4, *more: str) -> dict[str, Any]:
    """A ClusterQueue with quota for CPU and devices."""
    covered = ["cpu", resource, *more]
    quotas = [
        {"name": name, "nominalQuota": str(quota) if name != "cpu" else "100"} for name in covered
    ]
    group = {"coveredResources": covered, "flavors": [{"name": "default", "resources": quotas}]}
    return make_cluster_queue(resourceGroups=[group])
