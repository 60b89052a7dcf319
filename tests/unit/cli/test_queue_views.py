"""Rows and summaries of queues, and explanations, from a mirror."""

from __future__ import annotations

from typing import Any

import pytest

from multiqueue.api import v1beta2 as api
from multiqueue.api.serde import decode
from multiqueue.cli.commands.queue import _print_summaries
from multiqueue.cli.find import last_warning
from multiqueue.cli.mirror import build_mirror
from multiqueue.cli.views.explanation import explain
from multiqueue.cli.views.queues import list_rows, summarize
from multiqueue.cli.workers import FlavorGpus, count_gpus
from tests.unit.cli.builders import T0, WHEN, condition, make_mirror, make_workload

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
    rows = list_rows(make_mirror(SECOND, FIRST, RUNNING, ENDED), local_queue="team/lq")
    got = [(row.position, row.view.key) for row in rows]
    assert got == [(None, "team/a-runs"), (1, "team/b-first"), (2, "team/c-second")]


def test_ended_workloads_come_last_on_request() -> None:
    rows = list_rows(make_mirror(FIRST, ENDED), cluster_queue="cq", ended=True)
    assert [row.view.key for row in rows] == ["team/b-first", "team/d-ended"]


def test_a_summary_counts_jobs_and_gpus() -> None:
    (summary,) = summarize(make_mirror(FIRST, SECOND, RUNNING, ENDED), "team")
    assert (summary.pending, summary.reserving, summary.gpus) == (2, 1, 3)
    assert summary.is_active
    assert summarize(make_mirror(), "other") == []


def test_an_explanation_has_numbers_per_flavor() -> None:
    explanation = explain(make_mirror(FIRST, SECOND, RUNNING), SECOND)
    assert (explanation.position, explanation.waiting) == (2, 2)
    gpus = next(row for row in explanation.numbers if row.resource == "nvidia.com/gpu")
    assert (gpus.flavor, gpus.asked, gpus.nominal, gpus.used) == ("a100", "2", "4", "3")
    assert (gpus.free, gpus.borrowable, gpus.verdict) == ("1", "0", "1 more needed")


def test_an_explanation_names_the_workers() -> None:
    mirror = make_mirror(RUNNING, checks=True)
    workers = {row.name: row for row in explain(mirror, RUNNING).workers}
    assert workers["w1"].role == "runs here"
    assert workers["w2"].reason == "ClientConnectionFailed: no answer"
    assert workers["w3"].reason == "no such MultiKueueCluster"


def test_who_has_ended_ran_there() -> None:
    ended = make_workload("d-ended", condition("Finished", reason="Succeeded"), clusterName="w1")
    rows = explain(make_mirror(ended, checks=True), ended).workers
    assert {row.name: row.role for row in rows}["w1"] == "ran here"


def test_a_queue_that_leads_nowhere_is_explained() -> None:
    mirror = make_mirror(FIRST)
    mirror.local_queues.clear()
    explanation = explain(mirror, FIRST)
    assert (explanation.cluster_queue, explanation.position) == ("", None)


def test_a_queue_without_cluster_queue_counts_who_waits_and_says_so() -> None:
    queue = decode(
        api.LocalQueue,
        {"metadata": {"name": "lq", "namespace": "team"}, "spec": {"clusterQueue": "gone"}},
    )
    mirror = build_mirror(now=T0, local_queues=[queue], workloads=[FIRST])
    (summary,) = summarize(mirror, "team")
    assert (summary.pending, summary.is_active) == (1, False)
    assert summary.why == explain(mirror, FIRST).cause == "ClusterQueue gone doesn't exist"


def test_no_queue_anywhere_leaves_nothing_to_suggest(capsys: pytest.CaptureFixture[str]) -> None:
    _print_summaries([], None, "human")
    _print_summaries([], "team", "human")
    everywhere, here = capsys.readouterr().out.splitlines()
    assert everywhere == "No LocalQueues."
    assert here == 'No LocalQueues in namespace "team"; -A shows all namespaces.'


def test_a_queue_that_only_jobs_name_is_listed() -> None:
    mirror = build_mirror(now=T0, workloads=[FIRST, ENDED])
    (summary,) = summarize(mirror, None)
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
    local = {"metadata": {"name": "lq", "namespace": "team"}, "spec": {"clusterQueue": "cq"}}
    waiting = make_workload(
        "w", condition("QuotaReserved", "False", "Suspended", "ClusterQueue cq is inactive")
    )
    mirror = build_mirror(
        now=T0,
        cluster_queues=[decode(api.ClusterQueue, body)],
        local_queues=[decode(api.LocalQueue, local)],
        workloads=[waiting],
    )
    (summary,) = summarize(mirror, None)
    assert (summary.is_active, summary.why) == (False, told)
    assert explain(mirror, waiting).cause == told


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
    mirror = make_mirror(RUNNING, FIRST)
    got = count_gpus(list(mirror.cluster_queues.values()), list(mirror.workloads.values()))
    assert got == [FlavorGpus(flavor="a100", total=4, used=3)]
    assert got[0].free == 1
