"""Why a Workload waits: written when it is news, and only then."""

from __future__ import annotations

from dataclasses import replace

import pytest

from multiqueue.api.conditions import Reason
from multiqueue.api.v1beta2 import PodSetRequest, Workload
from multiqueue.api.workload_state import set_pending
from multiqueue.controllers.workload.decide import decide
from multiqueue.controllers.workload.plan import NothingToDo, WriteStatus
from tests.builders.workloads import T0, make_workload, minutes, reserved, with_status
from tests.unit.controllers.workload_views import (
    because,
    condition_of,
    is_done,
    make_cluster_queue,
    make_local_queue,
    make_view,
    step,
)

NOT_YET = because(
    Reason.PENDING_EVALUATION, "Workload is pending evaluation in the scheduling queue"
)


def waiting(reason: str, message: str) -> Workload:
    workload = make_workload()
    status = set_pending(workload.status, reason=reason, message=message, now=T0, generation=1)
    return with_status(workload, status)


def test_a_fresh_workload_is_not_written_for_the_scheduler_may_admit_it() -> None:
    plan = decide(make_view(make_workload(), explanation=NOT_YET))
    assert plan == NothingToDo(requeue_after=2)


def test_nobody_waits_in_silence() -> None:
    """E-114."""
    view = step(make_view(make_workload(), explanation=NOT_YET, now=minutes(1)))
    assert condition_of(view, "QuotaReserved") == (
        "False",
        "PendingEvaluation",
        "Workload is pending evaluation in the scheduling queue",
    )


def test_a_reason_is_written_once() -> None:
    view = step(make_view(make_workload(), explanation=because(Reason.WAITING_FOR_QUOTA)))
    assert condition_of(view, "QuotaReserved") == ("False", "WaitingForQuota", "why")
    assert decide(view) == NothingToDo()


def test_with_the_reason_comes_what_is_asked_for_until_it_is_given() -> None:
    """E-85."""
    requests = (PodSetRequest(name="main", resources={"cpu": "3"}),)
    explained = because(Reason.WAITING_FOR_QUOTA)
    view = step(make_view(make_workload(), explanation=explained, requests=requests))
    assert view.workload.status.resource_requests == requests
    more = (PodSetRequest(name="main", resources={"cpu": "4"}),)
    assert decide(replace(view, requests=more)) == NothingToDo(), "no write of its own"
    assert reserved(view.workload).status.resource_requests == ()


def test_with_the_reason_come_the_checks_that_every_flavor_needs() -> None:
    queue = make_cluster_queue("a")
    explained = because(Reason.WAITING_FOR_QUOTA)
    view = step(make_view(make_workload(), cluster_queue=queue, explanation=explained))
    assert [c.name for c in view.workload.status.admission_checks] == ["a"]
    fresh = make_view(make_workload(), cluster_queue=queue, explanation=NOT_YET)
    assert is_done(decide(fresh))


def test_in_a_stopped_local_queue_the_list_of_checks_stays() -> None:
    """E-111."""
    stopped = make_local_queue(stop_policy="Hold")
    explained = because(Reason.SUSPENDED)
    waits = make_view(
        make_workload(),
        local_queue=stopped,
        cluster_queue=make_cluster_queue("a"),
        explanation=explained,
    )
    assert step(waits).workload.status.admission_checks == ()
    before = step(replace(waits, local_queue=make_local_queue()))
    assert [check.name for check in before.workload.status.admission_checks] == ["a"]
    after = replace(before, local_queue=stopped, cluster_queue=make_cluster_queue())
    assert is_done(decide(after))


def test_while_its_admission_is_written_nothing_else_is() -> None:
    explained = because(Reason.WAITING_FOR_QUOTA)
    assert is_done(decide(make_view(make_workload(), explanation=explained, admitting=True)))


def test_a_reservation_is_not_overwritten() -> None:
    view = make_view(reserved(make_workload()), explanation=because(Reason.WAITING_FOR_QUOTA))
    assert condition_of(step(view), "QuotaReserved") == (
        "True",
        "QuotaReserved",
        "Quota reserved in ClusterQueue cq",
    )


def test_a_workload_on_hold_is_left_alone() -> None:
    """E-115."""
    view = make_view(waiting(Reason.ON_HOLD, "scaled to zero"), explanation=NOT_YET)
    assert is_done(decide(view))


def test_what_blocked_it_is_taken_back_when_it_is_over() -> None:
    view = make_view(waiting(Reason.SUSPENDED, "LocalQueue lq is inactive"), explanation=NOT_YET)
    assert condition_of(step(view), "QuotaReserved") == (
        "False",
        "PendingEvaluation",
        "Workload is pending evaluation in the scheduling queue",
    )


def test_what_an_eviction_said_stays_until_the_next_evaluation() -> None:
    evicted_for = waiting(Reason.PENDING_EVALUATION, "Preempted to accommodate")
    assert is_done(decide(make_view(evicted_for, explanation=NOT_YET, now=minutes(9))))


@pytest.mark.parametrize(
    ("reason", "message", "want"),
    [
        (Reason.WAITING_FOR_QUOTA, "cpu in flavor a, 1500m more needed", True),
        (Reason.WAITING_FOR_QUOTA, "cpu in flavor b, 2 more needed", False),
        (Reason.EXCEEDS_MAX_QUOTA, "cpu in flavor a, 2 more needed", False),
    ],
)
def test_figures_are_told_from_news(reason: Reason, message: str, want: bool) -> None:
    workload = waiting(Reason.WAITING_FOR_QUOTA, "cpu in flavor a, 2 more needed")
    view = make_view(workload, explanation=because(reason, message))
    plan = decide(view)
    assert isinstance(plan, WriteStatus)
    assert plan.minor is want
    first = decide(replace(view, workload=make_workload()))
    assert isinstance(first, WriteStatus)
    assert not first.minor
