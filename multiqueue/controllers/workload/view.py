"""The input for a decision of the workload controller about one Workload. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

import msgspec

from multiqueue.api.conditions import Reason, WorkloadCondition
from multiqueue.api.config import Configuration, Gate
from multiqueue.api.unadmitted import coarse_reason, tell_unadmitted
from multiqueue.api.v1beta2 import (
    ClusterQueue,
    LocalQueue,
    PodSetRequest,
    Workload,
    WorkloadPriorityClass,
    WorkloadStatus,
)
from multiqueue.api.variants import is_parent
from multiqueue.api.workload_checks import applicable_checks, sync_checks
from multiqueue.api.workload_readiness import ReadinessRules, begin_waiting
from multiqueue.api.workload_state import find
from multiqueue.engine.pending_reasons import Explanation


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadOptions:
    """Options of the Configuration for Workloads; without ``readiness`` nobody waits for pods.

    Attributes:
        delete_finished_after: Retention time of finished Workloads.
        finish_orphans: Gate FinishOrphanedWorkloads.
        readiness: Whether and how long to wait for ready pods.
        elastic: Gate ElasticJobsViaWorkloadSlices.
        preemption_gates: Gate MultiKueueOrchestratedPreemption.
        coarse_reasons: Without gate UnadmittedWorkloadsObservability.
        explicit_status: Gate UnadmittedWorkloadsExplicitStatus.
        concurrent: Gate ConcurrentAdmission.
    """

    delete_finished_after: timedelta | None = None
    finish_orphans: bool = True
    readiness: ReadinessRules | None = None
    elastic: bool = False
    preemption_gates: bool = False
    coarse_reasons: bool = False
    explicit_status: bool = False
    concurrent: bool = False

    @classmethod
    def from_config(cls, config: Configuration) -> WorkloadOptions:
        """Read the options that the rules need."""
        retention, enabled = config.object_retention_policies.workloads, config.gates.enabled
        return cls(
            delete_finished_after=retention.after_finished if retention else None,
            finish_orphans=enabled(Gate.FINISH_ORPHANED_WORKLOADS),
            readiness=_readiness(config),
            elastic=enabled(Gate.ELASTIC_JOBS_VIA_WORKLOAD_SLICES),
            preemption_gates=enabled(Gate.MULTIKUEUE_ORCHESTRATED_PREEMPTION),
            coarse_reasons=not enabled(Gate.UNADMITTED_WORKLOADS_OBSERVABILITY),
            explicit_status=enabled(Gate.UNADMITTED_WORKLOADS_EXPLICIT_STATUS),
            concurrent=enabled(Gate.CONCURRENT_ADMISSION),
        )

    def word(self, reason: Reason) -> Reason:
        """Return the reason as QuotaReserved=False shows it."""
        return coarse_reason(reason) if self.coarse_reasons else reason


def _readiness(config: Configuration) -> ReadinessRules | None:
    waiting = config.wait_for_pods_ready
    if waiting is None:
        return None
    strategy = waiting.requeuing_strategy
    return ReadinessRules(
        timeout=waiting.timeout,
        recovery_timeout=waiting.effective_recovery_timeout,
        backoff_limit=strategy.backoff_limit_count,
        backoff_base=timedelta(seconds=strategy.backoff_base_seconds),
        backoff_max=timedelta(seconds=strategy.backoff_max_seconds),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadSituation:
    """One Workload and everything that a decision about it needs.

    Attributes:
        workload: The Workload as last seen.
        local_queue: The LocalQueue that it names; None if it does not exist.
        cluster_queue: The ClusterQueue of that LocalQueue; None if it does not exist.
        holding: The ClusterQueue whose quota it holds, if that exists; may be another one.
        priority_class: Its WorkloadPriorityClass; None if it does not exist.
        explanation: Why it waits, from the engine; None if it does not.
        requests: The requests of its pod sets, from the engine, while it waits.
        successor: The slice that took over its quota; None if there is none.
        admitting: Whether its admission is being written now.
        options: The options of the Configuration.
        now: The time of the decision.
    """

    workload: Workload
    local_queue: LocalQueue | None = None
    cluster_queue: ClusterQueue | None = None
    holding: ClusterQueue | None = None
    priority_class: WorkloadPriorityClass | None = None
    explanation: Explanation | None = None
    requests: tuple[PodSetRequest, ...] = ()
    successor: Workload | None = None
    admitting: bool = False
    options: WorkloadOptions = WorkloadOptions()
    now: datetime

    @property
    def is_parent(self) -> bool:
        """Whether its variants hold the quota and have the admission checks (E-171)."""
        return self.options.concurrent and is_parent(self.workload)

    @property
    def generation(self) -> int:
        """Generation of the Workload, for its conditions."""
        return self.workload.metadata.generation

    def list_checks(self, status: WorkloadStatus) -> WorkloadStatus:
        """Return the status without quota, with the checks that any admission would need (E-111).

        While the LocalQueue is stopped, the list stays.
        """
        if self.cluster_queue is None or self.local_queue is None or self.is_parent:
            return status
        if self.local_queue.spec.stop_policy != "None":
            return status
        return sync_checks(status, applicable_checks(self.cluster_queue.spec, None), self.now)

    def complete(self, status: WorkloadStatus) -> WorkloadStatus:
        """Return the status to write, with Admitted=False and PodsReady=False (E-110, E-185).

        Nothing is written for them alone, unless gate UnadmittedWorkloadsExplicitStatus wants it.
        """
        is_written = status != self.workload.status
        told = tell_unadmitted(status, now=self.now, generation=self.generation)
        is_told = is_written or _has_other_reason(status, told)
        if self.options.explicit_status or (is_told and not self.options.coarse_reasons):
            status = told
        if not is_written or self.options.readiness is None:
            return status
        return begin_waiting(msgspec.structs.replace(self.workload, status=status), now=self.now)


def _has_other_reason(before: WorkloadStatus, after: WorkloadStatus) -> bool:
    """Whether Admitted=False was there, with a reason that is outdated."""
    was, now = (find(status, WorkloadCondition.ADMITTED) for status in (before, after))
    return was is not None and now is not None and was.reason != now.reason
