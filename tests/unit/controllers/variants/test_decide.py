"""What is done next about a parent and its variants, rule by rule (E-170 to E-173)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from multiqueue.api import names
from multiqueue.api.conditions import CheckState, Reason, WorkloadCondition
from multiqueue.api.serde import decode
from multiqueue.api.v1beta2 import (
    Admission,
    AdmissionCheckState,
    PodSetAssignment,
    ReclaimablePod,
    Workload,
)
from multiqueue.api.v1beta2.meta import format_time
from multiqueue.api.workload_readiness import sync_pods_ready
from multiqueue.api.workload_state import (
    evict,
    eviction_reason,
    find,
    finish,
    is_admitted,
    is_finished,
    preempt,
    requeue_at,
    reserve_quota,
    set_pending,
    set_requeue_at,
    sync_admitted,
    with_condition,
)
from multiqueue.controllers.variants.compose import compose_variant
from multiqueue.controllers.variants.decide import decide_family
from multiqueue.controllers.variants.plan import (
    CreateVariant,
    DeleteVariant,
    FamilyPlan,
    FamilyStep,
    PatchObject,
    PatchStatus,
    ReleaseVariant,
)
from multiqueue.controllers.variants.view import RETAIN, FamilyView
from tests.builders.workloads import T0, make_workload, minutes, with_status

FLAVORS = ("best", "good", "poor")
PARENT = make_workload(
    "job-train-abcde", owner_uid="u", labels={names.CONCURRENT_ADMISSION_PARENT: "true"}
)


def variant(flavor: str, parent: Workload = PARENT, *, active: bool = True) -> Workload:
    body = compose_variant(parent, flavor, order=FLAVORS.index(flavor))
    body["metadata"]["uid"] = f"uid-{flavor}"
    body["spec"]["active"] = active
    return decode(Workload, body)


def admitted(workload: Workload, flavor: str) -> Workload:
    used = PodSetAssignment(name="main", flavors={"cpu": flavor}, count=1)
    admission = Admission(cluster_queue="cq", pod_set_assignments=(used,))
    return with_status(
        workload, sync_admitted(reserve_quota(workload.status, admission, now=T0), now=T0)
    )


def preempted(workload: Workload) -> Workload:
    return with_status(workload, preempt(workload.status, "InClusterQueue", "m", now=T0))


def deleted(workload: Workload) -> Workload:
    metadata = msgspec.structs.replace(workload.metadata, deletion_timestamp=format_time(T0))
    return msgspec.structs.replace(workload, metadata=metadata)


def blocked(workload: Workload) -> Workload:
    status = set_pending(workload.status, reason=Reason.WAITING_FOR_QUOTA, message="m", now=T0)
    gated = WorkloadCondition.BLOCKED_ON_PREEMPTION_GATES
    return with_status(
        workload, with_condition(status, gated, value=True, reason="r", message="m", now=T0)
    )


def plan(parent: Workload, *variants: Workload, **fields: Any) -> FamilyPlan:
    whole = {"flavors": FLAVORS, "mode": "TryPreferredFlavors", "now": T0, **fields}
    return decide_family(FamilyView(parent=parent, variants=variants, **whole))


def all_three(**changed: Workload) -> list[Workload]:
    return [changed.get(flavor) or variant(flavor) for flavor in FLAVORS]


def patches(*steps: FamilyStep) -> list[tuple[str, Any]]:
    return [(s.workload.metadata.name, s.patch) for s in steps if isinstance(s, PatchObject)]


def status_after(step: FamilyStep) -> Workload:
    assert isinstance(step, PatchStatus)
    return with_status(step.workload, step.change(step.workload))


def test_a_workload_in_such_a_queue_is_marked_as_a_parent() -> None:
    plain = make_workload("job-train-abcde", owner_uid="u")
    label = {"metadata": {"labels": {names.CONCURRENT_ADMISSION_PARENT: "true"}}}
    assert patches(*plan(plain).steps) == [(plain.metadata.name, label)]


def test_a_slice_of_an_elastic_job_is_no_parent() -> None:
    annotations = {names.ELASTIC_JOB: "true"}
    plain = make_workload("job-train-abcde", owner_uid="u", annotations=annotations)
    assert plan(plain).steps == ()


def test_a_workload_that_runs_without_variants_is_left_alone() -> None:
    plain = admitted(make_workload("job-train-abcde", owner_uid="u"), "best")
    assert plan(plain).steps == ()


def test_a_parent_gets_a_variant_for_each_flavor() -> None:
    want = tuple(CreateVariant(flavor=f, order=i) for i, f in enumerate(FLAVORS))
    assert plan(PARENT).steps == want
    assert plan(PARENT, variant("good")).steps == (want[0], want[2])


def test_a_gated_parent_gets_its_variants_later() -> None:
    annotations = {names.ADMISSION_GATED_BY: "example.com/gate"}
    metadata = msgspec.structs.replace(PARENT.metadata, annotations=annotations)
    assert plan(msgspec.structs.replace(PARENT, metadata=metadata)).steps == ()


def test_a_variant_of_another_managers_copy_does_not_look_like_a_copy() -> None:
    labels = {**PARENT.metadata.labels, names.MULTIKUEUE_ORIGIN: "hub", "team": "a"}
    annotations = {names.DISPATCH_EPOCH: "1", names.MANAGER: "m", "note": "b"}
    metadata = msgspec.structs.replace(PARENT.metadata, labels=labels, annotations=annotations)
    made = variant("good", msgspec.structs.replace(PARENT, metadata=metadata)).metadata
    assert made.labels == {"team": "a"}
    assert made.annotations == {
        "note": "b",
        names.WORKLOAD_ALLOWED_FLAVORS: "good",
        names.VARIANT_ORDER: "1",
    }


@pytest.mark.parametrize("parent", [deleted(PARENT), PARENT], ids=["deleted", "unknown queue"])
def test_nothing_is_done_about_a_parent(parent: Workload) -> None:
    flavors = FLAVORS if parent.metadata.deletion_timestamp else None
    assert plan(parent, flavors=flavors) == FamilyPlan()


def test_the_variant_of_a_removed_flavor_is_deleted() -> None:
    (step,) = plan(PARENT, *all_three(), flavors=("best", "good")).steps
    assert isinstance(step, DeleteVariant)
    assert step.variant.metadata.annotations[names.WORKLOAD_ALLOWED_FLAVORS] == "poor"


def test_variants_of_another_spec_than_the_parents_are_made_anew() -> None:
    (pod_set,) = PARENT.spec.pod_sets
    more = (msgspec.structs.replace(pod_set, count=7),)
    spec = msgspec.structs.replace(PARENT.spec, pod_sets=more)
    found = plan(msgspec.structs.replace(PARENT, spec=spec), *all_three()).steps
    assert [type(step) for step in found] == [DeleteVariant] * 3


def test_a_queue_without_policy_takes_the_variants_and_then_the_mark() -> None:
    found = plan(PARENT, variant("best"), flavors=()).steps
    assert [type(step) for step in found] == [DeleteVariant]
    unmark = {"metadata": {"labels": {names.CONCURRENT_ADMISSION_PARENT: None}}}
    assert patches(*plan(PARENT, flavors=()).steps) == [(PARENT.metadata.name, unmark)]


def test_variants_follow_the_priority_of_the_parent() -> None:
    spec = msgspec.structs.replace(PARENT.spec, priority=7)
    found = patches(*plan(msgspec.structs.replace(PARENT, spec=spec), *all_three()).steps)
    assert [patch for _, patch in found] == [
        {"spec": {"priority": 7, "priorityClassRef": None}}
    ] * 3


def test_variants_follow_the_order_of_the_flavors() -> None:
    flavors = ("good", "best", "poor")
    found = patches(*plan(PARENT, *all_three(), flavors=flavors).steps)
    orders = [patch["metadata"]["annotations"][names.VARIANT_ORDER] for _, patch in found]
    assert orders == ["1", "0"]


def test_the_parent_is_admitted_with_the_best_admitted_variant() -> None:
    check = AdmissionCheckState(name="c", state=CheckState.READY, last_transition_time="t")
    good = admitted(variant("good"), "good")
    good = with_status(good, msgspec.structs.replace(good.status, admission_checks=(check,)))
    (step,) = plan(PARENT, *all_three(good=good, poor=variant("poor", active=False))).steps
    after = status_after(step).status
    assert after.admission == good.status.admission
    assert after.admission_checks == (check,)
    told = find(after, WorkloadCondition.ADMITTED)
    assert told is not None
    assert (told.status, told.message) == ("True", f"The variant {good.metadata.name} is admitted")


def test_the_parent_follows_the_nodes_of_its_variant() -> None:
    best = admitted(variant("best"), "best")
    others = [variant("good", active=False), variant("poor", active=False)]
    assert best.status.admission is not None
    (assignment,) = best.status.admission.pod_set_assignments
    placed = {"levels": ["rack"], "slices": []}
    moved = msgspec.structs.replace(
        best.status.admission,
        pod_set_assignments=(msgspec.structs.replace(assignment, topology_assignment=placed),),
    )
    best = with_status(best, msgspec.structs.replace(best.status, admission=moved))
    (step,) = plan(admitted(PARENT, "best"), best, *others).steps
    after = status_after(step)
    assert after.status.admission == moved
    assert plan(after, best, *others) == FamilyPlan()


@pytest.mark.parametrize(
    ("fields", "inactive"),
    [
        ({}, ["poor"]),
        ({"mode": RETAIN}, ["best", "poor"]),
        ({"last_acceptable": "best"}, ["poor"]),
    ],
)
def test_what_cannot_improve_on_the_admitted_variant_is_deactivated(
    fields: dict[str, Any], inactive: list[str]
) -> None:
    found = all_three(good=admitted(variant("good"), "good"))
    parent = admitted(PARENT, "good")
    want = [(variant(f).metadata.name, {"spec": {"active": False}}) for f in inactive]
    assert patches(*plan(parent, *found, **fields).steps) == want


def test_a_better_variant_below_the_last_acceptable_flavor_is_deactivated() -> None:
    found = all_three(poor=admitted(variant("poor"), "poor"))
    steps = plan(admitted(PARENT, "poor"), *found, last_acceptable="best").steps
    assert patches(*steps) == [(variant("good").metadata.name, {"spec": {"active": False}})]


def test_without_an_admitted_variant_all_are_active_but_those_that_a_check_rejected() -> None:
    rejected = variant("good", active=False)
    status = evict(rejected.status, Reason.DEACTIVATED, "m", cause="AdmissionCheck", now=T0)
    found = all_three(best=variant("best", active=False), good=with_status(rejected, status))
    want = [(variant("best").metadata.name, {"spec": {"active": True}})]
    assert patches(*plan(PARENT, *found).steps) == want


def test_the_job_stops_before_its_variant_loses_the_quota() -> None:
    good = preempted(admitted(variant("good"), "good"))
    (step,) = plan(admitted(PARENT, "good"), variant("best"), good, variant("poor")).steps
    parent = status_after(step)
    assert eviction_reason(parent.status) == Reason.VARIANT_EVICTED
    waiting = plan(parent, variant("best"), good, variant("poor", active=False))
    assert waiting == FamilyPlan()
    (step,) = plan(PARENT, variant("best"), good, variant("poor", active=False)).steps
    assert not is_admitted(status_after(step).status)


def test_an_eviction_of_the_parent_evicts_its_variant_for_as_long() -> None:
    parent = admitted(PARENT, "good")
    status = evict(parent.status, Reason.PODS_READY_TIMEOUT, "m", now=T0)
    parent = with_status(parent, set_requeue_at(status, minutes(3)))
    good = admitted(variant("good"), "good")
    (step,) = plan(parent, variant("best"), good, variant("poor", active=False)).steps
    after = status_after(step).status
    assert eviction_reason(after) == Reason.PODS_READY_TIMEOUT
    assert requeue_at(after) == minutes(3)


def test_a_parent_without_a_running_variant_is_evicted() -> None:
    parent = admitted(PARENT, "good")
    (step,) = plan(parent, variant("best"), variant("good"), variant("poor")).steps
    assert eviction_reason(status_after(step).status) == Reason.CONCURRENT_ADMISSION


def test_a_deleted_variant_stays_until_the_job_stopped() -> None:
    good = deleted(admitted(variant("good"), "good"))
    (step,) = plan(admitted(PARENT, "good"), variant("best"), good, variant("poor")).steps
    assert eviction_reason(status_after(step).status) == Reason.CONCURRENT_ADMISSION
    (step,) = plan(PARENT, variant("best"), good, variant("poor")).steps
    assert step == ReleaseVariant(variant=good)


def test_the_variant_knows_which_pods_are_ready_and_which_will_not_run_again() -> None:
    parent = admitted(PARENT, "best")
    ready = sync_pods_ready(parent.status, ready=True, now=T0)
    pods = (ReclaimablePod(name="main", count=1),)
    parent = with_status(parent, msgspec.structs.replace(ready, reclaimable_pods=pods))
    others = [variant("good", active=False), variant("poor", active=False)]
    (step,) = plan(parent, admitted(variant("best"), "best"), *others).steps
    after = status_after(step)
    ready_there = find(after.status, WorkloadCondition.PODS_READY)
    assert ready_there is not None
    assert (ready_there.status, after.status.reclaimable_pods) == ("True", pods)
    assert plan(parent, after, *others) == FamilyPlan()


def test_variants_end_as_the_parent_ended() -> None:
    parent = with_status(PARENT, finish(PARENT.status, Reason.SUCCEEDED, "done", now=T0))
    after = [status_after(step) for step in plan(parent, *all_three()).steps]
    assert len(after) == 3
    assert all(is_finished(workload.status) for workload in after)
    assert plan(parent, *after) == FamilyPlan()


def test_a_gate_opens_for_the_most_preferred_variant_that_needs_it_and_then_after_a_while() -> None:
    found = [blocked(variant(flavor)) for flavor in FLAVORS]
    first = plan(PARENT, *found)
    (step,) = first.steps
    opened = status_after(step)
    assert opened.metadata.name == found[0].metadata.name
    assert [(g.name, g.position) for g in opened.status.preemption_gates] == [
        (names.VARIANT_GATE, "Open")
    ]
    later = [opened, *found[1:]]
    assert plan(PARENT, *later, now=minutes(2)) == FamilyPlan(requeue_after=180.0)
    (step,) = plan(PARENT, *later, now=T0 + timedelta(minutes=5)).steps
    assert status_after(step).metadata.name == found[1].metadata.name


def test_no_gate_opens_while_a_better_variant_was_not_tried() -> None:
    found = [variant("best"), blocked(variant("good")), blocked(variant("poor"))]
    assert plan(PARENT, *found) == FamilyPlan()
