"""What users and kubelets do in tests of the controllers, and what can be seen of it."""

from __future__ import annotations

from typing import Any

from multiqueue.api.v1beta2 import Workload
from multiqueue.api.workload_state import is_admitted
from multiqueue.kube import resources
from tests.builders.queues import make_cluster_queue, make_flavor, make_local_queue
from tests.builders.workloads import NAMESPACE
from tests.queue_manager import QueueCluster


async def create_queue(cluster: QueueCluster, *, cpu: str = "4", **flavor_labels: str) -> None:
    await cluster.create(resources.RESOURCE_FLAVORS, make_flavor(**flavor_labels))
    await cluster.create(resources.CLUSTER_QUEUES, make_cluster_queue(cpu=cpu))
    await cluster.create(resources.LOCAL_QUEUES, make_local_queue())


async def submit(cluster: QueueCluster, job: dict[str, Any]) -> None:
    await cluster.create(resources.JOBS, job)


def admitted(cluster: QueueCluster, name: str) -> Workload | None:
    workload = cluster.workload_of(name)
    return workload if workload is not None and is_admitted(workload.status) else None


def running(cluster: QueueCluster, name: str) -> dict[str, Any] | None:
    job = cluster.job(name)
    return job if job is not None and not job["spec"].get("suspend") else None


async def complete(cluster: QueueCluster, name: str) -> None:
    now = "2026-01-01T00:00:00Z"
    conditions = [
        {"type": t, "status": "True", "lastTransitionTime": now, "reason": "r", "message": "done"}
        for t in ("SuccessCriteriaMet", "Complete")
    ]
    status = {"startTime": now, "completionTime": now, "succeeded": 1, "conditions": conditions}
    await cluster.patch(
        resources.JOBS, name, {"status": status}, namespace=NAMESPACE, subresource="status"
    )
