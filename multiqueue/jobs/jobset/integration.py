"""JobSet as a queued kind. Pure. Parity: J-194..J-207.

Deviates: a replicated job with ``replicas: 0`` keeps them. Upstream writes the whole object at the
start, without fields that are zero, and the API server makes one replica of that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from multiqueue.api.v1beta2 import ReclaimablePod
from multiqueue.jobs.framework.fields import get_field
from multiqueue.jobs.framework.integration import Finished, Job
from multiqueue.jobs.framework.template_kind import (
    PodSetSource,
    TemplateKind,
    finished_by_condition,
)

INDEX_LABEL = "batch.kubernetes.io/job-completion-index"
JOB_INDEX_LABEL = "jobset.sigs.k8s.io/job-index"


class JobSet(TemplateKind):
    """The integration ``jobset.x-k8s.io/jobset``: one pod set for each replicated job."""

    own_controller = "jobset.sigs.k8s.io/jobset-controller"
    pod_labels = "jobset.sigs.k8s.io/jobset-name={name}"

    def sources(self, job: Job) -> Sequence[PodSetSource]:
        """Return one pod set for each replicated job: its replicas times the pods of each."""
        replicated = get_field(job, ("spec", "replicatedJobs")) or ()
        return [
            PodSetSource(
                name=each["name"],
                template=("spec", "replicatedJobs", position, "template", "spec", "template"),
                count=_replicas(each) * pods_of_a_replica(each),
                pod_index_label=INDEX_LABEL,
                sub_group_index_label=JOB_INDEX_LABEL,
                sub_group_count=_replicas(each),
            )
            for position, each in enumerate(replicated)
        ]

    def finished(self, job: Job) -> Finished | None:
        """Return the end of the JobSet by its conditions Completed and Failed."""
        return finished_by_condition(job, success="Completed", failure="Failed")

    def is_active(self, job: Job) -> bool:
        """Whether pods of a replicated job run."""
        return any(status.get("active") for status in _statuses(job))

    def pods_ready(self, job: Job) -> bool:
        """Whether as many replicas are ready or have succeeded as there are."""
        replicated = get_field(job, ("spec", "replicatedJobs")) or ()
        ready = (status.get("ready", 0) + status.get("succeeded", 0) for status in _statuses(job))
        return sum(map(_replicas, replicated)) == int(sum(ready))

    def reclaimable_pods(self, job: Job) -> tuple[ReclaimablePod, ...]:
        """Return the pods of the replicas that succeeded (J-201)."""
        replicated = get_field(job, ("spec", "replicatedJobs")) or ()
        succeeded = {status["name"]: status.get("succeeded", 0) for status in _statuses(job)}
        return tuple(
            ReclaimablePod(name=each["name"], count=done * pods_of_a_replica(each))
            for each in replicated
            if 0 < (done := succeeded.get(each["name"], 0)) <= _replicas(each)
        )


def pods_of_a_replica(replicated: Mapping[str, Any]) -> int:
    """Return how many pods one Job of a replicated job runs at a time."""
    spec = get_field(replicated, ("template", "spec")) or {}
    parallelism = _number(spec.get("parallelism"), 1)
    return min(parallelism, _number(spec.get("completions"), parallelism))


def _replicas(replicated: Mapping[str, Any]) -> int:
    return _number(replicated.get("replicas"), 1)


def _number(value: Any, default: int) -> int:
    return default if value is None else int(value)


def _statuses(job: Job) -> Sequence[Mapping[str, Any]]:
    return get_field(job, ("status", "replicatedJobsStatus")) or ()
