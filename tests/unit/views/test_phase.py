"""Where a Workload stands, in a state and in words."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from multiqueue.api import workload_checks, workload_state
from multiqueue.api.conditions import CheckState, Reason
from multiqueue.api.v1beta2 import Admission, AdmissionCheckState, Workload, WorkloadStatus
from multiqueue.dispatch.decide.cluster_state import ClusterState
from multiqueue.dispatch.decide.plan import SetCheck
from multiqueue.engine.plan import SkipReason
from multiqueue.engine.queue_states import BYPASSED
from multiqueue.views.phase import PhaseState, find_phase
from tests.unit.cli.builders import condition, make_workload
from tests.unit.dispatch.builders import (
    T0,
    make_cluster,
    make_copy,
    make_lost,
    make_plan,
    make_ready,
    make_remote_job,
    minutes,
)

QUOTA = condition("QuotaReserved")
ADMITTED = condition("Admitted")
HOLDS = {"queue": "cq", "flavor": "a100"}
LEFT = (
    'Evicted due to AdmissionCheck in Retry state: "mk" '
    '(The workload was evicted on cluster "w1": Preempted)'
)


def make_check(state: str = "Pending", message: str = "looking for a worker") -> dict[str, str]:
    when = "2026-01-01T11:59:00Z"
    return {"name": "mk", "state": state, "message": message, "lastTransitionTime": when}


def reserving(*conditions: Any, **status: Any) -> Workload:
    return make_workload("w", QUOTA, *conditions, admission=HOLDS, **status)


def make_batch_job(
    *, parallelism: int = 4, completions: int | None = 4, **status: Any
) -> dict[str, Any]:
    spec = {"parallelism": parallelism, "completions": completions}
    return {"kind": "Job", "spec": spec, "status": status}


@pytest.mark.parametrize(
    ("workload", "job", "state", "words"),
    [
        pytest.param(make_workload(), None, PhaseState.QUEUED, "waiting for quota", id="new"),
        pytest.param(
            reserving(admissionChecks=[make_check()]),
            None,
            PhaseState.CHECKING,
            "waiting for checks",
            id="nobody is offered it yet",
        ),
        pytest.param(
            reserving(admissionChecks=[make_check()], nominatedClusterNames=["w1", "w2"]),
            None,
            PhaseState.DISPATCHED,
            "dispatched to w1, w2",
            id="offered to two",
        ),
        pytest.param(reserving(ADMITTED), None, PhaseState.ADMITTED, "admitted", id="runs here"),
        pytest.param(
            reserving(ADMITTED, clusterName="w1"),
            None,
            PhaseState.ADMITTED,
            "admitted on w1",
            id="its job is not known",
        ),
        pytest.param(
            reserving(ADMITTED, clusterName="w1"),
            make_batch_job(ready=3, active=4),
            PhaseState.STARTING,
            "starting on w1",
            id="one pod of the gang is missing",
        ),
        pytest.param(
            reserving(ADMITTED, clusterName="w1"),
            make_batch_job(ready=4, active=4),
            PhaseState.RUNNING,
            "running on w1",
            id="all pods are ready",
        ),
        pytest.param(
            reserving(ADMITTED, clusterName="w1"),
            make_batch_job(ready=1, active=1, succeeded=3),
            PhaseState.RUNNING,
            "running on w1",
            id="the last pod is still at work",
        ),
        pytest.param(
            reserving(ADMITTED),
            make_batch_job(completions=None, parallelism=2, ready=2),
            PhaseState.RUNNING,
            "running",
            id="a work queue, here",
        ),
        pytest.param(
            reserving(ADMITTED, condition("PodsReady"), clusterName="w1"),
            make_batch_job(ready=0),
            PhaseState.RUNNING,
            "running on w1",
            id="the condition is newer than the status",
        ),
        pytest.param(
            reserving(ADMITTED, condition("PodsReady", "False", "WaitForStart")),
            {"kind": "PyTorchJob"},
            PhaseState.STARTING,
            "starting",
            id="the pods of another kind",
        ),
        pytest.param(
            reserving(condition("Evicted", reason="AdmissionCheck", message=LEFT)),
            None,
            PhaseState.MOVING,
            "moving from w1",
            id="stopped on its worker",
        ),
        pytest.param(
            make_workload("w", condition("Evicted", reason="AdmissionCheck", message=LEFT)),
            None,
            PhaseState.QUEUED,
            "waiting for quota, moving from w1",
            id="waits again after its worker",
        ),
        pytest.param(
            reserving(
                condition("Evicted", "False", "QuotaReserved", f"Previously: {LEFT}"),
                nominatedClusterNames=["w2"],
            ),
            None,
            PhaseState.DISPATCHED,
            "dispatched to w2, moving from w1",
            id="offered to the next",
        ),
        pytest.param(
            reserving(
                ADMITTED,
                condition("Evicted", "False", "QuotaReserved", f"Previously: {LEFT}"),
                clusterName="w2",
            ),
            None,
            PhaseState.ADMITTED,
            "admitted on w2",
            id="it has moved",
        ),
        pytest.param(
            reserving(condition("Evicted", reason="Preempted", message='for ClusterQueue "b"')),
            None,
            PhaseState.EVICTED,
            "evicted, its pods are being stopped",
            id="preempted here",
        ),
        pytest.param(
            make_workload("w", active=False),
            None,
            PhaseState.DEACTIVATED,
            "suspended",
            id="inactive",
        ),
        pytest.param(
            reserving(admissionChecks=[make_check("Rejected", "no worker has 9 GPUs")]),
            None,
            PhaseState.REJECTED,
            "rejected",
            id="rejected",
        ),
        pytest.param(
            make_workload(
                "w", condition("Evicted", reason="DeactivatedDueToAdmissionCheck"), active=False
            ),
            None,
            PhaseState.REJECTED,
            "rejected",
            id="given up after it was rejected",
        ),
        pytest.param(
            make_workload("w", condition("Finished", reason="Succeeded"), clusterName="w1"),
            None,
            PhaseState.SUCCEEDED,
            "finished on w1",
            id="finished",
        ),
        pytest.param(
            make_workload("w", condition("Finished", reason="JobFailed"), clusterName="w1"),
            None,
            PhaseState.FAILED,
            "failed on w1",
            id="failed",
        ),
    ],
)
def test_phases(workload: Workload, job: Any, state: PhaseState, words: str) -> None:
    phase = find_phase(workload, job)
    assert (phase.state, phase.words) == (state, words)


def test_pods_that_are_missing_are_counted() -> None:
    phase = find_phase(reserving(ADMITTED, clusterName="w1"), make_batch_job(ready=1))
    assert phase.why == "1 of 4 pods are ready"


def test_who_runs_reads_that_it_will_be_stopped() -> None:
    words = "will be stopped at 2026-01-01T12:02:30Z at the latest; save your work now. For b"
    type_ = "multiqueue.dev/PreemptionNotice"
    told = reserving(ADMITTED, condition(type_, reason="InClusterQueue", message=words))
    for job, state in ((make_batch_job(ready=4), PhaseState.RUNNING), (None, PhaseState.ADMITTED)):
        phase = find_phase(told, job)
        assert (phase.state, phase.why) == (state, words)
    over = reserving(ADMITTED, condition(type_, "False", reason="Rescinded", message="goes on"))
    assert find_phase(over, make_batch_job(ready=4)).why == ""


def test_a_rejection_says_what_the_check_said() -> None:
    workload = reserving(admissionChecks=[make_check("Rejected", "no worker has 9 GPUs")])
    assert find_phase(workload).why == "mk: no worker has 9 GPUs"


STOPPED = make_cluster(
    "w1", workload=make_copy(evicted_at=T0, evicted_why="Preempted: by b"), job=make_remote_job()
)


@pytest.mark.parametrize(
    "cluster",
    [
        pytest.param(STOPPED, id="evicted there"),
        pytest.param(make_cluster("w1"), id="deleted there"),
        pytest.param(make_lost("w1", ago=minutes(60)), id="lost for too long"),
    ],
)
def test_whatever_sends_a_workload_round_again_names_the_worker_that_it_leaves(
    cluster: ClusterState,
) -> None:
    """The words of the rules, through the eviction that they lead to."""
    plan = make_plan(make_ready("w1"), cluster)
    (step,) = (step for step in plan.steps if isinstance(step, SetCheck))
    now = datetime(2026, 1, 1, tzinfo=UTC)
    check = AdmissionCheckState(name="mk", state=CheckState.READY)
    status = WorkloadStatus(admission_checks=(check,))
    status = workload_state.reserve_quota(status, Admission(cluster_queue="cq"), now=now)
    status = workload_checks.set_check_state(
        status, "mk", step.state, message=step.message, now=now
    )
    retried = workload_checks.checks_in(status, CheckState.RETRY)
    words = workload_checks.describe_checks(retried, CheckState.RETRY)
    status = workload_state.evict(status, Reason.ADMISSION_CHECK, words, now=now)
    workload = msgspec.structs.replace(make_workload(), status=status)
    assert find_phase(workload).words == "moving from w1"


@pytest.mark.parametrize(
    ("message", "want"),
    [
        (f"{BYPASSED}: 3 more needed", "WaitingForQuota: 3 more needed"),
        (
            f"{SkipReason.NO_LONGER_FITS}: 3 more needed",
            "WaitingForQuota: another Workload took the room in the same cycle: 3 more needed",
        ),
        (
            str(SkipReason.OVERLAPPING_TARGETS),
            "WaitingForQuota: another Workload preempts the same Workloads first",
        ),
    ],
    ids=["bypassed", "no longer fits", "overlapping targets"],
)
def test_the_words_that_tools_read_are_said_in_plain_ones(message: str, want: str) -> None:
    waits = condition("QuotaReserved", "False", "WaitingForQuota", message)
    assert find_phase(make_workload("w", waits)).why == want
