"""Whom a Workload waits for, for whom it had to leave, and whose turn is before."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from multiqueue.api import v1beta2 as api
from multiqueue.api.serde import decode
from multiqueue.api.v1beta2 import Workload
from multiqueue.cli.mirror import Mirror, build_mirror
from multiqueue.cli.views.explanation import explain
from multiqueue.cli.views.rivals import RivalRow, explain_preemption, list_rivals
from tests.unit.cli.builders import T0, WHEN, condition, make_mirror, make_workload

MODE = "UsageBasedAdmissionFairSharing"
NAMES = ("busy", "idle", "some")
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
    mirror = make_mirror(BOSS, stops, gone, ended, make_workload("other", QUOTA, admission=HOLDS))

    assert list_rivals(mirror, BOSS) == (
        row("left", "preempted, has left"),
        row("stops", "preempted, its pods still stop"),
    )
    assert explain(mirror, BOSS).to_dict()["rivals"][0]["workload"] == "team/left"


def test_who_got_its_quota_waits_for_nobody() -> None:
    boss = make_workload("boss", QUOTA, admission=HOLDS)

    assert list_rivals(make_mirror(boss, make_workload("left", PREEMPTED)), boss) == ()


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

    got = explain_preemption(make_mirror(victim, BOSS), victim)

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
    assert explain_preemption(make_mirror(workload), workload) == want


def test_a_preemptor_that_is_gone_has_its_uid() -> None:
    victim = make_workload("victim", PREEMPTED)

    assert "of ClusterQueue cq that is gone or hidden from you (UID uid-boss)" in (
        explain_preemption(make_mirror(victim), victim)
    )


@pytest.mark.parametrize("reason", ["WaitingForPodsReady", "Waiting"])
def test_who_waits_for_pods_sees_whose(reason: str) -> None:
    blocked = make_workload("blocked", condition("QuotaReserved", "False", reason, "Waiting for"))
    admitted = condition("Admitted")
    not_ready = condition("PodsReady", "False", "WaitForStart", "Not all pods are ready")
    pending = {"name": "mk", "state": "Pending", "message": "", "lastTransitionTime": WHEN}
    mirror = make_mirror(
        blocked,
        make_workload("a-starts", QUOTA, admitted, not_ready, admission=HOLDS),
        make_workload("b-checked", QUOTA, admission=HOLDS, admissionChecks=[pending]),
        make_workload("runs", QUOTA, admitted, condition("PodsReady"), admission=HOLDS),
        make_workload("waits", WAITS),
    )

    assert list_rivals(mirror, blocked) == (
        row("a-starts", "pods not ready: Not all pods are ready"),
        row("b-checked", "not admitted yet: mk: pending"),
    )


def test_a_check_that_nobody_answered_names_who_should() -> None:
    pending = {"name": "mk", "state": "Pending", "message": "", "lastTransitionTime": WHEN}
    workload = make_workload("w", QUOTA, admission=HOLDS, admissionChecks=[pending])

    (check,) = explain(make_mirror(workload, checks=True), workload).checks

    assert check.message == "waits for its controller, kueue.x-k8s.io/multikueue"


def usage_mirror(**used: str | None) -> Mirror:
    """One Workload waits in each LocalQueue, that of the greatest past usage since longest.

    A LocalQueue with None has no past usage in its status.
    """
    spec = {"namespaceSelector": {}, "admissionScope": {"admissionMode": MODE}}
    return build_mirror(
        now=T0,
        namespaces=[{"metadata": {"name": "team"}}],
        cluster_queues=[decode(api.ClusterQueue, {"metadata": {"name": "cq"}, "spec": spec})],
        local_queues=[make_local_queue(name, cpu) for name, cpu in used.items()],
        workloads=[
            in_queue(make_workload(f"of-{name}", created=f"2026-01-01T11:0{i}:00Z"), name)
            for i, name in enumerate(used)
        ],
    )


def make_local_queue(name: str, cpu: str | None) -> api.LocalQueue:
    consumed = {"consumedResources": {"cpu": cpu}, "lastUpdate": WHEN}
    sharing = {"fairSharing": {"admissionFairSharingStatus": consumed}}
    return decode(
        api.LocalQueue,
        {
            "metadata": {"name": name, "namespace": "team"},
            "spec": {"clusterQueue": "cq"},
            "status": {} if cpu is None else sharing,
        },
    )


def in_queue(workload: Workload, name: str) -> Workload:
    spec = msgspec.structs.replace(workload.spec, queue_name=name)
    return msgspec.structs.replace(workload, spec=spec)


def test_where_past_usage_decides_the_position_and_the_numbers_say_so() -> None:
    mirror = usage_mirror(busy="12500m", idle="0", some="3")
    explained = {name: explain(mirror, mirror.workloads[f"team/of-{name}"]) for name in NAMES}

    assert {name: e.position for name, e in explained.items()} == {"busy": 3, "idle": 1, "some": 2}
    assert explained["busy"].order == (
        "LocalQueues take turns by past usage, the least first: "
        "team/idle 0, team/some 3, team/busy 12.5"
    )


def test_where_past_usage_does_not_decide_nothing_is_said_of_it() -> None:
    workload = make_workload("w")

    assert explain(make_mirror(workload), workload).order == ""


def test_past_usage_does_not_decide_for_a_manager_that_never_wrote_any() -> None:
    mirror = usage_mirror(busy=None, idle=None)

    assert mirror.past_usage("cq") == []
    assert explain(mirror, mirror.workloads["team/of-busy"]).order == ""
