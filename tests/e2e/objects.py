"""What the steps create: a queue over two equal workers, teams, and jobs of one GPU a pod."""

from __future__ import annotations

import json
import secrets
from typing import Any

from multiqueue.api import names
from tests.controlplane.nodes import as_list, make_node, run_for
from tests.e2e.fleet_under_test import Cluster, FleetUnderTest

QUEUE = "fleet"
"""Of the ClusterQueues, the check and the configuration."""
GPUS = 4
"""Of each worker. The manager has the sum."""
GPU = "nvidia.com/gpu"
URGENT = "urgent"
"""The priority class of what preempts on a worker."""
WORKER_QUOTA = {GPU: GPUS, "cpu": 64, "memory": "1Ti"}


def make_nodes(worker: str) -> list[dict[str, Any]]:
    """Nodes for a worker, two GPUs each."""
    return [make_node(f"{worker}-{i}", "a100", gpus=GPUS // 2) for i in range(2)]


def set_up(fleet: FleetUnderTest) -> None:
    """Give everybody the queue, once; the workers are registered already."""
    count = len(fleet.workers)
    for worker in fleet.workers.values():
        preemption = {"withinClusterQueue": "LowerPriority"}
        _apply(worker, _flavor(), _priority(), _cluster_queue(WORKER_QUOTA, preemption=preemption))
    quota = {GPU: GPUS * count, "cpu": 64 * count, "memory": f"{count}Ti"}
    check = {"admissionChecks": [{"name": QUEUE}]}
    parameters = {"apiGroup": names.GROUP, "kind": "MultiKueueConfig", "name": QUEUE}
    _apply(
        fleet.manager,
        *(make_worker(name) for name in fleet.workers),
        _kueue("MultiKueueConfig", {"clusters": list(fleet.workers)}),
        _kueue(
            "AdmissionCheck",
            {"controllerName": names.MULTIKUEUE_CONTROLLER, "parameters": parameters},
        ),
        _flavor(),
        _cluster_queue(quota, admissionChecksStrategy=check),
    )


def make_worker(name: str) -> dict[str, Any]:
    """A worker whose kubeconfig is in the Secret ``NAME-kubeconfig``."""
    source = {"kubeConfig": {"locationType": "Secret", "location": f"{name}-kubeconfig"}}
    return _kueue("MultiKueueCluster", {"clusterSource": source}, name=name)


def new_team(fleet: FleetUnderTest, name: str) -> str:
    """Create a namespace and a LocalQueue of one name on all clusters; returns the name."""
    team = f"{name}-{secrets.token_hex(2)}"
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": team}}
    queue = _kueue("LocalQueue", {"clusterQueue": QUEUE}, name=team)
    queue["metadata"]["namespace"] = team
    for cluster in (fleet.manager, *fleet.workers.values()):
        _apply(cluster, namespace, queue)
    return team


def make_job(
    name: str, *, queue: str, runs_for: str = "2s", pods: int = 1, **metadata: Any
) -> dict[str, Any]:
    """A Job of one GPU a pod, in the queue and the namespace of this name."""
    container = {
        "name": "trainer",
        "image": "registry.example.com/train",
        "resources": {
            "requests": {"cpu": "1", "memory": "1Gi"},
            "limits": {GPU: "1"},
        },
    }
    labels = {names.QUEUE_NAME: queue}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": queue, "labels": labels, **metadata},
        "spec": {
            "parallelism": pods,
            "completions": pods,
            "template": {
                "metadata": {"annotations": run_for(runs_for)},
                "spec": {"restartPolicy": "Never", "containers": [container]},
            },
        },
    }


def make_resident(team: str) -> dict[str, Any]:
    """A job of the worker's own users that takes all of it, before everybody else."""
    job = make_job("resident", queue=team, pods=GPUS, runs_for="1h")
    job["metadata"]["labels"][names.PRIORITY_CLASS] = URGENT
    job["spec"]["suspend"] = True
    return job


def wait_until_resident(worker: Cluster, team: str) -> None:
    """A resident job runs with all its pods."""
    ready = f"--for=jsonpath={{.status.ready}}={GPUS}", "--timeout=60s"
    worker.kubectl("wait", "job/resident", f"--namespace={team}", *ready)


def submit(cluster: Cluster, *jobs: dict[str, Any]) -> None:
    """Create all at once."""
    cluster.kubectl("create", "-f", "-", stdin=json.dumps(as_list(jobs)))


def end_pods(cluster: Cluster, namespace: str, *jobs: str) -> None:
    """Have the pods of these jobs succeed now; of all jobs of the namespace without any."""
    at_once = (f"{name}={value}" for name, value in run_for("0s").items())
    chosen = f"--selector=job-name in ({','.join(jobs)})" if jobs else "--all"
    cluster.kubectl("annotate", "pods", chosen, f"-n={namespace}", "--overwrite", *at_once)


def _apply(cluster: Cluster, *objects: dict[str, Any]) -> None:
    cluster.kubectl("apply", "-f", "-", stdin=json.dumps(as_list(objects)))


def _kueue(kind: str, spec: dict[str, Any], *, name: str = QUEUE) -> dict[str, Any]:
    return {"apiVersion": names.V1BETA2, "kind": kind, "metadata": {"name": name}, "spec": spec}


def _flavor() -> dict[str, Any]:
    """Its pods go where GPUs are, whatever keeps others away from there."""
    toleration = {"key": GPU, "operator": "Exists", "effect": "NoSchedule"}
    return _kueue("ResourceFlavor", {"tolerations": [toleration]})


def _priority() -> dict[str, Any]:
    return {
        "apiVersion": names.V1BETA2,
        "kind": "WorkloadPriorityClass",
        "metadata": {"name": URGENT},
        "value": 1000,
    }


def _cluster_queue(quota: dict[str, Any], **spec: Any) -> dict[str, Any]:
    resources = [{"name": name, "nominalQuota": amount} for name, amount in quota.items()]
    flavors = [{"name": QUEUE, "resources": resources}]
    group = {"coveredResources": list(quota), "flavors": flavors}
    return _kueue("ClusterQueue", {"namespaceSelector": {}, "resourceGroups": [group], **spec})
