"""Slices of elastic jobs: which one stands for the job, and what is left over (E-165 to E-168)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from multiqueue.api import names
from multiqueue.api.conditions import Reason
from multiqueue.api.config import build_configuration
from multiqueue.api.v1beta2 import ReclaimablePod, Workload
from multiqueue.api.workload_readiness import sync_pods_ready
from multiqueue.api.workload_state import finish
from multiqueue.jobs.framework.decide import decide
from multiqueue.jobs.framework.plan import CreateJobWorkload, PatchWorkload, Wait
from multiqueue.jobs.framework.slices import Slices, arrange
from multiqueue.jobs.framework.view import JobView
from tests.builders.workloads import (
    NAMESPACE,
    T0,
    admitted,
    evicted,
    make_workload,
    reserved,
    with_status,
)
from tests.unit.jobs.job_views import (
    JOB,
    UID,
    make_view,
    note_of,
    status_after,
    stored_job,
    suspends,
    with_class,
)


def elastic_job(pods: int, *, suspend: bool = False, **what: Any) -> dict[str, Any]:
    annotations = {names.ELASTIC_JOB: "true"}
    fields = {"parallelism": pods, "completions": 50, "suspend": suspend, **what}
    job: dict[str, Any] = stored_job(annotations=annotations, **fields)
    job["spec"]["template"]["spec"]["schedulingGates"] = [{"name": names.ELASTIC_GATE}]
    job["metadata"]["generation"] = 7
    return job


def slice_(name: str, pods: int, *, replaces: str = "", **what: Any) -> Workload:
    (pod_set,) = JOB.pod_sets(elastic_job(pods))
    annotations = {names.ELASTIC_JOB: "true", names.WORKLOAD_SLICE_NAME: "first"}
    if replaces:
        annotations[names.WORKLOAD_SLICE_REPLACEMENT_FOR] = f"{NAMESPACE}/{replaces}"
    return make_workload(name, owner_uid=UID, pod_sets=(pod_set,), annotations=annotations, **what)


def done(workload: Workload, reason: Reason = Reason.WORKLOAD_SLICE_REPLACED) -> Workload:
    return with_status(workload, finish(workload.status, reason, "over", now=T0))


def view_of(job: dict[str, Any], *workloads: Workload) -> JobView:
    return make_view(job, *workloads)


def arranged(*workloads: Workload, wanted: int) -> Slices:
    return arrange(workloads, {"main": wanted})


def names_of(slices: Slices) -> tuple[str | None, str | None, list[tuple[str, str]]]:
    def name(workload: Workload | None) -> str | None:
        return workload.metadata.name if workload is not None else None

    left = [(each.workload.metadata.name, str(each.reason)) for each in slices.left_over]
    return name(slices.selected), name(slices.holder), left


REPLACED = str(Reason.WORKLOAD_SLICE_REPLACED)
OUT = str(Reason.OUT_OF_SYNC)


# ---------------------------------------------------------------- which one stands for the job


def test_a_slice_that_waits_stands_for_the_job_while_the_first_one_runs() -> None:
    old, new = admitted(slice_("old", 2)), slice_("new", 5, replaces="old")
    assert names_of(arranged(old, new, wanted=5)) == ("new", "old", [])


def test_what_was_taken_over_from_is_left_over() -> None:
    old, new = admitted(slice_("old", 2)), reserved(slice_("new", 5, replaces="old"))
    assert names_of(arranged(old, new, wanted=5)) == ("new", "new", [("old", REPLACED)])


def test_of_two_that_replace_each_other_the_newer_one_stays() -> None:
    """Somebody wrote so by hand, and both have been admitted."""
    old = admitted(slice_("old", 2, replaces="new"))
    new = admitted(slice_("new", 5, replaces="old"))
    assert names_of(arranged(old, new, wanted=5)) == ("new", "new", [("old", REPLACED)])


def test_of_two_that_wait_the_newer_one_stays() -> None:
    """A race made both; the older one replaces the same slice, so nobody took over from it."""
    old = admitted(slice_("old", 2))
    one, two = slice_("one", 4, replaces="old"), slice_("two", 5, replaces="old")
    assert names_of(arranged(old, one, two, wanted=5)) == ("two", "old", [("one", OUT)])


def test_a_job_that_shrinks_needs_no_larger_slice() -> None:
    old, new = admitted(slice_("old", 3)), slice_("new", 5, replaces="old")
    for wanted in (3, 2):
        assert names_of(arranged(old, new, wanted=wanted)) == ("old", "old", [("new", OUT)])


def test_a_slice_that_has_to_stop_is_all_that_counts() -> None:
    old, new = evicted(admitted(slice_("old", 2))), slice_("new", 5, replaces="old")
    assert names_of(arranged(old, new, wanted=5)) == ("old", "old", [])


def test_after_an_eviction_the_larger_slice_goes_on() -> None:
    old, new = evicted(slice_("old", 2)), slice_("new", 5, replaces="old")
    assert names_of(arranged(old, new, wanted=5)) == ("new", None, [("old", REPLACED)])


def test_a_slice_that_was_deactivated_keeps_its_job_at_rest() -> None:
    old = slice_("old", 2, active=False)
    new = slice_("new", 5, replaces="old")
    assert names_of(arranged(old, new, wanted=5)) == ("old", None, [("new", OUT)])


def test_only_the_slice_with_which_a_job_ended_says_so() -> None:
    old, new = done(slice_("old", 2)), done(slice_("new", 5, replaces="old"), Reason.FAILED)
    assert names_of(arranged(old, new, wanted=5)) == ("new", None, [])
    assert names_of(arranged(old, wanted=5)) == (None, None, [])


# ---------------------------------------------------------------- what is done about it


def test_the_first_slice_names_the_chain() -> None:
    plan = decide(view_of(elastic_job(2, suspend=True)))
    assert isinstance(plan, CreateJobWorkload)
    metadata = plan.body["metadata"]
    assert metadata["annotations"] == {
        names.ELASTIC_JOB: "true",
        names.WORKLOAD_SLICE_NAME: metadata["name"],
    }


def test_a_larger_slice_has_the_templates_of_the_first() -> None:
    """Those of the job have in them what its start injected; it could never go elsewhere."""
    job = elastic_job(5)
    job["spec"]["template"]["spec"]["nodeSelector"] = {"pool": "here"}
    plan = decide(view_of(job, admitted(slice_("old", 2))))
    assert isinstance(plan, CreateJobWorkload)
    (pod_set,) = plan.body["spec"]["podSets"]
    assert pod_set["count"] == 5
    assert "nodeSelector" not in pod_set["template"]["spec"]
    annotations = plan.body["metadata"]["annotations"]
    assert annotations[names.WORKLOAD_SLICE_REPLACEMENT_FOR] == f"{NAMESPACE}/old"
    assert annotations[names.WORKLOAD_SLICE_NAME] == "first"


def test_a_name_that_had_its_time_is_not_used_again() -> None:
    """The generation of a job moves with its size; here the slice of it ended before."""
    job, old = elastic_job(5), admitted(slice_("old", 2))
    first = decide(view_of(job, old))
    assert isinstance(first, CreateJobWorkload)
    taken = done(slice_(first.body["metadata"]["name"], 4, replaces="old"), Reason.OUT_OF_SYNC)
    second = decide(view_of(job, old, taken))
    assert isinstance(second, CreateJobWorkload)
    assert second.body["metadata"]["name"] != first.body["metadata"]["name"]


@pytest.mark.parametrize(
    "workload", [slice_("w", 3), evicted(slice_("w", 3)), admitted(slice_("w", 5))]
)
def test_the_size_is_written_into_a_slice_that_waits_or_shrinks(workload: Workload) -> None:
    plan = decide(view_of(elastic_job(4, suspend=True), workload))
    assert isinstance(plan, PatchWorkload)
    assert [ps["count"] for ps in plan.patch["spec"]["podSets"]] == [4]


def test_a_job_is_not_stopped_while_a_larger_slice_waits() -> None:
    old, new = admitted(slice_("old", 2)), slice_("new", 5, replaces="old")
    assert decide(view_of(elastic_job(5), old, new)) == Wait()


def test_what_a_start_injected_says_nothing_about_the_slice_that_waits() -> None:
    """Its flavor's tolerations are in the job; a larger slice would be made again and again."""
    job = elastic_job(5)
    job["spec"]["template"]["spec"]["tolerations"] = [{"key": "gpu", "operator": "Exists"}]
    old, new = admitted(slice_("old", 2)), slice_("new", 5, replaces="old")
    assert decide(view_of(job, old, new)) == Wait()


def test_a_job_runs_on_while_the_larger_slice_has_its_checks() -> None:
    old, new = done(admitted(slice_("old", 2))), reserved(slice_("new", 5, replaces="old"))
    assert decide(view_of(elastic_job(5), old, new)) == Wait()


def test_a_job_without_any_admitted_slice_is_stopped() -> None:
    assert suspends(decide(view_of(elastic_job(5), slice_("only", 5))))
    assert suspends(decide(view_of(elastic_job(5), reserved(slice_("only", 5)))))
    old, new = done(slice_("old", 2)), slice_("new", 5, replaces="old")
    assert suspends(decide(view_of(elastic_job(5), old, new)))


def test_a_job_of_a_slice_that_has_to_stop_is_stopped() -> None:
    old, new = evicted(admitted(slice_("old", 2))), slice_("new", 5, replaces="old")
    assert suspends(decide(view_of(elastic_job(5), old, new)))


def test_a_waiting_slice_that_is_deactivated_stops_nobody() -> None:
    old = admitted(slice_("old", 2))
    new = evicted(slice_("new", 5, replaces="old", active=False), Reason.DEACTIVATED)
    assert decide(view_of(elastic_job(5), old, new)) == Wait()


def test_a_job_that_grew_before_it_started_starts_with_what_it_has() -> None:
    old, new = admitted(slice_("old", 2)), slice_("new", 5, replaces="old")
    plan = decide(view_of(elastic_job(5, suspend=True), old, new))
    assert note_of(plan)[0] == "Started"


def test_a_slice_that_another_one_took_over_from_ends() -> None:
    old, new = admitted(slice_("old", 2)), admitted(slice_("new", 5, replaces="old"))
    last = status_after(decide(view_of(elastic_job(5), old, new))).status.conditions[-1]
    assert (last.type, last.reason) == ("Finished", Reason.WORKLOAD_SLICE_REPLACED)


def test_a_priority_goes_to_the_slice_that_runs_and_to_the_one_that_waits() -> None:
    job = elastic_job(5, labels={names.PRIORITY_CLASS: "high"})
    old = with_class(admitted(slice_("old", 2)), "low")
    new = slice_("new", 5, replaces="old")
    plan = decide(view_of(job, old, new))
    assert isinstance(plan, PatchWorkload)
    assert plan.workload.metadata.name == "new"
    plan = decide(view_of(job, old, with_class(new, "high")))
    assert isinstance(plan, PatchWorkload)
    assert plan.workload.metadata.name == "old"


def test_what_a_job_gave_up_is_counted_anew_when_it_shrinks() -> None:
    """Three of five were given up; of two all are needed again."""
    workload = admitted(slice_("w", 5))
    status = msgspec.structs.replace(
        workload.status, reclaimable_pods=(ReclaimablePod(name="main", count=3),)
    )
    (small,) = JOB.pod_sets(elastic_job(2))
    spec = msgspec.structs.replace(workload.spec, pod_sets=(small,))
    workload = msgspec.structs.replace(workload, spec=spec, status=status)
    job = elastic_job(2, status={"succeeded": 48})
    assert status_after(decide(view_of(job, workload))).status.reclaimable_pods == ()


def test_another_template_is_another_job() -> None:
    """Only counts may differ; the rest goes the way of every job (E-166)."""
    job = elastic_job(5)
    job["spec"]["template"]["spec"]["containers"][0]["image"] = "another"
    assert suspends(decide(view_of(job, admitted(slice_("old", 2)))))


def test_without_the_feature_gate_it_is_a_job_like_any_other() -> None:
    config = build_configuration({"featureGates": {"ElasticJobsViaWorkloadSlices": False}})
    view = make_view(elastic_job(5), admitted(slice_("old", 2)), config=config)
    assert suspends(decide(view))


# ---------------------------------------------------------------- copies on workers


def test_a_copy_of_another_size_than_its_workload_is_in_sync() -> None:
    """M-163: the two are written one after the other; pods beyond wait at their gate."""
    job = elastic_job(5)
    job["metadata"]["annotations"][names.PREBUILT_WORKLOAD_NAME] = "pre"
    workload = admitted(slice_("pre", 3))
    status = sync_pods_ready(workload.status, ready=False, now=T0)
    workload = with_status(workload, status)
    view = make_view(job, workload, prebuilt_name="pre", prebuilt=workload)
    assert decide(view) == Wait()


def test_a_copy_runs_on_while_its_slice_is_replaced() -> None:
    """M-164: until it is told the name of the next one."""
    job = elastic_job(5)
    job["metadata"]["annotations"][names.PREBUILT_WORKLOAD_NAME] = "pre"
    workload = done(admitted(slice_("pre", 3)))
    assert decide(make_view(job, workload, prebuilt_name="pre", prebuilt=workload)) == Wait()
