"""Objects of the simulated cluster, smallest valid by default."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

T0 = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)


def make_node(
    name: str = "n1",
    *,
    labels: Mapping[str, str] | None = None,
    taints: list[dict[str, str]] | None = None,
    ready: bool = True,
    **allocatable: str,
) -> dict[str, Any]:
    amounts = {"cpu": "8", "memory": "32Gi", "pods": "10", **allocatable}
    return {
        "metadata": {"name": name, "labels": dict(labels or {})},
        "spec": {"taints": taints or []},
        "status": {
            "allocatable": {key.replace("gpu", "nvidia.com/gpu"): v for key, v in amounts.items()},
            "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
        },
    }


def make_pod(
    name: str = "p1",
    *,
    uid: str = "",
    phase: str = "Pending",
    node: str | None = None,
    deleting: bool = False,
    ready: bool = False,
    index: int | None = None,
    annotations: Mapping[str, str] | None = None,
    requests: Mapping[str, str] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    metadata: dict[str, Any] = {
        "name": name,
        "namespace": "default",
        "uid": uid or f"uid-{name}",
        "annotations": dict(annotations or {}),
    }
    if deleting:
        metadata["deletionTimestamp"] = "2026-01-01T12:00:00Z"
        metadata["deletionGracePeriodSeconds"] = 30
    if index is not None:
        metadata["annotations"]["batch.kubernetes.io/job-completion-index"] = str(index)
    container = {"name": "c", "image": "i", "resources": {"requests": dict(requests or {})}}
    pod_spec = {"restartPolicy": "Never", "containers": [container], **spec}
    if node is not None:
        pod_spec["nodeName"] = node
    conditions = [{"type": "Ready", "status": "True"}] if ready else []
    return {
        "metadata": metadata,
        "spec": pod_spec,
        "status": {"phase": phase, "conditions": conditions},
    }


def make_job(
    *, status: Mapping[str, Any] | None = None, deleting: bool = False, **spec: Any
) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": "job", "namespace": "default", "uid": "job-uid"}
    if deleting:
        metadata["deletionTimestamp"] = "2026-01-01T12:00:00Z"
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata,
        "spec": {"parallelism": 1, "completions": 1, "template": template, **spec},
        "status": dict(status or {}),
    }
