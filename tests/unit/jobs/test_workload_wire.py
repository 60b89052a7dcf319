"""Workload status on the wire: complete entries, and patches of what differs."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from multiqueue.api.conditions import CheckState
from multiqueue.api.v1beta2 import (
    PodSetAssignment,
    PreemptionGateState,
    RequeueState,
    WorkloadStatus,
)
from multiqueue.api.workload_state import evict, release_quota, set_requeue_at
from multiqueue.jobs.workload_wire import build_status, build_status_patch, diff
from multiqueue.lib.merge_patch import apply_merge_patch
from tests.builders.workloads import T0, admitted, make_workload, minutes, reserved, with_checks


def test_entries_have_their_required_fields_although_they_are_defaults() -> None:
    status = with_checks(reserved(make_workload()), a=CheckState.PENDING).status
    status = evict(status, "Preempted", "", now=T0)
    status = msgspec.structs.replace(
        status,
        admission_checks=tuple(
            msgspec.structs.replace(c, last_transition_time="") for c in status.admission_checks
        ),
        preemption_gates=(PreemptionGateState(name="g"),),
    )
    wire = build_status(status)
    assert wire["admissionChecks"] == [
        {"name": "a", "state": "Pending", "lastTransitionTime": "", "message": ""}
    ]
    assert wire["admission"]["podSetAssignments"][0]["name"] == "main"
    assert wire["schedulingStats"]["evictions"] == [
        {"reason": "Preempted", "underlyingCause": "", "count": 1}
    ]
    assert wire["preemptionGates"] == [{"name": "g", "position": "Closed"}]


def test_nothing_changed_is_nothing_written() -> None:
    status = admitted(make_workload()).status
    assert build_status_patch(status, status) == {}


def test_a_patch_has_only_what_differs() -> None:
    before = admitted(make_workload()).status
    after = set_requeue_at(before, minutes(1))
    assert build_status_patch(before, after) == {
        "requeueState": {"requeueAt": "2026-01-01T00:01:00Z"}
    }


def test_what_is_gone_is_removed_by_name() -> None:
    before = msgspec.structs.replace(
        admitted(make_workload()).status,
        requeue_state=RequeueState(count=1, requeue_at="2026-01-01T00:01:00Z"),
        cluster_name="w",
    )
    after = msgspec.structs.replace(
        release_quota(before, reason="r", message="m", now=T0),
        requeue_state=RequeueState(count=1),
        cluster_name=None,
    )
    patch = build_status_patch(before, after)
    assert patch["admission"] is None
    assert patch["clusterName"] is None
    assert patch["requeueState"] == {"requeueAt": None}


def test_a_patch_turns_one_status_into_the_other() -> None:
    before = evict(admitted(make_workload()).status, "Preempted", "m", now=T0)
    assignment = PodSetAssignment(name="other", count=0)
    after = reserved(make_workload(pod_sets=())).status
    assert after.admission is not None
    after = msgspec.structs.replace(
        after,
        admission=msgspec.structs.replace(after.admission, pod_set_assignments=(assignment,)),
    )
    patched = apply_merge_patch(build_status(before), build_status_patch(before, after))
    assert patched == build_status(after)


scalars = st.one_of(st.booleans(), st.integers(), st.text(max_size=3))
trees = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=2), inner, max_size=3)
    ),
    max_leaves=8,
)
objects = st.dictionaries(st.text(max_size=2), trees, max_size=4)


@given(before=objects, after=objects)
def test_a_diff_leads_from_one_to_the_other(
    before: dict[str, object], after: dict[str, object]
) -> None:
    assert apply_merge_patch(before, diff(before, after)) == after


@given(same=objects)
def test_a_diff_of_the_same_is_empty(same: dict[str, object]) -> None:
    assert diff(same, same) == {}


@pytest.mark.parametrize("status", [WorkloadStatus(), reserved(make_workload()).status])
def test_the_wire_form_reads_back(status: WorkloadStatus) -> None:
    assert msgspec.convert(build_status(status), WorkloadStatus) == status
