"""All exported metrics, one row each, with Kueue's names for Kueue's metrics.

`fleet_metrics`, `queue_metrics`, `local_queue_metrics` and `dispatch_metrics` have the rows of
their subjects.

Parity: names, labels and buckets as in Kueue's reference. Our own metrics begin with
``multiqueue_``. To add a metric, add a row. Label values must be bounded by the objects that
administrators create.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Sized
from importlib.metadata import version
from typing import Protocol

import prometheus_client

from multiqueue.observability.dispatch_metrics import DispatchMetrics
from multiqueue.observability.families import counter, exponential, gauge, histogram
from multiqueue.observability.queue_metrics import BY_FLAVOR, BY_PRIORITY

BY_WORKER = "cluster_queue cluster replica_role"
OF_WORKER = "cluster replica_role"
BY_EVICTION = "cluster_queue reason underlying_cause priority_class replica_role"
ATTEMPT_BUCKETS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
REQUEST_BUCKETS = tuple(sorted((*ATTEMPT_BUCKETS, 0.0025, 30.0)))


class RequestOutcome(Protocol):
    """The outcome of one API request; `multiqueue.kube` has the type."""

    @property
    def method(self) -> str:
        """The HTTP method."""
        ...

    @property
    def resource(self) -> str:
        """The plural of the resource."""
        ...

    @property
    def status(self) -> int:
        """The HTTP status; 0 if there was no answer."""
        ...

    @property
    def seconds(self) -> float:
        """The duration in seconds."""
        ...


class ManagerMetrics(DispatchMetrics):
    """The metrics of one process."""

    build_info = gauge(
        "kueue_build_info",
        "Build of this program; always 1.",
        "git_version git_commit build_date go_version compiler platform",
    )

    component_restarts_total = counter(
        "multiqueue_component_restarts_total",
        "Times that a component of this manager failed and was started again.",
        "component",
    )
    object_failures_total = counter(
        "multiqueue_object_failures_total",
        "Times that an object made a component raise, which then went on with the others.",
        "resource",
    )

    # Admission
    admission_attempts_total = counter(
        "kueue_admission_attempts_total",
        "Cycles that tried to admit, by result: success or inadmissible.",
        "result replica_role",
    )
    admission_attempt_duration_seconds = histogram(
        "kueue_admission_attempt_duration_seconds",
        "Seconds that a cycle took, by result: success or inadmissible.",
        "result replica_role",
        buckets=ATTEMPT_BUCKETS,
    )
    admission_stage_seconds = histogram(
        "multiqueue_admission_stage_seconds",
        "Seconds from an event to the admission that follows it, by stage: event (seen, until its "
        "cycle begins), cycle, queue (decided, until a writer is free) and write.",
        "stage replica_role",
        buckets=REQUEST_BUCKETS,
    )
    pending_workloads = gauge(
        "kueue_pending_workloads",
        "Workloads that wait, by status: active or inadmissible.",
        "cluster_queue status replica_role",
    )
    quota_reserved_workloads_total = counter(
        "kueue_quota_reserved_workloads_total", "Workloads that got quota.", BY_PRIORITY
    )
    quota_reserved_wait_time_seconds = histogram(
        "kueue_quota_reserved_wait_time_seconds",
        "Seconds from creation or requeuing to quota.",
        BY_PRIORITY,
        buckets=exponential(14),
    )
    admitted_workloads_total = counter(
        "kueue_admitted_workloads_total", "Workloads that were admitted.", BY_PRIORITY
    )
    admission_wait_time_seconds = histogram(
        "kueue_admission_wait_time_seconds",
        "Seconds from creation or requeuing to admission.",
        BY_PRIORITY,
        buckets=exponential(16),
    )
    pod_scheduling_gate_removal_seconds = histogram(
        "kueue_pod_scheduling_gate_removal_seconds",
        "Seconds from the pod, or its admission where that is later, to the end of its gate.",
        "name cluster_queue is_group replica_role",
        buckets=REQUEST_BUCKETS,
    )
    evicted_workloads_total = counter(
        "kueue_evicted_workloads_total", "Workloads that lost their quota.", BY_EVICTION
    )
    preempted_workloads_total = counter(
        "kueue_preempted_workloads_total",
        "Workloads that were told to leave for one of this queue.",
        "preempting_cluster_queue reason replica_role",
    )
    preemption_cost_device_seconds_total = counter(
        "multiqueue_preemption_cost_device_seconds_total",
        "Device-seconds that have to be done again because Workloads of this queue left for "
        "others, as far as budgets count them; of queues under a DisruptionPolicy.",
        "cluster_queue cause replica_role",
    )
    notices_total = counter(
        "multiqueue_notices_total",
        "Notices of preemption that are over, by how they ended: the job saved its work, it was "
        "stopped without that, its pods were gone before, or it runs on because nobody needs its "
        "room any more.",
        "cluster_queue result replica_role",
    )
    evicted_workloads_once_total = counter(
        "kueue_evicted_workloads_once_total",
        "Workloads that lost their quota for this reason for the first time.",
        BY_EVICTION,
    )
    pods_ready_to_evicted_time_seconds = histogram(
        "kueue_pods_ready_to_evicted_time_seconds",
        "Seconds from ready pods to the eviction.",
        "cluster_queue reason underlying_cause replica_role",
        buckets=exponential(14),
    )
    ready_wait_time_seconds = histogram(
        "kueue_ready_wait_time_seconds",
        "Seconds from creation or requeuing to ready pods.",
        BY_PRIORITY,
        buckets=exponential(14),
    )
    admitted_until_ready_wait_time_seconds = histogram(
        "kueue_admitted_until_ready_wait_time_seconds",
        "Seconds from admission to ready pods.",
        BY_PRIORITY,
        buckets=exponential(14),
    )
    replaced_workload_slices_total = counter(
        "kueue_replaced_workload_slices_total",
        "Slices that a larger one took over from.",
        "cluster_queue replica_role",
    )
    finished_workloads_total = counter(
        "kueue_finished_workloads_total",
        "Workloads that finished.",
        "cluster_queue priority_class replica_role",
    )
    reserving_active_workloads = gauge(
        "kueue_reserving_active_workloads",
        "Workloads that hold quota.",
        "cluster_queue replica_role",
    )
    admitted_active_workloads = gauge(
        "kueue_admitted_active_workloads",
        "Workloads that are admitted and not finished.",
        "cluster_queue replica_role",
    )

    # Queues
    cluster_queue_status = gauge(
        "kueue_cluster_queue_status",
        "1 for the status that the queue has: pending, active or terminating.",
        "cluster_queue status replica_role",
    )
    cluster_queue_resource_reservation = gauge(
        "kueue_cluster_queue_resource_reservation", "Reserved quota.", BY_FLAVOR
    )
    cluster_queue_resource_usage = gauge(
        "kueue_cluster_queue_resource_usage", "Quota in use by admitted Workloads.", BY_FLAVOR
    )
    cluster_queue_nominal_quota = gauge(
        "kueue_cluster_queue_nominal_quota", "Nominal quota.", BY_FLAVOR
    )

    cluster_queue_weighted_share = gauge(
        "kueue_cluster_queue_weighted_share",
        "Share of borrowed quota by weight, in 1/1000; NaN for weight 0.",
        "cluster_queue cohort replica_role",
    )
    cohort_weighted_share = gauge(
        "kueue_cohort_weighted_share",
        "Share of borrowed quota by weight, in 1/1000; NaN for weight 0.",
        "cohort replica_role",
    )

    # Across clusters (M-220)
    multikueue_workloads_dispatched_total = counter(
        "multikueue_workloads_dispatched_total",
        "Copies of Workloads created on a worker.",
        BY_WORKER,
    )
    multikueue_workloads_admitted_total = counter(
        "multikueue_workloads_admitted_total", "Workloads that a worker admitted first.", BY_WORKER
    )
    substituted_flavors_total = counter(
        "multiqueue_substituted_flavors_total",
        "Resources of pod sets that a worker ran on another flavor than the manager reserved.",
        "cluster_queue cluster reserved ran replica_role",
    )
    worker_admission_seconds = histogram(
        "multiqueue_worker_admission_seconds",
        "Seconds from quota here to the admission by the worker that runs it.",
        BY_WORKER,
        buckets=exponential(12),
    )
    worker_rejections_total = counter(
        "multiqueue_worker_rejections_total",
        "Workloads that a worker did not take (Refused), or took and did not keep.",
        "cluster_queue cluster reason replica_role",
    )
    worker_wasted_copies_total = counter(
        "multiqueue_worker_wasted_copies_total",
        "Offers of Workloads to a worker that were withdrawn before it ran them.",
        BY_WORKER,
    )
    worker_offered_workloads = gauge(
        "multiqueue_worker_offered_workloads",
        "Workloads that a worker is offered and no worker has taken yet.",
        OF_WORKER,
    )
    worker_running_workloads = gauge(
        "multiqueue_worker_running_workloads",
        "Workloads that a worker has taken and that have not ended.",
        OF_WORKER,
    )
    worker_connected = gauge(
        "multiqueue_worker_connected", "1 while a worker is connected.", "cluster replica_role"
    )
    worker_credentials_expire_seconds = gauge(
        "multiqueue_worker_credentials_expire_seconds",
        "Seconds until what a manager shows a worker is not good any more; none where it says no "
        "end.",
        OF_WORKER,
    )
    worker_credentials_expiring = gauge(
        "multiqueue_worker_credentials_expiring",
        "1 while what a manager shows a worker should be renewed: the condition "
        "CredentialsExpiring.",
        OF_WORKER,
    )
    worker_health = gauge(
        "multiqueue_worker_health",
        "How well a worker does: 1 all well, 0 it is not sent anything for now.",
        OF_WORKER,
    )
    worker_cordoned = gauge(
        "multiqueue_worker_cordoned",
        "1 while nothing new goes to a worker.",
        "cluster replica_role",
    )
    worker_drain_left = gauge(
        "multiqueue_worker_drain_left", "Workloads on a worker that is being drained.", OF_WORKER
    )
    drain_moves_total = counter(
        "multiqueue_drain_moves_total",
        "Workloads sent off a worker by a drain.",
        "cluster replica_role",
    )
    drain_lost_gpu_seconds_total = counter(
        "multiqueue_drain_lost_gpu_seconds_total",
        "Accelerator-seconds since admission of Workloads sent off a worker by a drain.",
        OF_WORKER,
    )
    migrations_total = counter(
        "multiqueue_migrations_total",
        "Workloads that were to move off a worker for a gang: stopped there to run elsewhere, not "
        "moved after all, or moved and not started elsewhere within two minutes.",
        "cluster result replica_role",
    )
    remote_sync_lag_seconds = histogram(
        "multiqueue_remote_sync_lag_seconds",
        "Seconds from a change on a worker to its copy here.",
        OF_WORKER,
        buckets=REQUEST_BUCKETS,
    )
    dispatch_duration_seconds = histogram(
        "multiqueue_dispatch_duration_seconds",
        "Seconds that a dispatcher took to nominate.",
        "dispatcher replica_role",
        buckets=REQUEST_BUCKETS,
    )

    # Requests to API servers; cluster is empty for the manager's own
    api_requests_total = counter(
        "multiqueue_api_requests_total",
        "Requests, by method, collection and status; 0 is no answer.",
        "cluster method resource code",
    )
    api_request_duration_seconds = histogram(
        "multiqueue_api_request_duration_seconds",
        "Seconds of a request.",
        "cluster method",
        buckets=REQUEST_BUCKETS,
    )
    api_rate_limit = gauge(
        "multiqueue_api_rate_limit", "Requests per second that we allow ourselves now.", "cluster"
    )
    api_requests_in_flight = gauge(
        "multiqueue_api_requests_in_flight", "Requests without an answer.", "cluster"
    )
    watch_restarts_total = counter(
        "multiqueue_watch_restarts_total",
        "Times that a watch began again, by reason.",
        "cluster resource reason",
    )

    # Internals
    reconciles_total = counter(
        "multiqueue_reconciles_total", "Reconciles, by outcome.", "reconciler outcome"
    )
    reconcile_duration_seconds = histogram(
        "multiqueue_reconcile_duration_seconds",
        "Seconds of a reconcile.",
        "reconciler",
        buckets=REQUEST_BUCKETS,
    )
    webhook_problem = gauge(
        "multiqueue_webhook_problem",
        "1 while the API server cannot ask for admission or conversion: the annotation "
        "multiqueue.dev/webhook-problem of the registration says why.",
        "registration",
    )
    queue_depth = gauge("multiqueue_queue_depth", "Keys that wait to be reconciled.", "reconciler")
    events_dropped_total = counter(
        "multiqueue_events_dropped_total", "Events that could not be recorded."
    )

    def __init__(self, *, role: str = "standalone") -> None:
        # Creation times would double the size of a scrape, and nothing uses them.
        prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]
        super().__init__(role=role)
        self.build_info.child(
            version("multiqueue"),
            "",
            "",
            "",
            f"{platform.python_implementation()} {platform.python_version()}",
            f"{platform.system().lower()}/{platform.machine()}",
        ).set(1)

    def request_observer(self, cluster: str = "") -> Callable[[RequestOutcome], None]:
        """Return a function that a client calls with the outcome of each request.

        Args:
            cluster: The worker's name; empty for the manager's own cluster.
        """
        requests, durations = self.api_requests_total, self.api_request_duration_seconds

        def observe(outcome: RequestOutcome) -> None:
            requests.child(cluster, outcome.method, outcome.resource, str(outcome.status)).inc()
            durations.child(cluster, outcome.method).observe(outcome.seconds)

        return observe

    def watch_observer(self, resource: str, cluster: str = "") -> Callable[[str], None]:
        """Return a function that an informer calls with the reason of each restart."""
        family = self.watch_restarts_total

        def observe(reason: str) -> None:
            family.child(cluster, resource, reason).inc()

        return observe

    def observe_reconcile(self, reconciler: str, outcome: str, seconds: float) -> None:
        """Count one reconcile; a `Reconciler` calls this."""
        self.reconciles_total.child(reconciler, outcome).inc()
        self.reconcile_duration_seconds.child(reconciler).observe(seconds)

    def watch_queue(self, reconciler: str, queue: Sized) -> None:
        """Export how many keys wait; it is read at each scrape."""
        self.queue_depth.child(reconciler).set_function(lambda: len(queue))

    def watch_health(self, cluster: str, health: WorkerScore) -> None:
        """Export a worker's score; it is read at each scrape."""
        self.worker_health.child(cluster).set_function(lambda: health.score)

    def watch_limiter(self, limiter: Limiter, cluster: str = "") -> None:
        """Export a limiter's rate and requests in flight; they are read at each scrape."""
        self.api_rate_limit.child(cluster).set_function(lambda: limiter.rate)
        self.api_requests_in_flight.child(cluster).set_function(lambda: limiter.in_flight)


class WorkerScore(Protocol):
    """The exported part of a worker's health; `multiqueue.dispatch` has the type."""

    @property
    def score(self) -> float:
        """The score, from 0 to 1."""
        ...


class Limiter(Protocol):
    """The exported part of a rate limiter; `multiqueue.kube` has the type."""

    rate: float
    in_flight: int
