"""Which pods of an elastic job may go (E-169)."""

from __future__ import annotations

from typing import Any

import msgspec

from multiqueue.api import names
from multiqueue.api.v1beta2 import AdmissionCheckState, PodSetUpdate, Workload
from multiqueue.controllers.elastic.ungate import decide_ungating, granted_slice
from tests.builders.workloads import (
    NAMESPACE,
    admitted,
    evicted,
    make_workload,
    reserved,
    with_status,
)

GATE = {"name": names.ELASTIC_GATE}
OTHER = {"name": "example.com/budget"}
REQUEST = names.CONSUME_PROVISIONING_REQUEST


def slice_(name: str = "w", *, pods: int = 2, replaces: str = "") -> Workload:
    annotations = {names.ELASTIC_JOB: "true"}
    if replaces:
        annotations[names.WORKLOAD_SLICE_REPLACEMENT_FOR] = f"{NAMESPACE}/{replaces}"
    return make_workload(name, count=pods, annotations=annotations)


def pod(name: str, *gates: Any, phase: str = "Pending", deleted: bool = False, **spec: Any) -> Any:
    return {
        "metadata": {
            "name": name,
            "uid": name,
            "resourceVersion": "1",
            "labels": {names.PODSET: "main"},
            **({"deletionTimestamp": "2026-01-01T00:00:00Z"} if deleted else {}),
        },
        "spec": {"schedulingGates": list(gates), **spec},
        "status": {"phase": phase},
    }


def with_update(workload: Workload, **update: Any) -> Workload:
    check = AdmissionCheckState(
        name="check", state="Ready", pod_set_updates=(PodSetUpdate(name="main", **update),)
    )
    status = msgspec.structs.replace(workload.status, admission_checks=(check,))
    return with_status(workload, status)


def released(workload: Workload, *pods: Any) -> list[str]:
    return list(decide_ungating(workload, pods).patches)


def test_as_many_go_as_are_admitted_by_name() -> None:
    pods = [pod("c", GATE), pod("a", GATE), pod("b", GATE)]
    assert released(admitted(slice_(pods=2)), *pods) == ["a", "b"]


def test_those_that_went_before_count() -> None:
    pods = [pod("z", phase="Running"), pod("a", GATE), pod("b", GATE)]
    assert released(admitted(slice_(pods=2)), *pods) == ["a"]
    assert released(admitted(slice_(pods=1)), *pods) == []


def test_those_that_ended_leave_their_places() -> None:
    pods = [pod("y", phase="Failed"), pod("z", phase="Succeeded"), pod("a", GATE)]
    assert released(admitted(slice_(pods=1)), *pods) == ["a"]


def test_a_pod_that_is_being_deleted_keeps_its_place_and_is_waited_for() -> None:
    verdict = decide_ungating(
        admitted(slice_(pods=1)), [pod("z", phase="Running", deleted=True), pod("a", GATE)]
    )
    assert (dict(verdict.patches), verdict.waits) == ({}, True)
    assert not decide_ungating(admitted(slice_(pods=0)), [pod("a", GATE)]).waits


def test_other_gates_stay() -> None:
    patch = decide_ungating(admitted(slice_()), [pod("a", OTHER, GATE)]).patches["a"]
    assert patch["spec"]["schedulingGates"] == [OTHER]
    only = decide_ungating(admitted(slice_()), [pod("a", GATE)]).patches["a"]
    assert only["spec"]["schedulingGates"] is None


def test_a_pod_is_told_the_newest_provisioning_request() -> None:
    workload = with_update(
        admitted(slice_()),
        annotations={REQUEST: "two", "other": "x"},
        node_selector={"zone": "a"},
    )
    patch = decide_ungating(workload, [pod("a", GATE)]).patches["a"]
    assert patch["metadata"]["annotations"] == {REQUEST: "two"}
    assert patch["spec"]["nodeSelector"] == {"zone": "a"}


def test_a_pod_that_was_told_another_place_stays() -> None:
    """A node selector cannot be changed."""
    workload = with_update(admitted(slice_(pods=1)), node_selector={"zone": "a"})
    pods = [pod("a", GATE, nodeSelector={"zone": "b"}), pod("b", GATE)]
    assert released(workload, *pods) == ["b"]


def test_the_slice_that_counts_is_the_one_that_is_admitted() -> None:
    old, new = admitted(slice_("old")), slice_("new", replaces="old")
    assert granted_slice([old, new], None) == old
    assert granted_slice([old, reserved(new)], None) is None  # its checks are not ready
    assert granted_slice([old, admitted(new)], None) == admitted(new)
    assert granted_slice([evicted(old), new], None) is None


def test_on_workers_it_is_the_one_that_the_job_names() -> None:
    workload = admitted(slice_())
    assert granted_slice((), workload) == workload
    assert granted_slice((), slice_()) is None
    assert granted_slice((), evicted(workload)) is None
    assert granted_slice((), admitted(make_workload("plain"))) is None
