"""Rules for Workloads made before their job, and for what users change on a job."""

from __future__ import annotations

from typing import Any

import pytest

from multiqueue.api import names
from multiqueue.api.conditions import Reason
from multiqueue.api.config import Configuration
from multiqueue.api.config.types import Integrations
from multiqueue.api.v1beta2 import PodSet, ReclaimablePod, Workload
from multiqueue.api.workload_state import complete_eviction, eviction_reason
from multiqueue.jobs.framework.decide import decide
from multiqueue.jobs.framework.plan import PatchWorkload, Wait
from tests.builders.workloads import T0, admitted, evicted, make_workload, reserved, with_status
from tests.unit.jobs.job_views import (
    JOB,
    UID,
    make_view,
    note_of,
    own_workload,
    started,
    status_after,
    stored_job,
    suspends,
    with_class,
)

# ---------------------------------------------------------------- prebuilt workloads


def prebuilt_job(**what: Any) -> dict[str, Any]:
    job: dict[str, Any] = stored_job(annotations={names.PREBUILT_WORKLOAD_NAME: "pre"}, **what)
    return job


def prebuilt_workload(**what: Any) -> Workload:
    pod_sets = what.pop("pod_sets", JOB.pod_sets(stored_job()))
    return make_workload("pre", pod_sets=pod_sets, **what)


def test_a_job_waits_for_the_workload_it_names() -> None:
    assert decide(make_view(prebuilt_job(), prebuilt_name="pre")) == Wait()
    assert suspends(decide(make_view(prebuilt_job(suspend=False), prebuilt_name="pre")))


def test_a_prebuilt_workload_is_adopted() -> None:
    """E-183."""
    workload = prebuilt_workload(labels={names.MULTIKUEUE_ORIGIN: "manager"})
    plan = decide(make_view(prebuilt_job(), prebuilt_name="pre", prebuilt=workload))
    assert isinstance(plan, PatchWorkload)
    metadata = plan.patch["metadata"]
    assert metadata["labels"] == {names.JOB_UID: UID}
    assert [owner["uid"] for owner in metadata["ownerReferences"]] == [UID]


def test_a_prebuilt_workload_of_another_owner_is_left_alone() -> None:
    workload = prebuilt_workload(owner_uid="someone-else")
    plan = decide(make_view(prebuilt_job(), prebuilt_name="pre", prebuilt=workload))
    assert isinstance(plan, Wait)
    assert note_of(plan)[0] == "ErrWorkloadCompose"


def test_an_adopted_workload_starts_its_job() -> None:
    workload = admitted(prebuilt_workload(owner_uid=UID))
    view = make_view(prebuilt_job(), workload, prebuilt_name="pre", prebuilt=workload)
    assert note_of(decide(view))[0] == "Started"


def test_a_job_that_is_not_what_was_admitted_ends_out_of_sync() -> None:
    """E-183."""
    other = (PodSet(count=7),)
    workload = admitted(prebuilt_workload(owner_uid=UID, pod_sets=other))
    running = make_view(
        prebuilt_job(suspend=False), workload, prebuilt_name="pre", prebuilt=workload
    )
    assert suspends(decide(running))
    stopped = make_view(prebuilt_job(), workload, prebuilt_name="pre", prebuilt=workload)
    last = status_after(decide(stopped)).status.conditions[-1]
    assert (last.type, last.reason) == ("Finished", Reason.OUT_OF_SYNC)


# ---------------------------------------------------------------- following the job


def test_another_queue_is_followed_while_nothing_is_reserved() -> None:
    """E-189."""
    job = stored_job(queue="other")
    plan = decide(make_view(job, own_workload(job)))
    assert isinstance(plan, PatchWorkload)
    assert plan.patch == {"spec": {"queueName": "other"}}
    assert decide(make_view(job, reserved(own_workload(job)))) == Wait()


def test_another_priority_class_is_followed_even_while_running() -> None:
    """E-187."""
    job = stored_job(labels={names.PRIORITY_CLASS: "high"}, suspend=False)
    plan = decide(make_view(job, with_class(admitted(own_workload(job)), "low")))
    assert isinstance(plan, PatchWorkload)
    assert plan.patch["spec"]["priority"] == 100
    assert plan.patch["spec"]["priorityClassRef"]["name"] == "high"


def test_a_priority_that_cannot_follow_stays() -> None:
    """J-95: the API server accepts no class that is added to a Workload with quota."""
    job = stored_job(labels={names.PRIORITY_CLASS: "high"}, suspend=False)
    running = admitted(own_workload(job))
    job = started(job)
    assert decide(make_view(job, running)) == Wait()
    assert decide(make_view(job, with_class(running, "pods", "PriorityClass"))) == Wait()


def test_an_evicted_workload_keeps_its_queue() -> None:
    """J-98."""
    job = stored_job(queue="other")
    workload = evicted(admitted(own_workload(job)))
    status = complete_eviction(workload.status, now=T0)
    assert decide(make_view(job, with_status(workload, status))) == Wait()


def test_another_queue_brings_its_labels() -> None:
    integrations = Integrations(chargeback_label_keys=("payer", "team"))
    job = stored_job(queue="other", labels={"team": "mine", "payer": "mine", "x": "y"})
    view = make_view(
        job,
        own_workload(job),
        queue_labels={"payer": "ml"},
        config=Configuration(integrations=integrations),
    )
    plan = decide(view)
    assert isinstance(plan, PatchWorkload)
    assert plan.patch == {
        "spec": {"queueName": "other"},
        "metadata": {"labels": {"payer": "ml", "team": "mine"}},
    }


def test_a_copy_of_another_cluster_keeps_its_spec() -> None:
    job = stored_job(queue="other", labels={names.PRIORITY_CLASS: "high"})
    workload = own_workload(job, labels={names.MULTIKUEUE_ORIGIN: "manager"})
    assert decide(make_view(job, workload)) == Wait()


@pytest.mark.parametrize(
    ("before", "after", "want"),
    [("a.io/x,b.io/y", "b.io/y", "b.io/y"), ("a.io/x", None, None)],
)
def test_admission_gates_are_taken_off(before: str, after: str | None, want: str | None) -> None:
    """E-188."""
    job = stored_job(annotations={names.ADMISSION_GATED_BY: after} if after else None)
    workload = own_workload(job, annotations={names.ADMISSION_GATED_BY: before})
    plan = decide(make_view(job, workload))
    assert isinstance(plan, PatchWorkload)
    assert plan.patch == {"metadata": {"annotations": {names.ADMISSION_GATED_BY: want}}}


def test_admission_gates_are_not_added() -> None:
    """E-188."""
    job = stored_job(annotations={names.ADMISSION_GATED_BY: "a.io/x,c.io/z"})
    gated = own_workload(job, annotations={names.ADMISSION_GATED_BY: "a.io/x"})
    assert decide(make_view(job, gated)) == Wait()
    assert decide(make_view(job, own_workload(job))) == Wait()


def test_pods_that_will_not_run_again_give_quota_back_and_never_take_it_again() -> None:
    """E-186."""
    job = stored_job(parallelism=4, completions=4)
    workload = admitted(own_workload(job))
    running = started(job, succeeded=3, active=1)
    reclaimed = status_after(decide(make_view(running, workload)))
    assert reclaimed.status.reclaimable_pods == (ReclaimablePod(name="main", count=3),)
    back = started(job, succeeded=1, active=3)
    assert decide(make_view(back, reclaimed)) == Wait()


def test_a_deactivated_workload_keeps_its_job_suspended() -> None:
    job = stored_job()
    workload = evicted(own_workload(job, active=False), Reason.DEACTIVATED)
    assert eviction_reason(workload.status) == "Deactivated"
    assert decide(make_view(job, workload)) == Wait()
