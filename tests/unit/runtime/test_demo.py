"""The demo's jobs, tracks and judgements."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import yaml

from multiqueue.api.serde import decode
from multiqueue.api.v1alpha1 import DisruptionPolicy
from multiqueue.engine.disruption.claims import describe_claim
from multiqueue.model.disruption_policy import build_disruption_rules
from multiqueue.runtime.demo import objects
from multiqueue.runtime.demo.gang import declare_runtime, judge_gang
from multiqueue.runtime.demo.jobs import ONCE, End, build_job, endless_jobs, is_gang
from multiqueue.runtime.demo.once import is_as_planned, judge
from multiqueue.runtime.demo.policies import build_policy
from multiqueue.runtime.demo.tracker import JobStage, Track, observe_remote_job, observe_workload
from tests.unit.cli.builders import condition, make_workload

QUOTA = condition("QuotaReserved")
HOLDS = {"queue": "research", "flavor": "a100"}


def make_track(**fields: Any) -> Track:
    return Track(job=ONCE[0], submitted_at=10, **fields)


def remote(*, ready: int = 0, ended: str = "") -> Mapping[str, Any]:
    conditions = [{"type": ended, "status": "True"}] if ended else []
    return {"status": {"ready": ready, "conditions": conditions}}


def test_twelve_jobs_of_one_to_eight_gpus_have_different_names() -> None:
    assert len({job.name for job in ONCE}) == 12
    assert {job.gpus for job in ONCE} >= {1, 8}
    assert all(1 <= job.gpus <= 8 for job in ONCE)


def test_jobs_that_end_badly_are_among_them() -> None:
    assert {job.end for job in ONCE} == set(End)


def test_jobs_that_cannot_run_have_no_worker() -> None:
    assert all(bool(job.workers) == (job.end in {End.SUCCEEDED, End.FAILED}) for job in ONCE)


def test_a_manifest_names_queue_and_hardware() -> None:
    job = build_job(ONCE[1])
    assert job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "training"
    pod = job["spec"]["template"]["spec"]
    assert pod["nodeSelector"] == {"cloud.provider.com/accelerator": "h100"}


def test_the_stream_is_the_same_every_time_and_fits_the_hardware() -> None:
    first, second = (list(islice(endless_jobs(), 200)) for _ in range(2))
    assert first == second
    assert all(job.gpus <= (4 if job.accelerator == "h100" else 8) for job in first)
    assert {job.team for job in first} == {team.name for team in objects.TEAMS}


def test_the_shares_of_the_teams_are_the_hardware() -> None:
    for worker in objects.WORKERS:
        assert sum(team.gpus[worker.flavor] for team in objects.TEAMS) == worker.gpus


def essence(manifests: list[dict[str, Any]]) -> dict[tuple[str, str], Any]:
    """What must not change under the demo when somebody applies the samples to it."""
    kept: dict[tuple[str, str], Any] = {}
    for each in manifests:
        if each["kind"] == "ResourceFlavor":
            kept[each["kind"], each["metadata"]["name"]] = each["spec"]["nodeLabels"]
        if each["kind"] in {"LocalQueue", "MultiKueueCluster", "MultiKueueConfig"}:
            kept[each["kind"], each["metadata"]["name"]] = each["spec"]
        if each["kind"] == "ClusterQueue":
            kept[each["kind"], each["metadata"]["name"]] = each["spec"]["resourceGroups"]
    return kept


def read_samples(folder: str) -> list[dict[str, Any]]:
    paths = sorted((Path(__file__).parents[3] / "config" / folder).glob("*.yaml"))
    return [each for path in paths for each in yaml.safe_load_all(path.read_text())]


def test_the_samples_describe_the_demo() -> None:
    assert essence(read_samples("samples")) == essence(objects.manager_objects())
    for worker in objects.WORKERS:
        sample = essence(read_samples(f"samples-worker/{worker.name}"))
        assert sample == essence(objects.worker_objects(worker))


def test_the_policy_is_the_sample_in_the_times_of_the_demo() -> None:
    policy = objects_of("DisruptionPolicy", read_samples("samples-disruption"))["gentle"]["spec"]
    own = build_policy("gentle")["spec"]
    assert own["waiting"] == {
        **policy["waiting"],
        "after": "10s",
        "horizon": "10m",
        "ownQuota": "Waits",
    }
    assert build_disruption_rules(decode(DisruptionPolicy, build_policy("gentle"))).problem == ""
    for queue in objects_of("ClusterQueue", objects.manager_objects("gentle")).values():
        assert queue["metadata"]["annotations"]["multiqueue.dev/disruption-policy"] == "gentle"


def objects_of(kind: str, manifests: list[dict[str, Any]]) -> dict[str, Any]:
    return {each["metadata"]["name"]: each for each in manifests if each["kind"] == kind}


def test_the_stream_has_a_gang_that_needs_all_h100_gpus() -> None:
    gangs = [job for job in islice(endless_jobs(), 100) if is_gang(job)]
    assert len(gangs) == 3
    assert {(job.gpus, job.accelerator, job.team) for job in gangs} == {(4, "h100", "training")}
    declared = declare_runtime(gangs[0], speed=2)
    assert build_job(declared)["metadata"]["labels"]["kueue.x-k8s.io/max-exec-time-seconds"] == "21"


class TestGangs:
    def observe(self, seconds: float, **fields: Any) -> Track:
        """A gang that is told now that it starts in so many seconds; it was submitted at 10."""
        track = make_track(**fields)
        words = describe_claim(int(datetime.now(UTC).timestamp() + seconds))
        waits = condition("QuotaReserved", "False", "WaitingForQuota", f"4 more needed; {words}")
        observe_workload(track, make_workload("w", waits), 20)
        return track

    def test_the_first_promise_counts(self) -> None:
        track = self.observe(30)
        assert track.promised_at == pytest.approx(50, abs=2)
        observe_workload(track, make_workload("w", QUOTA, admission=HOLDS), 40)
        outcome = judge_gang(track)
        assert (outcome.reserved_seconds, outcome.problem) == (30, "")

    def test_a_start_after_the_promise_is_a_problem(self) -> None:
        track = self.observe(30)
        observe_workload(track, make_workload("w", QUOTA, admission=HOLDS), 60)
        assert "later than promised" in judge_gang(track).problem

    @pytest.mark.parametrize(
        ("track", "problem"),
        [
            (make_track(), "no room was kept for it"),
            (make_track(promised_at=20.0), "it did not start"),
            (make_track(reserved_at=12.0), ""),
        ],
    )
    def test_what_did_not_happen_is_said(self, track: Track, problem: str) -> None:
        assert judge_gang(track).problem == problem


class TestTracks:
    def test_the_whole_way(self) -> None:
        track = make_track()
        observe_workload(track, make_workload(), 11)
        assert track.stage is JobStage.QUEUED
        nominated = make_workload("w", QUOTA, admission=HOLDS, nominatedClusterNames=["w1"])
        observe_workload(track, nominated, 12)
        assert (track.stage, track.nominated) == (JobStage.DISPATCHED, ("w1",))
        won = make_workload("w", QUOTA, admission=HOLDS, clusterName="w1")
        observe_workload(track, won, 13)
        observe_remote_job(track, remote(ready=ONCE[0].pods), "w1", 14)
        assert (track.stage, track.waited_seconds) == (JobStage.RUNNING, 4)
        observe_remote_job(track, remote(ended="Complete"), "w1", 19)
        done = make_workload("w", condition("Finished", reason="Succeeded"), clusterName="w1")
        observe_workload(track, done, 20)
        assert (track.stage, track.worker, track.ran_seconds) == (JobStage.SUCCEEDED, "w1", 5)

    @pytest.mark.parametrize("reason", ["ExceedsMaxQuota", "NoMatchingFlavor"])
    def test_hopeless_reasons_are_final(self, reason: str) -> None:
        track = make_track()
        refused = condition("QuotaReserved", "False", reason, "4 is all there is")
        observe_workload(track, make_workload("w", refused), 11)
        assert (track.stage, track.reason) == (JobStage.IMPOSSIBLE, f"{reason}: 4 is all there is")

    def test_losing_quota_queues_again(self) -> None:
        track = make_track(stage=JobStage.RUNNING, reserved_at=11.0)
        waits = condition("QuotaReserved", "False", "WaitingForQuota", "preempted")
        observe_workload(track, make_workload("w", waits), 12)
        assert (track.stage, track.reserved_at) == (JobStage.QUEUED, None)


class TestJudgements:
    def test_a_job_that_ended_as_it_should_has_no_problem(self) -> None:
        track = make_track(
            stage=JobStage.SUCCEEDED,
            worker="worker-a100",
            ran_on={"worker-a100"},
            running_at=11.004,
            stopped_at=15.0,
        )
        outcome = judge(track)
        assert outcome.problem == ""
        assert list(outcome.to_dict()) == [
            "name",
            "gpus",
            "worker",
            "waitedSeconds",
            "ranSeconds",
            "state",
            "reason",
        ]
        assert (outcome.waited_seconds, outcome.ran_seconds) == (1.0, 4.0)

    @pytest.mark.parametrize(
        ("track", "problem"),
        [
            (make_track(stage=JobStage.FAILED), "ended Failed instead of Succeeded"),
            (
                make_track(stage=JobStage.SUCCEEDED, ran_on={"worker-a100", "worker-h100"}),
                "ran on worker-a100 and worker-h100",
            ),
            (
                make_track(stage=JobStage.SUCCEEDED, ran_on={"worker-h100"}),
                "must not run on worker-h100",
            ),
        ],
    )
    def test_other_ends_are_problems(self, track: Track, problem: str) -> None:
        assert problem in judge(track).problem

    def test_all_twelve_must_be_there(self) -> None:
        assert not is_as_planned([])
