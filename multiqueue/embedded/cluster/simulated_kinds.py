"""The job kinds that this cluster simulates: an example of each, and its statuses. Pure.

A row says how the kind's own controller writes its status; everything else follows from the kind's
integration. Statuses have the fields that the integration reads, and a few that people look at.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

Json = dict[str, Any]
MOMENT = "2026-01-01T00:00:00Z"


class JobPhase(StrEnum):
    """What a job's own controller makes of it."""

    SUSPENDED = "Suspended"
    RUNNING = "Running"
    READY = "Ready"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedKind:
    """How one kind is simulated.

    Attributes:
        framework: The kind's name in ``integrations.frameworks``; empty for CronJobs.
        spec: Returns the spec of a small example: two pod sets where the kind has several, each
            with one pod that requests one CPU.
        status: Returns the status in a phase, for a job with this spec.
        ends: Whether a job of the kind ends by itself.
        objects: Returns the manifests of other objects that the example refers to.
        children: Returns the manifests of what the kind's controller makes of an object; None if
            its pods are those that its integration counts.
        template: Where the example has its pod template; needed with ``children``.
    """

    framework: str
    spec: Callable[[], Json]
    status: Callable[[Mapping[str, Any], JobPhase], Json]
    ends: bool = True
    objects: Callable[[], Sequence[Json]] = tuple
    children: Callable[[Json], Sequence[Json]] | None = None
    template: Sequence[str] = ()


def pod_template(**more: Any) -> Json:
    """Return a pod template of one container that requests one CPU."""
    container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "1"}}}
    return {"spec": {"containers": [container], "restartPolicy": "Never", **more}}


def condition(type_: str, *, status: bool = True) -> Json:
    """Return a condition."""
    return {
        "type": type_,
        "status": str(status),
        "reason": type_,
        "message": f"simulated: {type_}",
        "lastTransitionTime": MOMENT,
    }


def _jobset_spec() -> Json:
    def group(name: str) -> Json:
        job = {"parallelism": 1, "completions": 1, "template": pod_template()}
        return {"name": name, "replicas": 1, "template": {"spec": job}}

    return {"replicatedJobs": [group("leader"), group("workers")]}


def _jobset_status(spec: Mapping[str, Any], phase: JobPhase) -> Json:
    def count(each: Mapping[str, Any], *phases: JobPhase) -> int:
        return int(each.get("replicas", 1)) if phase in phases else 0

    ends = {JobPhase.SUCCEEDED: "Completed", JobPhase.FAILED: "Failed"}
    return {
        "replicatedJobsStatus": [
            {
                "name": each["name"],
                "active": count(each, JobPhase.RUNNING, JobPhase.READY),
                "ready": count(each, JobPhase.READY),
                "succeeded": count(each, JobPhase.SUCCEEDED),
                "failed": count(each, JobPhase.FAILED),
                "suspended": count(each, JobPhase.SUSPENDED),
            }
            for each in spec["replicatedJobs"]
        ],
        "conditions": [condition(ends[phase])] if phase in ends else [],
    }


def _replica_specs(field: str, *types: str) -> Callable[[], Json]:
    def spec() -> Json:
        each = {"replicas": 1, "restartPolicy": "Never", "template": pod_template()}
        return {field: {type_: dict(each) for type_ in types}}

    return spec


def _replica_statuses(field: str) -> Callable[[Mapping[str, Any], JobPhase], Json]:
    """Return the statuses of the training operator and of the MPI operator."""
    conditions: Mapping[JobPhase, tuple[Json, ...]] = {
        JobPhase.SUSPENDED: (condition("Suspended"), condition("Running", status=False)),
        JobPhase.RUNNING: (condition("Created"),),
        JobPhase.READY: (condition("Running"),),
        JobPhase.SUCCEEDED: (condition("Running", status=False), condition("Succeeded")),
        JobPhase.FAILED: (condition("Running", status=False), condition("Failed")),
    }
    counts = {
        "active": {JobPhase.RUNNING, JobPhase.READY},
        "succeeded": {JobPhase.SUCCEEDED},
        "failed": {JobPhase.FAILED},
    }

    def status(spec: Mapping[str, Any], phase: JobPhase) -> Json:
        replicas = {
            type_: {
                name: each.get("replicas", 1) if phase in phases else 0
                for name, phases in counts.items()
            }
            for type_, each in spec[field].items()
        }
        return {"conditions": list(conditions[phase]), "replicaStatuses": replicas}

    return status


def _replicated(framework: str, field: str, *types: str) -> SimulatedKind:
    return SimulatedKind(
        framework=framework, spec=_replica_specs(field, *types), status=_replica_statuses(field)
    )


def _ray_cluster_spec() -> Json:
    def node(**more: Any) -> Json:
        return {"rayStartParams": {}, "template": pod_template(), **more}

    workers = node(groupName="workers", replicas=1, minReplicas=0, maxReplicas=10)
    return {"headGroupSpec": node(), "workerGroupSpecs": [workers]}


def _ray_cluster_status(spec: Mapping[str, Any], phase: JobPhase) -> Json:
    _ = spec
    states = {JobPhase.RUNNING: "", JobPhase.READY: "ready", JobPhase.FAILED: "failed"}
    return {"state": states.get(phase, "suspended")}


def _ray_job_spec() -> Json:
    return {
        "entrypoint": "python job.py",
        "shutdownAfterJobFinishes": True,
        "submissionMode": "K8sJobMode",
        "submitterPodTemplate": pod_template(),
        "rayClusterSpec": _ray_cluster_spec(),
    }


def _ray_job_status(spec: Mapping[str, Any], phase: JobPhase) -> Json:
    deployment, job = {
        JobPhase.SUSPENDED: ("Suspended", ""),
        JobPhase.RUNNING: ("Initializing", ""),
        JobPhase.READY: ("Running", "RUNNING"),
        JobPhase.SUCCEEDED: ("Complete", "SUCCEEDED"),
        JobPhase.FAILED: ("Failed", "FAILED"),
    }[phase]
    return {
        "jobDeploymentStatus": deployment,
        "jobStatus": job,
        "message": f"simulated: {deployment}",
        "rayClusterStatus": _ray_cluster_status(spec, phase),
    }


def _ray_service_status(spec: Mapping[str, Any], phase: JobPhase) -> Json:
    _ = spec
    return {"conditions": [condition("Ready", status=phase is JobPhase.READY)]}


def _appwrapper_spec() -> Json:
    def component(name: str) -> Json:
        job = {"parallelism": 1, "completions": 1, "template": pod_template()}
        inner = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": job}
        return {"podSets": [{"path": "template.spec.template"}], "template": inner}

    return {"components": [component("leader"), component("workers")]}


def _appwrapper_status(spec: Mapping[str, Any], phase: JobPhase) -> Json:
    del spec
    runs = phase in {JobPhase.RUNNING, JobPhase.READY}
    return {
        "phase": "Running" if runs else str(phase),
        "conditions": [
            condition("QuotaReserved", status=runs),
            condition("ResourcesDeployed", status=runs or phase is JobPhase.SUCCEEDED),
            condition("PodsReady", status=phase is JobPhase.READY),
        ],
    }


def _spark_spec() -> Json:
    role = {"coreRequest": "1"}
    return {
        "type": "Scala",
        "mode": "cluster",
        "sparkVersion": "4.0.0",
        "image": "spark",
        "mainApplicationFile": "local:///app.jar",
        "driver": role,
        "executor": {**role, "instances": 1},
    }


def _spark_status(spec: Mapping[str, Any], phase: JobPhase) -> Json:
    states = {
        JobPhase.SUSPENDED: ("SUSPENDED", "PENDING"),
        JobPhase.RUNNING: ("RUNNING", "PENDING"),
        JobPhase.READY: ("RUNNING", "RUNNING"),
        JobPhase.SUCCEEDED: ("COMPLETED", "COMPLETED"),
        JobPhase.FAILED: ("FAILED", "FAILED"),
    }
    state, executor = states[phase]
    message = "simulated: the driver failed" if phase is JobPhase.FAILED else ""
    executors = range(spec["executor"].get("instances", 0))
    return {
        "applicationState": {"state": state, "errorMessage": message},
        "executorState": {f"exec-{number}": executor for number in executors},
    }


_TRAIN_STEPS = ("dataset-initializer", "trainer")


def _trainjob_spec() -> Json:
    # The second field is what the webhook adds.
    patch = {
        "manager": "kueue.x-k8s.io/manager",
        "trainingRuntimeSpec": {"template": {"spec": {}}},
    }
    return {"runtimeRef": {"name": "torch-distributed"}, "runtimePatches": [patch]}


def _training_runtime() -> Sequence[Json]:
    def job(step: str) -> Json:
        labels = {"trainer.kubeflow.org/trainjob-ancestor-step": step}
        template = {"metadata": {"labels": labels}, "spec": {"template": pod_template()}}
        return {"name": step, "replicas": 1, "template": template}

    runtime = {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "ClusterTrainingRuntime",
        "metadata": {"name": "torch-distributed"},
        "spec": {
            "mlPolicy": {"numNodes": 1, "torch": {}},
            "template": {"spec": {"replicatedJobs": [job(step) for step in _TRAIN_STEPS]}},
        },
    }
    return (runtime,)


def _trainjob_status(spec: Mapping[str, Any], phase: JobPhase) -> Json:
    del spec
    ends = {JobPhase.SUCCEEDED: "Complete", JobPhase.FAILED: "Failed"}
    counts = {
        "active": phase in {JobPhase.RUNNING, JobPhase.READY},
        "ready": phase is JobPhase.READY,
        "succeeded": phase is JobPhase.SUCCEEDED,
        "failed": phase is JobPhase.FAILED,
        "suspended": phase is JobPhase.SUSPENDED,
    }
    each = {name: int(value) for name, value in counts.items()}
    return {
        "jobsStatus": [{"name": step, **each} for step in _TRAIN_STEPS],
        "conditions": [condition(ends[phase])] if phase in ends else [],
    }


def _pod_spec() -> Json:
    spec: Json = pod_template()["spec"]
    return spec


def _pod_status(spec: Mapping[str, Any], phase: JobPhase) -> Json:
    _ = spec
    phases = {JobPhase.SUSPENDED: "Pending", JobPhase.READY: "Running"}
    ready = condition("Ready", status=phase is JobPhase.READY)
    return {"phase": phases.get(phase, phase.value), "conditions": [ready]}


def _child(name: str, template: Json, *, kind: str = "Pod", **labels: str) -> Json:
    """Return an object that a controller makes of a template."""
    metadata = dict(template.get("metadata") or {})
    metadata["labels"] = {**(metadata.get("labels") or {}), **labels}
    return {
        "apiVersion": "v1" if kind == "Pod" else "batch/v1",
        "kind": kind,
        "metadata": {**metadata, "name": name},
        "spec": template["spec"],
    }


_POD_TEMPLATE = ("spec", "template")


def _replicas_spec(**more: Any) -> Json:
    template = {**pod_template(restartPolicy="Always"), "metadata": {"labels": {"app": "demo"}}}
    selector = {"matchLabels": {"app": "demo"}}
    return {"replicas": 2, "selector": selector, "template": template, **more}


def _numbered_pods(job: Json) -> Sequence[Json]:
    """Return the pods of a Deployment or StatefulSet; the number is in the name."""
    name, spec = job["metadata"]["name"], job["spec"]
    return [
        _child(
            f"{name}-{number}", spec["template"], **{"apps.kubernetes.io/pod-index": str(number)}
        )
        for number in range(spec.get("replicas", 1))
    ]


def _replicas_status(spec: Mapping[str, Any], phase: JobPhase) -> Json:
    replicas = spec.get("replicas", 1)
    is_up = phase is not JobPhase.SUSPENDED
    counts = {
        "replicas": replicas if is_up else 0,
        "readyReplicas": replicas if phase is JobPhase.READY else 0,
    }
    return {name: count for name, count in counts.items() if count}


_LWS = "leaderworkerset.sigs.k8s.io"
_WORKER_TEMPLATE = ("spec", "leaderWorkerTemplate", "workerTemplate")


def _leader_worker_set_spec() -> Json:
    template = pod_template(restartPolicy="Always")
    return {"replicas": 2, "leaderWorkerTemplate": {"size": 2, "workerTemplate": template}}


def _group_pods(job: Json) -> Sequence[Json]:
    """Return the pods of all groups; the first pod of a group is its leader."""
    name, groups = job["metadata"]["name"], job["spec"]["leaderWorkerTemplate"]
    pods = []
    for group in range(job["spec"].get("replicas", 1)):
        leader = f"{name}-{group}"
        for number in range(groups["size"]):
            template = groups["workerTemplate"]
            if not number:
                template = groups.get("leaderTemplate") or template
            labels = {
                f"{_LWS}/name": name,
                f"{_LWS}/group-index": str(group),
                f"{_LWS}/worker-index": str(number),
            }
            pod = _child(f"{leader}-{number}" if number else leader, template, **labels)
            if number:
                annotations = pod["metadata"].get("annotations") or {}
                pod["metadata"]["annotations"] = {**annotations, f"{_LWS}/leader-name": leader}
            pods.append(pod)
    return pods


def _job_spec() -> Json:
    return {"parallelism": 1, "completions": 1, "template": pod_template()}


def _cron_job_spec() -> Json:
    return {"schedule": "* * * * *", "jobTemplate": {"spec": _job_spec()}}


def _first_job(job: Json) -> Sequence[Json]:
    """Return one Job; the schedule is not looked at."""
    name, template = job["metadata"]["name"], job["spec"]["jobTemplate"]
    return [_child(f"{name}-1", template, kind="Job")]


def _no_status(spec: Mapping[str, Any], phase: JobPhase) -> Json:
    """Return nothing: another controller writes the status, or nobody reads it."""
    _ = spec, phase
    return {}


SIMULATED_KINDS = (
    SimulatedKind(framework="batch/job", spec=_job_spec, status=_no_status),
    SimulatedKind(
        framework="",
        spec=_cron_job_spec,
        status=_no_status,
        children=_first_job,
        template=("spec", "jobTemplate", "spec", "template"),
    ),
    SimulatedKind(framework="pod", spec=_pod_spec, status=_pod_status),
    SimulatedKind(
        framework="deployment",
        spec=_replicas_spec,
        status=_replicas_status,
        ends=False,
        children=_numbered_pods,
        template=_POD_TEMPLATE,
    ),
    SimulatedKind(
        framework="statefulset",
        spec=lambda: _replicas_spec(serviceName="demo"),
        status=_replicas_status,
        ends=False,
        children=_numbered_pods,
        template=_POD_TEMPLATE,
    ),
    SimulatedKind(
        framework="leaderworkerset.x-k8s.io/leaderworkerset",
        spec=_leader_worker_set_spec,
        status=_replicas_status,
        ends=False,
        children=_group_pods,
        template=_WORKER_TEMPLATE,
    ),
    SimulatedKind(framework="jobset.x-k8s.io/jobset", spec=_jobset_spec, status=_jobset_status),
    _replicated("kubeflow.org/jaxjob", "jaxReplicaSpecs", "Worker"),
    _replicated("kubeflow.org/mpijob", "mpiReplicaSpecs", "Launcher", "Worker"),
    _replicated("kubeflow.org/paddlejob", "paddleReplicaSpecs", "Master", "Worker"),
    _replicated("kubeflow.org/pytorchjob", "pytorchReplicaSpecs", "Master", "Worker"),
    _replicated("kubeflow.org/tfjob", "tfReplicaSpecs", "Chief", "PS", "Worker"),
    _replicated("kubeflow.org/xgboostjob", "xgbReplicaSpecs", "Master", "Worker"),
    SimulatedKind(
        framework="ray.io/raycluster",
        spec=_ray_cluster_spec,
        status=_ray_cluster_status,
        ends=False,
    ),
    SimulatedKind(framework="ray.io/rayjob", spec=_ray_job_spec, status=_ray_job_status),
    SimulatedKind(
        framework="ray.io/rayservice",
        spec=lambda: {"rayClusterConfig": _ray_cluster_spec()},
        status=_ray_service_status,
        ends=False,
    ),
    SimulatedKind(
        framework="sparkoperator.k8s.io/sparkapplication", spec=_spark_spec, status=_spark_status
    ),
    SimulatedKind(
        framework="trainer.kubeflow.org/trainjob",
        spec=_trainjob_spec,
        status=_trainjob_status,
        objects=_training_runtime,
    ),
    SimulatedKind(
        framework="workload.codeflare.dev/appwrapper",
        spec=_appwrapper_spec,
        status=_appwrapper_status,
    ),
)
