"""What a report says beyond objects."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from multiqueue.api.names import MULTIKUEUE_ORIGIN
from multiqueue.projection.checks import (
    find_expiry,
    find_missing_rights,
    find_oddities,
    find_own_cluster,
    find_same_servers,
    find_taken_names,
    find_unserved,
)
from multiqueue.projection.report import Drift, DriftReason, ReportState, WorkerReport, worst
from multiqueue.projection.worker_role import Right
from tests.unit.lint.objects import Json, cluster_queue, flavor, job, node, quota, world

T0 = datetime(2026, 1, 1, tzinfo=UTC)


def ended(obj: Json) -> Json:
    return {**obj, "status": {"conditions": [{"type": "Complete", "status": "True"}]}}


def test_rights_that_are_missing_are_named() -> None:
    answers = {Right("batch", "jobs", "create"): False, Right("batch", "jobs", "get"): True}
    (drift,) = find_missing_rights(answers)
    assert drift.message.startswith("the manager may not create jobs.batch; ")


def test_kinds_that_are_not_served_are_named() -> None:
    (drift,) = find_unserved(["jobs.batch/v1", "a.b/v1"], ["jobs.batch/v1"])
    assert "does not serve a.b/v1" in drift.message


def test_credentials_that_end_soon_are_drift() -> None:
    within = timedelta(days=14)
    (drift,) = find_expiry("token", T0 + timedelta(days=13), T0, within)
    assert "in 13 days" in drift.message
    (drift,) = find_expiry("token", T0 + timedelta(minutes=10), T0, within)
    assert "2026-01-01T00:10:00Z, within a day" in drift.message
    assert list(find_expiry("token", T0 + timedelta(days=15), T0, within)) == []
    assert list(find_expiry("", None, T0, within)) == []


def test_a_job_of_others_takes_the_name_of_ours() -> None:
    (drift,) = find_taken_names([job()], [job(queue="")], "multikueue")
    assert (drift.reason, drift.kind, drift.namespace, drift.name) == (
        DriftReason.NAME_TAKEN,
        "Job",
        "n",
        "j",
    )


def test_our_copies_and_jobs_that_ended_take_no_name() -> None:
    copy = job(labels={MULTIKUEUE_ORIGIN: "multikueue"})
    assert list(find_taken_names([job()], [copy], "multikueue")) == []
    assert list(find_taken_names([ended(job())], [job()], "multikueue")) == []
    assert list(find_taken_names([job(queue="")], [job()], "multikueue")) == []
    assert len(list(find_taken_names([job()], [copy], "another"))) == 1


def test_one_server_under_two_names_is_told_of_both() -> None:
    found = dict(find_same_servers({"a": "1", "b": "1", "c": "2", "d": "", "e": ""}))
    assert sorted(found) == ["a", "b"]
    assert 'it is the same cluster as "b"' in found["a"].message


def test_quota_beyond_the_nodes_is_odd() -> None:
    there = world(
        flavor(nodeLabels={"gpu": "a"}),
        cluster_queue("cq", quota("cpu", "16")),
        node("one", labels={"gpu": "a"}),
    )
    (text,) = find_oddities("w", world(), there)
    assert text.startswith('ResourceFlavor "f": quotas promise 16 cpu, 1 nodes have 8')


def test_what_cannot_be_told_is_worse_than_drift() -> None:
    drift = Drift(reason=DriftReason.MISSING, message="")
    reports = [WorkerReport(worker="a"), WorkerReport(worker="b", drift=[drift])]
    assert worst([]) is ReportState.IN_STEP
    assert worst(reports) is ReportState.DRIFT
    assert worst([*reports, WorkerReport(worker="c", unknown=["x"])]) is ReportState.UNKNOWN


def test_a_worker_that_is_the_managers_own_cluster_is_named():
    found = dict(find_own_cluster({"a": "1", "b": "2", "c": ""}, own="1"))
    assert list(found) == ["a"]
    assert "the manager's own cluster, which cannot be a worker" in found["a"].message
