"""What is decided about groups of pods: too few, too many, replaced, ended (Part E 38)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import orjson
import pytest

from multiqueue.api import names
from multiqueue.api.conditions import Reason, WorkloadCondition
from multiqueue.api.config import Configuration, Integrations
from multiqueue.api.serde import decode, encode
from multiqueue.api.v1beta2 import OwnerReference, Workload
from multiqueue.api.workload_state import find, finish
from multiqueue.jobs.framework.decide import decide
from multiqueue.jobs.framework.integration import MEMBERS, MemberAction
from multiqueue.jobs.framework.plan import (
    ChangeStatus,
    CreateJobWorkload,
    DeleteWorkload,
    PatchWorkload,
    ReleaseWorkload,
    Wait,
    WriteMembers,
)
from multiqueue.jobs.pod.pods import members_of, role_of
from multiqueue.jobs.pod.rules import member_reference
from tests.builders.workloads import T0, admitted, evicted, make_workload, reserved, with_status
from tests.pod_objects import make_group, make_pod, pod_kind, running, stored
from tests.unit.jobs.job_views import FLAVOR, make_view, note_of, released, status_after

KIND = pod_kind()
LATER = T0 + timedelta(seconds=20)
ENDS = "2026-01-01T00:00:40Z"


def gang(number: int, *, total: int | None = None, make: Any = stored, **what: Any) -> list[Any]:
    total = number if total is None else total
    return [make(make_pod(f"p{i}", group="g", total=total, **what)) for i in range(number)]


def workload_of(*pods: dict[str, Any], **what: Any) -> Workload:
    """The Workload of a group of these pods, which own it."""
    group = make_group(*pods)
    owners = tuple(decode(OwnerReference, orjson.dumps(member_reference(pod))) for pod in pods)
    marks = {names.IS_GROUP_WORKLOAD: "true"}
    made = make_workload("g", annotations=marks, pod_sets=KIND.pod_sets(group), **what)
    metadata = msgspec.structs.replace(made.metadata, owner_references=owners)
    return msgspec.structs.replace(made, metadata=metadata)


def plan_for(pods: list[dict[str, Any]], *workloads: Workload, **what: Any) -> Any:
    about = {"integration": KIND, "now": LATER, **what}
    return decide(make_view(make_group(*pods), *workloads, **about))


def written(plan: Any) -> dict[str, tuple[Any, ...]]:
    assert isinstance(plan, WriteMembers)
    return {each.member["metadata"]["name"]: each.steps for each in plan.writes}


def test_a_whole_group_gets_one_workload_owned_by_all() -> None:
    plan = plan_for(gang(3))
    assert isinstance(plan, CreateJobWorkload)
    metadata = plan.body["metadata"]
    assert metadata["name"] == "g"
    assert metadata["annotations"][names.IS_GROUP_WORKLOAD] == "true"
    assert names.JOB_UID not in metadata["labels"]
    assert [(o["name"], "controller" in o) for o in metadata["ownerReferences"]] == [
        ("p0", False),
        ("p1", False),
        ("p2", False),
    ]
    assert [(p["name"], p["count"]) for p in plan.body["spec"]["podSets"]] == [("role", 3)]


def test_an_incomplete_group_waits_and_says_so_after_a_moment() -> None:
    """group-2: the pods are created one after the other."""
    pods = gang(2, total=3)
    early = plan_for(pods, now=T0)
    assert isinstance(early, Wait)
    assert (early.note, early.requeue_after) == (None, 2.0)
    late = plan_for(pods)
    message = "'g' group has fewer runnable pods than expected"
    assert note_of(late) == ("ErrWorkloadCompose", message)


def test_roles_become_pod_sets_sorted_by_their_hash() -> None:
    """group-3."""
    pods = [
        stored(make_pod("driver", group="g", total=3, role="zz", cpu="2")),
        stored(make_pod("w0", group="g", total=3, role="aa")),
        stored(make_pod("w1", group="g", total=3, role="aa")),
    ]
    pod_sets = KIND.pod_sets(make_group(*pods))
    assert [(p.name, p.count) for p in pod_sets] == [("aa", 2), ("zz", 1)]
    assert pod_sets[1].template["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "2"}


@pytest.mark.parametrize(
    ("change", "same"),
    [
        ({"image": "other"}, True),
        ({"command": ["x"]}, True),
        ({"resources": {"requests": {"cpu": "2"}}}, False),
        ({"ports": [{"containerPort": 80}]}, False),
    ],
    ids=["image", "command", "requests", "ports"],
)
def test_what_splits_roles(change: dict[str, Any], same: bool) -> None:
    """J-240, J-241."""
    pod = make_pod()
    other = make_pod()
    other["spec"]["containers"][0].update(change)
    assert (role_of(pod) == role_of(other)) is same


def test_more_roles_than_a_workload_has_pod_sets_are_refused() -> None:
    """group-17."""
    pods = [stored(make_pod(f"p{i}", group="g", total=19, role=f"r{i:02}")) for i in range(19)]
    reason, message = note_of(plan_for(pods))
    assert reason == "ErrWorkloadCompose"
    assert message.startswith("pod group can't include more than 18 roles, this one has 19")


@pytest.mark.parametrize(
    ("other", "why"),
    [
        ({"queue": "lq2"}, "different queue names: lq!=lq2"),
        ({"total": 3}, f"different '{names.POD_GROUP_TOTAL_COUNT}' values: 2!=3"),
    ],
    ids=["queue", "total"],
)
def test_pods_that_contradict_each_other_are_reported(other: dict[str, Any], why: str) -> None:
    """group-16: not while their labels are being changed one after the other."""
    pods = [
        stored(make_pod("p0", group="g", total=2)),
        stored(make_pod("p1", **{"group": "g", "total": 2, **other})),
    ]
    assert plan_for(pods, now=T0).requeue_after == 10.0
    assert why in note_of(plan_for(pods))[1]


def test_labels_to_copy_must_agree() -> None:
    pods = [
        stored(make_pod(f"p{i}", group="g", total=2, labels={"team": f"t{i}"})) for i in range(2)
    ]
    config = Configuration(integrations=Integrations(label_keys_to_copy=("team",)))
    view = make_view(make_group(*pods), integration=KIND, now=LATER, config=config)
    assert 'different values of label team: "t1" and "t0"' in note_of(decide(view))[1]


def test_a_pod_index_beyond_the_group_is_refused() -> None:
    """J-245."""
    pods = gang(2, labels={names.POD_GROUP_POD_INDEX: "2"})
    assert 'label kueue.x-k8s.io/pod-group-pod-index "2"' in note_of(plan_for(pods))[1]


def test_the_youngest_gated_pod_beyond_the_size_is_deleted() -> None:
    """group-5."""
    pods = gang(2)
    late = stored(make_pod("p9", group="g", total=2), created="2026-01-01T00:00:09Z")
    plan = plan_for([late, *pods], reserved(workload_of(*pods)))
    assert written(plan) == {"p9": (MemberAction.DELETE, MemberAction.RELEASE)}
    assert note_of(plan) == ("ExcessPodDeleted", "Excess pod deleted")


def test_a_pod_beyond_the_size_goes_before_the_workload_is_made() -> None:
    plan = plan_for(gang(3, total=2))
    assert list(written(plan)) == ["p2"]


def test_fast_admission_needs_one_pod() -> None:
    """group-19."""
    pods = gang(1, total=3, annotations={names.POD_GROUP_FAST_ADMISSION: "true"})
    plan = plan_for(pods)
    assert isinstance(plan, CreateJobWorkload)
    assert plan.body["spec"]["podSets"][0]["count"] == 3


def test_every_gated_pod_is_started_with_the_fields_of_its_role() -> None:
    """J-252: a pod that came later, too."""
    flavor = msgspec.structs.replace(
        FLAVOR, spec=msgspec.structs.replace(FLAVOR.spec, node_labels={"zone": "a"})
    )
    pods = [running(make_pod("p0", group="g", total=2)), stored(make_pod("p1", group="g", total=2))]
    plan = plan_for(pods, admitted(workload_of(*pods)), find_flavor=lambda _: flavor)
    (patch,) = written(plan)["p1"]
    assert list(written(plan)) == ["p1"]
    assert patch.patch["spec"] == {"nodeSelector": {"zone": "a"}, "schedulingGates": []}
    assert patch.patch["metadata"]["labels"][names.PODSET] == "role"
    assert note_of(plan) == ("Started", "Admitted by clusterQueue cq")


def test_pods_of_a_dispatched_group_wait_for_ever() -> None:
    """J-229."""
    pods = gang(2)
    assert isinstance(plan_for(pods, admitted(workload_of(*pods)), dispatched=True), Wait)


def test_new_pods_become_owners() -> None:
    """J-262."""
    pods = gang(2)
    workload = workload_of(*pods[:1], count=2)
    pod_set = msgspec.structs.replace(workload.spec.pod_sets[0], count=2)
    spec = msgspec.structs.replace(workload.spec, pod_sets=(pod_set,))
    plan = plan_for(pods, msgspec.structs.replace(workload, spec=spec))
    assert isinstance(plan, PatchWorkload)
    owners = plan.patch["metadata"]["ownerReferences"]
    assert [owner["name"] for owner in owners] == ["p0", "p1"]
    assert note_of(plan) == ("OwnerReferencesAdded", "Added 1 owner reference(s)")


def test_a_pod_takes_the_place_of_an_earlier_one_of_its_name() -> None:
    """J-262."""
    earlier = gang(2)
    newer = {**earlier[0], "metadata": {**earlier[0]["metadata"], "uid": "newer"}}
    plan = plan_for([newer, earlier[1]], workload_of(*earlier))
    assert isinstance(plan, PatchWorkload)
    owners = plan.patch["metadata"]["ownerReferences"]
    assert [(owner["name"], owner["uid"]) for owner in owners] == [
        ("p1", earlier[1]["metadata"]["uid"]),
        ("p0", "newer"),
    ]


def waiting_condition(workload: Workload) -> tuple[str, str] | None:
    found = find(workload.status, WorkloadCondition.WAITING_FOR_REPLACEMENT_PODS)
    return (found.status, found.reason) if found is not None else None


def test_a_failed_pod_is_waited_for_and_released_with_its_replacement() -> None:
    """group-10."""
    ok = running(make_pod("p0", group="g", total=2))
    bad = stored(make_pod("p1", group="g", total=2), phase="Failed", is_gated=False)
    workload = admitted(workload_of(ok, bad))
    pod_set = msgspec.structs.replace(workload.spec.pod_sets[0], count=2)
    spec = msgspec.structs.replace(workload.spec, pod_sets=(pod_set,))
    workload = msgspec.structs.replace(workload, spec=spec)
    asking = status_after(plan_for([ok, bad], workload))
    assert waiting_condition(asking) == ("True", "PodsFailed")
    new = stored(make_pod("p2", group="g", total=2))
    owner = decode(OwnerReference, orjson.dumps(member_reference(new)))
    owners = (*workload.metadata.owner_references, owner)
    metadata = msgspec.structs.replace(workload.metadata, owner_references=owners)
    owned = msgspec.structs.replace(asking, metadata=metadata)
    plan = plan_for([ok, bad, new], owned)
    assert written(plan) == {"p1": (MemberAction.RELEASE,)}
    gone = stored(make_pod("p1", group="g", total=2), phase="Failed", is_gated=False, is_held=False)
    assert [p["metadata"]["name"] for p in members_of(make_group(ok, gone, new))] == ["p0", "p2"]
    done = status_after(plan_for([ok, gone, new], owned))
    assert waiting_condition(done) == ("False", "PodsReady")


def test_a_replacement_releases_the_newest_of_pods_that_ended_together() -> None:
    """J-247."""
    ok = running(make_pod("p0", group="g", total=3))
    bad = [stored(make_pod(name, group="g", total=3), phase="Failed") for name in ("p1", "p2")]
    workload = admitted(workload_of(ok))
    pod_set = msgspec.structs.replace(workload.spec.pod_sets[0], count=3)
    new = stored(make_pod("p3", group="g", total=3))
    members = [ok, *bad, new]
    owners = tuple(decode(OwnerReference, orjson.dumps(member_reference(pod))) for pod in members)
    workload = msgspec.structs.replace(
        workload,
        metadata=msgspec.structs.replace(workload.metadata, owner_references=owners),
        spec=msgspec.structs.replace(workload.spec, pod_sets=(pod_set,)),
    )
    assert written(plan_for(members, workload)) == {"p2": (MemberAction.RELEASE,)}


def test_an_evicted_group_is_told_why_and_deleted() -> None:
    """group-15, pod-7."""
    pods = gang(2, make=running)
    plan = plan_for(pods, evicted(workload_of(*pods), reason=Reason.PREEMPTED))
    mark, delete = written(plan)["p0"]
    (condition,) = mark.patch["status"]["conditions"]
    assert (condition["type"], condition["reason"]) == (
        "TerminationTarget",
        "WorkloadEvictedDueToPreempted",
    )
    assert mark.subresource == "status"
    assert delete is MemberAction.DELETE
    assert note_of(plan)[0] == "Stopped"


def test_quota_is_held_until_the_pods_have_ended_or_are_overdue() -> None:
    """pod-17, J-257: the deletion is due 30 s after ENDS."""
    pods = gang(2, make=running)
    leaving = [running(make_pod(f"p{i}", group="g", total=2), deleted=ENDS) for i in range(2)]
    workload = evicted(admitted(workload_of(*pods)), reason=Reason.PREEMPTED)
    waits = plan_for(leaving, workload)
    assert isinstance(waits, Wait)
    assert waits.requeue_after == 50.0
    freed = plan_for(leaving, workload, now=T0 + timedelta(seconds=71))
    assert find(status_after(freed).status, WorkloadCondition.QUOTA_RESERVED).status == "False"


def test_all_pods_go_with_a_deleted_workload() -> None:
    """J-261: gated and finished ones, too."""
    pods = [
        stored(make_pod("p0", group="g", total=2)),
        stored(make_pod("p1", group="g", total=2), phase="Succeeded", is_gated=False),
    ]
    plan = plan_for(pods, workload_of(*pods, deleted=True))
    assert {name: steps[1:] for name, steps in written(plan).items()} == {
        "p0": (MemberAction.DELETE, MemberAction.RELEASE),
        "p1": (MemberAction.DELETE, MemberAction.RELEASE),
    }


@pytest.mark.parametrize(
    ("phases", "annotations", "end"),
    [
        (("Succeeded", "Succeeded"), {}, "Pods succeeded: 2/2."),
        (("Succeeded", "Failed"), {}, None),
        (("Succeeded", "Failed"), {names.RETRIABLE_IN_GROUP: "false"}, "Pods succeeded: 1/2."),
        (("Running", "Failed"), {names.RETRIABLE_IN_GROUP: "false"}, None),
        (("Succeeded", "Succeeded"), {names.POD_GROUP_SERVING: "true"}, None),
    ],
    ids=["all succeeded", "retriable", "unretriable", "one still runs", "serving"],
)
def test_how_a_group_ends(
    phases: tuple[str, str], annotations: dict[str, str], end: str | None
) -> None:
    """J-254, J-255, J-259."""
    pods = [
        stored(make_pod(f"p{i}", group="g", total=2, annotations=annotations), phase=phase)
        for i, phase in enumerate(phases)
    ]
    finished = KIND.finished(make_group(*pods))
    assert (finished.message if finished else None) == end


def test_a_serving_group_whose_pods_ended_waits_for_new_ones() -> None:
    """J-256, J-259."""
    marks = {names.POD_GROUP_SERVING: "true"}
    ended = [
        stored(make_pod(f"p{i}", group="g", total=2, annotations=marks), phase="Succeeded")
        for i in range(2)
    ]
    assert not KIND.is_suspended(make_group(*ended))
    assert not KIND.pods_ready(make_group(*ended))


def test_the_workload_of_a_finished_group_is_released_before_its_pods() -> None:
    pods = gang(2)
    done = finish(workload_of(*pods).status, Reason.SUCCEEDED, "", now=T0, generation=1)
    workload = with_status(workload_of(*pods), done)
    assert isinstance(plan_for(pods, workload), ReleaseWorkload)
    assert written(plan_for(pods, released(workload))) == {
        "p0": (MemberAction.RELEASE,),
        "p1": (MemberAction.RELEASE,),
    }


def test_succeeded_pods_give_their_quota_back() -> None:
    """group-13."""
    pods = gang(3, make=running)
    pods[0] = stored(make_pod("p0", group="g", total=3), phase="Succeeded", is_gated=False)
    workload = admitted(workload_of(*pods))
    plan = plan_for(pods, workload)
    assert encode(status_after(plan).status)["reclaimablePods"] == [{"name": "role", "count": 1}]


def test_a_workload_of_another_owner_is_not_taken() -> None:
    """group-18."""
    plan = plan_for(gang(1), make_workload("g"))
    reason, message = note_of(plan)
    assert reason == "WorkloadNameConflict"
    assert message.startswith('A Workload named "g" already exists but is not a pod group workload')


def test_a_pod_of_an_unknown_role_is_named_and_disturbs_nobody() -> None:
    """group-20."""
    pods = gang(2)
    odd = stored(make_pod("odd", group="g", total=2, role="other"))
    workload = admitted(workload_of(*pods))
    assert list(written(plan_for([*pods, odd], workload))) == ["p0", "p1"]
    started = [running(make_pod(f"p{i}", group="g", total=2)) for i in range(2)]
    reason, message = note_of(plan_for([*started, odd], workload))
    assert reason == "ErrWorkloadCompose"
    assert message.startswith('pod "odd" differs from the pods that the group was admitted with')


def test_a_prebuilt_group_is_owned_and_started_without_surplus_handling() -> None:
    """J-237."""
    stamp = {
        names.PREBUILT_WORKLOAD_NAME: "g",
        names.POD_GROUP_SERVING: "true",
        names.POD_GROUP_FAST_ADMISSION: "true",
    }
    pods = gang(2, total=3, annotations=stamp)
    workload = admitted(workload_of(*pods))
    view = {"prebuilt_name": "g", "prebuilt": workload}
    assert list(written(plan_for(pods, workload, **view))) == ["p0", "p1"]
    fresh = msgspec.structs.replace(workload.metadata, owner_references=())
    owning = {**view, "prebuilt": msgspec.structs.replace(workload, metadata=fresh)}
    assert isinstance(plan_for(pods, owning["prebuilt"], **owning), PatchWorkload)


def test_a_prebuilt_group_with_other_pods_is_out_of_sync() -> None:
    pods = gang(1, annotations={names.PREBUILT_WORKLOAD_NAME: "g"})
    workload = workload_of(stored(make_pod("p0", group="g", total=1, role="other")))
    plan = plan_for(pods, workload, prebuilt_name="g", prebuilt=workload)
    assert isinstance(plan, ChangeStatus)
    assert find(status_after(plan).status, WorkloadCondition.FINISHED).reason == "OutOfSync"


def test_another_time_limit_makes_a_new_workload() -> None:
    pods = gang(1, labels={names.MAX_EXEC_TIME_SECONDS: "60"}, make=running)
    plan = plan_for(pods, admitted(workload_of(*pods)))
    assert isinstance(plan, WriteMembers | DeleteWorkload)


def test_a_group_is_made_of_its_members() -> None:
    group = make_group(*gang(2))
    assert len(group[MEMBERS]) == 2
    assert group["metadata"]["name"] == "p0"


def test_stopped_pods_of_a_prebuilt_group_go_once_their_workload_is_gone() -> None:
    """A drain deletes the Workload on the worker, perhaps before its pods are released."""
    labels = {names.PREBUILT_WORKLOAD_NAME: "g"}
    made = [make_pod(f"p{i}", group="g", total=2, labels=labels) for i in range(2)]
    pods = [running(pod, deleted="2026-01-01T00:00:00Z") for pod in made]
    plan = plan_for(pods, prebuilt_name="g")
    assert written(plan) == dict.fromkeys(("p0", "p1"), (MemberAction.RELEASE,))
