"""RayCluster, RayJob and RayService as queued kinds. Pure. Parity: J-336..J-373."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from multiqueue.api.v1beta2 import PodSet
from multiqueue.jobs.framework.fields import FieldPath, drop_field, get_field, set_field
from multiqueue.jobs.framework.integration import Finished, Job, PodSetInfo
from multiqueue.jobs.framework.template_kind import PodSetSource, find_condition
from multiqueue.jobs.ray.cluster import (
    RayKind,
    RayOwnerKind,
    has_fault_tolerance,
    is_marked_elastic,
)

SUBMITTER = "submitter"
SUBMITTER_TEMPLATE: FieldPath = ("spec", "submitterPodTemplate")
SUBMITTER_RESOURCES = {
    "requests": {"cpu": "500m", "memory": "200Mi"},
    "limits": {"cpu": "1", "memory": "1Gi"},
}
"""What KubeRay gives the container that submits, if the spec does not say."""
READY = "ready"


class RayCluster(RayKind):
    """The integration ``ray.io/raycluster``."""

    pod_labels = "ray.io/cluster={name}"

    def finished(self, job: Job) -> Finished | None:
        """Return None: a cluster runs until it is deleted."""
        return None

    def is_active(self, job: Job) -> bool:
        """Whether the cluster is ready (J-337)."""
        return bool(get_field(job, ("status", "state")) == READY)

    def pods_ready(self, job: Job) -> bool:
        """Whether the cluster is ready."""
        return self.is_active(job)


class RayJob(RayOwnerKind):
    """The integration ``ray.io/rayjob``: a cluster, and a pod that submits the job to it."""

    cluster_field = ("spec", "rayClusterSpec")
    child_field = ("status", "rayClusterName")

    def is_elastic(self, job: Job) -> bool:
        """Whether the job has the annotation; its RayCluster has the gates (J-361)."""
        return is_marked_elastic(job)

    def is_skipped(self, job: Job) -> bool:
        """Whether the job runs on a cluster that is there already (J-347)."""
        return bool(get_field(job, ("spec", "clusterSelector")))

    def on_hold(self, job: Job) -> bool:
        """Whether KubeRay refuses the job (J-357)."""
        return _deployment_status(job) == "ValidationFailed"

    def sources(self, job: Job) -> Sequence[PodSetSource]:
        """Return head, workers, and the pod that submits the job (J-349)."""
        pod_sets = super().sources(job)
        if not has_submitter(job):
            return pod_sets
        return [*pod_sets, PodSetSource(name=SUBMITTER, template=SUBMITTER_TEMPLATE, count=1)]

    def template_of(self, job: Job, source: PodSetSource) -> Mapping[str, Any]:
        """Return a pod template; KubeRay's own if the user gave none for the submitter."""
        if source.template == SUBMITTER_TEMPLATE:
            job = self._with_submitter(job)
        return super().template_of(job, source)

    def head_extras(self, job: Job) -> Sequence[Mapping[str, Any]]:
        """Return the containers that KubeRay adds to the head; one submits in SidecarMode."""
        extras = super().head_extras(job)
        is_sidecar = get_field(job, ("spec", "submissionMode")) == "SidecarMode"
        return [*extras, self._submitter(job)] if is_sidecar else extras

    def started(self, job: Job, infos: Sequence[PodSetInfo]) -> Job:
        """Return the started job, with a template for the submitter (J-351)."""
        return super().started(self._with_submitter(job) if has_submitter(job) else job, infos)

    def restored(self, job: Job, pod_sets: Sequence[PodSet]) -> Job:
        """Return the job with its own templates.

        Deviates: a template for the submitter that a start added is removed again; with upstream
        it stays (J-351).
        """
        job = super().restored(job, pod_sets)
        template = get_field(job, SUBMITTER_TEMPLATE)
        is_default = template == self._default_template(job)
        restored: Job = drop_field(job, SUBMITTER_TEMPLATE) if is_default else job
        return restored

    def finished(self, job: Job) -> Finished | None:
        """Return the end of the job: Complete or Failed."""
        if _deployment_status(job) not in {"Complete", "Failed"}:
            return None
        success = get_field(job, ("status", "jobStatus")) == "SUCCEEDED"
        message = str(get_field(job, ("status", "message")) or "")
        return Finished(success=success, message=message)

    def is_active(self, job: Job) -> bool:
        """Whether KubeRay runs something for the job (J-354)."""
        return _deployment_status(job) not in {"", "Suspended"}

    def pods_ready(self, job: Job) -> bool:
        """Whether the cluster is ready; the submitter does not count."""
        return bool(get_field(job, ("status", "rayClusterStatus", "state")) == READY)

    def time_to_live(self, job: Job) -> int | None:
        """Return None: the field, which is 0 by default, is about the cluster of an ended job."""
        return None

    def _with_submitter(self, job: Job) -> Job:
        if get_field(job, SUBMITTER_TEMPLATE) is not None:
            return job
        added: Job = set_field(job, SUBMITTER_TEMPLATE, self._default_template(job))
        return added

    def _default_template(self, job: Job) -> Mapping[str, Any]:
        return {"spec": {"containers": [self._submitter(job)], "restartPolicy": "Never"}}

    def _submitter(self, job: Job) -> Mapping[str, Any]:
        head = (*self.cluster_field, "headGroupSpec", "template", "spec", "containers", 0)
        container = get_field(job, head) or {}
        image = {"image": container["image"]} if "image" in container else {}
        return {"name": "ray-job-submitter", **image, "resources": SUBMITTER_RESOURCES}


class RayService(RayOwnerKind):
    """The integration ``ray.io/rayservice``.

    While KubeRay upgrades a service without downtime, it runs a second cluster, for which no quota
    is held. Turn that off with ``upgradeStrategy.type: None`` (J-369).
    """

    suspend_field = ("spec", "rayClusterConfig", "suspend")
    cluster_field = ("spec", "rayClusterConfig")
    child_field = ("status", "activeServiceStatus", "rayClusterName")

    def finished(self, job: Job) -> Finished | None:
        """Return None: a service runs until it is deleted."""
        return None

    def is_active(self, job: Job) -> bool:
        """Whether the service is ready (J-366)."""
        return find_condition(job, "Ready") is not None

    def pods_ready(self, job: Job) -> bool:
        """Whether the service is ready."""
        return self.is_active(job)

    def is_skipped(self, job: Job) -> bool:
        """Whether a Job still empties Redis for a deleted service: it keeps its quota (J-368)."""
        spec = get_field(job, self.cluster_field) or {}
        is_going = bool(job["metadata"].get("deletionTimestamp"))
        return is_going and has_fault_tolerance(job, spec)


def has_submitter(job: Job) -> bool:
    """Whether a pod of its own submits the job."""
    return get_field(job, ("spec", "submissionMode")) in {None, "", "K8sJobMode"}


def _deployment_status(job: Job) -> str:
    return str(get_field(job, ("status", "jobDeploymentStatus")) or "")
