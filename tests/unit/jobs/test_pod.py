"""Single pods, their copies on workers, and how pods are found."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import orjson
import pytest

from multiqueue.api import names
from multiqueue.api.conditions import Reason
from multiqueue.api.config import Configuration
from multiqueue.api.serde import decode as decode_object
from multiqueue.api.v1beta2 import OwnerReference, Workload
from multiqueue.jobs.framework.decide import decide
from multiqueue.jobs.framework.integration import Finished, MemberAction, PodSetInfo
from multiqueue.jobs.framework.plan import (
    ChangeStatus,
    CreateJobWorkload,
    ReleaseWorkload,
    Wait,
    WriteMembers,
)
from multiqueue.jobs.informers import WORKLOAD_INDEXES
from multiqueue.jobs.pod.multikueue import PodAdapter
from multiqueue.jobs.pod.rules import member_reference
from multiqueue.jobs.pod.source import BY_GROUP, PodSource, by_group
from multiqueue.kube.store import Store
from tests.builders.workloads import T0, admitted, evicted, make_workload
from tests.pod_objects import PODS_ENABLED, make_group, make_pod, pod_kind, running, stored
from tests.unit.jobs.job_views import make_view, released

KIND = pod_kind()
ADAPTER = PodAdapter(KIND)
GATED = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}


def workload_of(pod: dict[str, Any], **what: Any) -> Workload:
    uid = pod["metadata"]["uid"]
    return make_workload("wl", owner_uid=uid, pod_sets=KIND.pod_sets(pod), **what)


def plan_for(pod: dict[str, Any], *workloads: Workload, **what: Any) -> Any:
    return decide(make_view(pod, *workloads, **{"integration": KIND, **what}))


def test_a_pod_gets_a_workload_of_its_own() -> None:
    """pod-1."""
    plan = plan_for(stored(make_pod()))
    assert isinstance(plan, CreateJobWorkload)
    metadata = plan.body["metadata"]
    assert metadata["name"].startswith("pod-p0-")
    assert metadata["ownerReferences"][0]["controller"] is True
    assert plan.body["spec"]["podSets"][0]["topologyRequest"] == {
        "podIndexLabel": names.POD_GROUP_POD_INDEX
    }


@pytest.mark.parametrize(
    ("gates", "kept"),
    [((), []), ((names.TOPOLOGY_GATE,), [{"name": names.TOPOLOGY_GATE}])],
    ids=["without a topology (pod-5)", "with a topology (pod-6)"],
)
def test_which_gates_a_start_opens(gates: tuple[str, ...], kept: list[Any]) -> None:
    info = PodSetInfo(name="main", count=1, scheduling_gates=gates)
    (write,) = KIND.start_writes(stored(make_pod()), [info])
    (patch,) = write.steps
    assert patch.patch["spec"]["schedulingGates"] == kept


@pytest.mark.parametrize(
    ("phase", "end"),
    [
        ("Running", None),
        ("Succeeded", Finished(success=True, message="")),
        ("Failed", Finished(success=False, message="OOM")),
    ],
)
def test_how_a_pod_ends(phase: str, end: Finished | None) -> None:
    """pod-8, pod-9."""
    pod = stored(make_pod(), phase=phase)
    pod["status"]["message"] = end.message if end else ""
    assert KIND.finished(pod) == end


def test_a_preempted_pod_is_marked_and_deleted_once() -> None:
    """pod-7."""
    pod = running(make_pod())
    workload = evicted(admitted(workload_of(pod)), reason=Reason.PREEMPTED)
    (write,) = plan_for(pod, workload).writes
    assert (write.steps[-1], write.repeats) == (MemberAction.DELETE, False)
    mark = {"type": "TerminationTarget", "status": "True"}
    marked = running(make_pod(), conditions=(mark,))
    (again,) = plan_for(marked, workload).writes
    assert (again.steps, again.repeats) == ((MemberAction.DELETE,), True)


def test_a_running_pod_keeps_its_quota_until_it_ended_or_is_overdue() -> None:
    """pod-17: it is due at 40 s, and another 30 s are waited for."""
    pod = running(make_pod(), deleted="2026-01-01T00:00:40Z")
    workload = admitted(workload_of(pod))
    plan = plan_for(pod, workload)
    assert isinstance(plan, Wait)
    assert plan.requeue_after == 70.0
    late = plan_for(pod, workload, now=T0 + timedelta(seconds=71))
    assert isinstance(late, ChangeStatus | ReleaseWorkload)
    assert isinstance(plan_for(pod, released(workload)), WriteMembers)


def test_a_dispatched_pod_stays_gated() -> None:
    """pod-18."""
    pod = stored(make_pod())
    assert isinstance(plan_for(pod, admitted(workload_of(pod)), dispatched=True), Wait)


# ---------------------------------------------------------------- copies on workers


def test_a_copy_keeps_gates_and_names_its_workload() -> None:
    local = stored(make_pod("p0", group="g", total=2))
    remote = ADAPTER.remote_job(local, workload_name="g", origin="hub")
    assert remote["spec"] == local["spec"]
    assert "finalizers" not in remote["metadata"]
    assert remote["metadata"]["labels"][names.MULTIKUEUE_ORIGIN] == "hub"
    assert ADAPTER.workload_name(remote) == "g"
    assert ADAPTER.refusal(local) is None


@pytest.mark.parametrize(
    ("scheduled", "shown"),
    [
        ({"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}, GATED),
        ({"type": "PodScheduled", "status": "True"}, {"type": "PodScheduled", "status": "True"}),
    ],
    ids=["not yet scheduled", "scheduled"],
)
def test_which_condition_a_gated_pod_shows(scheduled: Any, shown: Any) -> None:
    """M-142."""
    local = stored(make_pod(), conditions=(GATED,))
    remote = stored(make_pod(), phase="Running", conditions=(scheduled,))
    patch = ADAPTER.status_patch(local, remote).patch or {"status": {}}
    conditions = patch["status"].get("conditions", [GATED])
    assert conditions == [shown]
    assert patch["status"]["phase"] == "Running"


def test_each_pod_has_its_copy_but_ended_pods_get_no_second_one() -> None:
    pods = [stored(make_pod(f"p{i}", group="g", total=4)) for i in range(3)]
    ended = stored(make_pod("p3", group="g", total=4), phase="Succeeded")
    leaving = stored(make_pod("p4", group="g", total=4), deleted="2026-01-01T00:00:40Z")
    local = make_group(*pods, ended, leaving)
    remote = ADAPTER.gather(pods[:2])
    pairs = [(a["metadata"]["name"], b is not None) for a, b in ADAPTER.pair(local, remote)]
    assert pairs == [("p0", True), ("p1", True), ("p2", False)]
    assert ADAPTER.gather([running(make_pod())])["metadata"]["name"] == "p0"


def test_a_pod_that_was_stopped_on_its_worker_is_pending_again() -> None:
    local = stored(make_pod(), phase="Running", conditions=(GATED,))
    patch = ADAPTER.stopped_patch(local)
    assert patch is not None
    assert patch["status"]["phase"] == "Pending"
    assert ADAPTER.stopped_patch(stored(make_pod())) is None
    assert ADAPTER.stopped_patch(stored(make_pod(), phase="Succeeded")) is None


def test_a_pod_that_ended_and_is_gone_gets_its_end() -> None:
    end = Finished(success=False, message="killed")
    patch = ADAPTER.final_patch(stored(make_pod(), phase="Running"), end, T0)
    assert patch == {"status": {"phase": "Failed", "reason": "RemoteJobGone", "message": "killed"}}
    assert ADAPTER.final_patch(stored(make_pod(), phase="Succeeded"), end, T0) is None


# ---------------------------------------------------------------- finding pods


def source(
    *pods: dict[str, Any],
    workloads: tuple[Workload, ...] = (),
    config: Configuration = PODS_ENABLED,
) -> PodSource:
    known: Store[Workload] = Store(WORKLOAD_INDEXES)
    for workload in workloads:
        known.put(workload.metadata.key, workload)
    jobs: Store[dict[str, Any]] = Store({BY_GROUP: by_group})
    for pod in pods:
        jobs.put(f"{pod['metadata']['namespace']}/{pod['metadata']['name']}", pod)
    informers = SimpleNamespace(
        jobs={"pod": SimpleNamespace(store=jobs)}, workloads=SimpleNamespace(store=known)
    )
    context = SimpleNamespace(informers=informers, config=config)
    return PodSource(cast("Any", context), KIND)


def test_pods_of_a_group_have_one_key() -> None:
    member, solo = stored(make_pod("p0", group="g", total=1)), stored(make_pod("solo"))
    found = source(member, solo)
    assert found.key_of(member) == "team-a/group/g"
    assert found.key_of(solo) == "team-a/solo"
    assert found.find("team-a/p0") is None  # the group is reconciled instead
    assert found.find("team-a/solo") is solo
    group = found.find("team-a/group/g")
    assert group is not None
    assert group["members"] == [member]


def test_a_group_keeps_its_workload_while_its_pods_are_made_again() -> None:
    """A new pod has the name of a former owner, and no mark of the group yet (J-291)."""
    former = stored(make_pod("p0", group="g", total=1))
    again = {**former, "metadata": {**make_pod("p0")["metadata"], "uid": "another"}}
    for marks, left in (({names.IS_GROUP_WORKLOAD: "true"}, False), ({}, True)):
        reference = decode_object(OwnerReference, orjson.dumps(member_reference(former)))
        made = make_workload("g", annotations=marks, pod_sets=KIND.pod_sets(former))
        metadata = msgspec.structs.replace(made.metadata, owner_references=(reference,))
        workload = msgspec.structs.replace(made, metadata=metadata)
        found = source(again, workloads=(workload,))
        assert bool(found.left_behind("team-a/p0", again)) is left


def test_implied_pods_are_served_only_if_they_are_stamped() -> None:
    """J-213."""
    stamped = stored(make_pod("s", annotations={names.POD_SUSPENDING_PARENT: "x"}))
    found = source(stamped, stored(make_pod("plain")), config=Configuration())
    assert found.find("team-a/s") is stamped
    assert found.find("team-a/plain") is None


def test_changes_of_members_are_batched_but_the_last_one_is_not_waited_for() -> None:
    member, solo = stored(make_pod("p0", group="g", total=2)), stored(make_pod("solo"))
    last = stored(make_pod("p1", group="g", total=2))
    assert source(member).delay(None, member) > 0
    found = source(member, last)
    assert found.delay(None, last) == 0
    assert found.delay(member, None) == 0
    assert found.delay(solo, solo) == 0
    assert found.delay(member, member) > 0


def test_pods_that_replace_others_are_batched_like_the_first_ones() -> None:
    gone = [stored(make_pod(f"p{n}", group="g", total=2), phase="Failed") for n in range(2)]
    first, second = (stored(make_pod(f"p{n}", group="g", total=2)) for n in (2, 3))
    assert source(*gone, first).delay(None, first) > 0
    assert source(*gone, first, second).delay(None, second) == 0


@pytest.mark.parametrize(
    ("imported_at", "is_stopped"),
    [
        pytest.param("2025-12-31T23:59:00Z", False, id="a minute ago"),
        pytest.param("2025-12-31T23:54:00Z", True, id="long ago"),
        pytest.param("2026-01-02T00:00:00Z", True, id="tomorrow"),
        pytest.param("soon", True, id="no time"),
    ],
)
def test_an_imported_pod_runs_until_its_workload_is_seen(
    imported_at: str, *, is_stopped: bool
) -> None:
    """The watch of Workloads may be behind that of pods; it is not waited for for ever."""
    pod = running(make_pod(annotations={names.IMPORTED_AT: imported_at}))
    plan = plan_for(pod)
    assert isinstance(plan, WriteMembers if is_stopped else Wait)
