"""Rows and summaries of queues, and explanations, from a objects."""

from __future__ import annotations

from typing import Any

import pytest

from multiqueue.api import v1beta2 as api
from multiqueue.api.serde import decode
from multiqueue.cli.commands.queue import print_summaries
from multiqueue.cli.find import last_warning
from multiqueue.cli.views.explanation import explain
from multiqueue.cli.views.queues import list_rows, summarize
from multiqueue.cli.visibility import QueuePosition
from multiqueue.cli.workers import FlavorGpus, count_gpus
from tests.unit.cli.builders import (
    WHEN,
    collect,
    condition,
    make_answer,
    make_local_queue,
    make_objects,
    make_workload,
)

HOLDS = {"queue": "cq", "flavor": "a100"}
RUNNING = make_workload(
    "a-runs",
    condition("QuotaReserved"),
    condition("Admitted"),
    gpus=3,
    admission=HOLDS,
    clusterName="w1",
)
FIRST = make_workload("b-first", gpus=2, priority=10)
SECOND = make_workload("c-second", gpus=2)
ENDED = make_workload("d-ended", condition("Finished", reason="Succeeded"))


def test_the_waiting_follow_the_running_in_queue_order() -> None:
    objects = make_objects(SECOND, FIRST, RUNNING, ENDED)
    places = {
        "team/c-second": QueuePosition(in_cluster_queue=1, in_local_queue=2),
        "team/b-first": QueuePosition(in_cluster_queue=3, in_local_queue=1),
    }
    got = [
        (row.position, row.view.key) for row in list_rows(objects, places, local_queue="team/lq")
    ]
    assert got == [(None, "team/a-runs"), (1, "team/b-first"), (2, "team/c-second")]
    whole = [(row.position, row.view.key) for row in list_rows(objects, places, cluster_queue="cq")]
    assert whole == [(None, "team/a-runs"), (1, "team/c-second"), (3, "team/b-first")]


def test_ended_workloads_come_last_on_request() -> None:
    rows = list_rows(make_objects(FIRST, ENDED), {}, cluster_queue="cq", ended=True)
    assert [row.view.key for row in rows] == ["team/b-first", "team/d-ended"]


def test_a_summary_counts_jobs_and_gpus() -> None:
    (summary,) = summarize(make_objects(FIRST, SECOND, RUNNING, ENDED), "team")
    assert (summary.pending, summary.reserving, summary.gpus) == (2, 1, 3)
    assert summary.is_active
    assert summarize(make_objects(), "other") == []


def test_a_summary_says_what_the_manager_wrote_on_the_queue() -> None:
    stopped = condition("Active", "False", "ClusterQueueIsInactive", "no new workloads")
    for conditions, why in (
        ([], "no manager has looked at it yet"),
        ([stopped], stopped["message"]),
    ):
        objects = make_objects(FIRST)
        objects.add("local_queues", [make_local_queue(conditions=conditions)])
        (summary,) = summarize(objects, "team")
        assert (summary.is_active, summary.why) == (False, why)


def test_an_explanation_has_the_numbers_of_the_manager() -> None:
    answer = make_answer(reason="WaitingForQuota", message="1 more needed", share=250)
    explanation = explain(make_objects(FIRST, SECOND, RUNNING), SECOND, answer)
    assert (explanation.position, explanation.waiting) == (2, 2)
    assert explanation.numbers == answer.numbers
    assert explanation.view.why == "WaitingForQuota: 1 more needed"
    assert explanation.share == "ClusterQueue cq has a weighted share of 250; less goes first"


def test_a_manager_that_has_evaluated_nothing_yet_hides_no_reason_that_is_written() -> None:
    written = condition("QuotaReserved", "False", "WaitingForQuota", "2 more needed")
    answer = make_answer(reason="PendingEvaluation", message="not evaluated yet")
    waits, new = make_workload("waits", written), make_workload("new")
    got = [explain(make_objects(each), each, answer).view.why for each in (waits, new)]
    assert got == ["WaitingForQuota: 2 more needed", "PendingEvaluation: not evaluated yet"]


def test_a_queue_says_what_the_manager_says_now_unless_that_is_of_another_moment() -> None:
    waits = make_workload("waits", condition("QuotaReserved", "False", "WaitingForQuota", "2 more"))
    told = {"code": "WaitingForQuota", "why": "4 more needed", "start": {"at": "2026-01-01"}}
    got = []
    for phase in ("Queued", "Running"):
        standings = {waits.metadata.key: {**told, "phase": phase}}
        (row,) = list_rows(make_objects(waits), {}, cluster_queue="cq", standings=standings)
        got.append((row.why, row.start))
    assert got == [
        ("WaitingForQuota: 4 more needed", {"at": "2026-01-01"}),
        ("WaitingForQuota: 2 more", None),
    ]


def test_without_an_answer_there_are_no_numbers() -> None:
    explanation = explain(make_objects(FIRST, SECOND, RUNNING), SECOND)
    assert (explanation.position, explanation.waiting, explanation.numbers) == (None, None, ())
    assert explanation.cluster_queue == "cq"


def test_an_explanation_names_the_workers() -> None:
    objects = make_objects(RUNNING, checks=True)
    workers = {row.name: row for row in explain(objects, RUNNING).workers}
    assert workers["w1"].role == "runs here"
    assert workers["w2"].reason == "ClientConnectionFailed: no answer"
    assert workers["w3"].reason == "no such MultiKueueCluster"


def test_who_has_ended_ran_there() -> None:
    ended = make_workload("d-ended", condition("Finished", reason="Succeeded"), clusterName="w1")
    rows = explain(make_objects(ended, checks=True), ended).workers
    assert {row.name: row.role for row in rows}["w1"] == "ran here"


def test_a_queue_that_leads_nowhere_is_explained() -> None:
    objects = make_objects(FIRST)
    objects.local_queues.clear()
    explanation = explain(objects, FIRST)
    assert (explanation.cluster_queue, explanation.position) == ("", None)


def test_a_queue_without_cluster_queue_counts_who_waits_and_says_so() -> None:
    objects = collect(local_queues=[make_local_queue()], workloads=[FIRST])
    (summary,) = summarize(objects, "team")
    assert (summary.pending, summary.is_active) == (1, False)
    assert summary.why == explain(objects, FIRST).cause == "ClusterQueue cq doesn't exist"


def test_no_queue_anywhere_leaves_nothing_to_suggest(capsys: pytest.CaptureFixture[str]) -> None:
    print_summaries([], None, "human")
    print_summaries([], "team", "human")
    everywhere, here = capsys.readouterr().out.splitlines()
    assert everywhere == "No LocalQueues."
    assert here == 'No LocalQueues in namespace "team"; -A shows all namespaces.'


def test_a_queue_that_only_jobs_name_is_listed() -> None:
    objects = collect(workloads=[FIRST, ENDED])
    (summary,) = summarize(objects, None)
    assert (summary.namespace, summary.name, summary.pending) == ("team", "lq", 1)
    assert summary.why == "LocalQueue lq doesn't exist"


@pytest.mark.parametrize(
    ("stop", "message", "told"),
    [
        ("Hold", "Is stopped", "ClusterQueue cq is stopped (stopPolicy Hold)"),
        ("None", "no flavor x", "ClusterQueue cq is inactive: no flavor x"),
    ],
)
def test_the_cause_of_an_inactive_queue_is_named(stop: str, message: str, told: str) -> None:
    body: dict[str, Any] = {
        "metadata": {"name": "cq"},
        "spec": {"stopPolicy": stop, "namespaceSelector": {}},
        "status": {"conditions": [condition("Active", "False", "R", message)]},
    }
    if stop == "None":
        quotas = [{"name": "cpu", "nominalQuota": 1}]
        group = {"coveredResources": ["cpu"], "flavors": [{"name": "x", "resources": quotas}]}
        body["spec"]["resourceGroups"] = [group]
    waiting = make_workload(
        "w", condition("QuotaReserved", "False", "Suspended", "ClusterQueue cq is inactive")
    )
    objects = collect(
        cluster_queues=[decode(api.ClusterQueue, body)],
        local_queues=[make_local_queue()],
        workloads=[waiting],
    )
    (summary,) = summarize(objects, None)
    assert (summary.is_active, summary.why) == (False, told)
    assert explain(objects, waiting).cause == told


def test_the_last_warning_of_a_job_counts() -> None:
    def event(uid: str, type_: str, reason: str, at: str) -> dict[str, Any]:
        return {
            "metadata": {"creationTimestamp": WHEN},
            "involvedObject": {"uid": uid},
            "type": type_,
            "reason": reason,
            "message": "m",
            "lastTimestamp": at,
        }

    events = [
        event("u", "Warning", "Late", "2026-01-01T12:00:02Z"),
        event("u", "Warning", "Early", "2026-01-01T12:00:01Z"),
        event("u", "Normal", "Fine", "2026-01-01T12:00:03Z"),
        event("other", "Warning", "Foreign", "2026-01-01T12:00:04Z"),
    ]
    assert last_warning(events, "u") == "Late: m"
    assert last_warning(events, "nobody") == ""


def test_gpus_of_a_worker_are_counted_from_quota_and_reservations() -> None:
    objects = make_objects(RUNNING, FIRST)
    got = count_gpus(list(objects.cluster_queues.values()), list(objects.workloads.values()))
    assert got == [FlavorGpus(flavor="a100", total=4, used=3)]
    assert got[0].free == 1
