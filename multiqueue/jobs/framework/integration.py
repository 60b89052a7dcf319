"""The protocol of a job kind. All of it is pure: an object goes in, a value comes out.

`reconciler` does the I/O with these answers. Jobs are plain dicts in wire format; nothing here
changes one. A job that is invalid raises `InvalidJobError`, which the reconciler turns into an
event; it then waits for the next change of the job, so bad input never loops.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from multiqueue.api.v1beta2 import Condition, PodSet, ReclaimablePod, Toleration, Workload
from multiqueue.jobs.framework.gvk import GroupVersionKind
from multiqueue.kube.resources import Resource

Job = dict[str, Any]
"""A job in wire format."""


class InvalidJobError(Exception):
    """The job cannot become a Workload; the message says which field and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """How a job ended."""

    success: bool
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSetInfo:
    """The fields that admission adds to the pods of one pod set (E-184)."""

    name: str
    count: int
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: Sequence[Toleration] = ()
    scheduling_gates: Sequence[str] = ()
    overrides: frozenset[str] = frozenset()
    """Keys of labels and annotations that replace another value instead of contradicting it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPatch:
    """One write to a job: a JSON merge patch, of the object or of a subresource.

    ``completes`` is false for a step of a start or stop that needs further writes.
    """

    patch: Mapping[str, Any]
    subresource: str | None = None
    completes: bool = True


class IntegrationDefaults:
    """What most kinds leave as it is; an integration derives from it."""

    def is_skipped(self, job: Job) -> bool:
        """Return false: the job is not left alone."""
        _ = job
        return False

    def has_leftovers(self, job: Job) -> bool:
        """Return false: the write that suspends a job removes all that a start added."""
        _ = job
        return False

    def is_top_level(self, job: Job) -> bool:
        """Return false: an owner of the job may manage it."""
        _ = job
        return False

    def on_hold(self, job: Job) -> bool:
        """Return false: the job keeps its quota."""
        _ = job
        return False

    def time_to_live(self, job: Job) -> int | None:
        """Return None: somebody else deletes the job, or nobody does."""
        _ = job
        return None

    def more_conditions(self, job: Job, workload: Workload) -> tuple[Condition, ...]:
        """Return nothing: the Workload has the usual conditions."""
        _ = job, workload
        return ()


class Integration(Protocol):
    """What the framework has to know about one job kind."""

    @property
    def name(self) -> str:
        """Name in ``integrations.frameworks``, such as ``batch/job``."""
        ...

    @property
    def resource(self) -> Resource:
        """The REST collection of the kind."""
        ...

    @property
    def gvk(self) -> GroupVersionKind:
        """The kind, as owner references name it."""
        ...

    def is_suspended(self, job: Job) -> bool:
        """Whether nothing of the job may start; false while a stop is unfinished."""
        ...

    def is_elastic(self, job: Job) -> bool:
        """Whether the job may change its size while it runs, and gates its new pods (E-165)."""
        ...

    def is_skipped(self, job: Job) -> bool:
        """Whether the job is left alone although it names a queue."""
        ...

    def has_leftovers(self, job: Job) -> bool:
        """Whether a suspended job still has fields of an admission; its stop is unfinished then."""
        ...

    def is_top_level(self, job: Job) -> bool:
        """Whether the job manages itself, whoever owns it (J-28)."""
        ...

    def on_hold(self, job: Job) -> bool:
        """Whether the job gives its quota back until it leaves this state (J-130)."""
        ...

    def time_to_live(self, job: Job) -> int | None:
        """Return after how many seconds the manager deletes the job once it ended (J-148)."""
        ...

    def more_conditions(self, job: Job, workload: Workload) -> tuple[Condition, ...]:
        """Return conditions of this kind only that the Workload is to have (J-249)."""
        ...

    def pod_sets(self, job: Job) -> tuple[PodSet, ...]:
        """Return the pod sets that the job requests.

        Raises:
            InvalidJobError: the job is invalid.
        """
        ...

    def template_path(self, job: Job, position: int) -> str:
        """Return where the pod template of a pod set is, such as ``spec.template``."""
        ...

    def finished(self, job: Job) -> Finished | None:
        """Return how the job ended; None if it has not."""
        ...

    def is_active(self, job: Job) -> bool:
        """Whether pods of the job still run, so that its quota must be held (E-104, M-175)."""
        ...

    def pods_ready(self, job: Job) -> bool:
        """Whether every pod is ready or has succeeded (E-185)."""
        ...

    def reclaimable_pods(self, job: Job) -> tuple[ReclaimablePod, ...]:
        """Return the pods that will not need their resources again."""
        ...

    def start_patch(self, job: Job, infos: Sequence[PodSetInfo]) -> JobPatch:
        """Return the next write that adds the admission's fields and lets the job run.

        The caller calls again with the written job while it is still suspended.

        Raises:
            StartConflictError: a field to add contradicts the template.
        """
        ...

    def stop_patch(self, job: Job, pod_sets: Sequence[PodSet]) -> JobPatch | None:
        """Return the next write that stops the job and restores its templates.

        None if nothing is left to do, or while it must wait for pods to end (the job is not
        suspended until then).

        Decided from the job alone, so that a stop can continue after a crash between two writes.
        The caller writes, and calls again with the written job. ``pod_sets`` are those of the
        Workload: the original templates. They are empty if no Workload is known; then the templates
        stay as they are.
        """
        ...

    def priority_class(self, job: Job) -> str:
        """Return the name of the pod PriorityClass that the job requests, or an empty string."""
        ...

    def pod_selector(self, job: Job) -> str:
        """Return labels that all pods of the job have (J-160); empty if they share none."""
        ...

    def managed_by(self, job: Job) -> str:
        """Return the controller that runs the job if it is not the kind's own, or "" (M-136)."""
        ...
