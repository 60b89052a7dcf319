"""The protocol of a job kind. All of it is pure: an object goes in, a value comes out.

`reconciler` does the I/O with these answers. Jobs are plain dicts in wire format; nothing here
changes one. A job that is invalid raises `InvalidJobError`, which the reconciler turns into an
event; it then waits for the next change of the job, so bad input never loops.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias

from multiqueue.api.v1beta2 import Condition, PodSet, ReclaimablePod, Toleration, Workload
from multiqueue.jobs.framework.gvk import GroupVersionKind
from multiqueue.kube.resources import Resource

if TYPE_CHECKING:
    from multiqueue.jobs.framework.decide import Rule

Job = dict[str, Any]
"""A job in wire format."""
MEMBERS = "members"
"""Field of a job that is made of several objects: these objects. Such a job has the metadata of one
of them. The API does not know the field."""


class InvalidJobError(Exception):
    """The job cannot become a Workload; the message says which field and why.

    Attributes:
        reported_at: The Event waits until then, because the problem is often gone by itself.
    """

    def __init__(self, message: str, *, reported_at: datetime | None = None) -> None:
        super().__init__(message)
        self.reported_at = reported_at


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


class MemberAction(Enum):
    """A step of a write to a member, beside patches."""

    DELETE = "delete"
    RELEASE = "release"
    """Remove our finalizer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberWrite:
    """Steps for one of the objects that a job consists of, carried out one after the other.

    Attributes:
        member: The object as last seen. If it is gone, the steps that are left are skipped.
        steps: The steps. The first patch is refused if the object has changed since it was read.
        repeats: Whether the steps were begun before; then there is no second Event about them.
    """

    member: Job
    steps: tuple[JobPatch | MemberAction, ...]
    repeats: bool = False


MemberWrites: TypeAlias = Sequence[MemberWrite]


class WholeObject(Protocol):
    """What holds for kinds whose jobs are one object each; a kind made of members overrides it.

    Attributes:
        is_composed: Whether a job is made of members (`MEMBERS`), which are started, stopped and
            deleted one by one.
        early_rules: Rules of the kind that come before all others.
        member_rules: Rules about the members, once it is clear which Workload stands for the job.
        late_rules: Rules of the kind that come after all others.
    """

    is_composed: ClassVar[bool] = False
    early_rules: ClassVar[Sequence[Rule]] = ()
    member_rules: ClassVar[Sequence[Rule]] = ()
    late_rules: ClassVar[Sequence[Rule]] = ()

    def complete_workload(
        self, job: Job, body: dict[str, Any], label_keys: Sequence[str]
    ) -> dict[str, Any]:
        """Return the Workload to create, from what is common to all kinds.

        Raises:
            InvalidJobError: the members contradict each other.
        """
        return body

    def matches(self, job: Job, workload: Workload) -> bool | None:
        """Whether a Workload stands for the job; None if the common comparison decides."""
        return None

    def start_writes(self, job: Job, infos: Sequence[PodSetInfo]) -> MemberWrites:
        """Return the writes that let the waiting members run.

        Raises:
            InvalidJobError: there is no info for a member.
            StartConflictError: a field to add contradicts a member.
        """
        return ()

    def stop_writes(self, job: Job, reason: str, message: str, now: datetime) -> MemberWrites:
        """Return the writes that stop the members; none if nothing is left to stop.

        Args:
            job: The job.
            reason: Why it is stopped (J-123).
            message: The same for people.
            now: The time of the decision.
        """
        return ()

    def overdue_at(self, job: Job) -> datetime | None:
        """Return when pods that are still ending stop holding quota; None if they do not end."""
        return None

    def follows_queue(self, job: Job) -> bool:
        """Whether another queue label of the job changes the queue of its Workload."""
        return True


class IntegrationDefaults(WholeObject):
    """What most kinds leave as it is; an integration derives from it."""

    def is_skipped(self, job: Job) -> bool:
        """Return false: the job is not left alone."""
        return False

    def has_leftovers(self, job: Job) -> bool:
        """Return false: the write that suspends a job removes all that a start added."""
        return False

    def is_elastic(self, job: Job) -> bool:
        """Return false: the job keeps its size while it runs."""
        return False

    def reclaimable_pods(self, job: Job) -> tuple[ReclaimablePod, ...]:
        """Return nothing: a pod that ends is replaced, or its job ends."""
        return ()

    def is_top_level(self, job: Job) -> bool:
        """Return false: an owner of the job may manage it."""
        return False

    def on_hold(self, job: Job) -> bool:
        """Return false: the job keeps its quota."""
        return False

    def time_to_live(self, job: Job) -> int | None:
        """Return None: somebody else deletes the job, or nobody does."""
        return None

    def more_conditions(self, job: Job, workload: Workload) -> tuple[Condition, ...]:
        """Return nothing: the Workload has the usual conditions."""
        return ()


class Integration(WholeObject, Protocol):
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
