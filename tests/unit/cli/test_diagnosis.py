"""Why the Workloads of a queue wait: one finding for each cause."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from multiqueue.api.serde import decode
from multiqueue.api.v1beta2 import Workload
from multiqueue.api.v1beta2.meta import Condition
from multiqueue.cli.queue_objects import QueueObjects
from multiqueue.cli.views.diagnosis import QueueFinding, WaitingWorkload, diagnose, list_waiting
from multiqueue.cli.visibility import ManagerAnswer, QueuePosition
from tests.unit.cli.builders import WHEN, condition, make_objects, make_workload

QUEUE = {"local_queue": "team/lq", "cluster_queue": "cq"}


def waits(reason: str, message: str = "m", name: str = "w") -> Workload:
    return make_workload(name, condition("QuotaReserved", "False", reason, message))


def causes(objects: QueueObjects, *waiting: WaitingWorkload) -> list[str]:
    return [f.cause for f in diagnose(objects, waiting, **QUEUE)]


def find_one(workload: Workload, answer: ManagerAnswer | None = None) -> QueueFinding:
    waiting = [WaitingWorkload(workload=workload, answer=answer)]
    (found,) = diagnose(make_objects(workload), waiting, **QUEUE)
    return found


@pytest.mark.parametrize(
    ("reason", "answer", "cause"),
    [
        ("WaitingForQuota", {}, "quota too low"),
        ("ExceedsMaxQuota", {}, "jobs too large"),
        ("NoMatchingFlavor", {}, "jobs too large"),
        ("WaitingForQuota", {"lacks_share": True}, "share too small"),
        ("PendingEvaluation", {"blocked_by": "team/large"}, "blocked head"),
        ("Misconfigured", {}, "misconfigured"),
    ],
)
def test_each_reason_has_its_cause(reason: str, answer: dict[str, Any], cause: str) -> None:
    told = ManagerAnswer(reason=reason, why="5 more needed", no_preemption="nobody", **answer)
    found = find_one(waits("PendingEvaluation"), told)
    assert found.cause == cause
    assert "team/w" in found.what
    assert found.todo


def test_without_the_manager_the_written_reason_counts() -> None:
    found = find_one(waits("ExceedsMaxQuota", "8 of 4"))
    assert found.what == "team/w can never start here: 8 of 4"


def test_many_workloads_are_counted_and_three_of_them_named() -> None:
    workloads = [waits("WaitingForQuota", name=f"w{number}") for number in range(5)]
    waiting = [WaitingWorkload(workload=each) for each in workloads]
    (found,) = diagnose(make_objects(*workloads), waiting, **QUEUE)
    assert found.what.startswith("team/w0, team/w1, team/w2 and 2 more: ")


def test_a_worker_out_of_reach_and_a_missing_one_are_found() -> None:
    found = diagnose(make_objects(checks=True), [], **QUEUE)
    assert [(f.cause, f.what) for f in found] == [
        ("worker out of reach", "w2: ClientConnectionFailed: no answer"),
        ("worker out of reach", "w3: there is no MultiKueueCluster of that name"),
    ]


@pytest.mark.parametrize(("minutes", "want"), [(2, []), (7, ["check without answer"])])
def test_a_check_that_does_not_answer_for_long_is_found(minutes: int, want: list[str]) -> None:
    pending = {"name": "mk", "state": "Pending", "message": "", "lastTransitionTime": WHEN}
    admission = {"queue": "cq", "flavor": "a100"}
    workload = make_workload(
        "w", condition("QuotaReserved"), admission=admission, admissionChecks=[pending]
    )
    objects = make_objects(workload)
    objects.now += timedelta(minutes=minutes)
    assert causes(objects) == want


def test_a_stopped_queue_comes_first() -> None:
    workload = waits("Suspended")
    objects = make_objects(workload)
    del objects.cluster_queues["cq"]
    found = diagnose(objects, [WaitingWorkload(workload=workload)], **QUEUE)
    assert [f.what for f in found] == ["ClusterQueue cq doesn't exist: nothing is admitted"]


def test_an_inactive_queue_says_what_to_create() -> None:
    objects = make_objects()
    why = "Can't admit new workloads: references missing ResourceFlavor(s): b100."
    inactive = condition("Active", "False", "FlavorNotFound", why)
    queue = objects.cluster_queues["cq"]
    status = replace(queue.status, conditions=(decode(Condition, inactive),))
    objects.cluster_queues["cq"] = replace(queue, status=status)
    (found,) = diagnose(objects, [], **QUEUE)
    assert "ResourceFlavor(s): b100: nothing is admitted" in found.what
    assert found.todo.startswith("create what is missing")


def test_waiting_workloads_come_in_the_order_of_the_queue() -> None:
    first, second = waits("WaitingForQuota", name="b"), waits("WaitingForQuota", name="a")
    runs = make_workload(
        "c", condition("QuotaReserved"), admission={"queue": "cq", "flavor": "a100"}
    )
    places = {
        f"team/{name}": QueuePosition(in_cluster_queue=place, in_local_queue=place)
        for name, place in (("b", 1), ("a", 2))
    }
    objects = make_objects(first, second, runs)
    assert [each.key for each in list_waiting(objects, places, **QUEUE)] == ["team/b", "team/a"]


def test_a_queue_without_waiting_workloads_has_no_finding() -> None:
    assert causes(make_objects()) == []
