"""Builders of pods and groups of pods, as the API server has them once the webhook was asked."""

from __future__ import annotations

from typing import Any

import msgspec

from multiqueue.api import names
from multiqueue.api.config import Integrations
from multiqueue.api.job_kinds import JOB_KINDS
from multiqueue.jobs.pod.integration import PodKind
from multiqueue.jobs.pod.pods import gather_group
from tests.builders.workloads import NAMESPACE
from tests.queue_manager import CONFIG

ROW = next(row for row in JOB_KINDS if row.framework == "pod")
PODS_ENABLED = msgspec.structs.replace(
    CONFIG, integrations=Integrations(frameworks=("batch/job", "pod"))
)
MOMENT = "2026-01-01T00:00:00Z"
READY = {"type": "Ready", "status": "True", "lastTransitionTime": MOMENT}


def pod_kind() -> PodKind:
    return PodKind(ROW)


def make_pod(
    name: str = "p0",
    *,
    group: str = "",
    total: int = 0,
    queue: str = "lq",
    role: str = "",
    annotations: dict[str, str] | None = None,
    labels: dict[str, str] | None = None,
    **requests: str,
) -> dict[str, Any]:
    """A pod as its user writes it; ``requests`` are those of its container."""
    written = dict(annotations or {})
    if group:
        written |= {names.POD_GROUP_NAME: group, names.POD_GROUP_TOTAL_COUNT: str(total)}
    if role:
        written[names.ROLE_HASH] = role
    wanted = requests or {"cpu": "1"}
    resources = {"requests": wanted, "limits": wanted}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "labels": {names.QUEUE_NAME: queue, **(labels or {})},
            "annotations": written,
        },
        "spec": {
            "containers": [{"name": "c", "image": "i", "resources": resources}],
            "restartPolicy": "Never",
        },
    }


def gated(pod: dict[str, Any]) -> dict[str, Any]:
    """The pod as the webhook lets it be created."""
    metadata = pod["metadata"]
    annotations = {names.ROLE_HASH: "role", **metadata["annotations"]}
    return {
        **pod,
        "metadata": {
            **metadata,
            "labels": {**metadata["labels"], names.MANAGED: "true"},
            "annotations": annotations,
            "finalizers": [names.MANAGED],
        },
        "spec": {
            **pod["spec"],
            "schedulingGates": [{"name": names.ADMISSION_GATE}, {"name": names.TOPOLOGY_GATE}],
        },
    }


def stored(
    pod: dict[str, Any],
    *,
    phase: str = "Pending",
    node: str = "",
    is_gated: bool = True,
    is_held: bool = True,
    deleted: str = "",
    created: str = MOMENT,
    conditions: tuple[dict[str, Any], ...] = (),
) -> dict[str, Any]:
    """The pod as the API server gives it back."""
    pod = gated(pod)
    name = pod["metadata"]["name"]
    metadata = {
        **pod["metadata"],
        "uid": f"uid-{name}",
        "resourceVersion": "7",
        "creationTimestamp": created,
    }
    if deleted:
        metadata |= {"deletionTimestamp": deleted, "deletionGracePeriodSeconds": 30}
    if not is_held:
        metadata["finalizers"] = []
    spec = dict(pod["spec"])
    if not is_gated:
        spec["schedulingGates"] = []
    if node:
        spec["nodeName"] = node
    status = {"phase": phase, "conditions": list(conditions)}
    return {**pod, "metadata": metadata, "spec": spec, "status": status}


def running(pod: dict[str, Any], **what: Any) -> dict[str, Any]:
    """The pod while it runs on a node and is ready."""
    state = {"phase": "Running", "node": "n1", "is_gated": False, "conditions": (READY,), **what}
    return stored(pod, **state)


def make_group(*pods: dict[str, Any]) -> dict[str, Any]:
    """The job that these pods make."""
    group = gather_group(pods)
    assert group is not None
    return group
