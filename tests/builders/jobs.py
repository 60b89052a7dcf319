"""Jobs as on the wire."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from multiqueue.api import names
from tests.builders.queues import GPU
from tests.builders.workloads import NAMESPACE


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


def make_gpu_job(
    name: str = "train",
    *,
    gpus: int = 1,
    managed_by: str | None = names.MULTIKUEUE_CONTROLLER,
    node_selector: Mapping[str, str] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    pod = {
        "restartPolicy": "Never",
        "containers": [
            {
                "name": "c",
                "image": "i",
                "resources": {"requests": {GPU: str(gpus)}, "limits": {GPU: str(gpus)}},
            }
        ],
        **({"nodeSelector": dict(node_selector)} if node_selector else {}),
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": {names.QUEUE_NAME: "lq"}},
        "spec": {
            "suspend": True,
            "parallelism": 1,
            "completions": 1,
            **({"managedBy": managed_by} if managed_by else {}),
            "template": {"spec": pod},
            **spec,
        },
    }
