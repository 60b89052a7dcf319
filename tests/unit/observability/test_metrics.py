from __future__ import annotations

from types import SimpleNamespace

import prometheus_client
import pytest
from prometheus_client import generate_latest

from multiqueue.observability.metrics import ManagerMetrics


def series(metrics: ManagerMetrics, prefix: str) -> list[str]:
    text = generate_latest(metrics.registry).decode()
    return [line for line in text.splitlines() if line.startswith(prefix)]


def test_names_labels_and_buckets_are_kueues() -> None:
    got = {
        row.name: row.labels
        for row in ManagerMetrics.rows()
        if not row.name.startswith("multiqueue_")
    }
    cq, role = "cluster_queue", "replica_role"
    quota = ("cohort", cq, "flavor", "resource", role)
    lq = ("name", "namespace")
    of_local_queues = {
        "pending_workloads": ("status",),
        "quota_reserved_workloads_total": ("priority_class",),
        "quota_reserved_wait_time_seconds": ("priority_class",),
        "admitted_workloads_total": ("priority_class",),
        "admission_wait_time_seconds": ("priority_class",),
        "ready_wait_time_seconds": ("priority_class",),
        "admitted_until_ready_wait_time_seconds": ("priority_class",),
        "evicted_workloads_total": ("reason", "underlying_cause", "priority_class"),
        "finished_workloads_total": ("priority_class",),
        "finished_workloads": (),
        "unadmitted_workloads": (cq, "reason", "underlying_cause"),
        "admission_checks_wait_time_seconds": ("priority_class",),
        "execution_time_seconds": ("priority_class",),
        "reserving_active_workloads": (),
        "admitted_active_workloads": (),
        "status": ("active",),
        "resource_reservation": ("flavor", "resource"),
        "resource_usage": ("flavor", "resource"),
        "admission_fair_sharing_usage": (cq,),
    }
    assert got == {
        "kueue_build_info": (
            "git_version",
            "git_commit",
            "build_date",
            "go_version",
            "compiler",
            "platform",
        ),
        "kueue_admission_attempts_total": ("result", role),
        "kueue_admission_attempt_duration_seconds": ("result", role),
        "kueue_pending_workloads": (cq, "status", role),
        "kueue_quota_reserved_workloads_total": (cq, "priority_class", role),
        "kueue_quota_reserved_wait_time_seconds": (cq, "priority_class", role),
        "kueue_admitted_workloads_total": (cq, "priority_class", role),
        "kueue_admission_wait_time_seconds": (cq, "priority_class", role),
        "kueue_evicted_workloads_total": (
            cq,
            "reason",
            "underlying_cause",
            "priority_class",
            role,
        ),
        "kueue_evicted_workloads_once_total": (
            cq,
            "reason",
            "underlying_cause",
            "priority_class",
            role,
        ),
        "kueue_preempted_workloads_total": ("preempting_cluster_queue", "reason", role),
        "kueue_pods_ready_to_evicted_time_seconds": (cq, "reason", "underlying_cause", role),
        "kueue_ready_wait_time_seconds": (cq, "priority_class", role),
        "kueue_admitted_until_ready_wait_time_seconds": (cq, "priority_class", role),
        "kueue_pod_scheduling_gate_removal_seconds": ("name", cq, "is_group", role),
        **{f"kueue_local_queue_{n}": (*lq, *own, role) for n, own in of_local_queues.items()},
        "kueue_replaced_workload_slices_total": (cq, role),
        "kueue_finished_workloads_total": (cq, "priority_class", role),
        "kueue_reserving_active_workloads": (cq, role),
        "kueue_admitted_active_workloads": (cq, role),
        "kueue_cluster_queue_status": (cq, "status", role),
        "kueue_cluster_queue_resource_reservation": quota,
        "kueue_cluster_queue_resource_usage": quota,
        "kueue_cluster_queue_nominal_quota": quota,
        "kueue_cluster_queue_weighted_share": (cq, "cohort", role),
        "kueue_cohort_weighted_share": ("cohort", role),
        "kueue_admission_cycle_preemption_skips": (cq, role),
        "kueue_preemption_target_recomputations_total": (cq, "result", role),
        "kueue_pending_scheduling_hashes": (cq, "status", role),
        "kueue_finished_workloads": (cq, role),
        "kueue_unadmitted_workloads": (cq, "reason", "underlying_cause", role),
        "kueue_admission_checks_wait_time_seconds": (cq, "priority_class", role),
        "kueue_execution_time_seconds": (cq, "priority_class", role),
        "kueue_workload_eviction_latency_seconds": (cq, "reason", role),
        "kueue_workload_creation_latency_seconds": ("job_kind", role),
        "kueue_cluster_queue_borrowing_limit": quota,
        "kueue_cluster_queue_lending_limit": quota,
        "kueue_cluster_queue_resource_pending": (cq, "resource", role),
        "kueue_cluster_queue_info": (cq, "parent_cohort", "root_cohort", role),
        "kueue_cohort_info": ("cohort", "parent_cohort", "root_cohort", role),
        "kueue_cohort_subtree_quota": ("cohort", "flavor", "resource", role),
        "kueue_cohort_subtree_resource_reservations": ("cohort", "flavor", "resource", role),
        "kueue_cohort_subtree_admitted_active_workloads": ("cohort", role),
        "kueue_cohort_subtree_admitted_workloads_total": ("cohort", "priority_class", role),
        "multikueue_workloads_dispatched_total": (cq, "cluster", role),
        "multikueue_workloads_admitted_total": (cq, "cluster", role),
    }


def test_wait_times_have_kueues_buckets() -> None:
    metrics = ManagerMetrics()
    metrics.admission_wait_time_seconds.child("cq", "").observe(0)
    found = series(metrics, "kueue_admission_wait_time_seconds_bucket")
    bounds = [line.split('le="')[1].split('"')[0] for line in found]
    assert bounds[:4] == ["1.0", "2.5", "5.0", "10.0"]
    assert bounds[-1] == "+Inf"
    assert len(bounds[:-1]) == 16


def test_the_name_of_a_row_is_the_name_of_its_attribute() -> None:
    for attribute, row in vars(ManagerMetrics).items():
        if row in ManagerMetrics.rows():
            assert row.name.removeprefix("kueue_").removeprefix("multiqueue_") == attribute


def test_a_metric_is_counted_under_its_labels_and_our_role() -> None:
    metrics = ManagerMetrics(role="leader")
    metrics.pending_workloads.child("team-a", "active").set(3)
    metrics.admitted_workloads_total.child("team-a", "high").inc()
    assert series(metrics, "kueue_pending") == [
        'kueue_pending_workloads{cluster_queue="team-a",replica_role="leader",status="active"} 3.0'
    ]
    assert series(metrics, "kueue_admitted_workloads_total") == [
        (
            'kueue_admitted_workloads_total{cluster_queue="team-a",priority_class="high",'
            'replica_role="leader"} 1.0'
        )
    ]


def test_a_child_is_looked_up_once() -> None:
    family = ManagerMetrics().pending_workloads
    assert family.child("a", "active") is family.child("a", "active")


def test_wrong_labels_are_a_mistake() -> None:
    with pytest.raises(ValueError, match="label"):
        ManagerMetrics().pending_workloads.child("only-one")


def test_two_processes_in_one_share_nothing() -> None:
    one, two = ManagerMetrics(), ManagerMetrics()
    one.events_dropped_total.child().inc()
    assert series(two, "multiqueue_events_dropped_total") == ["multiqueue_events_dropped_total 0.0"]
    assert b"kueue" not in generate_latest(prometheus_client.REGISTRY)


def test_a_deleted_queue_leaves_no_series() -> None:
    metrics = ManagerMetrics()
    for queue in ("a", "b"):
        metrics.pending_workloads.child(queue, "active").set(1)
        metrics.cluster_queue_nominal_quota.child("", queue, "f", "cpu").set(1)
    metrics.forget(cluster_queue="a")
    left = "\n".join(series(metrics, "kueue_"))
    assert 'cluster_queue="a"' not in left
    assert left.count('cluster_queue="b"') == 2
    metrics.pending_workloads.child("a", "active").set(2)
    assert 'cluster_queue="a"' in "\n".join(series(metrics, "kueue_pending"))


def test_a_new_role_takes_gauges_along_and_keeps_what_was_counted() -> None:
    metrics = ManagerMetrics(role="follower")
    metrics.pending_workloads.child("a", "active").set(1)
    metrics.admitted_workloads_total.child("a", "").inc()
    metrics.change_role("leader")
    metrics.admitted_workloads_total.child("a", "").inc()
    assert series(metrics, "kueue_pending_workloads{") == []
    assert [line.rsplit(" ", 1)[1] for line in series(metrics, "kueue_admitted_workloads_")] == [
        "1.0",
        "1.0",
    ]


def test_what_the_kube_layer_tells_is_counted() -> None:
    metrics = ManagerMetrics()
    outcome = SimpleNamespace(method="PATCH", resource="workloads", status=200, seconds=0.003)
    metrics.request_observer("worker-a")(outcome)
    metrics.watch_observer("workloads")("gone")
    metrics.observe_reconcile("jobs", "success", 0.1)
    limiter = SimpleNamespace(rate=50.0, in_flight=3)
    metrics.watch_limiter(limiter)
    limiter.rate = 25.0
    assert series(metrics, "multiqueue_api_requests_total") == [
        (
            'multiqueue_api_requests_total{cluster="worker-a",code="200",method="PATCH",'
            'resource="workloads"} 1.0'
        )
    ]
    assert series(metrics, "multiqueue_watch_restarts_total") == [
        'multiqueue_watch_restarts_total{cluster="",reason="gone",resource="workloads"} 1.0'
    ]
    assert series(metrics, "multiqueue_api_rate_limit") == [
        'multiqueue_api_rate_limit{cluster=""} 25.0'
    ]
    assert series(metrics, "multiqueue_reconciles_total") == [
        'multiqueue_reconciles_total{outcome="success",reconciler="jobs"} 1.0'
    ]


def test_creation_times_are_not_exported() -> None:
    metrics = ManagerMetrics()
    metrics.admitted_workloads_total.child("a", "").inc()
    assert "_created" not in generate_latest(metrics.registry).decode()


def test_a_deleted_local_queue_takes_only_its_own_series_along() -> None:
    metrics = ManagerMetrics()
    for namespace in ("team-a", "team-b"):
        metrics.local_queue_pending_workloads.child("lq", namespace, "active").set(1)
    metrics.forget(name="lq", namespace="team-a")
    (left,) = series(metrics, "kueue_local_queue_pending_workloads{")
    assert 'namespace="team-b"' in left
