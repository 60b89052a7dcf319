"""Which admission checks a Workload has, and what their states ask for."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from multiqueue.api.conditions import CheckState
from multiqueue.api.v1beta2 import (
    Admission,
    AdmissionChecksStrategy,
    AdmissionCheckState,
    AdmissionCheckStrategyRule,
    ClusterQueueSpec,
    FlavorQuotas,
    PodSetAssignment,
    PodSetUpdate,
    ResourceGroup,
    Toleration,
    WorkloadStatus,
)
from multiqueue.api.v1beta2.meta import format_time
from multiqueue.api.workload_checks import (
    applicable_checks,
    checks_in,
    describe_checks,
    merge_pod_set_updates,
    retry_at,
    sync_checks,
)
from tests.builders.workloads import T0, minutes


def make_spec(**rules: tuple[str, ...]) -> ClusterQueueSpec:
    flavors = tuple(FlavorQuotas(name=name) for name in ("a100", "h100"))
    return ClusterQueueSpec(
        resource_groups=(ResourceGroup(covered_resources=("gpu",), flavors=flavors),),
        admission_checks_strategy=AdmissionChecksStrategy(
            admission_checks=tuple(
                AdmissionCheckStrategyRule(name=name, on_flavors=on) for name, on in rules.items()
            )
        ),
    )


def on(*flavors: str) -> Admission:
    assignment = PodSetAssignment(flavors={f"r{i}": f for i, f in enumerate(flavors)})
    return Admission(cluster_queue="cq", pod_set_assignments=(assignment,))


@pytest.mark.parametrize(
    ("admission", "want"),
    [
        pytest.param(None, ("all", "both"), id="while pending those for every flavor"),
        pytest.param(on("a100"), ("all", "both", "one"), id="admitted those for its flavor"),
        pytest.param(on("h100"), ("all", "both"), id="not those for another flavor"),
        pytest.param(on(), ("all",), id="without flavors those that name none"),
    ],
)
def test_applicable_checks(admission: Admission | None, want: tuple[str, ...]) -> None:
    spec = make_spec(one=("a100",), both=("a100", "h100"), all=())
    assert applicable_checks(spec, admission) == want


def test_a_queue_without_checks_has_none() -> None:
    assert applicable_checks(ClusterQueueSpec(), None) == ()


def test_the_list_is_sorted_keeps_states_and_drops_what_is_gone() -> None:
    ready = AdmissionCheckState(name="b", state="Ready", last_transition_time=format_time(T0))
    status = WorkloadStatus(admission_checks=(ready, AdmissionCheckState(name="gone")))
    status = sync_checks(status, ["c", "b", "a"], minutes(1))
    assert [(c.name, c.state) for c in status.admission_checks] == [
        ("a", "Pending"),
        ("b", "Ready"),
        ("c", "Pending"),
    ]
    assert status.admission_checks[0].last_transition_time == format_time(minutes(1))
    assert sync_checks(status, ["a", "b", "c"], minutes(2)) is status


def test_the_last_retry_decides_when_to_come_back() -> None:
    def check(name: str, state: str, seconds: int | None) -> AdmissionCheckState:
        return AdmissionCheckState(
            name=name,
            state=state,
            last_transition_time=format_time(T0),
            requeue_after_seconds=seconds,
        )

    status = WorkloadStatus(
        admission_checks=(
            check("a", "Retry", 30),
            check("b", "Retry", 60),
            check("c", "Ready", 900),
            check("d", "Retry", None),
        )
    )
    assert retry_at(status) == T0 + timedelta(seconds=60)
    assert retry_at(WorkloadStatus()) is None


def test_the_sentence_names_checks_and_what_they_said() -> None:
    status = WorkloadStatus(
        admission_checks=(
            AdmissionCheckState(name="b", state="Rejected"),
            AdmissionCheckState(name="a", state="Rejected", message="no capacity"),
            AdmissionCheckState(name="c", state="Ready"),
        )
    )
    rejected = checks_in(status, CheckState.REJECTED)
    assert describe_checks(rejected, CheckState.REJECTED) == (
        'AdmissionChecks in Rejected state: "a" (no capacity); "b"'
    )
    assert describe_checks(rejected[:1], CheckState.REJECTED) == (
        'AdmissionCheck in Rejected state: "b"'
    )


def updating(name: str, **update: object) -> AdmissionCheckState:
    merged = msgspec.convert({"name": "main", **update}, PodSetUpdate)
    return AdmissionCheckState(name=name, state="Ready", pod_set_updates=(merged,))


def test_updates_of_several_checks_add_up() -> None:
    toleration = {"key": "k", "operator": "Exists"}
    status = WorkloadStatus(
        admission_checks=(
            updating("a", labels={"x": "1"}, nodeSelector={"n": "1"}, tolerations=[toleration]),
            updating("b", labels={"x": "1", "y": "2"}, tolerations=[toleration]),
        )
    )
    assert merge_pod_set_updates(status) == {
        "main": PodSetUpdate(
            name="main",
            labels={"x": "1", "y": "2"},
            node_selector={"n": "1"},
            tolerations=(Toleration(key="k", operator="Exists"),),
        )
    }


def test_updates_that_contradict_each_other_are_named() -> None:
    """E-153."""
    status = WorkloadStatus(
        admission_checks=(
            updating("a", nodeSelector={"zone": "1"}),
            updating("b", nodeSelector={"zone": "2"}),
        )
    )
    assert merge_pod_set_updates(status) == (
        'AdmissionCheck "b", pod set "main": conflict for nodeSelector: "zone" is "1" and "2"'
    )
