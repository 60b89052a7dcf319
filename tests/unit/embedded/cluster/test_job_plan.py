"""What the Job controller does with one Job."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from multiqueue.embedded.cluster.job_memory import JobMemory, observe_gone, observe_pods
from multiqueue.embedded.cluster.job_plan import JobPlan, decide_job
from tests.unit.embedded.cluster.builders import T0, make_job, make_pod

START = "2026-01-01T12:00:00Z"


def decide(
    job: dict[str, Any],
    *pods: dict[str, Any],
    memory: JobMemory | None = None,
    after: float = 0,
) -> JobPlan:
    memory = memory or JobMemory()
    observe_pods(job, pods, memory, now=after)
    return decide_job(job, pods, memory, now=T0 + timedelta(seconds=after), seconds=after)


def conditions_of(plan: JobPlan) -> dict[str, tuple[str, str]]:
    assert plan.status is not None
    return {c["type"]: (c["status"], c["reason"]) for c in plan.status["conditions"]}


def counts_of(plan: JobPlan) -> dict[str, int]:
    assert plan.status is not None
    return {
        name: plan.status[name]
        for name in ("active", "ready", "terminating", "succeeded", "failed")
        if plan.status.get(name)
    }


def running(name: str, **fields: Any) -> dict[str, Any]:
    return make_pod(name, phase="Running", node="n", ready=True, **fields)


def condition(type_: str, status: str = "True", reason: str = "R") -> dict[str, str]:
    return {
        "type": type_,
        "status": status,
        "reason": reason,
        "message": "m",
        "lastTransitionTime": START,
    }


class TestRunning:
    def test_a_new_job_gets_its_pods_and_a_start_time(self) -> None:
        plan = decide(make_job(parallelism=3, completions=3))
        assert plan.create == (None, None, None)
        assert plan.status is not None
        assert plan.status["startTime"] == START
        assert counts_of(plan) == {"active": 3}

    def test_not_more_pods_than_completions_are_left(self) -> None:
        pods = (make_pod("a", phase="Succeeded"), make_pod("b", phase="Succeeded"))
        plan = decide(make_job(parallelism=3, completions=3), *pods)
        assert plan.create == (None,)
        assert counts_of(plan) == {"active": 1, "succeeded": 2}

    def test_ready_pods_are_counted(self) -> None:
        plan = decide(make_job(parallelism=2, completions=2), running("a"), make_pod("b"))
        assert counts_of(plan) == {"active": 2, "ready": 1}

    def test_surplus_pods_are_stopped_unbound_ones_first_and_are_no_failures(self) -> None:
        memory = JobMemory()
        job = make_job(parallelism=1, completions=3)
        pods = (running("a"), make_pod("b"), running("c"))
        plan = decide(job, *pods, memory=memory)
        assert plan.delete == ("b", "c")
        again = decide(job, running("a"), running("c", deleting=True), memory=memory)
        assert counts_of(again) == {"active": 1, "ready": 1, "terminating": 1}

    def test_a_work_queue_starts_nothing_once_a_pod_succeeded(self) -> None:
        job = make_job(parallelism=2, completions=None)
        plan = decide(job, make_pod("a", phase="Succeeded"), running("b"))
        assert plan.create == ()
        done = decide(job, make_pod("a", phase="Succeeded"))
        assert conditions_of(done)["Complete"] == ("True", "CompletionsReached")

    def test_indexed_jobs_fill_the_first_free_indexes(self) -> None:
        job = make_job(parallelism=3, completions=4, completionMode="Indexed")
        pods = (make_pod("a", phase="Succeeded", index=1), running("b", index=0))
        plan = decide(job, *pods)
        assert plan.create == (2, 3)
        assert plan.status is not None
        assert plan.status["completedIndexes"] == "1"

    def test_nothing_changed_writes_nothing(self) -> None:
        job = make_job(status={"active": 1, "ready": 1, "startTime": START})
        assert decide(job, running("a")) == JobPlan()

    def test_jobs_of_other_controllers_are_left_alone(self) -> None:
        assert decide(make_job(managedBy="kueue.x-k8s.io/multikueue")) == JobPlan()

    def test_a_job_that_is_being_deleted_gets_no_pods(self) -> None:
        assert decide(make_job(deleting=True)) == JobPlan()


class TestFailing:
    def test_a_failed_pod_is_replaced_after_a_pause(self) -> None:
        memory, job = JobMemory(), make_job(backoffLimit=3)
        decide(job, memory=memory)
        failed = make_pod("a", phase="Failed")
        plan = decide(job, failed, memory=memory, after=100)
        assert (plan.create, plan.requeue_after) == ((), 10)
        assert decide(job, failed, memory=memory, after=110).create == (None,)

    def test_a_pod_that_someone_deleted_is_a_failure(self) -> None:
        plan = decide(make_job(), running("a", deleting=True))
        assert counts_of(plan) == {"active": 1, "terminating": 1, "failed": 1}

    def test_a_pod_that_vanished_is_a_failure(self) -> None:
        memory, job = JobMemory(), make_job()
        decide(job, running("a"), memory=memory)
        observe_gone(running("a"), memory, now=5)
        assert counts_of(decide(job, memory=memory, after=30)) == {"active": 1, "failed": 1}

    def test_replacements_wait_for_the_end_where_the_policy_says_so(self) -> None:
        job = make_job(podReplacementPolicy="Failed")
        assert decide(job, running("a", deleting=True)).create == ()

    def test_too_many_failures_end_the_job_when_its_pods_are_gone(self) -> None:
        job = make_job(parallelism=2, completions=2, backoffLimit=0)
        pods = (make_pod("a", phase="Failed"), running("b"))
        plan = decide(job, *pods)
        assert plan.delete == ("b",)
        assert conditions_of(plan) == {"FailureTarget": ("True", "BackoffLimitExceeded")}
        job["status"] = plan.status
        final = decide(job, make_pod("a", phase="Failed"))
        assert conditions_of(final)["Failed"] == ("True", "BackoffLimitExceeded")

    def test_restarts_in_place_count_against_the_limit(self) -> None:
        job = make_job(backoffLimit=2)
        job["spec"]["template"]["spec"]["restartPolicy"] = "OnFailure"
        pod = running("a")
        pod["status"]["containerStatuses"] = [{"restartCount": 2}]
        assert "FailureTarget" in conditions_of(decide(job, pod))

    def test_a_deadline_ends_the_job(self) -> None:
        job = make_job(activeDeadlineSeconds=60, status={"startTime": START, "active": 1})
        early = decide(job, running("a"), after=20)
        assert early.requeue_after == pytest.approx(40, abs=0.01)
        late = decide(job, running("a"), after=60)
        assert conditions_of(late) == {"FailureTarget": ("True", "DeadlineExceeded")}


class TestSuspending:
    def test_a_suspended_job_stops_its_pods_without_failures(self) -> None:
        memory, job = JobMemory(), make_job(suspend=True, status={"startTime": START, "active": 1})
        plan = decide(job, running("a"), memory=memory)
        assert plan.delete == ("a",)
        assert conditions_of(plan) == {"Suspended": ("True", "JobSuspended")}
        assert counts_of(plan) == {"terminating": 1}
        observe_gone(running("a"), memory, now=1)
        assert counts_of(decide(job, memory=memory)) == {}

    def test_a_resumed_job_starts_its_clock_again(self) -> None:
        status = {
            "startTime": "2026-01-01T11:00:00Z",
            "conditions": [condition("Suspended", "True", "JobSuspended")],
        }
        plan = decide(make_job(status=status))
        assert conditions_of(plan) == {"Suspended": ("False", "JobResumed")}
        assert plan.status is not None
        assert plan.status["startTime"] == START
        assert plan.create == (None,)

    def test_a_job_created_suspended_has_no_start_time(self) -> None:
        plan = decide(make_job(suspend=True))
        assert plan.create == ()
        assert plan.status is not None
        assert "startTime" not in plan.status


class TestEnding:
    def test_success_needs_all_completions_and_no_pod_left(self) -> None:
        plan = decide(make_job(), make_pod("a", phase="Succeeded"))
        assert conditions_of(plan) == {
            "SuccessCriteriaMet": ("True", "CompletionsReached"),
            "Complete": ("True", "CompletionsReached"),
        }
        assert plan.status is not None
        assert plan.status["completionTime"] == START

    def test_a_job_without_completions_to_reach_ends_when_it_starts(self) -> None:
        suspended = decide(make_job(parallelism=0, completions=0, suspend=True))
        assert conditions_of(suspended) == {"Suspended": ("True", "JobSuspended")}
        assert suspended.status is not None
        plan = decide(make_job(parallelism=0, completions=0, status=suspended.status))
        assert conditions_of(plan)["Complete"] == ("True", "CompletionsReached")
        assert plan.status is not None
        assert plan.status["startTime"] == START

    def test_results_survive_the_deletion_of_pods(self) -> None:
        status = {"succeeded": 1, "conditions": [condition("Complete")]}
        assert decide(make_job(status=status)) == JobPlan()

    def test_results_survive_a_restart_of_the_controller(self) -> None:
        job = make_job(parallelism=1, completions=2, status={"succeeded": 1, "startTime": START})
        assert counts_of(decide(job)) == {"active": 1, "succeeded": 1}

    def test_a_finished_job_goes_after_its_ttl(self) -> None:
        status = {"conditions": [condition("Complete")]}
        job = make_job(ttlSecondsAfterFinished=30, status=status)
        assert decide(job, after=10).requeue_after == 20
        assert decide(job, after=30).delete_job
