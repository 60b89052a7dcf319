"""The base of kinds that hold pod templates and a suspend field in their spec. Pure.

A kind says where its templates are and what its status means; this class does the rest: it builds
the pod sets, adds the admission's fields to the templates at the start, and restores the templates
at a stop. Each of those is one write (J-114, J-124).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from multiqueue.api.job_kinds import KnownKind
from multiqueue.api.names import MULTIKUEUE_CONTROLLER
from multiqueue.api.v1beta2 import PodSet
from multiqueue.jobs.framework.fields import FieldPath, describe_path, get_field, set_field
from multiqueue.jobs.framework.gvk import GroupVersionKind
from multiqueue.jobs.framework.integration import (
    Finished,
    IntegrationDefaults,
    InvalidJobError,
    Job,
    JobPatch,
    PodSetInfo,
)
from multiqueue.jobs.framework.pod_set_info import apply_info, restore_template
from multiqueue.jobs.framework.topology_request import build_topology_request
from multiqueue.jobs.workload_wire import diff
from multiqueue.kube.resources import Resource, resource_of

RELATED = "related"
"""Key under which an observed job holds other objects that its kind reads; never written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSetSource:
    """One pod set of a job, and where its pod template is.

    Attributes:
        name: The name of the pod set; it is written in lower case.
        template: The path of the pod template in the job.
        count: How many pods run.
        pod_index_label: The label with a pod's rank (J-81).
        sub_group_index_label: The label with the number of a pod's group (J-195).
        sub_group_count: How many such groups there are.
        shown: How error messages write the path of the template, if the kind has a way of its own.
    """

    name: str
    template: FieldPath
    count: int
    pod_index_label: str | None = None
    sub_group_index_label: str | None = None
    sub_group_count: int | None = None
    shown: str = ""

    @property
    def path(self) -> str:
        """The path of the pod template, as error messages write it."""
        return self.shown or describe_path(self.template)


class TemplateKind(IntegrationDefaults, ABC):
    """A kind with pod templates and a suspend field; subclasses give the rest.

    Attributes:
        suspend_field: The path of the field that suspends the job.
        managed_by_field: The path of the field that names the job's controller; None if the kind
            has no such field.
        own_controller: The name of the kind's own controller in that field (M-136).
        ttl_field: The path of the field that says how many seconds a job is kept after its end.
        pod_labels: A selector of the job's pods, with ``{name}`` for the job's name (J-160);
            empty if the kind's controller gives its pods no label with the name.
        related: Collections that the kind reads beside its own. They are watched only if the kind
            is enabled.
    """

    suspend_field: FieldPath = ("spec", "suspend")
    managed_by_field: FieldPath | None = ("spec", "managedBy")
    own_controller: str = ""
    ttl_field: FieldPath = ("spec", "ttlSecondsAfterFinished")
    pod_labels: str = ""
    related: tuple[Resource, ...] = ()

    def __init__(self, row: KnownKind) -> None:
        self.name = row.framework
        self.resource: Resource = resource_of(row.api_version, row.plural, row.kind)
        self.gvk = GroupVersionKind(row.group, row.version, row.kind)

    # ------------------------------------------------------------ what a kind says

    @abstractmethod
    def sources(self, job: Job) -> Sequence[PodSetSource]:
        """Return the pod sets, in the order in which a Workload has them.

        Raises:
            InvalidJobError: the job is invalid.
        """

    @abstractmethod
    def finished(self, job: Job) -> Finished | None:
        """Return how the job ended; None if it has not."""

    @abstractmethod
    def is_active(self, job: Job) -> bool:
        """Whether pods of the job still run, so that its quota must be held."""

    @abstractmethod
    def pods_ready(self, job: Job) -> bool:
        """Whether every pod is ready or has succeeded."""

    def own_annotations(self, job: Job) -> Mapping[str, str]:
        """Return the annotations that are kept on a queued job of the kind; none by default."""
        return {}

    def template_of(self, job: Job, source: PodSetSource) -> Mapping[str, Any]:
        """Return the pod template of a pod set, as the Workload is to have it."""
        template = get_field(job, source.template)
        return template if isinstance(template, Mapping) else {}

    def with_related(self, job: Job, find: Callable[[Resource, str, str], Job | None]) -> Job:
        """Return the job with the objects that it is read with, under `RELATED`.

        Called before anything else is asked about an observed job. A webhook has no such objects,
        and an object may be unknown: all other methods must do without them. Which objects are
        looked up must follow from the job alone: the job is reconciled when one of them changes.

        Args:
            job: The job as the API server has it; it is not changed.
            find: Returns an object of a collection in `related` by namespace and name.
        """
        return job

    # ------------------------------------------------------------ what all of them share

    def is_suspended(self, job: Job) -> bool:
        """Whether the suspend field is true."""
        return get_field(job, self.suspend_field) is True

    def pod_sets(self, job: Job) -> tuple[PodSet, ...]:
        """Return one pod set for each source.

        Deviates: upstream only logs that a job is invalid; here it gets an Event.

        Raises:
            InvalidJobError: the job is invalid, or has no pod template at all.
        """
        sources = self.read_sources(job)
        if not sources:
            raise InvalidJobError(
                f"the {self.gvk.kind} has no pod template, so there is nothing to run; add one"
            )
        return tuple(self._pod_set(job, source) for source in sources)

    def template_path(self, job: Job, position: int) -> str:
        """Return where the pod template of a pod set is."""
        return self.read_sources(job)[position].path

    def read_sources(self, job: Job) -> Sequence[PodSetSource]:
        """Return the pod sets; a job that is not what its kind looks like is invalid, too.

        Raises:
            InvalidJobError: the job is invalid.
        """
        try:
            return self.sources(job)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InvalidJobError(
                f"the object is not what a {self.gvk.kind} looks like"
                f" ({type(error).__name__}: {error})"
            ) from error

    def _pod_set(self, job: Job, source: PodSetSource) -> PodSet:
        if source.count < 0:
            raise InvalidJobError(
                f'pod set "{source.name}": {source.count} pods are requested with '
                f"{source.path}; correct the counts, they must not be negative"
            )
        template = _without_creation_time(self.template_of(job, source))
        return PodSet(
            name=source.name.lower(),
            template=template,
            count=source.count,
            topology_request=build_topology_request(
                template,
                pod_index_label=source.pod_index_label,
                sub_group_index_label=source.sub_group_index_label,
                sub_group_count=source.sub_group_count,
            ),
        )

    def started(self, job: Job, infos: Sequence[PodSetInfo]) -> Job:
        """Return the job with the admission's fields in its templates, not suspended.

        Raises:
            InvalidJobError: the admission has another number of pod sets (J-119).
            StartConflictError: a field to add contradicts the template.
        """
        sources = self.read_sources(job)
        if len(sources) != len(infos):
            raise InvalidJobError(
                f"invalid podset infos: expecting {len(sources)} podset, got {len(infos)}"
            )
        for source, info in zip(sources, infos, strict=True):
            template = get_field(job, source.template) or {}
            job = set_field(job, source.template, apply_info(template, info))
        return self.set_suspended(job, value=False)

    def restored(self, job: Job, pod_sets: Sequence[PodSet]) -> Job:
        """Return the job with the templates of its Workload, as far as a start changed them.

        If the number of pod sets is another one, nothing is restored (J-127). A template that the
        job does not have, because its kind makes a default one, is not added.
        """
        sources = self.read_sources(job)
        if len(sources) != len(pod_sets):
            return job
        for source, pod_set in zip(sources, pod_sets, strict=True):
            template = get_field(job, source.template)
            if isinstance(template, Mapping):
                restored = restore_template(template, pod_set.template)
                job = set_field(job, source.template, restored)
        return job

    def set_suspended(self, job: Job, *, value: bool) -> Job:
        """Return the job with its suspend field set."""
        changed: Job = set_field(job, self.suspend_field, value)
        return changed

    def start_patch(self, job: Job, infos: Sequence[PodSetInfo]) -> JobPatch:
        """Return the write that starts the job.

        Raises:
            InvalidJobError: see `started`.
            StartConflictError: see `started`.
        """
        return write_job(job, self.started(job, infos))

    def stop_patch(self, job: Job, pod_sets: Sequence[PodSet]) -> JobPatch | None:
        """Return the write that suspends the job and restores its templates."""
        if self.is_suspended(job):
            return None
        stopped = self.set_suspended(self._restored_if_valid(job, pod_sets), value=True)
        return write_job(job, stopped)

    def _restored_if_valid(self, job: Job, pod_sets: Sequence[PodSet]) -> Job:
        if not pod_sets:
            return job
        try:
            return self.restored(job, pod_sets)
        except InvalidJobError:
            return job

    def priority_class(self, job: Job) -> str:
        """Return the priority class of the first pod set that names one (J-93)."""
        try:
            templates = [self.template_of(job, source) for source in self.read_sources(job)]
        except InvalidJobError:
            return ""
        names = (get_field(template, ("spec", "priorityClassName")) for template in templates)
        return next((str(name) for name in names if name), "")

    def pod_selector(self, job: Job) -> str:
        """Return labels that all pods of the job have; `pod_labels` with the job's name."""
        return self.pod_labels.format(name=job["metadata"]["name"])

    def managed_by(self, job: Job) -> str:
        """Return the controller that runs the job if it is not the kind's own, or ""."""
        value = get_field(job, self.managed_by_field) if self.managed_by_field else None
        return "" if value in {None, self.own_controller} else str(value)

    def time_to_live(self, job: Job) -> int | None:
        """Return the job's time to live if it runs on workers.

        The kind's controller then leaves the job alone, here, and the copy has no time to live.
        """
        if self.managed_by(job) != MULTIKUEUE_CONTROLLER:
            return None
        seconds = get_field(job, self.ttl_field)
        return seconds if isinstance(seconds, int) else None


def write_job(job: Job, changed: Job) -> JobPatch:
    """Return the write that changes a job; what it was read with is left out."""
    return JobPatch(patch=diff(_as_stored(job), _as_stored(changed)))


def _as_stored(job: Job) -> Job:
    return {key: value for key, value in job.items() if key != RELATED}


def find_condition(job: Job, *types: str) -> Mapping[str, Any] | None:
    """Return the first condition of these types in the job's status that is True."""
    for condition in get_field(job, ("status", "conditions")) or ():
        if condition.get("type") in types and condition.get("status") == "True":
            return dict(condition)
    return None


def finished_by_condition(job: Job, *, success: str, failure: str) -> Finished | None:
    """Return the end of a job by its conditions; the message is the condition's."""
    found = find_condition(job, success, failure)
    if found is None:
        return None
    return Finished(success=found["type"] == success, message=str(found.get("message") or ""))


def _without_creation_time(template: Mapping[str, Any]) -> dict[str, Any]:
    metadata = dict(template.get("metadata") or {})
    metadata.pop("creationTimestamp", None)
    return {**template, "metadata": metadata}
