"""Workloads as the API shows them, and a mirror of a small cluster."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from multiqueue.api import v1beta2 as api
from multiqueue.api.serde import decode
from multiqueue.cli.mirror import Mirror, build_mirror

T0 = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
WHEN = "2026-01-01T11:59:00Z"


def condition(type_: str, status: str = "True", reason: str = "R", message: str = "") -> Any:
    return {
        "type": type_,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": WHEN,
    }


def make_workload(
    name: str = "job-train-1",
    *conditions: Any,
    gpus: int = 2,
    priority: int = 0,
    created: str = WHEN,
    admission: dict[str, str] | None = None,
    job: str = "train",
    active: bool = True,
    **status: Any,
) -> api.Workload:
    container = {"name": "c", "resources": {"requests": {"cpu": "1", "nvidia.com/gpu": "1"}}}
    if admission is not None:
        flavors = {"cpu": admission["flavor"], "nvidia.com/gpu": admission["flavor"]}
        usage = {"cpu": str(gpus), "nvidia.com/gpu": str(gpus)}
        assignment = {"name": "main", "flavors": flavors, "resourceUsage": usage, "count": gpus}
        status["admission"] = {
            "clusterQueue": admission["queue"],
            "podSetAssignments": [assignment],
        }
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": job, "uid": "u", "controller": True}
    return decode(
        api.Workload,
        {
            "metadata": {
                "name": name,
                "namespace": "team",
                "uid": f"uid-{name}",
                "creationTimestamp": created,
                "ownerReferences": [owner],
            },
            "spec": {
                "queueName": "lq",
                "priority": priority,
                "active": active,
                "podSets": [
                    {
                        "name": "main",
                        "count": gpus,
                        "template": {"spec": {"containers": [container]}},
                    }
                ],
            },
            "status": {"conditions": list(conditions), **status},
        },
    )


def make_mirror(*workloads: api.Workload, checks: bool = False) -> Mirror:
    """One ClusterQueue with 4 GPUs of flavor a100, behind LocalQueue team/lq."""
    quota = [{"name": "cpu", "nominalQuota": 8}, {"name": "nvidia.com/gpu", "nominalQuota": 4}]
    spec: dict[str, Any] = {
        "namespaceSelector": {},
        "resourceGroups": [
            {
                "coveredResources": ["cpu", "nvidia.com/gpu"],
                "flavors": [{"name": "a100", "resources": quota}],
            }
        ],
    }
    if checks:
        spec["admissionChecksStrategy"] = {"admissionChecks": [{"name": "mk"}]}
    metadata = {"name": "cq", "creationTimestamp": WHEN}
    check_spec = {
        "controllerName": "kueue.x-k8s.io/multikueue",
        "parameters": {"kind": "MultiKueueConfig", "name": "config"},
    }
    active = {"conditions": [condition("Active", message="Connected")]}
    lost = {"conditions": [condition("Active", "False", "ClientConnectionFailed", "no answer")]}
    return build_mirror(
        now=T0,
        namespaces=[{"metadata": {"name": "team"}}],
        flavors=[decode(api.ResourceFlavor, {"metadata": {"name": "a100"}})],
        cluster_queues=[decode(api.ClusterQueue, {"metadata": metadata, "spec": spec})],
        local_queues=[
            decode(
                api.LocalQueue,
                {"metadata": {"name": "lq", "namespace": "team"}, "spec": {"clusterQueue": "cq"}},
            )
        ],
        workloads=list(workloads),
        checks=[
            decode(
                api.AdmissionCheck,
                {"metadata": {"name": "mk"}, "spec": check_spec, "status": active},
            )
        ]
        if checks
        else [],
        clusters=[
            decode(api.MultiKueueCluster, {"metadata": {"name": "w1"}, "status": active}),
            decode(api.MultiKueueCluster, {"metadata": {"name": "w2"}, "status": lost}),
        ],
        configs=[
            decode(
                api.MultiKueueConfig,
                {"metadata": {"name": "config"}, "spec": {"clusters": ["w1", "w2", "w3"]}},
            )
        ],
    )
