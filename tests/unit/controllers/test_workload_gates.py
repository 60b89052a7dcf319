"""Preemption gates of Workloads, and what the gates about unadmitted Workloads have written."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from multiqueue.api.conditions import CheckState, Reason
from multiqueue.api.config import Configuration
from multiqueue.api.config.gates import find_gate_errors
from multiqueue.api.v1beta2 import PreemptionGate, PreemptionGateState, Workload
from multiqueue.api.v1beta2.meta import format_time
from multiqueue.api.workload_state import evict, reserve_quota
from multiqueue.controllers.workload.decide import decide
from multiqueue.controllers.workload.plan import NothingToDo
from multiqueue.controllers.workload.view import WorkloadOptions
from tests.builders.workloads import T0, make_workload, minutes, reserved, with_checks, with_status
from tests.unit.controllers.workload_views import (
    because,
    condition_of,
    make_cluster_queue,
    make_local_queue,
    make_view,
    step,
)

QUOTA = because(Reason.WAITING_FOR_QUOTA)
NOT_YET = because(Reason.PENDING_EVALUATION, "not yet")


def options(**gates: bool) -> WorkloadOptions:
    assert list(find_gate_errors(gates)) == []
    return WorkloadOptions.from_config(Configuration(feature_gates=gates))


GATED = options(MultiKueueOrchestratedPreemption=True)
COARSE = options(UnadmittedWorkloadsObservability=False)
EXPLICIT = options(UnadmittedWorkloadsExplicitStatus=True)


def gate(name: str, position: str = "Closed") -> PreemptionGateState:
    return PreemptionGateState(name=name, position=position, last_transition_time=format_time(T0))


def gated(*gates: str, known: tuple[PreemptionGateState, ...] = ()) -> Workload:
    workload = make_workload(preemption_gates=tuple(PreemptionGate(name=name) for name in gates))
    return with_status(workload, msgspec.structs.replace(workload.status, preemption_gates=known))


# ---------------------------------------------------------------- preemption gates


def test_the_status_follows_the_gates_of_the_spec() -> None:
    workload = gated("a", "new", known=(gate("a", "Open"), gate("gone")))
    view = step(make_view(workload, options=GATED, now=minutes(1)))

    new = PreemptionGateState(
        name="new", position="Closed", last_transition_time=format_time(minutes(1))
    )
    assert view.workload.status.preemption_gates == (gate("a", "Open"), new)
    assert isinstance(decide(view), NothingToDo)


def test_the_status_of_gates_is_left_alone_without_the_feature_gate() -> None:
    assert isinstance(decide(make_view(gated("a"))), NothingToDo)


def test_whoever_would_have_to_preempt_says_that_it_is_gated() -> None:
    workload = gated("a", known=(gate("a"),))
    explained = msgspec.structs.replace(QUOTA, is_gated=True)
    view = step(make_view(workload, explanation=explained, options=GATED))

    assert condition_of(view, "BlockedOnPreemptionGates") == (
        "True",
        "PreemptionGated",
        "Workload requires preemption, but it's gated",
    )
    assert isinstance(decide(view), NothingToDo)


def test_quota_ends_the_block_and_an_eviction_closes_the_gates() -> None:
    """M-183."""
    workload = gated("a", known=(gate("a", "Open"),))
    explained = msgspec.structs.replace(QUOTA, is_gated=True)
    view = step(make_view(workload, explanation=explained, options=GATED))
    admission = reserved(make_workload()).status.admission
    assert admission is not None

    status = reserve_quota(view.workload.status, admission, now=minutes(1), generation=1)
    assert condition_of(with_new(view, status), "BlockedOnPreemptionGates") == (
        "False",
        "QuotaReserved",
        "Previously: Workload requires preemption, but it's gated",
    )
    assert status.preemption_gates == (gate("a", "Open"),)
    closed = evict(status, "Preempted", "go", now=minutes(2), generation=1).preemption_gates
    assert [state.position for state in closed] == ["Closed"]


def with_new(view: Any, status: Any) -> Any:
    return replace(view, workload=with_status(view.workload, status))


# ------------------------------------------------ UnadmittedWorkloadsObservability


@pytest.mark.parametrize(
    ("reason", "coarse"),
    [
        (Reason.WAITING_FOR_QUOTA, "Pending"),
        (Reason.NO_MATCHING_FLAVOR, "Pending"),
        (Reason.WAITING_FOR_PODS_READY, "Waiting"),
        (Reason.MISCONFIGURED, "Inadmissible"),
        (Reason.SUSPENDED, "Inadmissible"),
    ],
)
def test_without_observability_the_reasons_are_few(reason: Reason, coarse: str) -> None:
    explained = because(reason, "the same words")

    fine = step(make_view(make_workload(), explanation=explained))
    view = step(make_view(make_workload(), explanation=explained, options=COARSE))

    assert condition_of(fine, "QuotaReserved") == ("False", str(reason), "the same words")
    assert condition_of(view, "QuotaReserved") == ("False", coarse, "the same words")
    assert isinstance(decide(view), NothingToDo)


def test_what_was_inadmissible_and_no_longer_is_waits_to_be_looked_at() -> None:
    blocked = because(Reason.MISCONFIGURED, "LocalQueue lq doesn't exist")
    view = step(make_view(make_workload(), explanation=blocked, options=COARSE))

    view = step(replace(view, explanation=NOT_YET))

    assert condition_of(view, "QuotaReserved") == ("False", "Pending", "not yet")


def test_quota_that_is_given_back_has_a_coarse_reason_too() -> None:
    workload = with_checks(reserved(make_workload()), a=CheckState.PENDING)
    queue, held = make_cluster_queue("a"), make_local_queue(stop_policy="Hold")
    view = make_view(workload, holding=queue, local_queue=held, options=COARSE)

    condition = condition_of(step(view), "QuotaReserved")

    assert condition is not None
    assert condition[:2] == ("False", "Inadmissible")


# ------------------------------------------------ UnadmittedWorkloadsExplicitStatus


def test_with_explicit_status_a_workload_says_from_the_beginning_what_it_lacks() -> None:
    view = step(make_view(make_workload(), explanation=NOT_YET, options=EXPLICIT))

    assert condition_of(view, "QuotaReserved") == ("False", "PendingEvaluation", "not yet")
    assert condition_of(view, "Admitted") == (
        "False",
        "NoReservation",
        "The workload has no reservation",
    )
    assert isinstance(decide(view), NothingToDo)


@pytest.mark.parametrize(
    ("states", "want"),
    [
        ({"a": CheckState.PENDING}, ("False", "UnsatisfiedAdmissionChecks")),
        ({"a": CheckState.READY}, ("True", "Admitted")),
    ],
)
def test_with_explicit_status_checks_that_are_missing_are_told(
    states: dict[str, CheckState], want: tuple[str, str]
) -> None:
    workload = with_checks(reserved(make_workload()), **states)
    queue = make_cluster_queue("a")
    view = step(make_view(workload, cluster_queue=queue, holding=queue, options=EXPLICIT))

    condition = condition_of(view, "Admitted")

    assert condition is not None
    assert condition[:2] == want
    assert isinstance(decide(view), NothingToDo)


def test_without_explicit_status_checks_that_are_missing_are_not_told() -> None:
    workload = with_checks(reserved(make_workload()), a=CheckState.PENDING)
    queue = make_cluster_queue("a")

    assert isinstance(decide(make_view(workload, cluster_queue=queue, holding=queue)), NothingToDo)
