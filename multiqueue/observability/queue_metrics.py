"""Metrics of ClusterQueues and Cohorts: limits, who waits and why, and what a cohort holds.

Parity: names, labels and buckets as in Kueue's reference. `metrics` has the rows about admission
and about workers.
"""

from __future__ import annotations

from multiqueue.observability.families import (
    counter,
    exponential,
    gauge,
    gauge_beside_counter,
    histogram,
)
from multiqueue.observability.local_queue_metrics import LocalQueueMetrics

BY_PRIORITY = "cluster_queue priority_class replica_role"
BY_FLAVOR = "cohort cluster_queue flavor resource replica_role"
OF_COHORT = "cohort flavor resource replica_role"
CREATION_BUCKETS = tuple(0.01 * 2**n for n in range(11))


class QueueMetrics(LocalQueueMetrics):
    """One row per metric, like those of LocalQueues."""

    admission_cycle_preemption_skips = gauge(
        "kueue_admission_cycle_preemption_skips",
        "Workloads that found others to preempt in the last cycle that tried them, and were "
        "skipped because earlier Workloads of the cycle needed the same.",
        "cluster_queue replica_role",
    )
    preemption_target_recomputations_total = counter(
        "kueue_preemption_target_recomputations_total",
        "Searches for other Workloads to preempt because earlier ones of the cycle preempt the "
        "same, by result: success or failure.",
        "cluster_queue result replica_role",
    )
    pending_scheduling_hashes = gauge(
        "kueue_pending_scheduling_hashes",
        "Classes of waiting Workloads that are equal to the scheduler, by status: active or "
        "inadmissible.",
        "cluster_queue status replica_role",
    )
    finished_workloads = gauge_beside_counter(
        "kueue_finished_workloads",
        "Finished Workloads that still exist.",
        "cluster_queue replica_role",
    )
    unadmitted_workloads = gauge(
        "kueue_unadmitted_workloads",
        "Workloads that are not admitted, by the reason of the condition Admitted and that of "
        "QuotaReserved.",
        "cluster_queue reason underlying_cause replica_role",
    )
    admission_checks_wait_time_seconds = histogram(
        "kueue_admission_checks_wait_time_seconds",
        "Seconds from quota to admission.",
        BY_PRIORITY,
        buckets=exponential(14),
    )
    execution_time_seconds = histogram(
        "kueue_execution_time_seconds",
        "Seconds from the last admission to the end.",
        BY_PRIORITY,
        buckets=exponential(16),
    )
    workload_eviction_latency_seconds = histogram(
        "kueue_workload_eviction_latency_seconds",
        "Seconds from the eviction until the quota is released.",
        "cluster_queue reason replica_role",
        buckets=exponential(14),
    )
    workload_creation_latency_seconds = histogram(
        "kueue_workload_creation_latency_seconds",
        "Seconds from the creation of a job to that of its Workload, if the job was not changed "
        "in between.",
        "job_kind replica_role",
        buckets=CREATION_BUCKETS,
    )
    cluster_queue_borrowing_limit = gauge(
        "kueue_cluster_queue_borrowing_limit", "Borrowing limit; +Inf without one.", BY_FLAVOR
    )
    cluster_queue_lending_limit = gauge(
        "kueue_cluster_queue_lending_limit", "Lending limit; +Inf without one.", BY_FLAVOR
    )
    cluster_queue_resource_pending = gauge(
        "kueue_cluster_queue_resource_pending",
        "What waiting Workloads request in all.",
        "cluster_queue resource replica_role",
    )
    cluster_queue_info = gauge(
        "kueue_cluster_queue_info",
        "1; names the cohort of a ClusterQueue and the root of its tree.",
        "cluster_queue parent_cohort root_cohort replica_role",
    )
    cohort_info = gauge(
        "kueue_cohort_info",
        "1; names the parent of a cohort and the root of its tree.",
        "cohort parent_cohort root_cohort replica_role",
    )
    cohort_subtree_quota = gauge(
        "kueue_cohort_subtree_quota", "Quota that a cohort and all below it may share.", OF_COHORT
    )
    cohort_subtree_resource_reservations = gauge(
        "kueue_cohort_subtree_resource_reservations",
        "Quota reserved by the ClusterQueues below a cohort.",
        OF_COHORT,
    )
    cohort_subtree_admitted_active_workloads = gauge(
        "kueue_cohort_subtree_admitted_active_workloads",
        "Workloads below a cohort that are admitted and not finished.",
        "cohort replica_role",
    )
    cohort_subtree_admitted_workloads_total = counter(
        "kueue_cohort_subtree_admitted_workloads_total",
        "Workloads below a cohort that were admitted.",
        "cohort priority_class replica_role",
    )
