"""The life of a Workload: each transition as a function of status and time."""

from __future__ import annotations

import msgspec
import pytest

from multiqueue.api.conditions import CheckState, Reason, WorkloadCondition, find_condition
from multiqueue.api.v1beta2 import (
    AdmissionCheckState,
    PodSetAssignment,
    PodSetUpdate,
    PreemptionGateState,
    RequeueState,
    UnhealthyNode,
    WorkloadStatus,
)
from multiqueue.api.v1beta2.meta import format_time
from multiqueue.api.workload_checks import set_check_state
from multiqueue.api.workload_state import (
    complete_eviction,
    deactivate,
    evict,
    eviction_reason,
    execution_time_left,
    find,
    finish,
    has_pending_topology,
    has_quota,
    is_admitted,
    is_evicted,
    is_finished,
    is_on_hold,
    preempt,
    release_quota,
    requeue_at,
    set_pending,
    set_requeue_at,
    sync_admitted,
    target_deactivation,
)
from tests.builders.workloads import (
    T0,
    admitted,
    evicted,
    make_workload,
    minutes,
    reserved,
    with_checks,
)


def condition(status: WorkloadStatus, type_: str) -> tuple[str, str, str]:
    found = find_condition(status.conditions, type_)
    assert found is not None, f"no condition {type_}"
    return (found.status, found.reason, found.message)


def test_a_reservation_is_not_an_admission() -> None:
    status = reserved(make_workload()).status
    assert has_quota(status)
    assert not is_admitted(status)
    assert condition(status, "QuotaReserved") == (
        "True",
        "QuotaReserved",
        "Quota reserved in ClusterQueue cq",
    )


def test_a_reservation_makes_earlier_evictions_history() -> None:
    workload = make_workload()
    status = preempt(admitted(workload).status, Reason.IN_CLUSTER_QUEUE, "for another", now=T0)
    status = complete_eviction(status, now=minutes(1))
    again = reserved(msgspec.structs.replace(workload, status=status), at=minutes(2)).status
    assert condition(again, "Evicted") == ("False", "QuotaReserved", "Previously: for another")
    assert condition(again, "Preempted") == ("False", "QuotaReserved", "Previously: for another")
    assert condition(again, "Requeued")[0] == "True"


@pytest.mark.parametrize(
    ("state", "want"),
    [
        (CheckState.PENDING, False),
        (CheckState.RETRY, False),
        (CheckState.REJECTED, False),
        (CheckState.READY, True),
    ],
)
def test_admitted_needs_every_check_ready(state: CheckState, want: bool) -> None:
    workload = with_checks(reserved(make_workload()), a=CheckState.READY, b=state)
    assert is_admitted(sync_admitted(workload.status, now=T0)) is want


def test_admitted_is_absent_until_it_first_becomes_true() -> None:
    workload = with_checks(reserved(make_workload()), a=CheckState.PENDING)
    status = sync_admitted(workload.status, now=T0)
    assert status is workload.status
    assert find(status, WorkloadCondition.ADMITTED) is None


def test_a_check_that_goes_back_to_pending_does_not_end_an_admission() -> None:
    workload = with_checks(admitted(make_workload()), a=CheckState.PENDING)
    assert sync_admitted(workload.status, now=minutes(1)) is workload.status


def test_admitted_waits_for_a_delayed_topology() -> None:
    status = reserved(make_workload()).status
    assert status.admission is not None
    waiting = PodSetAssignment(delayed_topology_request="Pending")
    pending = msgspec.structs.replace(
        status,
        admission=msgspec.structs.replace(status.admission, pod_set_assignments=(waiting,)),
    )
    assert has_pending_topology(pending)
    assert not is_admitted(sync_admitted(pending, now=T0))


def test_the_loss_of_quota_ends_the_admission_and_keeps_the_time_it_ran() -> None:
    status = admitted(make_workload(), at=T0).status
    status = release_quota(status, reason=Reason.SUSPENDED, message="stopped", now=minutes(3))
    assert status.admission is None
    assert condition(status, "QuotaReserved") == ("False", "Suspended", "stopped")
    assert condition(status, "Admitted") == (
        "False",
        "NoReservation",
        "The workload has no reservation",
    )
    assert status.accumulated_past_execution_time_seconds == 180


def test_past_execution_times_add_up() -> None:
    workload = make_workload()
    for start in (0, 10):
        workload = admitted(workload, at=minutes(start))
        status = release_quota(workload.status, reason="r", message="", now=minutes(start + 1))
        workload = msgspec.structs.replace(workload, status=status)
    assert workload.status.accumulated_past_execution_time_seconds == 120


def test_an_eviction_keeps_the_reservation_and_resets_the_rest() -> None:
    """E-103."""
    workload = with_checks(admitted(make_workload()), a=CheckState.READY, b=CheckState.PENDING)
    before = msgspec.structs.replace(
        workload.status,
        cluster_name="worker",
        nominated_cluster_names=("x",),
        unhealthy_nodes=(UnhealthyNode(name="n"),),
        preemption_gates=(PreemptionGateState(name="g", position="Open"),),
    )
    status = evict(before, Reason.PREEMPTED, "away", now=minutes(1))
    assert has_quota(status)
    assert is_admitted(status)
    assert is_evicted(status)
    assert (status.cluster_name, status.nominated_cluster_names) == (None, ())
    assert status.unhealthy_nodes == ()
    assert [gate.position for gate in status.preemption_gates] == ["Closed"]
    assert [(c.name, c.state, c.message) for c in status.admission_checks] == [
        ("a", "Pending", "Reset to Pending after eviction. Previously: Ready"),
        ("b", "Pending", ""),
    ]


def test_an_eviction_counts_retries_of_checks_that_asked_for_one() -> None:
    workload = with_checks(admitted(make_workload()), a=CheckState.RETRY, b=CheckState.READY)
    updates = (PodSetUpdate(name="main", labels={"x": "y"}),)
    checks = tuple(
        msgspec.structs.replace(
            check, requeue_after_seconds=60, retry_count=2, pod_set_updates=updates
        )
        for check in workload.status.admission_checks
    )
    before = msgspec.structs.replace(workload.status, admission_checks=checks)
    status = evict(before, Reason.ADMISSION_CHECK, "again", now=T0)
    got = [
        (c.retry_count, c.requeue_after_seconds, c.pod_set_updates) for c in status.admission_checks
    ]
    assert got == [(3, 60, ()), (None, 60, ())]


def test_evictions_are_counted_by_reason_and_cause_once_each() -> None:
    status = evict(WorkloadStatus(), Reason.PREEMPTED, "a", now=T0)
    status = evict(status, Reason.PREEMPTED, "b", now=minutes(1))
    status = evict(status, Reason.DEACTIVATED, "c", now=T0, cause="AdmissionCheck")
    assert status.scheduling_stats is not None
    got = [(e.reason, e.underlying_cause, e.count) for e in status.scheduling_stats.evictions]
    assert got == [("Preempted", "", 1), ("Deactivated", "AdmissionCheck", 1)]


def test_repeating_an_eviction_changes_nothing() -> None:
    status = evicted(admitted(make_workload())).status
    assert evict(status, Reason.PREEMPTED, "again", now=minutes(5)) is status


@pytest.mark.parametrize(
    ("reason", "requeued"),
    [
        (Reason.PREEMPTED, "True"),
        (Reason.NODE_FAILURES, "True"),
        (Reason.ADMISSION_CHECK, "False"),
        (Reason.CLUSTER_QUEUE_STOPPED, "False"),
        (Reason.DEACTIVATED, "False"),
    ],
)
def test_a_complete_eviction_says_who_may_queue_again(reason: Reason, requeued: str) -> None:
    status = complete_eviction(evicted(admitted(make_workload()), reason).status, now=minutes(1))
    assert not has_quota(status)
    assert not is_admitted(status)
    assert condition(status, "Requeued") == (requeued, reason, "go away")
    assert condition(status, "QuotaReserved") == ("False", "PendingEvaluation", "go away")


def test_there_is_nothing_to_complete_without_eviction_or_quota() -> None:
    running = admitted(make_workload()).status
    assert complete_eviction(running, now=T0) is running
    waiting = evicted(make_workload()).status
    assert complete_eviction(waiting, now=T0) is waiting


def test_a_deactivation_carries_its_cause() -> None:
    status = admitted(make_workload()).status
    status = set_requeue_at(status, minutes(9))
    status = target_deactivation(status, Reason.ADMISSION_CHECK, "a check said no", now=T0)
    status = deactivate(status, now=minutes(1))
    assert condition(status, "Evicted") == (
        "True",
        "DeactivatedDueToAdmissionCheck",
        "The workload is deactivated due to a check said no",
    )
    assert find(status, WorkloadCondition.DEACTIVATION_TARGET) is None
    assert status.requeue_state is None
    assert deactivate(status, now=minutes(2)) is status


def test_a_deactivation_by_hand_has_no_cause() -> None:
    status = deactivate(WorkloadStatus(), now=T0)
    assert eviction_reason(status) == "Deactivated"


def test_the_first_end_stands() -> None:
    status = finish(WorkloadStatus(), Reason.SUCCEEDED, "done", now=T0)
    assert is_finished(status)
    assert finish(status, Reason.FAILED, "no", now=minutes(1)) is status


def test_a_reason_that_changes_keeps_the_time_since_when_it_waits() -> None:
    status = set_pending(WorkloadStatus(), reason="A", message="x", now=T0, generation=1)
    later = set_pending(status, reason="B", message="y", now=minutes(1), generation=2)
    found = find(later, WorkloadCondition.QUOTA_RESERVED)
    assert found is not None
    assert (found.last_transition_time, found.observed_generation) == (format_time(T0), 2)
    assert set_pending(later, reason="B", message="y", now=minutes(2), generation=2) is later


def test_a_workload_on_hold_is_told_from_a_pending_one() -> None:
    assert is_on_hold(set_pending(WorkloadStatus(), reason=Reason.ON_HOLD, message="", now=T0))
    assert not is_on_hold(set_pending(WorkloadStatus(), reason="Other", message="", now=T0))


def test_the_backoff_keeps_its_count_when_it_ends() -> None:
    status = WorkloadStatus(requeue_state=RequeueState(count=2))
    status = set_requeue_at(status, minutes(1))
    assert requeue_at(status) == minutes(1)
    assert set_requeue_at(status, None).requeue_state == RequeueState(count=2)
    assert set_requeue_at(set_requeue_at(WorkloadStatus(), T0), None) == WorkloadStatus()


def test_execution_time_counts_earlier_runs() -> None:
    workload = admitted(make_workload(maximum_execution_time_seconds=600), at=T0)
    past = msgspec.structs.replace(workload.status, accumulated_past_execution_time_seconds=60)
    workload = msgspec.structs.replace(workload, status=past)
    left = execution_time_left(workload, minutes(4))
    assert left is not None
    assert left.total_seconds() == 300
    assert execution_time_left(make_workload(maximum_execution_time_seconds=600), T0) is None
    assert execution_time_left(admitted(make_workload()), T0) is None


def test_a_check_keeps_its_time_while_its_state_stays() -> None:
    status = WorkloadStatus(admission_checks=(AdmissionCheckState(name="a"),))
    ready = set_check_state(status, "a", CheckState.READY, message="on w1", now=T0)
    again = set_check_state(ready, "a", CheckState.READY, message="on w2", now=minutes(1))
    assert again.admission_checks[0].last_transition_time == format_time(T0)
    assert again.admission_checks[0].message == "on w2"
    assert set_check_state(status, "b", CheckState.READY, message="", now=T0) is status
