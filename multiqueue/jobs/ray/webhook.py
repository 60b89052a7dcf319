"""The defaults and rules of RayClusters, RayJobs and RayServices. Pure.

Parity: J-326..J-342, J-358..J-361, J-371.
Deviates: names of pod sets that only differ in case, a head without containers, and too many pod
sets with the submitter are refused; upstream accepts such a job, which then never gets a Workload
(J-329, J-353, J-360). Errors in a RayService name its field ``spec.rayClusterConfig`` (J-365).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from multiqueue.api import names
from multiqueue.api.config import Configuration
from multiqueue.api.config.gates import Gate
from multiqueue.api.validation.access import Object
from multiqueue.api.validation.field_error import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    required,
    too_many,
)
from multiqueue.jobs.framework.ancestors import controller_of
from multiqueue.jobs.framework.compose import MAX_POD_SETS
from multiqueue.jobs.framework.defaulting import JobDefaults, QueueLookup
from multiqueue.jobs.framework.fields import describe_path, get_field
from multiqueue.jobs.framework.integration import Job
from multiqueue.jobs.framework.kind_webhook import TemplateKindWebhook
from multiqueue.jobs.ray.cluster import HEAD, RayKind, groups_of, is_gated, is_marked_elastic
from multiqueue.jobs.ray.integration import SUBMITTER, has_submitter

CLUSTER_SCALING = (
    "a kueue-managed RayCluster can use autoscaling only as an elastic job: enable the "
    "ElasticJobsViaWorkloadSlices feature gate and set the "
    f'"{names.ELASTIC_JOB}": "true" annotation'
)
JOB_SCALING = "a kueue managed job should only use autoscaling when workload slicing is enabled"


class RayWebhook(TemplateKindWebhook):
    """What the webhooks of the three kinds share."""

    kind: RayKind
    scaling_refusal = JOB_SCALING
    """What is wrong with a cluster that scales itself, but is not elastic."""

    def __init__(self, kind: RayKind) -> None:
        super().__init__(kind, elastic=True)

    def validate_more(self, job: Job, config: Configuration) -> Iterator[FieldError]:
        """Yield the errors in the spec of the cluster."""
        path, spec = describe_path(self.kind.cluster_field), get_field(job, self.kind.cluster_field)
        if spec is None:
            return
        groups = f"{path}.workerGroupSpecs"
        pod_sets = 1 + len(groups_of(spec)) + len(self.other_pod_sets(job))
        if pod_sets > MAX_POD_SETS:
            yield too_many(groups, pod_sets, MAX_POD_SETS)
        taken = set(self.other_pod_sets(job))
        for position, group in enumerate(groups_of(spec)):
            name, field = str(group.get("groupName")), f"{groups}[{position}].groupName"
            if name.lower() == HEAD:
                yield forbidden(field, f'"{name}" is reserved for the head group')
            elif name.lower() in taken:
                yield duplicate(field, name)
            taken.add(name.lower())
        if not get_field(spec, ("headGroupSpec", "template", "spec", "containers")):
            yield required(f"{path}.headGroupSpec.template.spec.containers", "add a container")
        if spec.get("enableInTreeAutoscaling") is True and not _is_elastic(job, config):
            yield invalid(
                f"{path}.enableInTreeAutoscaling", value=True, detail=self.scaling_refusal
            )

    def other_pod_sets(self, job: Job) -> tuple[str, ...]:
        """Return the names of the pod sets beside head and workers."""
        return ()


class RayClusterWebhook(RayWebhook):
    """The webhook of ``ray.io/raycluster``."""

    scaling_refusal = CLUSTER_SCALING

    def default(self, job: Object, lookup: QueueLookup, config: Configuration) -> JobDefaults:
        """Set the defaults; gate also the pods of an elastic job's cluster (J-361).

        KubeRay gives that cluster the annotations of its RayJob, which has no gates itself.
        """
        defaults = super().default(job, lookup, config)
        is_child = controller_of(job) is not None and lookup.has_ancestor(job)
        if not is_child or not _is_elastic(defaults.job, config):
            return defaults
        return replace(defaults, job=self.kind.gated(defaults.job))

    def default_more(self, job: Job, config: Configuration) -> Job:
        """Gate the pods of an elastic cluster."""
        return self.kind.gated(job) if _is_elastic(job, config) else job

    def validate_more(self, job: Job, config: Configuration) -> Iterator[FieldError]:
        """Yield also the errors of an elastic cluster (J-340, J-342)."""
        yield from super().validate_more(job, config)
        if not _is_elastic(job, config):
            return
        for path, template in self.kind.read_templates(job):
            if not is_gated(template):
                yield invalid(
                    f"{describe_path(path)}.spec.schedulingGates",
                    get_field(template, ("spec", "schedulingGates")) or [],
                    f"an elastic job must have the ElasticJobSchedulingGate {names.ELASTIC_GATE}",
                )
        spec = job["spec"]
        is_delegated = spec.get("managedBy") == names.MULTIKUEUE_CONTROLLER
        if is_delegated and spec.get("enableInTreeAutoscaling") is True:
            yield forbidden(
                "spec.enableInTreeAutoscaling",
                "in-tree autoscaling is not supported for a MultiKueue-managed elastic RayCluster",
            )


class RayServiceWebhook(RayWebhook):
    """The webhook of ``ray.io/rayservice``."""

    def default_more(self, job: Job, config: Configuration) -> Job:
        """Gate the pods of an elastic service."""
        return self.kind.gated(job) if _is_elastic(job, config) else job


class RayJobWebhook(RayWebhook):
    """The webhook of ``ray.io/rayjob``."""

    def validate_more(self, job: Job, config: Configuration) -> Iterator[FieldError]:
        """Yield the errors of a job without a cluster of its own, or of its cluster (J-358)."""
        spec = job.get("spec") or {}
        if spec.get("rayClusterSpec") is None:
            if not self.kind.is_skipped(job):
                yield required(
                    "spec.rayClusterSpec",
                    "rayClusterSpec is required for Kueue-managed jobs that don't use "
                    "clusterSelector",
                )
            return
        if self.kind.is_skipped(job):
            detail = "a kueue managed job should not use an existing cluster"
            yield invalid("spec.clusterSelector", spec["clusterSelector"], detail)
            return
        if spec.get("shutdownAfterJobFinishes") is not True:
            detail = "a kueue managed job should delete the cluster after finishing"
            yield invalid("spec.shutdownAfterJobFinishes", value=False, detail=detail)
        yield from super().validate_more(job, config)

    def other_pod_sets(self, job: Job) -> tuple[str, ...]:
        """Return the pod set of the pod that submits the job, if there is one."""
        return (SUBMITTER,) if has_submitter(job) else ()


def _is_elastic(job: Job, config: Configuration) -> bool:
    return is_marked_elastic(job) and config.gates.enabled(Gate.ELASTIC_JOBS_VIA_WORKLOAD_SLICES)
