"""Workloads as the API shows them, and the objects of a small cluster."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from multiqueue.api import v1beta2 as api
from multiqueue.api.serde import decode
from multiqueue.cli.queue_objects import QueueObjects
from multiqueue.cli.visibility import FlavorNumbers, ManagerAnswer, QueuePosition

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


def collect(**kinds: Sequence[Any]) -> QueueObjects:
    """What was read, by the attributes of `QueueObjects`."""
    objects = QueueObjects(now=T0)
    for kind, found in kinds.items():
        objects.add(kind, found)
    return objects


def make_local_queue(**status: Any) -> api.LocalQueue:
    """LocalQueue team/lq of ClusterQueue cq; active unless its status says else."""
    status = status or {"conditions": [condition("Active")]}
    metadata, spec = {"name": "lq", "namespace": "team"}, {"clusterQueue": "cq"}
    return decode(api.LocalQueue, {"metadata": metadata, "spec": spec, "status": status})


def make_answer(**fields: Any) -> ManagerAnswer:
    """Second of two that wait, one GPU short."""
    gpus = FlavorNumbers(
        flavor="a100",
        resource="nvidia.com/gpu",
        asked="2",
        nominal="4",
        used="3",
        free="1",
        borrowable="0",
        verdict="1 more needed",
    )
    place = QueuePosition(in_cluster_queue=2, in_local_queue=1)
    told = {"cluster_queue": "cq", "place": place, "waiting": 2, "numbers": (gpus,)}
    return ManagerAnswer(**{**told, **fields})


def make_objects(*workloads: api.Workload, checks: bool = False) -> QueueObjects:
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
    return collect(
        cluster_queues=[decode(api.ClusterQueue, {"metadata": metadata, "spec": spec})],
        local_queues=[make_local_queue()],
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
