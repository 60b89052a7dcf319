"""Metrics of LocalQueues: those of ClusterQueues again, by namespace and LocalQueue.

Parity: names, labels and buckets as in Kueue's reference. It has 14 buckets of the wait for
admission here, and 16 for ClusterQueues. The Configuration selects the LocalQueues with metrics.
"""

from __future__ import annotations

from multiqueue.observability.families import (
    MetricTable,
    counter,
    exponential,
    gauge,
    gauge_beside_counter,
    histogram,
)

QUEUE = "name namespace"
BY_PRIORITY = "name namespace priority_class replica_role"
BY_RESOURCE = "name namespace flavor resource replica_role"
WAITS = exponential(14)


class LocalQueueMetrics(MetricTable):
    """One row per metric, like those of ClusterQueues in `Metrics`."""

    local_queue_pending_workloads = gauge(
        "kueue_local_queue_pending_workloads",
        "Workloads of a LocalQueue that wait, by status: active or inadmissible.",
        "name namespace status replica_role",
    )
    local_queue_quota_reserved_workloads_total = counter(
        "kueue_local_queue_quota_reserved_workloads_total",
        "Workloads of a LocalQueue that got quota.",
        BY_PRIORITY,
    )
    local_queue_quota_reserved_wait_time_seconds = histogram(
        "kueue_local_queue_quota_reserved_wait_time_seconds",
        "Seconds from creation or requeuing to quota.",
        BY_PRIORITY,
        buckets=WAITS,
    )
    local_queue_admitted_workloads_total = counter(
        "kueue_local_queue_admitted_workloads_total",
        "Workloads of a LocalQueue that were admitted.",
        BY_PRIORITY,
    )
    local_queue_admission_wait_time_seconds = histogram(
        "kueue_local_queue_admission_wait_time_seconds",
        "Seconds from creation or requeuing to admission.",
        BY_PRIORITY,
        buckets=WAITS,
    )
    local_queue_admission_checks_wait_time_seconds = histogram(
        "kueue_local_queue_admission_checks_wait_time_seconds",
        "Seconds from quota to admission.",
        BY_PRIORITY,
        buckets=WAITS,
    )
    local_queue_execution_time_seconds = histogram(
        "kueue_local_queue_execution_time_seconds",
        "Seconds from the last admission to the end.",
        BY_PRIORITY,
        buckets=exponential(16),
    )
    local_queue_finished_workloads = gauge_beside_counter(
        "kueue_local_queue_finished_workloads",
        "Finished Workloads of a LocalQueue that still exist.",
        "name namespace replica_role",
    )
    local_queue_unadmitted_workloads = gauge(
        "kueue_local_queue_unadmitted_workloads",
        "Workloads of a LocalQueue that are not admitted, by the reason of the condition Admitted "
        "and that of QuotaReserved.",
        "name namespace cluster_queue reason underlying_cause replica_role",
    )
    local_queue_ready_wait_time_seconds = histogram(
        "kueue_local_queue_ready_wait_time_seconds",
        "Seconds from creation or requeuing to ready pods.",
        BY_PRIORITY,
        buckets=WAITS,
    )
    local_queue_admitted_until_ready_wait_time_seconds = histogram(
        "kueue_local_queue_admitted_until_ready_wait_time_seconds",
        "Seconds from admission to ready pods.",
        BY_PRIORITY,
        buckets=WAITS,
    )
    local_queue_evicted_workloads_total = counter(
        "kueue_local_queue_evicted_workloads_total",
        "Evictions of Workloads of a LocalQueue, by reason.",
        "name namespace reason underlying_cause priority_class replica_role",
    )
    local_queue_finished_workloads_total = counter(
        "kueue_local_queue_finished_workloads_total",
        "Workloads of a LocalQueue that finished.",
        BY_PRIORITY,
    )
    local_queue_reserving_active_workloads = gauge(
        "kueue_local_queue_reserving_active_workloads",
        "Workloads of a LocalQueue that hold quota.",
        "name namespace replica_role",
    )
    local_queue_admitted_active_workloads = gauge(
        "kueue_local_queue_admitted_active_workloads",
        "Workloads of a LocalQueue that are admitted and not finished.",
        "name namespace replica_role",
    )
    local_queue_status = gauge(
        "kueue_local_queue_status",
        "1 for the status of the Active condition that the LocalQueue has: True, False or Unknown.",
        "name namespace active replica_role",
    )
    local_queue_resource_reservation = gauge(
        "kueue_local_queue_resource_reservation",
        "Quota that Workloads of a LocalQueue hold.",
        BY_RESOURCE,
    )
    local_queue_resource_usage = gauge(
        "kueue_local_queue_resource_usage",
        "Quota in use by admitted Workloads of a LocalQueue.",
        BY_RESOURCE,
    )
    local_queue_admission_fair_sharing_usage = gauge(
        "kueue_local_queue_admission_fair_sharing_usage",
        "Past usage of a LocalQueue by its weight, older use counting less.",
        "name namespace cluster_queue replica_role",
    )
