"""The initial objects of the demo's three clusters: teams, queues, flavors, workers.

On the manager, each team has one ClusterQueue. All of them are in one cohort and send their jobs to
both workers. A worker has one ClusterQueue for its whole hardware, and LocalQueues with the names
of the manager's, because MultiKueue finds the queue by namespace and LocalQueue.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
import yaml

from multiqueue.api import names
from multiqueue.embedded.cluster.nodes import ACCELERATOR_LABEL

Object = dict[str, Any]

GPU = "nvidia.com/gpu"
COHORT = "gpu-pool"
CHECK = "gpu-workers"
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
TEAM_LABEL = "kueue.x-k8s.io/team"


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoWorker:
    """One worker cluster and its hardware."""

    name: str
    flavor: str
    gpus: int
    cpu: int
    memory_gib: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Team:
    """A team: its namespace, its LocalQueue and its share of the GPUs, by flavor."""

    name: str
    gpus: Mapping[str, int]


WORKERS = (
    DemoWorker(name="worker-a100", flavor="a100", gpus=8, cpu=96, memory_gib=1024),
    DemoWorker(name="worker-h100", flavor="h100", gpus=4, cpu=192, memory_gib=2048),
)
TEAMS = (
    Team(name="research", gpus={"a100": 3, "h100": 1}),
    Team(name="training", gpus={"a100": 4, "h100": 1}),
    Team(name="inference", gpus={"a100": 1, "h100": 2}),
)
PRIORITIES = {
    "flagship": 2000,
    "inference-prod": 1000,
    "interactive-experiment": 500,
    "batch-training": 100,
}


def manager_objects(disruption_policy: str = "") -> list[Object]:
    """Return the manager cluster's objects, in an order in which they can be created.

    Args:
        disruption_policy: The DisruptionPolicy that governs the teams' ClusterQueues; "" for none.
    """
    objects = [
        _namespace(names.DEFAULT_NAMESPACE),
        *(_namespace(team.name, team=team.name) for team in TEAMS),
        *(_worker_cluster(worker) for worker in WORKERS),
        _kueue(
            "MultiKueueConfig",
            CHECK,
            {"clusters": [worker.name for worker in WORKERS]},
        ),
        _kueue(
            "AdmissionCheck",
            CHECK,
            {
                "controllerName": names.MULTIKUEUE_CONTROLLER,
                "parameters": {
                    "apiGroup": names.GROUP,
                    "kind": "MultiKueueConfig",
                    "name": CHECK,
                },
            },
        ),
        *(_flavor(worker.flavor) for worker in WORKERS),
        *(_priority_class(name, value) for name, value in PRIORITIES.items()),
        *(_team_queue(team, disruption_policy) for team in TEAMS),
        *(_local_queue(team.name, team.name) for team in TEAMS),
    ]
    return [_as_applied(obj) for obj in objects]


def kubeconfig_secrets(kubeconfigs: Mapping[str, Mapping[str, Any]]) -> list[Object]:
    """Return the Secrets with the workers' kubeconfigs for the manager."""
    return [_kubeconfig_secret(name, kubeconfig) for name, kubeconfig in kubeconfigs.items()]


def worker_objects(worker: DemoWorker) -> list[Object]:
    """Return a worker cluster's objects, in an order in which they can be created."""
    quota = {GPU: worker.gpus, "cpu": worker.cpu, "memory": f"{worker.memory_gib}Gi"}
    objects = [
        _namespace(names.DEFAULT_NAMESPACE),
        *(_namespace(team.name, team=team.name) for team in TEAMS),
        _flavor(worker.flavor),
        *(_priority_class(name, value) for name, value in PRIORITIES.items()),
        _cluster_queue(worker.name, {worker.flavor: quota}),
        *(_local_queue(team.name, worker.name) for team in TEAMS),
    ]
    return [_as_applied(obj) for obj in objects]


def manager_configuration(*, health_port: int) -> Object:
    """Return the configuration file of the demo's manager; all of its ports are free ones."""
    return {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "health": {"healthProbeBindAddress": f"127.0.0.1:{health_port}"},
        "metrics": {"bindAddress": "127.0.0.1:0"},
        "webhook": {"host": "127.0.0.1", "port": 0},
        # A killed manager is replaced within seconds; a slow machine may need as long.
        "leaderElection": {
            "leaseDuration": "8s",
            "renewDeadline": "7s",
            "retryPeriod": "500ms",
        },
        "multiKueue": {"dispatcherName": "score", "gcInterval": "10s", "workerLostTimeout": "30s"},
    }


def _as_applied(obj: Object) -> Object:
    """Add the mark of kubectl apply, so that kubectl does not warn users who apply manifests."""
    if obj["kind"] == "Secret":
        return obj
    own = obj["metadata"].get("annotations", {})
    annotations = {**own, LAST_APPLIED: orjson.dumps(obj).decode()}
    return {**obj, "metadata": {**obj["metadata"], "annotations": annotations}}


def _team_queue(team: Team, disruption_policy: str) -> Object:
    by_name = {worker.flavor: worker for worker in WORKERS}
    quotas = {}
    for flavor, gpus in team.gpus.items():
        worker = by_name[flavor]
        quotas[flavor] = {
            GPU: gpus,
            "cpu": worker.cpu * gpus // worker.gpus,
            "memory": f"{worker.memory_gib * gpus // worker.gpus}Gi",
        }
    queue = _cluster_queue(team.name, quotas)
    if disruption_policy:
        queue["metadata"]["annotations"] = {names.DISRUPTION_POLICY: disruption_policy}
    queue["spec"].update(
        cohortName=COHORT,
        namespaceSelector={"matchLabels": {TEAM_LABEL: team.name}},
        preemption={
            "reclaimWithinCohort": "LowerPriority",
            "withinClusterQueue": "LowerPriority",
        },
        flavorFungibility={"whenCanBorrow": "TryNextFlavor", "whenCanPreempt": "TryNextFlavor"},
        admissionChecksStrategy={"admissionChecks": [{"name": CHECK}]},
    )
    return queue


def _cluster_queue(name: str, quotas: Mapping[str, Mapping[str, Any]]) -> Object:
    resources: Sequence[str] = ("cpu", "memory", GPU)
    flavors = [
        {
            "name": flavor,
            "resources": [
                {"name": resource, "nominalQuota": quota[resource]} for resource in resources
            ],
        }
        for flavor, quota in quotas.items()
    ]
    return _kueue(
        "ClusterQueue",
        name,
        {
            "namespaceSelector": {},
            "queueingStrategy": "BestEffortFIFO",
            "resourceGroups": [{"coveredResources": list(resources), "flavors": flavors}],
        },
    )


def _flavor(name: str) -> Object:
    return _kueue("ResourceFlavor", name, {"nodeLabels": {ACCELERATOR_LABEL: name}})


def _local_queue(team: str, cluster_queue: str) -> Object:
    queue = _kueue("LocalQueue", team, {"clusterQueue": cluster_queue})
    queue["metadata"]["namespace"] = team
    return queue


def _worker_cluster(worker: DemoWorker) -> Object:
    source = {"kubeConfig": {"locationType": "Secret", "location": _secret_name(worker.name)}}
    return _kueue("MultiKueueCluster", worker.name, {"clusterSource": source})


def _secret_name(worker: str) -> str:
    return f"{worker}-kubeconfig"


def _kubeconfig_secret(worker: str, kubeconfig: Mapping[str, Any]) -> Object:
    text = yaml.safe_dump(dict(kubeconfig), sort_keys=False)
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": _secret_name(worker), "namespace": names.DEFAULT_NAMESPACE},
        "type": "Opaque",
        "data": {"kubeconfig": base64.b64encode(text.encode()).decode()},
    }


def _priority_class(name: str, value: int) -> Object:
    return {
        "apiVersion": names.V1BETA2,
        "kind": "WorkloadPriorityClass",
        "metadata": {"name": name},
        "value": value,
    }


def _namespace(name: str, *, team: str | None = None) -> Object:
    labels = {TEAM_LABEL: team} if team else {}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def _kueue(kind: str, name: str, spec: Mapping[str, Any]) -> Object:
    return {
        "apiVersion": names.V1BETA2,
        "kind": kind,
        "metadata": {"name": name},
        "spec": dict(spec),
    }
