"""Metrics that alerts and boards need and that Kueue does not have: phases, GPUs, stages, replicas.

Labels are queues, workers, flavors and enums; never users, jobs or namespaces of Workloads (S-114).
"""

from __future__ import annotations

from multiqueue.observability.families import counter, gauge, histogram
from multiqueue.observability.queue_metrics import QueueMetrics

STAGE_BUCKETS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)
LAG_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class FleetMetrics(QueueMetrics):
    """One row per metric, like those of ClusterQueues."""

    stage_seconds = histogram(
        "multiqueue_stage_seconds",
        "Seconds in which the next step is the manager's or a worker's, by stage: reserve (from "
        "the event that made room to the quota), dispatch (from quota and other checks to the "
        "first copy on a worker) and start (from the admission to ready pods, on that worker).",
        "stage cluster replica_role",
        buckets=STAGE_BUCKETS,
    )
    phase_workloads = gauge(
        "multiqueue_phase_workloads",
        "Workloads by phase, as `multiqueue queue` names it.",
        "cluster_queue phase replica_role",
    )
    oldest_waiting_seconds = gauge(
        "multiqueue_oldest_waiting_seconds",
        "Seconds that the Workload has waited that has waited longest for quota in a queue since "
        "its creation; 0 if none waits.",
        "cluster_queue replica_role",
    )
    gpus = gauge(
        "multiqueue_gpus",
        "Accelerators of a queue, by kind: nominal, reserved, running (admitted), borrowed, lent, "
        "free (of its nominal quota) and pending, which waiting Workloads request and which has "
        "no flavor yet.",
        "cluster_queue flavor kind replica_role",
    )
    starved_seconds = gauge(
        "multiqueue_starved_seconds",
        "Seconds for which Workloads of a queue have waited for accelerators without a break while "
        "other queues held some of its nominal quota; 0 if that is not so.",
        "cluster_queue replica_role",
    )
    start_estimates_total = counter(
        "multiqueue_start_estimates_total",
        "Estimates of when a Workload starts whose outcome is known: early, inside (of the range "
        "that was given), late or cancelled; by stage (quota or whole) and by how far ahead the "
        "start was (horizon: 10m, 1h, 6h or longer).",
        "stage horizon outcome replica_role",
    )
    start_estimate_factor = gauge(
        "multiqueue_start_estimate_factor",
        "How many times as wide as computed the ranges of estimates of starts are: the smallest "
        "factor (0.5 to 4) with which four in five of the last 200 would have held; 1 while fewer "
        "than 30 are judged; by stage and horizon as multiqueue_start_estimates_total.",
        "stage horizon replica_role",
    )
    worker_gpus = gauge(
        "multiqueue_worker_gpus",
        "Accelerators in the queues of a connected worker, by kind: total, used, free, and "
        "cordoned, which are free on a worker that takes nothing new.",
        "cluster flavor kind replica_role",
    )
    worker_info = gauge(
        "multiqueue_worker_info",
        "1; names the program that queues on a worker, the version of the API that it prefers, "
        "and that of Kubernetes.",
        "cluster program version kubernetes replica_role",
    )
    config_changes_total = counter(
        "multiqueue_config_changes_total",
        "Specs of queues, flavors, checks, workers and profiles that were created, changed or "
        "deleted.",
        "kind replica_role",
    )
    notifications_total = counter(
        "multiqueue_notifications_total",
        "Notifications about jobs, by what came of them: sent, failed, limited (their namespace "
        "causes too many) or dropped (too many wait for the receiver).",
        "receiver result replica_role",
    )
    trace_spans_total = counter(
        "multiqueue_trace_spans_total",
        "Spans of Workloads, by what came of them: sent, refused (by the collector) or dropped "
        "(too many wait for the collector).",
        "result replica_role",
    )
    leading = gauge("multiqueue_leading", "1 while this replica leads, or works alone.")
    event_loop_lag_seconds = histogram(
        "multiqueue_event_loop_lag_seconds",
        "Seconds by which the event loop was late, sampled ten times a second.",
        buckets=LAG_BUCKETS,
    )
