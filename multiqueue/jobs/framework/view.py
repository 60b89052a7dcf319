"""What is known about one job at one moment; what the rules decide on. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property

from multiqueue.api.conditions import Reason
from multiqueue.api.config import Configuration, Gate
from multiqueue.api.slices import counts_of
from multiqueue.api.unadmitted import coarse_reason
from multiqueue.api.v1beta2 import PodSet, ResourceFlavor, Workload
from multiqueue.api.workload_state import has_quota, is_finished
from multiqueue.jobs.framework.compose import (
    MAX_NAME,
    SHORT_NAME,
    max_execution_seconds,
    queue_name,
)
from multiqueue.jobs.framework.equivalence import is_equivalent
from multiqueue.jobs.framework.integration import Integration, InvalidJobError, Job
from multiqueue.jobs.framework.priority import PriorityClasses
from multiqueue.jobs.framework.slices import Slices, arrange, has_to_stop
from multiqueue.lib.selectors import LabelSelector, label_selector_from


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOptions:
    """What the Configuration says about jobs."""

    label_keys: tuple[str, ...] = ()
    manage_all: bool = False
    namespaces: LabelSelector
    name_limit: int = MAX_NAME
    delete_deactivated_after: timedelta | None = None
    wait_for_pods: bool = False
    reclaim_pods: bool = True
    name_queues: bool = True
    elastic_jobs: bool = False
    pending_reason: Reason = Reason.PENDING_EVALUATION

    @classmethod
    def from_config(cls, config: Configuration) -> JobOptions:
        """Pick what the framework needs."""
        retention = config.object_retention_policies.workloads
        return cls(
            label_keys=config.integrations.label_keys_to_copy,
            manage_all=config.manage_jobs_without_queue_name,
            namespaces=label_selector_from(config.jobs_namespace_selector),
            name_limit=SHORT_NAME if config.gates.enabled(Gate.SHORT_WORKLOAD_NAMES) else MAX_NAME,
            delete_deactivated_after=retention.after_deactivated_by_kueue if retention else None,
            wait_for_pods=config.wait_for_pods_ready is not None,
            reclaim_pods=config.gates.enabled(Gate.RECLAIMABLE_PODS),
            name_queues=config.gates.enabled(Gate.ASSIGN_QUEUE_LABELS_FOR_PODS),
            elastic_jobs=config.gates.enabled(Gate.ELASTIC_JOBS_VIA_WORKLOAD_SLICES),
            pending_reason=Reason.PENDING_EVALUATION
            if config.gates.enabled(Gate.UNADMITTED_WORKLOADS_OBSERVABILITY)
            else coarse_reason(Reason.PENDING_EVALUATION),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Matching:
    """How the Workloads of a job relate to what it asks for now (E-182).

    Attributes:
        match: The one that stands for the job.
        update: One that does not, but may be changed to: nothing depends on it yet.
        extra: Those that must go.
    """

    match: Workload | None = None
    update: Workload | None = None
    extra: tuple[Workload, ...] = ()


@dataclass(frozen=True, kw_only=True)
class JobView:
    """One job and everything about it that a decision needs.

    Attributes:
        job: The job as last seen.
        integration: Its kind.
        workloads: Workloads that it owns, oldest first.
        prebuilt_name: Name of the Workload that it brings along, or an empty string.
        prebuilt: That Workload, where it exists.
        namespace_labels: Labels of its namespace.
        ancestor_admitted: Whether the queued job that owns this one runs; None without such an
            owner.
        dispatched: Whether it runs on workers and nowhere else, as far as it runs.
        options: The Configuration.
        classes: Where priority classes are looked up.
        find_flavor: Where flavors are looked up.
        now: The time.
    """

    job: Job
    integration: Integration
    workloads: tuple[Workload, ...] = ()
    prebuilt_name: str = ""
    prebuilt: Workload | None = None
    namespace_labels: Mapping[str, str]
    ancestor_admitted: bool | None = None
    dispatched: bool = False
    options: JobOptions
    classes: PriorityClasses
    find_flavor: Callable[[str], ResourceFlavor | None]
    now: datetime

    @cached_property
    def suspended(self) -> bool:
        """Whether the job is kept from running."""
        return self.integration.is_suspended(self.job)

    @cached_property
    def ended(self) -> bool:
        """Whether the job ran to its end."""
        return self.integration.finished(self.job) is not None

    @property
    def uid(self) -> str:
        """The job's uid."""
        return str(self.job["metadata"]["uid"])

    @property
    def queue(self) -> str:
        """The LocalQueue that the job asks for."""
        return queue_name(self.job)

    @cached_property
    def pod_sets(self) -> tuple[PodSet, ...]:
        """What the job asks for.

        Raises:
            InvalidJobError: the job cannot be understood.
        """
        return self.integration.pod_sets(self.job)

    @property
    def workload(self) -> Workload | None:
        """The Workload that stands for the job."""
        return self.matching.match

    @cached_property
    def is_elastic(self) -> bool:
        """Whether the job may change its size while it runs: its new pods wait until they may."""
        return self.options.elastic_jobs and self.integration.is_elastic(self.job)

    @property
    def follows_size(self) -> bool:
        """Whether slices follow the size of the job: not where somebody else makes them."""
        return self.is_elastic and not self.prebuilt_name and not self.ended

    @cached_property
    def slices(self) -> Slices:
        """The slices of the job, where it is elastic; none where it brings its Workload along."""
        if not self.is_elastic or self.prebuilt_name:
            return Slices()
        try:
            return arrange(self.workloads, counts_of(self.pod_sets))
        except InvalidJobError:
            return arrange(self.workloads, {})

    @property
    def standing(self) -> tuple[Workload, ...]:
        """The Workload that stands for the job, and the slice that runs on until it is admitted."""
        selected, holder = self.workload, self.slices.holder
        return tuple(w for w in (selected, None if holder is selected else holder) if w is not None)

    @cached_property
    def matching(self) -> Matching:
        """Which Workload stands for the job, and what is wrong with the others."""
        if self.prebuilt_name:
            # Adoption has its own rules; anything else that the job owns is left-over.
            return Matching(
                match=self.prebuilt,
                extra=tuple(w for w in self.workloads if w.metadata.name != self.prebuilt_name),
            )
        if (selected := self.slices.selected) is not None and self._may_stand(selected):
            return Matching(match=selected)
        if self.ended:
            return _first(self.workloads)
        try:
            equivalent = [w for w in self.live_workloads if self.is_equivalent(w)]
        except InvalidJobError:
            # A job that can no longer be read keeps the Workload it has.
            return _first(self.workloads)
        if equivalent:
            match = equivalent[0]
            return Matching(
                match=match, extra=tuple(w for w in self.live_workloads if w is not match)
            )
        first, *others = self.live_workloads or (None,)
        if first is not None and self.suspended and not has_quota(first.status):
            return Matching(update=first, extra=tuple(w for w in others if w is not None))
        return Matching(extra=self.live_workloads)

    @property
    def live_workloads(self) -> tuple[Workload, ...]:
        """The Workloads that are of use; slices that ended are left as they are."""
        if not self.is_elastic:
            return self.workloads
        return tuple(w for w in self.workloads if not is_finished(w.status))

    def _may_stand(self, selected: Workload) -> bool:
        """Whether a slice stands for the job: at its own size, and to be stopped at any."""
        if self.ended or has_to_stop(selected):
            return True
        try:
            return self.is_equivalent(selected)
        except InvalidJobError:
            return True

    def is_equivalent(self, workload: Workload) -> bool:
        """Whether a Workload says what the job asks for; a finished one is never wrong.

        The size of an elastic job says nothing: pods beyond what was admitted wait (E-169).

        Raises:
            InvalidJobError: the job cannot be understood.
        """
        return is_finished(workload.status) or is_equivalent(
            self.pod_sets,
            workload,
            elastic=self.is_elastic,
            suspended=self.suspended,
            max_execution_seconds=max_execution_seconds(self.job),
            find_flavor=self.find_flavor,
        )


def _first(workloads: tuple[Workload, ...]) -> Matching:
    return Matching(match=workloads[0] if workloads else None, extra=workloads[1:])
