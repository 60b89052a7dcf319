"""TrainJob as a queued kind. Pure. Parity: J-417..J-446."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from multiqueue.api.v1beta2 import PodSet, ReclaimablePod
from multiqueue.jobs.framework.fields import get_field
from multiqueue.jobs.framework.integration import (
    Finished,
    InvalidJobError,
    Job,
    JobPatch,
    PodSetInfo,
)
from multiqueue.jobs.framework.template_kind import (
    RELATED,
    PodSetSource,
    TemplateKind,
    finished_by_condition,
    write_job,
)
from multiqueue.jobs.trainjob.rendering import render_replicated_jobs
from multiqueue.jobs.trainjob.runtime_patches import is_filled, with_empty_entry, with_infos
from multiqueue.kube.resources import Resource, resource_of

GROUP = "trainer.kubeflow.org"
RUNTIME = resource_of(f"{GROUP}/v1alpha1", "trainingruntimes", "TrainingRuntime")
CLUSTER_RUNTIME = resource_of(
    f"{GROUP}/v1alpha1", "clustertrainingruntimes", "ClusterTrainingRuntime", namespaced=False
)
_RUNTIMES = {each.kind: each for each in (RUNTIME, CLUSTER_RUNTIME)}


class TrainJob(TemplateKind):
    """The integration ``trainer.kubeflow.org/trainjob``.

    Its pods are those of its runtime. Admission changes neither: it adds an entry to the job's
    runtime patches, which the trainer takes only while none of its jobs is active.
    """

    own_controller = f"{GROUP}/trainjob-controller"
    related = (RUNTIME, CLUSTER_RUNTIME)

    def with_related(self, job: Job, find: Callable[[Resource, str, str], Job | None]) -> Job:
        """Return the job with its runtime; without it if that is unknown."""
        reference = _runtime_reference(job)
        resource = _RUNTIMES.get(reference["kind"])
        if resource is None or reference["apiGroup"] != GROUP:
            return job
        namespace = job["metadata"]["namespace"] if resource is RUNTIME else ""
        runtime = find(resource, namespace, reference["name"])
        return job if runtime is None else {**job, RELATED: runtime}

    def has_leftovers(self, job: Job) -> bool:
        """Whether our entry has fields of an admission; it is emptied once no job is active."""
        return is_filled(job)

    def sources(self, job: Job) -> Sequence[PodSetSource]:
        """Return one pod set for each replicated job.

        Raises:
            InvalidJobError: the runtime is unknown.
        """
        path = (RELATED, "spec", "template", "spec", "replicatedJobs")
        return [
            PodSetSource(
                name=each["name"],
                template=(*path, position, "template", "spec", "template"),
                count=_replicas(each) * _nodes(each),
                pod_index_label="batch.kubernetes.io/job-completion-index",
                sub_group_index_label="jobset.sigs.k8s.io/job-index",
                sub_group_count=_replicas(each),
                shown=f"job[{each['name']}]",
            )
            for position, each in enumerate(self._replicated_jobs(job))
        ]

    def template_of(self, job: Job, source: PodSetSource) -> Mapping[str, Any]:
        """Return the template as the trainer will have it."""
        rendered = {each["name"]: each for each in self._replicated_jobs(job)}
        template: Mapping[str, Any] = rendered[source.name]["template"]["spec"]["template"]
        return template

    def _replicated_jobs(self, job: Job) -> Sequence[dict[str, Any]]:
        """Render the jobs; what an earlier admission added counts only while they run."""
        if RELATED not in job:
            raise InvalidJobError(_describe_missing(job))
        runs = not self.is_suspended(job)
        return render_replicated_jobs(job, job[RELATED], own_patch=runs)

    def start_patch(self, job: Job, infos: Sequence[PodSetInfo]) -> JobPatch:
        """Fill our entry, then unsuspend: before 2.3 the trainer takes no entry with that (J-429).

        Raises:
            InvalidJobError: the admission has another number of pod sets (J-119).
        """
        known = len(self.read_sources(job))
        if known != len(infos):
            raise InvalidJobError(
                f"invalid podset infos: expecting {known} podset, got {len(infos)}"
            )
        filled = with_infos(job, infos)
        if filled != job:
            return JobPatch(patch=write_job(job, filled).patch, completes=False)
        return write_job(job, self.set_suspended(job, value=False))

    def stop_patch(self, job: Job, pod_sets: Sequence[PodSet]) -> JobPatch | None:
        """Suspend, then empty our entry once no job is active (J-432)."""
        filled = is_filled(job)
        if not self.is_suspended(job):
            suspended = write_job(job, self.set_suspended(job, value=True))
            return JobPatch(patch=suspended.patch, completes=not filled)
        if not filled or self.is_active(job):
            return None
        return write_job(job, with_empty_entry(job))

    def finished(self, job: Job) -> Finished | None:
        """Return the end of the TrainJob by its conditions Complete and Failed."""
        return finished_by_condition(job, success="Complete", failure="Failed")

    def is_active(self, job: Job) -> bool:
        """Whether pods of a replicated job run."""
        return any((status.get("active") or 0) > 0 for status in _statuses(job))

    def pods_ready(self, job: Job) -> bool:
        """Whether as many replicas are ready or have succeeded as there are."""
        try:
            wanted = sum(map(_replicas, self._replicated_jobs(job)))
        except InvalidJobError:
            return False
        counts = (
            (each.get("ready") or 0) + (each.get("succeeded") or 0) for each in _statuses(job)
        )
        return wanted == sum(counts)

    def reclaimable_pods(self, job: Job) -> tuple[ReclaimablePod, ...]:
        """Return the pods of the replicas that succeeded (J-438)."""
        succeeded = {each["name"]: each.get("succeeded") or 0 for each in _statuses(job)}
        if not any(succeeded.values()) or RELATED not in job:
            return ()
        return tuple(
            ReclaimablePod(name=each["name"], count=done * _nodes(each))
            for each in self._replicated_jobs(job)
            if 0 < (done := succeeded.get(each["name"], 0)) <= _replicas(each)
        )


def _runtime_reference(job: Job) -> dict[str, str]:
    reference = get_field(job, ("spec", "runtimeRef")) or {}
    return {
        "apiGroup": reference.get("apiGroup") or GROUP,
        "kind": reference.get("kind") or CLUSTER_RUNTIME.kind,
        "name": reference.get("name") or "",
    }


def _describe_missing(job: Job) -> str:
    reference = _runtime_reference(job)
    kind, group, name = reference["kind"], reference["apiGroup"], reference["name"]
    if kind not in _RUNTIMES or group != GROUP:
        known = " or ".join(_RUNTIMES)
        return f"unsupported runtime: {kind}.{group}; name a {known} in spec.runtimeRef"
    return f"runtime '{name}' not found; create the {kind}, or correct spec.runtimeRef"


def _statuses(job: Job) -> Sequence[Mapping[str, Any]]:
    return get_field(job, ("status", "jobsStatus")) or ()


def _replicas(replicated: Mapping[str, Any]) -> int:
    value = replicated.get("replicas")
    return 1 if value is None else int(value)


def _nodes(replicated: Mapping[str, Any]) -> int:
    return int(replicated["template"]["spec"]["parallelism"])
