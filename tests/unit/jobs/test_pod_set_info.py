"""What admission injects into pods, and how it is taken out again."""

from __future__ import annotations

import msgspec
import pytest

from multiqueue.api import names
from multiqueue.api.v1beta2 import (
    AdmissionCheckState,
    ObjectMeta,
    PodSetTopologyRequest,
    PodSetUpdate,
    ResourceFlavor,
    ResourceFlavorSpec,
    Toleration,
    Workload,
)
from multiqueue.jobs.framework.integration import PodSetInfo
from multiqueue.jobs.framework.pod_set_info import (
    FlavorNotFoundError,
    InfoOptions,
    StartConflictError,
    apply_info,
    build_infos,
    injection_patch,
    restore_patch,
)
from multiqueue.lib.merge_patch import apply_merge_patch
from tests.builders.workloads import admitted, make_template, make_workload, with_status

TOLERATION = Toleration(key="gpu", operator="Exists", effect="NoSchedule")
FLAVORS = {
    "default": ResourceFlavor(
        metadata=ObjectMeta(name="default"),
        spec=ResourceFlavorSpec(node_labels={"gpu": "a100"}, tolerations=(TOLERATION,)),
    )
}


def test_an_assignment_brings_labels_tolerations_and_count() -> None:
    """E-184."""
    (info,) = build_infos(admitted(make_workload(count=3)), FLAVORS.get)
    assert info == PodSetInfo(
        name="main",
        count=3,
        labels={
            names.PODSET: "main",
            names.LOCAL_QUEUE_NAME: "lq",
            names.CLUSTER_QUEUE_NAME: "cq",
        },
        annotations={names.WORKLOAD: "wl"},
        node_selector={"gpu": "a100"},
        tolerations=(TOLERATION,),
    )


def test_pods_of_a_copy_say_that_another_cluster_sent_them() -> None:
    """M-26."""
    workload = admitted(make_workload())
    metadata = msgspec.structs.replace(
        workload.metadata, labels={names.MULTIKUEUE_ORIGIN: "multikueue"}
    )
    (info,) = build_infos(msgspec.structs.replace(workload, metadata=metadata), FLAVORS.get)
    assert info.labels[names.MULTIKUEUE_WORKER_WORKLOAD_POD] == "true"


ASSIGNMENT = {
    "levels": ["rack"],
    "slices": [
        {
            "domainCount": 1,
            "valuesPerLevel": [{"universal": "r1"}],
            "podCounts": {"universal": 1},
        }
    ],
}


def placed(workload: Workload) -> Workload:
    """Admitted, with a topology assignment."""
    workload = admitted(workload)
    admission = workload.status.admission
    assert admission is not None
    assignments = tuple(
        msgspec.structs.replace(assignment, topology_assignment=ASSIGNMENT)
        for assignment in admission.pod_set_assignments
    )
    admission = msgspec.structs.replace(admission, pod_set_assignments=assignments)
    return with_status(workload, msgspec.structs.replace(workload.status, admission=admission))


def test_pods_with_a_topology_wait_for_their_domain() -> None:
    workload = make_workload("wl")
    (pod_set,) = workload.spec.pod_sets
    asked = msgspec.structs.replace(
        pod_set, topology_request=PodSetTopologyRequest(required="rack")
    )
    spec = msgspec.structs.replace(workload.spec, pod_sets=(asked,))
    (info,) = build_infos(placed(msgspec.structs.replace(workload, spec=spec)), FLAVORS.get)
    assert info.scheduling_gates == (names.TOPOLOGY_GATE,)
    assert info.annotations == {names.WORKLOAD: "wl"}


def test_pods_with_an_implied_topology_say_so() -> None:
    (info,) = build_infos(placed(make_workload("wl")), FLAVORS.get)
    assert info.annotations == {
        names.WORKLOAD: "wl",
        names.PODSET_UNCONSTRAINED_TOPOLOGY: "true",
    }


def test_a_start_overwrites_what_an_earlier_slice_wrote() -> None:
    """J-118."""
    metadata = msgspec.structs.replace(
        make_workload("new").metadata, annotations={names.ELASTIC_JOB: "true"}
    )
    workload = admitted(msgspec.structs.replace(make_workload("new"), metadata=metadata))
    (info,) = build_infos(workload, FLAVORS.get)
    old = {names.WORKLOAD: "old", names.WORKLOAD_SLICE_NAME: "old", "mine": "x"}
    template = apply_info({**make_template(), "metadata": {"annotations": old}}, info)
    new = {names.WORKLOAD: "new", names.WORKLOAD_SLICE_NAME: "new", "mine": "x"}
    assert template["metadata"]["annotations"] == new


def test_another_workload_than_the_template_names_prevents_the_start() -> None:
    (info,) = build_infos(admitted(make_workload("new")), FLAVORS.get)
    template = {**make_template(), "metadata": {"annotations": {names.WORKLOAD: "old"}}}
    with pytest.raises(StartConflictError, match="workload, value1=old, value2=new"):
        apply_info(template, info)


def test_the_gates_decide_which_names_pods_get() -> None:
    options = InfoOptions(name_queues=False, name_workload=False)
    (info,) = build_infos(admitted(make_workload("wl")), FLAVORS.get, options)
    assert (info.labels, info.annotations) == ({names.PODSET: "main"}, {})


def test_pods_get_the_labels_that_say_who_pays() -> None:
    metadata = msgspec.structs.replace(make_workload().metadata, labels={"payer": "ml", "x": "y"})
    workload = admitted(msgspec.structs.replace(make_workload(), metadata=metadata))
    options = InfoOptions(name_queues=False, chargeback_keys=("payer", "absent"))
    (info,) = build_infos(workload, FLAVORS.get, options)
    template = {**make_template(), "metadata": {"labels": {"payer": "somebody else"}}}
    assert apply_info(template, info)["metadata"]["labels"] == {
        "payer": "ml",
        names.PODSET: "main",
    }


def test_a_queue_name_that_is_no_label_is_left_out() -> None:
    (info,) = build_infos(admitted(make_workload(queue="q" * 64), on="Team.A"), FLAVORS.get)
    assert info.labels == {names.PODSET: "main"}


def test_a_missing_flavor_is_named() -> None:
    with pytest.raises(FlavorNotFoundError, match='ResourceFlavor "default" of pod set "main"'):
        build_infos(admitted(make_workload()), lambda _: None)


def test_updates_of_checks_are_added() -> None:
    workload = admitted(make_workload())
    update = PodSetUpdate(name="main", annotations={"a": "1"}, node_selector={"zone": "z"})
    check = AdmissionCheckState(name="c", state="Ready", pod_set_updates=(update,))
    workload = with_status(
        workload, msgspec.structs.replace(workload.status, admission_checks=(check,))
    )
    (info,) = build_infos(workload, FLAVORS.get)
    assert info.annotations == {names.WORKLOAD: "wl", "a": "1"}
    assert info.node_selector == {"gpu": "a100", "zone": "z"}


def test_a_check_that_contradicts_the_flavor_prevents_the_start() -> None:
    workload = admitted(make_workload())
    update = PodSetUpdate(name="main", node_selector={"gpu": "h100"})
    check = AdmissionCheckState(name="c", state="Ready", pod_set_updates=(update,))
    workload = with_status(
        workload, msgspec.structs.replace(workload.status, admission_checks=(check,))
    )
    message = (
        "invalid admission check PodSetUpdate: conflict for nodeSelector: conflict for key=gpu, "
        "value1=a100"
    )
    with pytest.raises(StartConflictError, match=message):
        build_infos(workload, FLAVORS.get)


def test_a_template_that_says_otherwise_prevents_the_start() -> None:
    info = PodSetInfo(name="main", count=1, node_selector={"gpu": "a100"})
    with pytest.raises(StartConflictError, match="key=gpu, value1=h100, value2=a100"):
        apply_info(make_template(nodeSelector={"gpu": "h100"}), info)


def test_what_is_there_already_is_not_written_again() -> None:
    info = PodSetInfo(
        name="main", count=1, node_selector={"a": "b"}, tolerations=(TOLERATION,), labels={"l": "1"}
    )
    template = make_template()
    once = apply_info(template, info)
    assert injection_patch(once, info) == {}
    assert apply_info(once, info) == once
    assert template == make_template()


def test_restoring_undoes_an_injection() -> None:
    """E-184."""
    original = make_template(tolerations=[{"key": "mine"}], nodeSelector={"x": "y"})
    info = PodSetInfo(
        name="main",
        count=1,
        node_selector={"a": "b"},
        tolerations=(TOLERATION,),
        labels={"l": "1"},
        scheduling_gates=("g",),
    )
    injected = apply_info(original, info)
    restored = apply_merge_patch(injected, restore_patch(injected, original))
    assert injection_patch(restored, info) == injection_patch(original, info)
    assert restored["spec"]["nodeSelector"] == {"x": "y"}
    assert restored["spec"]["tolerations"] == [{"key": "mine"}]
    assert restore_patch(original, original) == {}
