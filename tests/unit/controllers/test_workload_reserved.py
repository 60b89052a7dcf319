"""Rules for Workloads that hold quota: checks, stopped queues, time limits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from multiqueue.api.conditions import CheckState, Reason
from multiqueue.api.names import MULTIKUEUE_ORIGIN
from multiqueue.api.v1beta2 import AdmissionCheckState, Workload
from multiqueue.api.v1beta2.meta import format_time
from multiqueue.api.workload_readiness import ReadinessRules, sync_pods_ready
from multiqueue.api.workload_state import complete_eviction, has_quota, is_admitted, is_evicted
from multiqueue.controllers.workload.decide import decide
from multiqueue.controllers.workload.plan import NothingToDo, WriteStatus
from multiqueue.controllers.workload.view import WorkloadOptions
from tests.builders import workloads
from tests.builders.workloads import (
    T0,
    admitted,
    evicted,
    minutes,
    reserved,
    with_checks,
    with_status,
)
from tests.unit.controllers.workload_views import (
    condition_of,
    is_done,
    make_cluster_queue,
    make_local_queue,
    make_view,
    step,
)


def make_workload(**fields: Any) -> Workload:
    """A Workload of a job, which stops before an eviction ends."""
    return workloads.make_workload(**{"owner_uid": "job-uid", **fields})


def with_retry(workload: Workload, *, seconds: int | None) -> Workload:
    check = AdmissionCheckState(
        name="a",
        state="Retry",
        last_transition_time=format_time(T0),
        message="later",
        requeue_after_seconds=seconds,
    )
    return with_status(
        workload, msgspec.structs.replace(workload.status, admission_checks=(check,))
    )


def without_admission(workload: Workload) -> Workload:
    return with_status(workload, msgspec.structs.replace(workload.status, admission=None))


# ---------------------------------------------------------------- without a job


@pytest.mark.parametrize("active", [True, False], ids=["active", "inactive"])
def test_an_eviction_without_a_job_to_stop_releases_the_quota_at_once(active: bool) -> None:
    workload = evicted(admitted(workloads.make_workload(active=active)))
    view = step(make_view(workload))
    assert not has_quota(view.workload.status)
    assert view.workload.status.admission is None
    assert condition_of(view, "QuotaReserved") == ("False", "PendingEvaluation", "go away")


def offered(workload: Workload) -> Workload:
    status = msgspec.structs.replace(workload.status, nominated_cluster_names=("worker",))
    return with_status(workload, status)


@pytest.mark.parametrize(
    "workload",
    [
        pytest.param(evicted(admitted(make_workload())), id="with a job"),
        pytest.param(
            evicted(admitted(workloads.make_workload(labels={MULTIKUEUE_ORIGIN: "manager"}))),
            id="the copy of another manager",
        ),
        pytest.param(offered(evicted(reserved(workloads.make_workload()))), id="offered"),
    ],
)
def test_the_quota_is_kept_until_nothing_can_run_any_more(workload: Workload) -> None:
    assert is_done(decide(make_view(workload)))


# ---------------------------------------------------------------- broken reservations


@pytest.mark.parametrize("give", [reserved, admitted])
def test_a_reservation_without_an_admission_is_evicted_and_queues_anew(
    give: Callable[[Workload], Workload],
) -> None:
    view = step(make_view(without_admission(give(make_workload()))))
    assert is_evicted(view.workload.status)
    assert is_done(decide(view))
    status = complete_eviction(view.workload.status, now=T0, generation=1)
    view = replace(view, workload=with_status(view.workload, status))
    why = "QuotaReserved is True, but status.admission is empty"
    assert condition_of(view, "QuotaReserved") == ("False", Reason.PENDING_EVALUATION, why)
    assert condition_of(view, "Requeued") == ("True", Reason.MISCONFIGURED, why)
    assert not is_admitted(status)


# ---------------------------------------------------------------- the check list


def test_the_last_check_admits_the_workload() -> None:
    workload = with_checks(reserved(make_workload()), a=CheckState.READY)
    view = step(make_view(workload, holding=make_cluster_queue("a")))
    assert is_admitted(view.workload.status)
    assert is_done(decide(view))


def test_a_check_that_was_added_to_the_queue_is_listed_before_anything_is_admitted() -> None:
    workload = with_checks(reserved(make_workload()), a=CheckState.READY)
    view = step(make_view(workload, holding=make_cluster_queue("a", "b")))
    assert [c.name for c in view.workload.status.admission_checks] == ["a", "b"]
    assert not is_admitted(view.workload.status)


def test_a_check_that_was_removed_evicts_nobody() -> None:
    workload = with_checks(reserved(make_workload()), a=CheckState.REJECTED)
    view = step(make_view(workload, holding=make_cluster_queue()))
    assert view.workload.status.admission_checks == ()
    assert is_admitted(view.workload.status)


def test_an_evicted_workload_is_not_admitted_by_its_checks() -> None:
    """E-109."""
    workload = with_checks(evicted(reserved(make_workload())), a=CheckState.READY)
    assert is_done(decide(make_view(workload, holding=make_cluster_queue("a"))))


# ---------------------------------------------------------------- what checks ask for


def test_a_rejected_check_gives_the_workload_up() -> None:
    """E-109: before another one sends it back."""
    workload = with_checks(reserved(make_workload()), a=CheckState.REJECTED, b=CheckState.RETRY)
    view = make_view(workload, holding=make_cluster_queue("a", "b"))
    plan = decide(view)
    assert isinstance(plan, WriteStatus)
    assert plan.warn is not None
    assert plan.warn.reason == "AdmissionCheckRejected"
    assert plan.warn.message == 'Deactivated due to AdmissionCheck in Rejected state: "a"'
    assert condition_of(step(view), "DeactivationTarget") == (
        "True",
        "AdmissionCheck",
        'AdmissionCheck in Rejected state: "a"',
    )


def test_a_retry_evicts_and_remembers_the_time() -> None:
    workload = with_retry(admitted(make_workload()), seconds=90)
    view = step(make_view(workload, holding=make_cluster_queue("a"), now=minutes(1)))
    assert condition_of(view, "Evicted") == (
        "True",
        "AdmissionCheck",
        'Evicted due to AdmissionCheck in Retry state: "a" (later)',
    )
    state = view.workload.status.requeue_state
    assert state is not None
    assert (state.count, state.requeue_at) == (None, "2026-01-01T00:01:30Z")
    assert is_done(decide(view))


@pytest.mark.parametrize("seconds", [None, 30])
def test_a_retry_without_time_or_with_a_past_one_waits_for_nothing(seconds: int | None) -> None:
    workload = with_retry(admitted(make_workload()), seconds=seconds)
    view = step(make_view(workload, holding=make_cluster_queue("a"), now=minutes(1)))
    assert is_evicted(view.workload.status)
    assert view.workload.status.requeue_state is None


# ---------------------------------------------------------------- stopped and missing queues


def test_a_held_cluster_queue_takes_back_what_does_not_run() -> None:
    """E-113."""
    held = make_cluster_queue("a", stop_policy="Hold")
    waiting = with_checks(reserved(make_workload()), a=CheckState.PENDING)
    view = step(make_view(waiting, holding=held, cluster_queue=held))
    assert condition_of(view, "QuotaReserved") == (
        "False",
        "Suspended",
        "ClusterQueue cq is stopped",
    )
    assert condition_of(view, "Evicted") is None
    assert condition_of(view, "Requeued") is None
    assert view.workload.status.admission is None


def test_a_held_cluster_queue_lets_run_what_runs() -> None:
    held = make_cluster_queue(stop_policy="Hold")
    assert is_done(decide(make_view(admitted(make_workload()), holding=held)))


def test_a_drained_cluster_queue_evicts_what_runs() -> None:
    """E-113."""
    drained = make_cluster_queue(stop_policy="HoldAndDrain")
    view = step(make_view(admitted(make_workload()), holding=drained))
    assert condition_of(view, "Evicted") == (
        "True",
        "ClusterQueueStopped",
        "The ClusterQueue is stopped",
    )
    assert is_done(decide(view))


def test_a_drained_local_queue_evicts_what_runs() -> None:
    drained = make_local_queue(stop_policy="HoldAndDrain")
    view = step(make_view(admitted(make_workload()), local_queue=drained))
    assert condition_of(view, "Evicted") == (
        "True",
        "LocalQueueStopped",
        "The LocalQueue is stopped",
    )


LOCAL_GONE = "LocalQueue lq is terminating or missing"
CLUSTER_GONE = "ClusterQueue cq is terminating or missing"


@pytest.mark.parametrize(
    ("queues", "message"),
    [
        ({"local_queue": None}, LOCAL_GONE),
        ({"local_queue": make_local_queue(deleted=True)}, LOCAL_GONE),
        ({"holding": None}, CLUSTER_GONE),
        ({"holding": make_cluster_queue("a", deleted=True)}, CLUSTER_GONE),
    ],
)
def test_a_queue_that_goes_takes_back_what_does_not_run(
    queues: dict[str, object], message: str
) -> None:
    """E-113."""
    waiting = with_checks(reserved(make_workload()), a=CheckState.PENDING)
    view = step(make_view(waiting, **{"holding": make_cluster_queue("a"), **queues}))
    assert condition_of(view, "QuotaReserved") == ("False", "Misconfigured", message)
    running = with_checks(admitted(make_workload()), a=CheckState.READY)
    assert is_done(decide(make_view(running, **{"holding": make_cluster_queue("a"), **queues})))


# ---------------------------------------------------------------- time limits


def test_a_workload_may_run_no_longer_than_it_said() -> None:
    """E-107."""
    workload = admitted(make_workload(maximum_execution_time_seconds=120))
    view = make_view(workload, now=minutes(1))
    assert decide(view) == NothingToDo(requeue_after=60)
    late = replace(view, now=minutes(2))
    plan = decide(late)
    assert isinstance(plan, WriteStatus)
    assert plan.warn is not None
    assert condition_of(step(late), "DeactivationTarget") == (
        "True",
        Reason.MAXIMUM_EXECUTION_TIME_EXCEEDED,
        "exceeding the maximum execution time",
    )


def test_an_eviction_stops_the_clock() -> None:
    workload = evicted(admitted(make_workload(maximum_execution_time_seconds=120)))
    assert is_done(decide(make_view(workload, now=minutes(3))))


# ---------------------------------------------------------------- pods that are late

PATIENCE = ReadinessRules(timeout=timedelta(minutes=5), recovery_timeout=timedelta(minutes=1))
WAITING = WorkloadOptions(readiness=PATIENCE)


def ready(workload: Workload) -> Workload:
    return with_status(workload, sync_pods_ready(workload.status, ready=True, now=T0))


def test_a_workload_whose_pods_are_late_is_evicted() -> None:
    view = make_view(admitted(make_workload()), options=WAITING, now=minutes(2))
    assert decide(view) == NothingToDo(requeue_after=180)
    late = step(replace(view, now=minutes(5)))
    assert condition_of(late, "Evicted") == (
        "True",
        "PodsReadyTimeout",
        "Exceeded the PodsReady timeout team-a/wl",
    )
    assert is_done(decide(late))


def test_the_nearer_of_two_limits_counts() -> None:
    workload = admitted(make_workload(maximum_execution_time_seconds=120))
    assert decide(make_view(workload, options=WAITING)) == NothingToDo(requeue_after=120)
    workload = admitted(make_workload(maximum_execution_time_seconds=1200))
    assert decide(make_view(workload, options=WAITING)) == NothingToDo(requeue_after=300)


@pytest.mark.parametrize(
    "workload",
    [
        pytest.param(ready(admitted(make_workload())), id="ready"),
        pytest.param(evicted(admitted(make_workload())), id="leaving"),
        pytest.param(
            with_status(
                admitted(make_workload()),
                msgspec.structs.replace(admitted(make_workload()).status, cluster_name="worker"),
            ),
            id="on another cluster",
        ),
    ],
)
def test_nobody_waits_for_the_pods_of(workload: Workload) -> None:
    assert decide(make_view(workload, options=WAITING, now=minutes(60))) == NothingToDo()


def test_without_the_section_nobody_waits() -> None:
    assert decide(make_view(admitted(make_workload()), now=minutes(60))) == NothingToDo()
