"""A Job on a worker: what is created, and how its status comes back (T-402 to T-417)."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from multiqueue.api import names
from multiqueue.jobs.batch_job.integration import BatchJob
from multiqueue.jobs.batch_job.multikueue import BatchJobAdapter
from multiqueue.jobs.framework.integration import Finished
from multiqueue.jobs.framework.multikueue import StatusSync
from multiqueue.lib.merge_patch import apply_merge_patch

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ADAPTER = BatchJobAdapter()
RUNNING = {"startTime": "2026-01-01T00:00:00Z", "active": 2, "ready": 1}


def condition(type_: str, **fields: str) -> dict[str, str]:
    return {"type": type_, "status": "True", **fields}


def make_job(*, suspend: bool = False, status: dict | None = None, **spec: object) -> dict:
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": "train",
            "namespace": "ns",
            "uid": "u",
            "resourceVersion": "3",
            "labels": {names.QUEUE_NAME: "lq"},
            "annotations": {"a": "b", names.STOPPING: "true"},
            "ownerReferences": [{"kind": "CronJob"}],
            "creationTimestamp": "2025-12-31T00:00:00Z",
        },
        "spec": {
            "suspend": suspend,
            "managedBy": names.MULTIKUEUE_CONTROLLER,
            "template": {"spec": {"containers": []}},
            **spec,
        },
        "status": status or {},
    }


def test_a_job_that_names_multikueue_is_taken():
    assert ADAPTER.refusal(make_job()) is None


@pytest.mark.parametrize(("manager", "words"), [(None, "is not set"), ("x/y", 'is "x/y"')])
def test_any_other_is_refused_with_the_way_out(manager, words):
    got = ADAPTER.refusal(make_job(managedBy=manager))
    assert words in got
    assert f'managedBy "{names.MULTIKUEUE_CONTROLLER}"' in got


def test_the_remote_job_is_made_for_the_worker():
    """M-132."""
    local = make_job(
        selector={"matchLabels": {"x": "y"}},
        manualSelector=True,
        ttlSecondsAfterFinished=7,
        backoffLimit=3,
        template={
            "metadata": {
                "labels": {
                    "app": "t",
                    "batch.kubernetes.io/controller-uid": "u",
                    "job-name": "train",
                },
                "creationTimestamp": None,
            },
            "spec": {"containers": []},
        },
    )
    got = ADAPTER.remote_job(local, workload_name="w", origin="here")
    assert got["metadata"] == {
        "name": "train",
        "namespace": "ns",
        "labels": {
            names.QUEUE_NAME: "lq",
            names.MULTIKUEUE_ORIGIN: "here",
            names.PREBUILT_WORKLOAD_NAME: "w",
        },
        "annotations": {"a": "b", names.PREBUILT_WORKLOAD_NAME: "w"},
    }
    assert got["spec"] == {
        "suspend": True,
        "backoffLimit": 3,
        "template": {"metadata": {"labels": {"app": "t"}}, "spec": {"containers": []}},
    }
    assert "status" not in got
    assert local["spec"]["managedBy"] == names.MULTIKUEUE_CONTROLLER


def test_a_name_too_long_for_a_label_is_an_annotation_only():
    """M-25."""
    got = ADAPTER.remote_job(make_job(), workload_name="w" * 64, origin="here")["metadata"]
    assert names.PREBUILT_WORKLOAD_NAME not in got["labels"]
    assert ADAPTER.workload_name({"metadata": got}) == "w" * 64


def test_a_job_without_the_name_belongs_to_no_workload():
    """M-144."""
    assert ADAPTER.workload_name({"metadata": {"name": "x"}}) is None


class TestStatus:
    def test_the_whole_status_comes_back_once_the_job_was_let_go(self):
        """M-133."""
        local = make_job(status={"active": 1, "terminating": 1})
        sync = ADAPTER.status_patch(local, make_job(status=RUNNING))
        assert apply_merge_patch(local["status"], sync.patch["status"]) == RUNNING
        assert not sync.deferred

    def test_an_equal_status_is_no_write(self):
        got = ADAPTER.status_patch(make_job(status=RUNNING), make_job(status=RUNNING))
        assert got == StatusSync()

    def test_while_both_are_suspended_it_comes_back_too(self):
        """An eviction must be seen to end: active goes to 0."""
        local = make_job(suspend=True, status={"active": 2})
        sync = ADAPTER.status_patch(local, make_job(suspend=True, status={"active": 0}))
        assert sync.patch == {"status": {"active": 0}}

    def test_the_end_comes_back_whatever_the_local_job_is(self):
        end = {"conditions": [condition("Complete")], "succeeded": 1}
        sync = ADAPTER.status_patch(make_job(suspend=True), make_job(status=end))
        assert sync == StatusSync(patch={"status": end})

    def test_a_suspended_job_waits_with_the_status_of_a_running_one(self):
        """M-140: with a start time its template could not be changed any more."""
        sync = ADAPTER.status_patch(make_job(suspend=True), make_job(status=RUNNING))
        assert sync.deferred
        (got,) = sync.patch["status"]["conditions"]
        assert (got["type"], got["status"], got["reason"]) == (
            "Suspended",
            "True",
            "MultiKueueAdapter",
        )
        assert got["lastTransitionTime"] == RUNNING["startTime"]

    def test_a_start_time_stays_while_the_worker_has_the_job_wait(self):
        """Preempted there: Kubernetes takes no other start time of a job that runs here."""
        local = make_job(status=RUNNING)
        sync = ADAPTER.status_patch(local, make_job(suspend=True, status={"active": 1}))
        assert apply_merge_patch(local["status"], sync.patch["status"]) == {
            "active": 1,
            "startTime": RUNNING["startTime"],
        }

    def test_counts_of_ended_pods_never_go_down(self):
        """On its next worker it begins anew, and Kubernetes refuses lower ones."""
        local = make_job(status={**RUNNING, "succeeded": 2, "failed": 1})
        sync = ADAPTER.status_patch(local, make_job(status={"active": 4, "failed": 3}))
        got = apply_merge_patch(local["status"], sync.patch["status"])
        assert (got["active"], got["succeeded"], got["failed"]) == (4, 2, 3)

    @pytest.mark.parametrize(("completions", "want"), [(2, 1), (8, 6), (None, 1)])
    def test_ranks_that_are_done_are_those_of_this_worker(self, completions, want):
        """Of a gang of two nobody would believe that six are done."""
        more = {} if completions is None else {"completions": completions}
        local = make_job(
            status={**RUNNING, "succeeded": 6}, parallelism=2, completionMode="Indexed", **more
        )
        sync = ADAPTER.status_patch(local, make_job(status={"active": 1, "succeeded": 1}))
        got = apply_merge_patch(local["status"], sync.patch["status"])
        assert got["succeeded"] == want

    def test_a_copy_is_of_the_worker_and_tells_of_no_others(self):
        annotations = {names.ALTERNATIVES: "h100=1", names.RUNS_WITH: "1 of 2", "a": "b"}
        local = make_job(parallelism=1)
        local["metadata"]["annotations"] = annotations
        remote = ADAPTER.remote_job(local, workload_name="w", origin="o", pods={"main": 2})
        kept = remote["metadata"]["annotations"]
        assert kept == {"a": "b", names.PREBUILT_WORKLOAD_NAME: "w"}
        assert remote["spec"]["parallelism"] == 2

    def test_it_is_marked_as_suspended_only_once(self):
        local = make_job(suspend=True, status={"conditions": [condition("Suspended")]})
        sync = ADAPTER.status_patch(local, make_job(status=RUNNING))
        assert sync == StatusSync(deferred=True)


class TestStopped:
    def test_a_stopped_job_has_no_pods(self):
        local = make_job(status={"active": 2, "ready": 1, "terminating": 1, "failed": 3})
        got = ADAPTER.stopped_patch(local)
        assert got == {"status": {"active": 0, "ready": 0, "terminating": 0}}
        assert not BatchJob().is_active({**local, "status": got["status"]})

    def test_one_that_says_so_already_is_left_alone(self):
        assert ADAPTER.stopped_patch(make_job(status={"failed": 3})) is None


class TestFinal:
    @pytest.mark.parametrize("success", [True, False])
    def test_a_lost_end_is_made_up_as_kubernetes_wants_it(self, success):
        local = make_job(status={**RUNNING, "conditions": [condition("Suspended")]})
        patch = ADAPTER.final_patch(local, Finished(success=success, message="done"), NOW)
        status = apply_merge_patch(local["status"], patch["status"])
        types = [c["type"] for c in status["conditions"]]
        want = ["SuccessCriteriaMet", "Complete"] if success else ["FailureTarget", "Failed"]
        assert types == ["Suspended", *want]
        assert (status["active"], status["ready"]) == (0, 0)
        assert status["startTime"] == RUNNING["startTime"]
        assert ("completionTime" in status) is success
        ended = BatchJob().finished({**local, "status": status})
        assert ended == Finished(success=success, message="done")

    def test_an_end_that_is_there_stands(self):
        local = make_job(status={"conditions": [condition("Failed")]})
        assert ADAPTER.final_patch(local, Finished(success=True, message=""), NOW) is None


class TestResize:
    """M-161: an elastic job goes from slice to slice, and from size to size."""

    def resized(self, remote: Any, *, pods: int, here: int) -> Any:
        local = {"metadata": {"name": "j"}, "spec": {"parallelism": here, "completions": 9}}
        return ADAPTER.resize_patch(local, remote, workload_name="two", pods={"main": pods})

    def remote(self, name: str, parallelism: int) -> Any:
        annotations = {names.PREBUILT_WORKLOAD_NAME: name}
        spec = {"parallelism": parallelism, "completions": 9}
        return {"metadata": {"name": "j", "annotations": annotations}, "spec": spec}

    def test_in_sync(self) -> None:
        """T-418."""
        assert self.resized(self.remote("two", 5), pods=5, here=5) is None

    def test_a_slice_that_is_not_the_newest_leaves_the_size(self) -> None:
        """T-419: the job grew again meanwhile."""
        assert self.resized(self.remote("two", 5), pods=5, here=7) is None

    def test_the_name_alone(self) -> None:
        """T-420."""
        patch = self.resized(self.remote("one", 5), pods=5, here=5)
        assert set(patch) == {"metadata"}
        assert patch["metadata"]["annotations"] == {names.PREBUILT_WORKLOAD_NAME: "two"}

    def test_name_and_size(self) -> None:
        """T-421."""
        patch = self.resized(self.remote("one", 2), pods=5, here=5)
        assert patch["spec"] == {"parallelism": 5}
        assert patch["metadata"]["labels"] == {names.PREBUILT_WORKLOAD_NAME: "two"}

    def test_the_status_of_a_suspended_elastic_job_waits(self) -> None:
        """T-423: to take a job over does not let the local one go."""
        local = make_job(suspend=True, parallelism=5)
        remote = make_job(status=RUNNING, parallelism=2)
        assert (
            ADAPTER.resize_patch(local, remote, workload_name="two", pods={"main": 5}) is not None
        )
        assert ADAPTER.status_patch(local, remote).deferred
