"""What is known about one job at one moment: the input of the rules. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property

import msgspec

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
    without_repeated_variables,
)
from multiqueue.jobs.framework.equivalence import is_equivalent
from multiqueue.jobs.framework.integration import Integration, InvalidJobError, Job
from multiqueue.jobs.framework.pod_set_info import InfoOptions
from multiqueue.jobs.framework.priority import PriorityClasses
from multiqueue.jobs.framework.slices import Slices, arrange, has_to_stop
from multiqueue.lib.selectors import LabelSelector, label_selector_from


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOptions:
    """The options of the Configuration for jobs."""

    label_keys: tuple[str, ...] = ()
    manage_all: bool = False
    namespaces: LabelSelector
    name_limit: int = MAX_NAME
    delete_deactivated_after: timedelta | None = None
    finish_orphans: bool = True
    wait_for_pods: bool = False
    reclaim_pods: bool = True
    elastic_jobs: bool = False
    partial_admission: bool = True
    topologies: bool = True
    info: InfoOptions = field(default_factory=InfoOptions)
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
            finish_orphans=config.gates.enabled(Gate.FINISH_ORPHANED_WORKLOADS),
            wait_for_pods=config.wait_for_pods_ready is not None,
            reclaim_pods=config.gates.enabled(Gate.RECLAIMABLE_PODS),
            elastic_jobs=config.gates.enabled(Gate.ELASTIC_JOBS_VIA_WORKLOAD_SLICES),
            partial_admission=config.gates.enabled(Gate.PARTIAL_ADMISSION),
            topologies=config.gates.enabled(Gate.TOPOLOGY_AWARE_SCHEDULING),
            info=InfoOptions(
                name_queues=config.gates.enabled(Gate.ASSIGN_QUEUE_LABELS_FOR_PODS),
                name_workload=config.gates.enabled(Gate.TOPOLOGY_AWARE_SCHEDULING),
                chargeback_keys=config.integrations.chargeback_label_keys,
            ),
            pending_reason=Reason.PENDING_EVALUATION
            if config.gates.enabled(Gate.UNADMITTED_WORKLOADS_OBSERVABILITY)
            else coarse_reason(Reason.PENDING_EVALUATION),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Matching:
    """The Workloads of a job, by how they match what it requests now (E-182).

    Attributes:
        match: The Workload that stands for the job.
        update: A Workload without quota that does not match yet and can be changed in place.
        extra: The Workloads to delete.
    """

    match: Workload | None = None
    update: Workload | None = None
    extra: tuple[Workload, ...] = ()


@dataclass(frozen=True, kw_only=True)
class JobView:
    """One job and everything that a decision about it needs.

    Attributes:
        job: The job as last seen.
        integration: The integration of its kind.
        workloads: The Workloads that it owns, oldest first.
        prebuilt_name: The name of its prebuilt Workload, or an empty string.
        prebuilt: The prebuilt Workload; None if it does not exist.
        namespace_labels: The labels of its namespace.
        queue_labels: The labels of its LocalQueue.
        ancestor: The job that manages this one (J-23); None if this one stands for itself.
        ancestor_workload: The newest unfinished Workload of that job.
        dispatched: Whether it runs on workers only.
        options: The options of the Configuration.
        classes: Access to the priority classes.
        find_flavor: Finds a flavor by its name.
        now: The time of the decision.
    """

    job: Job
    integration: Integration
    workloads: tuple[Workload, ...] = ()
    prebuilt_name: str = ""
    prebuilt: Workload | None = None
    namespace_labels: Mapping[str, str]
    queue_labels: Mapping[str, str] = field(default_factory=dict)
    ancestor: Job | None = None
    ancestor_workload: Workload | None = None
    dispatched: bool = False
    options: JobOptions
    classes: PriorityClasses
    find_flavor: Callable[[str], ResourceFlavor | None]
    now: datetime

    @cached_property
    def suspended(self) -> bool:
        """Whether the job is suspended."""
        return self.integration.is_suspended(self.job)

    @property
    def stopped(self) -> bool:
        """Whether the job is suspended and its stop is complete."""
        return self.suspended and not self.integration.has_leftovers(self.job)

    @cached_property
    def ended(self) -> bool:
        """Whether the job has ended."""
        return self.integration.finished(self.job) is not None

    @property
    def uid(self) -> str:
        """The job's uid."""
        return str(self.job["metadata"]["uid"])

    @property
    def queue(self) -> str:
        """The LocalQueue that the job asks for."""
        return queue_name(self.job)

    @property
    def chargeback_labels(self) -> dict[str, str]:
        """The labels that say who pays: those of the LocalQueue, else those of the job."""
        known = {**(self.job["metadata"].get("labels") or {}), **self.queue_labels}
        return {key: known[key] for key in self.options.info.chargeback_keys if key in known}

    @cached_property
    def pod_sets(self) -> tuple[PodSet, ...]:
        """The pod sets that the job requests, as far as the feature gates allow them (J-79, J-91).

        Raises:
            InvalidJobError: the job is invalid.
        """
        options = self.options
        return tuple(
            msgspec.structs.replace(
                pod_set,
                template=without_repeated_variables(pod_set.template),
                min_count=pod_set.min_count if options.partial_admission else None,
                topology_request=pod_set.topology_request if options.topologies else None,
            )
            for pod_set in self.integration.pod_sets(self.job)
        )

    @property
    def workload(self) -> Workload | None:
        """The Workload that stands for the job."""
        return self.matching.match

    @cached_property
    def is_elastic(self) -> bool:
        """Whether the job may change its size while it runs; its new pods are gated."""
        return self.options.elastic_jobs and self.integration.is_elastic(self.job)

    @property
    def follows_size(self) -> bool:
        """Whether slices are made from the job's size here; not if its Workload is prebuilt."""
        return self.is_elastic and not self.prebuilt_name and not self.ended

    @cached_property
    def slices(self) -> Slices:
        """The slices of an elastic job; none if its Workload is prebuilt."""
        if not self.is_elastic or self.prebuilt_name:
            return Slices()
        try:
            return arrange(self.workloads, counts_of(self.pod_sets))
        except InvalidJobError:
            return arrange(self.workloads, {})

    @property
    def standing(self) -> tuple[Workload, ...]:
        """The Workload that stands for the job, and the slice that runs until that is admitted."""
        selected, holder = self.workload, self.slices.holder
        return tuple(w for w in (selected, None if holder is selected else holder) if w is not None)

    @cached_property
    def matching(self) -> Matching:
        """Which Workload stands for the job, and what has to happen to the others."""
        if self.prebuilt_name:
            # Adoption has its own rules; other Workloads of the job are left over.
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
            # An invalid job keeps the Workload it has.
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
        """The Workloads in use; slices that ended are left as they are."""
        if not self.is_elastic:
            return self.workloads
        return tuple(w for w in self.workloads if not is_finished(w.status))

    def _may_stand(self, selected: Workload) -> bool:
        """Whether a slice stands for the job: at its own size, or at any size if it has to stop."""
        if self.ended or has_to_stop(selected):
            return True
        try:
            return self.is_equivalent(selected)
        except InvalidJobError:
            return True

    def is_equivalent(self, workload: Workload) -> bool:
        """Whether a Workload matches what the job requests; a finished one always does.

        The size of an elastic job is not compared: pods beyond the admitted ones wait (E-169).

        Raises:
            InvalidJobError: the job is invalid.
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
