"""Whom a Workload waits for, for whom it had to leave, and whose turn is before."""

from __future__ import annotations

from typing import Any

import pytest

from multiqueue.api.v1beta2 import Workload
from multiqueue.cli.views.explanation import explain
from multiqueue.cli.views.rivals import (
    RivalRow,
    explain_preemption,
    list_rivals,
    waits_for_others,
)
from tests.unit.cli.builders import WHEN, condition, make_answer, make_objects, make_workload

HOLDS = {"queue": "cq", "flavor": "a100"}
QUOTA = condition("QuotaReserved")
WAITS = condition("QuotaReserved", "False", "WaitingForPreemptedWorkloads", "2 more needed")
TOLD = (
    "Preempted to accommodate a workload (UID: uid-boss, JobUID: UNKNOWN) due to prioritization in "
    "the ClusterQueue; preemptor path: /co/cq; preemptee path: /co/cq"
)
PREEMPTED = condition("Preempted", "True", "InClusterQueue", TOLD)
BOSS = make_workload("boss", WAITS, job="urgent", priority=9)


def row(name: str, state: str) -> RivalRow:
    return RivalRow(
        workload=f"team/{name}",
        job="Job/train",
        cluster_queue="cq",
        priority=0,
        since=WHEN,
        state=state,
    )


def test_who_preempts_sees_by_name_who_leaves_and_who_has_left() -> None:
    stops = make_workload("stops", QUOTA, PREEMPTED, admission=HOLDS)
    gone = make_workload("left", PREEMPTED)
    ended = make_workload("ended", PREEMPTED, condition("Finished", "True", "Succeeded", "done"))
    objects = make_objects(BOSS, stops, gone, ended, make_workload("other", QUOTA, admission=HOLDS))

    assert list_rivals(objects, BOSS) == (
        row("left", "preempted, has left"),
        row("stops", "preempted, its pods still stop"),
    )
    assert explain(objects, BOSS).to_dict()["rivals"][0]["workload"] == "team/left"


def test_who_got_its_quota_waits_for_nobody() -> None:
    boss = make_workload("boss", QUOTA, admission=HOLDS)

    assert list_rivals(make_objects(boss, make_workload("left", PREEMPTED)), boss) == ()


@pytest.mark.parametrize(
    ("conditions", "status", "follows"),
    [
        (
            [QUOTA],
            {"admission": HOLDS},
            "it queues again, at its old place, when its pods have ended",
        ),
        ([], {}, "it queues again, at its old place"),
    ],
    ids=["still stops", "has left"],
)
def test_who_was_preempted_sees_for_whom_and_what_follows(
    conditions: list[Any], status: dict[str, Any], follows: str
) -> None:
    victim = make_workload("victim", PREEMPTED, *conditions, **status)

    got = explain_preemption(make_objects(victim, BOSS), victim)

    assert got == (
        "preempted 60s ago for team/boss (Job/urgent, priority 9) of ClusterQueue cq, because of "
        f"prioritization in the ClusterQueue; {follows}"
    )


@pytest.mark.parametrize(
    ("workload", "want"),
    [
        (make_workload("never"), ""),
        (make_workload("w", condition("Preempted", "False", "QuotaReserved", TOLD)), ""),
        (make_workload("w", condition("Preempted", "True", "R", "by hand")), "by hand"),
    ],
)
def test_a_preemption_that_is_over_or_was_not_ours(workload: Workload, want: str) -> None:
    assert explain_preemption(make_objects(workload), workload) == want


def test_a_preemptor_that_is_gone_has_its_uid() -> None:
    victim = make_workload("victim", PREEMPTED)

    assert "of ClusterQueue cq that is gone or hidden from you (UID uid-boss)" in (
        explain_preemption(make_objects(victim), victim)
    )


@pytest.mark.parametrize("reason", ["WaitingForPodsReady", "Waiting"])
def test_who_waits_for_pods_sees_whose(reason: str) -> None:
    blocked = make_workload("blocked", condition("QuotaReserved", "False", reason, "Waiting for"))
    admitted = condition("Admitted")
    not_ready = condition("PodsReady", "False", "WaitForStart", "Not all pods are ready")
    pending = {"name": "mk", "state": "Pending", "message": "", "lastTransitionTime": WHEN}
    objects = make_objects(
        blocked,
        make_workload("a-starts", QUOTA, admitted, not_ready, admission=HOLDS),
        make_workload("b-checked", QUOTA, admission=HOLDS, admissionChecks=[pending]),
        make_workload("runs", QUOTA, admitted, condition("PodsReady"), admission=HOLDS),
        make_workload("waits", WAITS),
    )

    assert list_rivals(objects, blocked) == (
        row("a-starts", "pods not ready: Not all pods are ready"),
        row("b-checked", "not admitted yet: mk: pending"),
    )


def test_a_check_that_nobody_answered_names_who_should() -> None:
    pending = {"name": "mk", "state": "Pending", "message": "", "lastTransitionTime": WHEN}
    workload = make_workload("w", QUOTA, admission=HOLDS, admissionChecks=[pending])

    (check,) = explain(make_objects(workload, checks=True), workload).checks

    assert check.message == "waits for its controller, kueue.x-k8s.io/multikueue"


def test_a_check_begins_once_quota_is_reserved() -> None:
    pending = {"name": "mk", "state": "Pending", "message": "", "lastTransitionTime": WHEN}
    workload = make_workload("w", WAITS, admissionChecks=[pending])

    (check,) = explain(make_objects(workload, checks=True), workload).checks

    assert check.message == "begins once quota is reserved"


def test_a_check_names_the_workers_that_have_not_admitted_the_workload_yet() -> None:
    pending = {"name": "mk", "state": "Pending", "message": "", "lastTransitionTime": WHEN}
    workload = make_workload(
        "w", QUOTA, admission=HOLDS, admissionChecks=[pending], nominatedClusterNames=["a", "b"]
    )

    (check,) = explain(make_objects(workload, checks=True), workload).checks

    assert check.message == "offered to a, b, which have not admitted it yet"


def test_where_past_usage_decides_the_position_the_numbers_say_so() -> None:
    workload = make_workload("w")
    usage = (("team/idle", 0.0), ("", 3.0), ("team/busy", 12.5), ("team/free", None))
    explained = explain(make_objects(workload), workload, make_answer(past_usage=usage))

    assert explained.order == (
        "LocalQueues take turns by past usage, the least first: "
        "team/idle 0, one of another namespace 3, team/busy 12.5, team/free endless"
    )


def test_where_past_usage_does_not_decide_nothing_is_said_of_it() -> None:
    workload = make_workload("w")

    assert explain(make_objects(workload), workload).order == ""


@pytest.mark.parametrize(
    ("workload", "reason", "want"),
    [
        pytest.param(make_workload("w"), "WaitingForQuota", False, id="waits for quota"),
        pytest.param(make_workload("w"), "WaitingForPreemptedWorkloads", True, id="preempts"),
        pytest.param(BOSS, "", True, id="preempts, as is written"),
        pytest.param(make_workload("w", PREEMPTED), "", True, id="was preempted"),
    ],
)
def test_others_are_read_for_those_that_may_wait_for_them(
    workload: Workload, reason: str, *, want: bool
) -> None:
    assert waits_for_others(workload, reason) is want
