"""batch/v1 Job: what it tells the framework."""

from __future__ import annotations

from typing import Any

import pytest

from multiqueue.api import names
from multiqueue.api.v1beta2 import PodSet, PodSetTopologyRequest, ReclaimablePod, Toleration
from multiqueue.jobs.batch_job.indexes import count_indexes
from multiqueue.jobs.batch_job.integration import BatchJob
from multiqueue.jobs.framework.integration import Finished, InvalidJobError, PodSetInfo
from multiqueue.lib.merge_patch import apply_merge_patch
from tests.builders.jobs import make_job

JOB = BatchJob()


def with_status(job: dict[str, Any], **status: Any) -> dict[str, Any]:
    return {**job, "status": status}


def write(job: dict[str, Any], patch: Any) -> dict[str, Any]:
    changed: dict[str, Any] = apply_merge_patch(job, patch.patch)
    return changed


def test_the_pod_set_has_as_many_pods_as_run_at_a_time() -> None:
    job = make_job(parallelism=5, completions=3)
    assert JOB.pod_sets(job)[0].count == 3
    assert JOB.pod_sets(make_job(parallelism=5, completions=8))[0].count == 5


def test_labels_of_this_very_job_do_not_reach_its_pod_set() -> None:
    job = make_job()
    own = {"controller-uid": "u", "batch.kubernetes.io/controller-uid": "u", "job-name": "job"}
    labels = {**own, "batch.kubernetes.io/job-name": "job", "app": "x"}
    job["spec"]["template"]["metadata"] = {"labels": labels, "creationTimestamp": None}
    assert JOB.pod_sets(job)[0].template["metadata"] == {
        "labels": {"batch.kubernetes.io/job-name": "job", "app": "x"}
    }
    assert job["spec"]["template"]["metadata"]["labels"] == labels


def test_the_smallest_size_comes_from_the_annotation() -> None:
    job = make_job(annotations={names.JOB_MIN_PARALLELISM: "2"}, parallelism=4, completions=4)
    assert JOB.pod_sets(job)[0].min_count == 2


@pytest.mark.parametrize("text", ["0", "-1"])
def test_a_smallest_size_that_is_none_is_explained(text: str) -> None:
    job = make_job(annotations={names.JOB_MIN_PARALLELISM: text})
    with pytest.raises(InvalidJobError, match=r"job-min-parallelism: .* is not positive"):
        JOB.pod_sets(job)


@pytest.mark.parametrize("text", ["", "two", "1.5"])
def test_a_smallest_size_that_is_no_number_is_ignored(text: str) -> None:
    """J-163."""
    job = make_job(annotations={names.JOB_MIN_PARALLELISM: text})
    assert JOB.pod_sets(job)[0].min_count is None


def test_a_smallest_size_above_the_size_is_explained() -> None:
    job = make_job(annotations={names.JOB_MIN_PARALLELISM: "5"}, parallelism=4, completions=4)
    with pytest.raises(InvalidJobError, match="5 is more than the 4 pods"):
        JOB.pod_sets(job)


def test_a_stop_under_way_does_not_count_as_suspended() -> None:
    assert JOB.is_suspended(make_job(suspend=True))
    assert not JOB.is_suspended(make_job(suspend=True, annotations={names.STOPPING: "true"}))
    assert not JOB.is_suspended(make_job(suspend=False))


@pytest.mark.parametrize(
    ("condition", "want"),
    [
        (
            {"type": "Complete", "status": "True", "message": "m"},
            Finished(success=True, message="m"),
        ),
        (
            {"type": "Complete", "status": "True"},
            Finished(success=True, message="Job finished successfully"),
        ),
        ({"type": "Failed", "status": "True"}, Finished(success=False, message="Job failed")),
        ({"type": "Failed", "status": "False"}, None),
        ({"type": "Suspended", "status": "True"}, None),
    ],
)
def test_finished(condition: dict[str, str], want: Finished | None) -> None:
    assert JOB.finished(with_status(make_job(), conditions=[condition])) == want


def test_a_job_without_status_is_neither_finished_nor_active() -> None:
    assert JOB.finished(make_job()) is None
    assert not JOB.is_active(make_job())
    assert JOB.is_active(with_status(make_job(), active=1))


@pytest.mark.parametrize(
    ("status", "want"),
    [
        ({"ready": 2, "succeeded": 1}, True),
        ({"ready": 1, "succeeded": 1, "uncountedTerminatedPods": {"succeeded": ["u"]}}, True),
        ({"ready": 2}, False),
    ],
)
def test_pods_ready(status: dict[str, Any], want: bool) -> None:
    assert JOB.pods_ready(with_status(make_job(parallelism=3, completions=3), **status)) is want


@pytest.mark.parametrize(
    ("spec", "status", "want"),
    [
        pytest.param({"parallelism": 4, "completions": 4}, {"succeeded": 3}, 3, id="three ended"),
        pytest.param(
            {"parallelism": 4, "completions": 9}, {"succeeded": 3}, 0, id="all are needed"
        ),
        pytest.param({"parallelism": 4, "completions": 4}, {}, 0, id="none ended"),
        pytest.param(
            {"parallelism": 4, "completions": 4},
            {"succeeded": 3, "active": 2},
            3,
            id="the count of active pods is behind",
        ),
        pytest.param(
            {
                "parallelism": 4,
                "completions": 4,
                "suspend": False,
                "managedBy": names.MULTIKUEUE_CONTROLLER,
            },
            {"succeeded": 3, "active": 2, "startTime": "t"},
            2,
            id="two ended on another worker",
        ),
        pytest.param({"parallelism": 1, "completions": 2}, {"succeeded": 1}, 0, id="one at a time"),
        pytest.param(
            {"parallelism": 4, "completions": 4, "completionMode": "Indexed"},
            {"completedIndexes": "0-1", "failedIndexes": "1,3", "succeeded": 4},
            3,
            id="by index where there are indexes",
        ),
    ],
)
def test_reclaimable_pods(spec: dict[str, Any], status: dict[str, Any], want: int) -> None:
    got = JOB.reclaimable_pods(with_status(make_job(**spec), **status))
    assert got == ((ReclaimablePod(name="main", count=want),) if want else ())


@pytest.mark.parametrize(
    ("texts", "want"),
    [
        (["0-3,7"], 5),
        (["0-3", "2-5"], 6),
        (["8-20"], 2),
        (["x,1-y,-,3"], 1),
        (["", ""], 0),
        (["12"], 0),
    ],
)
def test_indexes_are_counted_once_and_in_range(texts: list[str], want: int) -> None:
    assert count_indexes(texts, below=10) == want


def info(count: int = 1, **what: Any) -> PodSetInfo:
    return PodSetInfo(name="main", count=count, **what)


def test_a_start_injects_and_unsuspends_in_one_write() -> None:
    job = make_job()
    patch = JOB.start_patch(
        job,
        [
            info(
                node_selector={"gpu": "a100"},
                tolerations=(Toleration(key="gpu", operator="Exists"),),
                labels={names.PODSET: "main"},
            )
        ],
    )
    started = write(job, patch)
    assert patch.subresource is None
    assert started["spec"]["suspend"] is False
    template = started["spec"]["template"]
    assert template["spec"]["nodeSelector"] == {"gpu": "a100"}
    assert template["spec"]["tolerations"] == [{"key": "gpu", "operator": "Exists"}]
    assert template["metadata"]["labels"] == {names.PODSET: "main"}


def test_a_start_time_of_an_earlier_run_goes_first() -> None:
    job = with_status(make_job(), startTime="2026-01-01T00:00:00Z")
    patch = JOB.start_patch(job, [info()])
    assert (patch.subresource, patch.patch) == ("status", {"status": {"startTime": None}})


def test_a_partial_admission_sets_the_sizes() -> None:
    annotations = {
        names.JOB_MIN_PARALLELISM: "1",
        names.JOB_COMPLETIONS_EQUAL_PARALLELISM: "true",
    }
    job = make_job(annotations=annotations, parallelism=4, completions=4)
    started = write(job, JOB.start_patch(job, [info(2)]))
    assert (started["spec"]["parallelism"], started["spec"]["completions"]) == (2, 2)
    plain = make_job(parallelism=4, completions=4)
    assert "parallelism" not in JOB.start_patch(plain, [info(2)]).patch["spec"]


def test_a_start_with_fewer_pods_on_other_hardware_is_undone_by_the_stop() -> None:
    annotations = {names.ALTERNATIVES: "h100=2", names.JOB_COMPLETIONS_EQUAL_PARALLELISM: "true"}
    job = make_job(annotations=annotations, parallelism=4, completions=4)
    pod_sets = JOB.pod_sets(job)
    started = write(job, JOB.start_patch(job, [info(2)]))
    assert (started["spec"]["parallelism"], started["spec"]["completions"]) == (2, 2)
    stopped, _ = stopped_in(started, pod_sets)
    assert (stopped["spec"]["parallelism"], stopped["spec"]["completions"]) == (4, 4)


def make_narrow(**spec: Any) -> dict[str, Any]:
    """A job of four pods that was started with two."""
    annotations = {names.ALTERNATIVES: "h100=2", names.JOB_COMPLETIONS_EQUAL_PARALLELISM: "true"}
    job = make_job(annotations=annotations, parallelism=4, completions=4, completionMode="Indexed")
    started = write(job, JOB.start_patch(job, [info(2)]))
    return {**started, "spec": {**started["spec"], **spec}}


def sizes(job: dict[str, Any]) -> tuple[int, int, int]:
    """Parallelism, completions, and pods that are asked for."""
    return job["spec"]["parallelism"], job["spec"]["completions"], JOB.pod_sets(job)[0].count


def test_a_job_with_fewer_pods_says_of_how_many() -> None:
    job = make_narrow()
    assert job["metadata"]["annotations"][names.RUNS_WITH] == "2 of 4"
    assert sizes(job) == (2, 2, 2)


def test_without_its_workload_a_stop_restores_the_numbers_in_one_write() -> None:
    """Nobody tells that its pods are gone where they were a worker's."""
    job = with_status(make_narrow(), startTime="2026-01-01T00:00:00Z", active=2)
    stopped, writes = stopped_in(job, ())
    assert (sizes(stopped), writes) == ((4, 4, 4), 1)
    assert names.RUNS_WITH not in stopped["metadata"]["annotations"]


@pytest.mark.parametrize(("count", "want"), [(2, (2, 2, 2)), (4, (4, 4, 4)), (3, (3, 3, 3))])
def test_one_that_its_user_suspended_asks_for_all_pods(count: int, want: tuple[int, ...]) -> None:
    """Nothing restored its numbers; the next start may be on any hardware."""
    job = make_narrow(suspend=True)
    assert JOB.pod_sets(job)[0].count == 4
    started = write(job, JOB.start_patch(job, [info(count)]))
    assert sizes(started) == want
    stopped, _ = stopped_in(started, ())
    assert sizes(stopped) == (4, 4, 4)


def test_another_number_that_its_user_wrote_counts() -> None:
    job = make_narrow(suspend=True, parallelism=3, completions=3)
    assert sizes(job) == (3, 3, 3)


def test_without_alternatives_a_job_is_as_it_is_written() -> None:
    job = make_narrow(suspend=True)
    del job["metadata"]["annotations"][names.ALTERNATIVES]
    assert sizes(job) == (2, 2, 2)


def test_work_of_many_pieces_stays_as_much() -> None:
    job = make_job(annotations={names.ALTERNATIVES: "h100=2"}, parallelism=4, completions=100)
    started = write(job, JOB.start_patch(job, [info(2)]))
    assert sizes(started) == (2, 100, 2)
    stopped, _ = stopped_in(started, JOB.pod_sets(job))
    assert sizes(stopped) == (4, 100, 4)


@pytest.mark.parametrize(
    ("spec", "status", "want"),
    [
        ({}, {"startTime": "2026-01-01T00:00:00Z"}, 1),
        ({}, {}, 0),
        ({"suspend": True}, {"startTime": "2026-01-01T00:00:00Z"}, 0),
    ],
    ids=["of this run", "of an earlier run, on another worker", "of an earlier run"],
)
def test_pods_of_alternatives_are_reclaimed_of_the_run_that_they_were_of(
    spec: dict[str, Any], status: dict[str, Any], want: int
) -> None:
    job = with_status(make_narrow(**spec), completedIndexes="0", succeeded=1, **status)
    assert sum(pods.count for pods in JOB.reclaimable_pods(job)) == want


@pytest.mark.parametrize(
    ("annotations", "why"),
    [
        ({names.ALTERNATIVES: "h100"}, "is not HARDWARE=PODS"),
        ({names.ALTERNATIVES: "workers:h100=2"}, "a Job has only one sort of pods"),
        ({names.ALTERNATIVES: "h100=2", names.ELASTIC_JOB: "true"}, "remove one of them"),
    ],
)
def test_alternatives_that_cannot_be_read_are_told(annotations: dict[str, str], why: str) -> None:
    with pytest.raises(InvalidJobError, match=f"{names.ALTERNATIVES}: .*{why}"):
        JOB.pod_sets(make_job(annotations=annotations, parallelism=4))


def stopped_in(job: dict[str, Any], pod_sets: tuple[PodSet, ...]) -> tuple[dict[str, Any], int]:
    """Write what the job asks for until it is stopped; how many writes it took."""
    writes = 0
    while (patch := JOB.stop_patch(job, pod_sets)) is not None:
        job = write(job, patch)
        writes += 1
        assert writes < 5
    return job, writes


def test_a_stop_restores_what_a_start_changed_in_three_writes() -> None:
    annotations = {names.JOB_MIN_PARALLELISM: "1"}
    original = make_job(annotations=annotations, parallelism=4, completions=4)
    pod_sets = JOB.pod_sets(original)
    injected = info(2, node_selector={"a": "b"}, labels={"l": "1"}, annotations={"x": "y"})
    running = with_status(
        write(original, JOB.start_patch(original, [injected])), startTime="2026-01-01T00:00:00Z"
    )
    job, writes = stopped_in(running, pod_sets)
    assert writes == 3
    assert JOB.is_suspended(job)
    assert JOB.pod_sets(job)[0].count == 4
    template = job["spec"]["template"]
    assert not template["spec"].get("nodeSelector")
    assert not template["metadata"]["labels"]
    assert not template["metadata"]["annotations"]
    assert "startTime" not in job["status"]


def test_a_stop_keeps_the_labels_that_the_cluster_wrote() -> None:
    job = make_job(suspend=False)
    template = job["spec"]["template"]
    template["metadata"] = {"labels": {"controller-uid": "u", "injected": "1"}}
    stopped, _ = stopped_in(job, (PodSet(template={"metadata": {}, "spec": template["spec"]}),))
    assert stopped["spec"]["template"]["metadata"]["labels"] == {"controller-uid": "u"}


def test_where_nothing_is_restored_a_stop_is_one_write() -> None:
    job = with_status(make_job(suspend=False), startTime="2026-01-01T00:00:00Z")
    assert stopped_in(job, ())[1] == 1
    assert stopped_in(make_job(suspend=True), ())[1] == 0


def test_a_stop_is_picked_up_where_it_was_left() -> None:
    original = make_job()
    pod_sets = JOB.pod_sets(original)
    started = JOB.start_patch(original, [info(node_selector={"a": "b"})])
    running = with_status(write(original, started), startTime="2026-01-01T00:00:00Z")
    first = JOB.stop_patch(running, pod_sets)
    assert first is not None
    half = write(running, first)
    assert not JOB.is_suspended(half)
    job, writes = stopped_in(half, pod_sets)
    assert writes == 2
    assert names.STOPPING not in job["metadata"]["annotations"]


def test_a_template_is_restored_once_no_pod_is_active() -> None:
    original = make_job()
    pod_sets = JOB.pod_sets(original)
    started = JOB.start_patch(original, [info(node_selector={"a": "b"})])
    running = with_status(write(original, started), active=1)
    first = JOB.stop_patch(running, pod_sets)
    assert first is not None
    stopping = write(running, first)
    assert JOB.stop_patch(stopping, pod_sets) is None
    assert not JOB.is_suspended(stopping)
    last = JOB.stop_patch(with_status(stopping, active=0), pod_sets)
    assert last is not None
    assert JOB.is_suspended(write(stopping, last))


def test_kubernetes_own_controller_is_no_other_manager() -> None:
    assert JOB.managed_by(make_job()) == ""
    assert JOB.managed_by(make_job(managedBy=names.KUBERNETES_JOB_CONTROLLER)) == ""
    assert JOB.managed_by(make_job(managedBy="x.io/y")) == "x.io/y"


def test_topology_wishes_come_from_annotations() -> None:
    job = make_job(completionMode="Indexed")
    constraints = {
        names.PODSET_REQUIRED_TOPOLOGY: "rack",
        names.PODSET_SLICE_REQUIRED_TOPOLOGY: "host",
        names.PODSET_SLICE_SIZE: "2",
        names.PODSET_GROUP_NAME: "g",
    }
    job["spec"]["template"]["metadata"] = {"annotations": constraints}
    request = JOB.pod_sets(job)[0].topology_request
    assert request is not None
    assert (request.required, request.pod_set_slice_size) == ("rack", 2)
    assert request.pod_set_group_name == "g"
    assert request.asks_for_place


def test_pods_have_a_rank_without_a_topology_wish() -> None:
    """J-79: the queue may imply a topology."""
    job = make_job()
    half = {names.PODSET_SLICE_SIZE: "2", names.PODSET_GROUP_NAME: "g"}
    job["spec"]["template"]["metadata"] = {"annotations": half}
    request = JOB.pod_sets(job)[0].topology_request
    rank = "batch.kubernetes.io/job-completion-index"
    assert request == PodSetTopologyRequest(pod_index_label=rank)
    assert not request.asks_for_place


@pytest.mark.parametrize(
    ("annotation", "text"),
    [
        (names.PODSET_SLICE_SIZE, "two"),
        (names.PODSET_UNCONSTRAINED_TOPOLOGY, "yes"),
        (names.PODSET_SLICE_CONSTRAINTS, "[{}]"),
    ],
)
def test_a_topology_wish_that_cannot_be_read_is_explained(annotation: str, text: str) -> None:
    job = make_job()
    constraints = {names.PODSET_PREFERRED_TOPOLOGY: "rack", annotation: text}
    job["spec"]["template"]["metadata"] = {"annotations": constraints}
    with pytest.raises(InvalidJobError, match=annotation):
        JOB.pod_sets(job)
