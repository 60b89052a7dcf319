"""Queues and flavors as on the wire, for tests of everything above the engine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from multiqueue.api import names
from tests.builders.workloads import NAMESPACE

GPU = "nvidia.com/gpu"


def make_flavor(name: str = "default", **labels: str) -> dict[str, Any]:
    return {
        "apiVersion": names.V1BETA2,
        "kind": "ResourceFlavor",
        "metadata": {"name": name},
        "spec": {"nodeLabels": labels} if labels else {},
    }


def make_cluster_queue(
    name: str = "cq", *, cpu: str = "4", flavor: str = "default", **spec: Any
) -> dict[str, Any]:
    quota = {"name": flavor, "resources": [{"name": "cpu", "nominalQuota": cpu}]}
    return {
        "apiVersion": names.V1BETA2,
        "kind": "ClusterQueue",
        "metadata": {"name": name},
        "spec": {
            "namespaceSelector": {},
            "resourceGroups": [{"coveredResources": ["cpu"], "flavors": [quota]}],
            **spec,
        },
    }


def make_local_queue(name: str = "lq", *, cluster_queue: str = "cq", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": names.V1BETA2,
        "kind": "LocalQueue",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"clusterQueue": cluster_queue, **spec},
    }


def make_check(name: str = "check") -> dict[str, Any]:
    return {
        "apiVersion": names.V1BETA2,
        "kind": "AdmissionCheck",
        "metadata": {"name": name},
        "spec": {"controllerName": "test"},
    }


def make_gpu_flavor(name: str, **labels: str) -> dict[str, Any]:
    return {
        "apiVersion": names.V1BETA2,
        "kind": "ResourceFlavor",
        "metadata": {"name": name},
        "spec": {"nodeLabels": labels} if labels else {},
    }


def make_gpu_queue(
    gpus: int | Mapping[str, int],
    *,
    flavor: str = "gpu",
    name: str = "cq",
    checks: tuple[str, ...] = (),
) -> dict[str, Any]:
    """A ClusterQueue of one flavor, or of the flavors that a mapping names in order."""
    sizes = gpus if isinstance(gpus, Mapping) else {flavor: gpus}
    flavors = [
        {"name": each, "resources": [{"name": GPU, "nominalQuota": str(size)}]}
        for each, size in sizes.items()
    ]
    spec: dict[str, Any] = {
        "namespaceSelector": {},
        "resourceGroups": [{"coveredResources": [GPU], "flavors": flavors}],
    }
    if checks:
        spec["admissionChecksStrategy"] = {"admissionChecks": [{"name": c} for c in checks]}
    return {
        "apiVersion": names.V1BETA2,
        "kind": "ClusterQueue",
        "metadata": {"name": name},
        "spec": spec,
    }
