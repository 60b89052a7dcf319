"""What the job framework does next: a job that comes, runs, is evicted, ends or goes."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from multiqueue.api import names
from multiqueue.api.conditions import Reason, WorkloadCondition
from multiqueue.api.config import Configuration, Duration
from multiqueue.api.config.types import ObjectRetentionPolicies, WorkloadRetention
from multiqueue.api.v1beta2 import Condition, Workload
from multiqueue.api.workload_state import (
    complete_eviction,
    eviction_reason,
    find,
    finish,
    has_quota,
    is_finished,
    is_on_hold,
)
from multiqueue.jobs.batch_job.integration import BatchJob
from multiqueue.jobs.framework.decide import decide
from multiqueue.jobs.framework.plan import (
    ChangeStatus,
    CreateJobWorkload,
    DeleteJob,
    DeleteWorkload,
    PatchWorkload,
    ReleaseWorkload,
    Wait,
    WriteJob,
)
from tests.builders.workloads import T0, admitted, evicted, minutes, reserved, with_status
from tests.unit.jobs.job_views import (
    JOB,
    make_view,
    note_of,
    own_workload,
    released,
    started,
    status_after,
    stored_job,
    suspends,
)

COMPLETE = {"conditions": [{"type": "Complete", "status": "True", "message": "done"}]}
FAILED = {"conditions": [{"type": "Failed", "status": "True", "message": "boom"}]}


# ---------------------------------------------------------------- whose job it is


def test_a_job_without_queue_is_left_alone() -> None:
    """E-181."""
    assert decide(make_view(stored_job(queue=None, suspend=False))) == Wait()


def test_with_manage_all_a_job_without_queue_is_managed() -> None:
    config = Configuration(manage_jobs_without_queue_name=True)
    view = make_view(stored_job(queue=None, suspend=False), config=config)
    assert suspends(decide(view))


def test_a_job_of_another_namespace_is_left_alone_whatever_its_label() -> None:
    labels = {"kubernetes.io/metadata.name": "kube-system"}
    view = make_view(stored_job(suspend=False), namespace_labels=labels)
    assert decide(view) == Wait()


ELASTIC = {names.ELASTIC_JOB: "true"}


@pytest.mark.parametrize(
    ("workload", "annotations", "stops"),
    [
        pytest.param(None, {}, True, id="it has no Workload"),
        pytest.param(own_workload(stored_job()), {}, True, id="it waits"),
        pytest.param(admitted(own_workload(stored_job())), {}, False, id="it may run"),
        pytest.param(own_workload(stored_job()), ELASTIC, False, id="its larger slice waits"),
        pytest.param(
            evicted(admitted(own_workload(stored_job()))), ELASTIC, True, id="its slice is evicted"
        ),
    ],
)
def test_a_job_of_a_queued_job_follows_it(
    workload: Workload | None, annotations: dict[str, str], stops: bool
) -> None:
    """J-29, J-30."""
    parent = stored_job(name="parent", annotations=annotations)
    known: dict[str, Any] = {"ancestor": parent, "ancestor_workload": workload}
    for queue in (None, "lq"):
        view = make_view(stored_job(queue=queue, suspend=False), **known)
        assert suspends(decide(view)) is stops
        assert decide(make_view(stored_job(queue=queue), **known)) == Wait()


class Resting(BatchJob):
    """Jobs that are left alone, or on hold, by an annotation; with a condition of their own."""

    def is_skipped(self, job: dict[str, Any]) -> bool:
        return "skip" in (job["metadata"].get("annotations") or {})

    def on_hold(self, job: dict[str, Any]) -> bool:
        return "hold" in (job["metadata"].get("annotations") or {})

    def more_conditions(self, job: dict[str, Any], workload: Workload) -> tuple[Condition, ...]:
        if "missing" not in (job["metadata"].get("annotations") or {}):
            return ()
        return (
            Condition(
                type=WorkloadCondition.WAITING_FOR_REPLACEMENT_PODS,
                status="True",
                reason="PodsFailed",
                message="some failed",
            ),
        )


def test_a_kind_may_leave_a_job_alone() -> None:
    job = stored_job(suspend=False, annotations={"skip": ""})
    assert decide(make_view(job, integration=Resting())) == Wait()


def test_a_job_on_hold_gives_its_quota_back_until_it_goes_on() -> None:
    """J-130."""
    job, workload = stored_job(annotations={"hold": ""}), admitted(own_workload(stored_job()))
    held = status_after(decide(make_view(job, workload, integration=Resting())))
    assert is_on_hold(held.status)
    assert held.status.admission is None
    assert decide(make_view(job, held, integration=Resting())) == Wait()
    assert decide(make_view(job, integration=Resting())) == Wait()
    again = status_after(decide(make_view(stored_job(), held, integration=Resting())))
    assert not is_on_hold(again.status)


def test_a_job_that_runs_after_its_hold_is_stopped_before_it_queues_again() -> None:
    job, workload = stored_job(annotations={"hold": ""}), admitted(own_workload(stored_job()))
    held = status_after(decide(make_view(job, workload, integration=Resting())))
    plan = decide(make_view(stored_job(suspend=False), held, integration=Resting()))
    assert suspends(plan)
    stopping = stored_job(status={"active": 1})
    assert decide(make_view(stopping, held, integration=Resting())) == Wait()


def test_a_kind_may_keep_the_quota_of_a_job_under_deletion() -> None:
    """J-368."""
    job = stored_job(deleted=True, suspend=False, annotations={"skip": ""})
    workload = admitted(own_workload(job))
    assert decide(make_view(job, workload, integration=Resting())) == Wait()


def test_a_kind_may_have_conditions_of_its_own() -> None:
    job = stored_job(annotations={"missing": ""})
    told = status_after(decide(make_view(job, own_workload(job), integration=Resting())))
    condition = find(told.status, WorkloadCondition.WAITING_FOR_REPLACEMENT_PODS)
    assert condition is not None
    assert (condition.status, condition.reason) == ("True", "PodsFailed")
    assert decide(make_view(job, told, integration=Resting())) == Wait()


# ---------------------------------------------------------------- coming


def test_a_job_that_arrives_running_is_suspended_first() -> None:
    """E-181."""
    plan = decide(make_view(stored_job(suspend=False)))
    assert suspends(plan)
    assert isinstance(plan, WriteJob)
    assert not plan.strict, "nothing that happens meanwhile may keep it running"


def test_its_pods_are_awaited_before_it_gets_a_workload() -> None:
    assert decide(make_view(stored_job(status={"active": 1}))) == Wait()
    plan = decide(make_view(stored_job(status={"active": 0})))
    assert isinstance(plan, CreateJobWorkload)


def test_what_multikueue_runs_is_not_awaited() -> None:
    job = stored_job(status={"active": 1}, managedBy=names.MULTIKUEUE_CONTROLLER)
    assert isinstance(decide(make_view(job)), CreateJobWorkload)


def test_a_job_that_cannot_be_understood_is_explained_and_left_alone() -> None:
    plan = decide(make_view(stored_job(annotations={names.JOB_MIN_PARALLELISM: "0"})))
    assert isinstance(plan, Wait)
    assert plan.requeue_after is None
    assert note_of(plan)[0] == "ErrWorkloadCompose"


def test_a_missing_priority_class_is_explained() -> None:
    plan = decide(make_view(stored_job(labels={names.PRIORITY_CLASS: "gone"})))
    assert isinstance(plan, Wait)
    assert note_of(plan)[0] == "WorkloadPriorityClassNotFound"


def test_a_job_that_came_finished_needs_no_workload() -> None:
    assert decide(make_view(stored_job(status=COMPLETE))) == Wait()


# ---------------------------------------------------------------- the right workload


def test_a_pending_workload_follows_its_job() -> None:
    """E-182."""
    job = stored_job()
    old = own_workload(stored_job(cpu="2"))
    plan = decide(make_view(job, old))
    assert isinstance(plan, PatchWorkload)
    assert plan.patch["spec"]["podSets"][0]["template"] == JOB.pod_sets(job)[0].template
    assert plan.patch["spec"]["maximumExecutionTimeSeconds"] is None


def test_a_reserving_workload_that_no_longer_fits_its_job_is_deleted() -> None:
    old = reserved(own_workload(stored_job(cpu="2")))
    plan = decide(make_view(stored_job(), old))
    assert plan == DeleteWorkload(workload=old, note=plan.note)  # type: ignore[union-attr]


def test_a_running_job_that_was_changed_is_stopped_before_its_workload_goes() -> None:
    old = admitted(own_workload(stored_job(cpu="2")))
    assert suspends(decide(make_view(stored_job(suspend=False), old)))


def test_a_changed_job_that_a_worker_runs_stops_there_before_its_workload_follows_it() -> None:
    workload = admitted(own_workload(stored_job()))
    changed = started(stored_job(parallelism=2, completions=2), active=1)
    plan = decide(make_view(changed, workload, dispatched=True))
    leaving = status_after(plan)
    assert eviction_reason(leaving.status) == Reason.NO_MATCHING_WORKLOAD
    assert has_quota(leaving.status)

    assert suspends(decide(make_view(changed, leaving, dispatched=True)))
    stopped = stored_job(parallelism=2, completions=2, status={"active": 1})
    assert decide(make_view(stopped, leaving, dispatched=True)) == Wait()

    released = with_status(leaving, complete_eviction(leaving.status, now=T0))
    plan = decide(make_view(stored_job(parallelism=2, completions=2), released, dispatched=True))
    assert isinstance(plan, PatchWorkload)
    assert plan.patch["spec"]["podSets"][0]["count"] == 2


def test_what_a_start_put_into_a_job_is_taken_out_when_its_owner_suspends_and_changes_it() -> None:
    """It queued again with the queue labels of its first run, and failed to start with others."""
    leaving = evicted(admitted(own_workload(stored_job())))
    changed = stored_job(parallelism=2, completions=2)
    changed["spec"]["template"]["metadata"] = {"labels": {names.PODSET: "main"}}
    plan = decide(make_view(changed, leaving, dispatched=True))
    assert isinstance(plan, WriteJob)
    assert plan.patch.patch["spec"]["template"]["metadata"]["labels"] == {names.PODSET: None}


def test_of_two_workloads_one_stays() -> None:
    job = stored_job()
    first, second = own_workload(job), own_workload(job, name="copy")
    plan = decide(make_view(job, first, second))
    assert isinstance(plan, DeleteWorkload)
    assert plan.workload is second


def test_the_same_quantity_in_other_words_is_the_same() -> None:
    workload = admitted(own_workload(stored_job(cpu="1000m")))
    plan = decide(make_view(stored_job(cpu="1", suspend=False), workload))
    assert plan == Wait()


def test_a_started_job_matches_with_what_was_injected() -> None:
    """E-182."""
    job = stored_job(annotations={names.JOB_MIN_PARALLELISM: "1"}, parallelism=4, completions=4)
    workload = own_workload(job)
    status = admitted(workload).status
    assert status.admission is not None
    (assignment,) = status.admission.pod_set_assignments
    partial = msgspec.structs.replace(
        status,
        admission=msgspec.structs.replace(
            status.admission,
            pod_set_assignments=(msgspec.structs.replace(assignment, count=2),),
        ),
    )
    job["spec"].update(suspend=False, parallelism=2)
    assert decide(make_view(job, with_status(workload, partial))) == Wait()


def test_an_admission_without_the_pods_that_ended_before_is_that_of_the_whole_job() -> None:
    """Two of four ended before it had to stop: its start changed no number."""
    job = started(stored_job(parallelism=4, completions=4))
    workload = own_workload(job)
    status = admitted(workload).status
    assert status.admission is not None
    assignment = status.admission.pod_set_assignments[0]
    left = msgspec.structs.replace(assignment, count=2)
    admission = msgspec.structs.replace(status.admission, pod_set_assignments=(left,))
    held = with_status(workload, msgspec.structs.replace(status, admission=admission))
    assert decide(make_view(job, held)) == Wait()


def test_a_broken_job_keeps_the_workload_it_runs_under() -> None:
    workload = admitted(own_workload(stored_job()))
    job = stored_job(suspend=False, annotations={names.JOB_MIN_PARALLELISM: "many"})
    assert decide(make_view(job, workload)) == Wait()


# ---------------------------------------------------------------- start and stop


def test_an_admitted_job_is_started() -> None:
    job = stored_job()
    plan = decide(make_view(job, admitted(own_workload(job))))
    assert isinstance(plan, WriteJob)
    assert plan.strict
    assert plan.patch.patch["spec"]["suspend"] is False
    assert note_of(plan) == ("Started", "Admitted by clusterQueue cq")


def test_the_start_of_a_job_that_runs_on_a_worker_is_told_there() -> None:
    job = stored_job()
    workload = admitted(own_workload(job))
    status = msgspec.structs.replace(workload.status, cluster_name="w1")
    plan = decide(make_view(job, with_status(workload, status)))
    assert isinstance(plan, WriteJob)
    assert plan.note is None


@pytest.mark.parametrize("on", [True, False])
def test_pods_name_their_queues_where_the_gate_is_on(*, on: bool) -> None:
    config = Configuration(feature_gates={"AssignQueueLabelsForPods": on})
    job = stored_job()
    plan = decide(make_view(job, admitted(own_workload(job)), config=config))

    assert isinstance(plan, WriteJob)
    labels = plan.patch.patch["spec"]["template"]["metadata"]["labels"]
    assert (names.CLUSTER_QUEUE_NAME in labels) is on
    assert (names.LOCAL_QUEUE_NAME in labels) is on
    assert labels[names.PODSET] == "main"


@pytest.mark.parametrize(("on", "want"), [(True, "PendingEvaluation"), (False, "Pending")])
def test_a_stopped_job_waits_for_a_reason_that_its_gate_decides(*, on: bool, want: str) -> None:
    config = Configuration(feature_gates={"UnadmittedWorkloadsObservability": on})
    job = stored_job()
    plan = decide(make_view(job, evicted(admitted(own_workload(job))), config=config))

    (condition,) = [c for c in status_after(plan).status.conditions if c.type == "QuotaReserved"]
    assert (condition.status, condition.reason) == ("False", want)


def test_quota_alone_starts_nothing() -> None:
    job = stored_job()
    assert decide(make_view(job, reserved(own_workload(job)))) == Wait()


def test_what_is_not_admitted_does_not_run() -> None:
    plan = decide(make_view(stored_job(suspend=False), own_workload(stored_job())))
    assert suspends(plan)
    assert note_of(plan) == ("Stopped", "Not admitted by cluster queue")


def test_a_missing_flavor_delays_the_start() -> None:
    job = stored_job()
    plan = decide(make_view(job, admitted(own_workload(job)), find_flavor=lambda _: None))
    assert isinstance(plan, Wait)
    assert plan.requeue_after is not None
    assert note_of(plan)[0] == "StartFailed"


def test_a_template_that_contradicts_its_flavor_fails_for_good() -> None:
    job = stored_job()
    job["spec"]["template"]["metadata"] = {"labels": {names.PODSET: "other"}}
    workload = status_after(decide(make_view(job, admitted(own_workload(job)))))
    assert is_finished(workload.status)
    assert workload.status.conditions[-1].reason == Reason.FAILED_TO_START


# ---------------------------------------------------------------- eviction, step by step


def test_an_evicted_job_is_stopped() -> None:
    job = stored_job()
    plan = decide(make_view(started(job, active=1), evicted(admitted(own_workload(job)))))
    assert suspends(plan)
    assert note_of(plan) == ("Stopped", "go away")


def test_the_quota_is_held_while_pods_run() -> None:
    job = stored_job(status={"active": 2})
    assert decide(make_view(job, evicted(admitted(own_workload(job))))) == Wait()


def test_the_quota_goes_back_once_nothing_runs() -> None:
    job = stored_job(status={"active": 0})
    workload = status_after(decide(make_view(job, evicted(admitted(own_workload(job))))))
    assert not has_quota(workload.status)
    assert decide(make_view(job, workload)) == Wait()


def test_a_stop_that_was_interrupted_is_carried_on() -> None:
    """A manager was killed after the first of the three writes of a stop."""
    job = stored_job(annotations={names.STOPPING: "true"}, status={"startTime": "t"})
    job["spec"]["template"]["spec"]["nodeSelector"] = {"left": "over"}
    plan = decide(make_view(job, evicted(admitted(own_workload(stored_job())))))
    assert isinstance(plan, WriteJob)
    assert plan.patch.patch == {"status": {"startTime": None}}
    assert (plan.patch.subresource, plan.note) == ("status", None)


def test_what_was_injected_stays_while_pods_run() -> None:
    job = stored_job(annotations={names.STOPPING: "true"}, status={"active": 1})
    job["spec"]["template"]["spec"]["nodeSelector"] = {"left": "over"}
    workload = evicted(admitted(own_workload(stored_job())))
    assert decide(make_view(job, workload)) == Wait()
    job["status"] = {"active": 0}
    assert note_of(decide(make_view(job, workload))) == ("Stopped", "go away")


def test_an_evicted_job_that_completed_meanwhile_is_finished() -> None:
    job = stored_job(suspend=False, status=COMPLETE)
    workload = status_after(decide(make_view(job, evicted(admitted(own_workload(stored_job()))))))
    assert workload.status.conditions[-1].reason == Reason.SUCCEEDED


# ---------------------------------------------------------------- the end


@pytest.mark.parametrize(
    ("status", "reason", "message"),
    [(COMPLETE, Reason.SUCCEEDED, "done"), (FAILED, Reason.FAILED, "boom")],
)
def test_the_workload_ends_with_its_job(
    status: dict[str, Any], reason: Reason, message: str
) -> None:
    """E-190."""
    job = stored_job(suspend=False, status=status)
    finished = status_after(decide(make_view(job, admitted(own_workload(stored_job())))))
    last = finished.status.conditions[-1]
    assert (last.type, last.reason, last.message) == ("Finished", reason, message)
    assert decide(make_view(job, finished)) == ReleaseWorkload(workload=finished)
    assert decide(make_view(job, released(finished))) == Wait()


def test_a_job_that_was_changed_while_it_ended_still_ends() -> None:
    job = stored_job(cpu="2", suspend=False, status=COMPLETE)
    assert isinstance(decide(make_view(job, admitted(own_workload(stored_job())))), ChangeStatus)


def test_what_failed_to_start_does_not_run() -> None:
    workload = admitted(own_workload(stored_job()))
    ended = with_status(workload, finish(workload.status, Reason.FAILED_TO_START, "no", now=T0))
    assert suspends(decide(make_view(stored_job(suspend=False), ended)))
    assert decide(make_view(stored_job(), released(ended))) == Wait()


def test_a_deleted_workload_stops_its_job_and_goes() -> None:
    workload = admitted(own_workload(stored_job(), deleted=True))
    assert suspends(decide(make_view(stored_job(suspend=False), workload)))
    assert decide(make_view(stored_job(), workload)) == ReleaseWorkload(workload=workload)
    assert decide(make_view(stored_job(), released(workload))) == Wait()


def test_a_job_that_is_being_deleted_lets_its_workload_go() -> None:
    """J-137, J-138."""
    workload = own_workload(stored_job())
    job = stored_job(deleted=True, suspend=False)
    ended = status_after(decide(make_view(job, workload)))
    assert ended.status.conditions[-1].reason == Reason.OWNER_NOT_FOUND
    assert decide(make_view(job, ended)) == ReleaseWorkload(workload=ended)
    assert decide(make_view(job, released(ended))) == Wait()
    elsewhere = make_view(job, workload, dispatched=True)
    assert decide(elsewhere) == ReleaseWorkload(workload=workload)


def test_a_job_that_was_given_up_is_deleted_after_a_while() -> None:
    """E-116."""
    retention = WorkloadRetention(after_deactivated_by_kueue=Duration(seconds=60))
    config = Configuration(object_retention_policies=ObjectRetentionPolicies(workloads=retention))
    workload = evicted(own_workload(stored_job(), active=False), Reason.DEACTIVATED, cause="X")
    early = decide(make_view(stored_job(), workload, config=config, now=minutes(0.5)))
    assert early == Wait(requeue_after=30)
    late = decide(make_view(stored_job(), workload, config=config, now=minutes(2)))
    assert isinstance(late, DeleteJob)
