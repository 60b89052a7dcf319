"""The copy that a worker gets, and its marks."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from multiqueue.api import names
from multiqueue.api.serde import decode
from multiqueue.api.slices import replaced_key
from multiqueue.api.v1beta2 import Workload
from multiqueue.dispatch.decide.copy import clone_workload, digest_of, epoch_of, stamp_job
from multiqueue.workers.owner import ManagerIdentity

OWNER = ManagerIdentity(origin="here", manager="hub")
NOW = datetime(2026, 1, 1, 0, 0, 3, tzinfo=UTC)


def make_original(*, count: int = 1, reserved_at: str | None = "2026-01-01T00:00:00Z", **spec):
    conditions = [
        {
            "type": "QuotaReserved",
            "status": "True" if reserved_at else "False",
            "reason": "r",
            "message": "m",
            "lastTransitionTime": reserved_at or "2026-01-01T00:00:00Z",
        }
    ]
    template = {"metadata": {}, "spec": {"containers": [{"name": "c", "unknownField": 1}]}}
    return decode(
        Workload,
        {
            "metadata": {
                "name": "w",
                "namespace": "ns",
                "uid": "u",
                "resourceVersion": "7",
                "labels": {"team": "a", names.JOB_UID: "x"},
                "annotations": {"note": "n"},
                "finalizers": [names.RESOURCE_IN_USE],
                "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "j"}],
            },
            "spec": {
                "queueName": "lq",
                "priority": 5,
                "preemptionGates": [{"name": "g"}],
                "podSets": [{"name": "main", "count": count, "template": template}],
                **spec,
            },
            "status": {"conditions": conditions},
        },
    )


def test_the_copy_has_name_labels_annotations_and_spec_and_nothing_else():
    """M-23, M-105."""
    got = clone_workload(make_original(), owner=OWNER, now=NOW)
    metadata = got["metadata"]
    assert set(metadata) == {"name", "namespace", "labels", "annotations"}
    assert metadata["labels"] == {"team": "a", names.MULTIKUEUE_ORIGIN: "here"}
    assert metadata["annotations"]["note"] == "n"
    assert set(got) == {"apiVersion", "kind", "metadata", "spec"}


def test_the_copy_of_the_spec_is_complete_but_for_our_own_gates():
    got = clone_workload(make_original(), owner=OWNER, now=NOW)["spec"]
    template = {"metadata": {}, "spec": {"containers": [{"name": "c", "unknownField": 1}]}}
    assert got == {
        "queueName": "lq",
        "priority": 5,
        "podSets": [{"name": "main", "count": 1, "template": template}],
    }


def test_copy_and_job_carry_the_mark_of_the_reservation():
    workload = make_original()
    annotations = clone_workload(workload, owner=OWNER, now=NOW)["metadata"]["annotations"]
    job = stamp_job({"metadata": {"name": "j"}, "spec": {}}, workload, owner=OWNER)
    assert annotations[names.DISPATCH_EPOCH] == "2026-01-01T00:00:00Z"
    assert job["metadata"]["annotations"] == {
        names.DISPATCH_EPOCH: "2026-01-01T00:00:00Z",
        names.MANAGER: "hub",
    }
    assert annotations[names.MANAGER] == "hub"


def test_the_copy_says_when_it_was_offered():
    got = clone_workload(make_original(), owner=OWNER, now=NOW)
    assert got["metadata"]["annotations"][names.OFFERED_AT] == "2026-01-01T00:00:03.000000Z"


def test_a_gated_copy_has_our_gate_and_none_of_the_manager_s():
    """T-75, T-173, M-28, M-180, M-184."""
    got = clone_workload(make_original(), owner=OWNER, now=NOW, gated=True)
    assert got["spec"]["preemptionGates"] == [{"name": names.MULTIKUEUE_GATE}]
    assert digest_of(make_original(preemptionGates=[])) == digest_of(make_original())


def test_without_reservation_there_is_no_epoch():
    assert epoch_of(make_original(reserved_at=None)) == ""
    assert epoch_of(Workload()) == ""


def test_the_digest_follows_what_a_copy_is_made_of():
    first = digest_of(make_original())
    assert digest_of(make_original(priority=9)) == first
    assert digest_of(make_original(count=2)) != first
    assert digest_of(make_original(queueName="other")) != first


def test_a_first_slice_looks_like_a_larger_one_to_its_worker():
    """M-163: upstream Kueue would find the copy out of sync in the middle of a scale-down."""
    key = names.WORKLOAD_SLICE_REPLACEMENT_FOR

    def replaces(workload):
        made = clone_workload(workload, owner=OWNER, now=NOW)
        return made["metadata"]["annotations"].get(key), replaced_key(decode(Workload, made))

    plain = make_original()
    assert replaces(plain) == (None, "")
    first = annotated(plain, **{names.ELASTIC_JOB: "true"})
    assert replaces(first) == ("ns/w", ""), "nobody gives up anything for it"
    assert replaces(annotated(first, **{key: "ns/old"})) == ("ns/old", "ns/old")


@pytest.mark.parametrize("name", [names.ALTERNATIVES, names.RAN_ON])
def test_the_copy_has_nothing_that_only_we_go_by(name: str):
    """What is told of our reservation would be believed of one that a worker makes just then."""
    workload = annotated(make_original(), **{name: "2026-01-01T00:00:00Z main=4"})
    copy = clone_workload(workload, owner=OWNER, now=NOW)
    assert name not in copy["metadata"]["annotations"]


def annotated(workload, **annotations):
    metadata = workload.metadata
    changed = {**metadata.annotations, **annotations}
    return replace(workload, metadata=replace(metadata, annotations=changed))
