"""The base of kinds whose pods are queued, one by one or in groups. Pure.

An object of such a kind has no suspend field. Its pods wait at their gates, and the rules of pods
start and stop them.
"""

from __future__ import annotations

from collections.abc import Sequence

from multiqueue.api.job_kinds import KnownKind
from multiqueue.api.v1beta2 import PodSet
from multiqueue.jobs.framework.fields import FieldPath, get_field
from multiqueue.jobs.framework.gvk import GroupVersionKind
from multiqueue.jobs.framework.integration import (
    Finished,
    IntegrationDefaults,
    Job,
    JobPatch,
    PodSetInfo,
)
from multiqueue.kube.resources import Resource, resource_of


class PodOwnerKind(IntegrationDefaults):
    """A kind that is queued through its pods.

    Args:
        row: The row of the kind.
        templates: The fields that may hold a pod template.
    """

    def __init__(self, row: KnownKind, *templates: FieldPath) -> None:
        self.name = row.framework
        self.resource: Resource = resource_of(row.api_version, row.plural, row.kind)
        self.gvk = GroupVersionKind(row.group, row.version, row.kind)
        self.templates = templates

    def present_templates(self, job: Job) -> tuple[FieldPath, ...]:
        """Return the fields that hold a pod template in this object."""
        return tuple(p for p in self.templates if isinstance(get_field(job, p), dict))

    def is_suspended(self, job: Job) -> bool:
        """Whether no pod is ready; rules about changes mean this by "suspended" (J-69)."""
        ready = get_field(job, ("status", "readyReplicas"))
        return not (isinstance(ready, int) and ready > 0)

    def pod_sets(self, job: Job) -> tuple[PodSet, ...]:
        """Return nothing: the object has no Workload of its own."""
        return ()

    def template_path(self, job: Job, position: int) -> str:
        """Return where a pod template is."""
        return ".".join(map(str, self.present_templates(job)[position]))

    def finished(self, job: Job) -> Finished | None:
        """Return None: such an object serves until it is deleted."""
        return None

    def is_active(self, job: Job) -> bool:
        """Return False: the rules of pods hold the quota while pods run."""
        return False

    def pods_ready(self, job: Job) -> bool:
        """Whether a pod is ready; the rules of pods decide about the Workload."""
        return not self.is_suspended(job)

    def start_patch(self, job: Job, infos: Sequence[PodSetInfo]) -> JobPatch:
        """Change nothing: the pods are started."""
        return JobPatch(patch={})

    def stop_patch(self, job: Job, pod_sets: Sequence[PodSet]) -> JobPatch | None:
        """Change nothing: the pods are stopped."""
        return None

    def priority_class(self, job: Job) -> str:
        """Return the PriorityClass of the first template that names one."""
        paths = ((*path, "spec", "priorityClassName") for path in self.templates)
        return next((str(name) for path in paths if (name := get_field(job, path))), "")

    def pod_selector(self, job: Job) -> str:
        """Return nothing: the pods' own Workloads are asked."""
        return ""

    def managed_by(self, job: Job) -> str:
        """Return nothing: these kinds have no field for another controller."""
        return ""
