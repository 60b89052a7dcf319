"""Objects for tests of the controllers: the smallest valid ones, as on the wire."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from multiqueue.api import names
from tests.queue_manager import NAMESPACE

_API = names.V1BETA2


def make_flavor(name: str = "default", **labels: str) -> dict[str, Any]:
    return {
        "apiVersion": _API,
        "kind": "ResourceFlavor",
        "metadata": {"name": name},
        "spec": {"nodeLabels": labels} if labels else {},
    }


def make_cluster_queue(
    name: str = "cq", *, cpu: str = "4", flavor: str = "default", **spec: Any
) -> dict[str, Any]:
    quota = {"name": flavor, "resources": [{"name": "cpu", "nominalQuota": cpu}]}
    return {
        "apiVersion": _API,
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
        "apiVersion": _API,
        "kind": "LocalQueue",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"clusterQueue": cluster_queue, **spec},
    }


def make_job(
    name: str = "job",
    *,
    queue: str | None = "lq",
    cpu: str = "1",
    suspend: bool = True,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    queue_label = {names.QUEUE_NAME: queue} if queue else {}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "labels": {**queue_label, **(labels or {})},
            "annotations": dict(annotations or {}),
        },
        "spec": {
            "suspend": suspend,
            "parallelism": 1,
            "completions": 1,
            "template": {
                "spec": {
                    "restartPolicy": "Never",
                    "containers": [
                        {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
                    ],
                }
            },
            **spec,
        },
    }


def make_check(name: str = "check") -> dict[str, Any]:
    return {
        "apiVersion": _API,
        "kind": "AdmissionCheck",
        "metadata": {"name": name},
        "spec": {"controllerName": "test"},
    }
