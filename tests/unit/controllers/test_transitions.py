"""What happened to a Workload between two states."""

from __future__ import annotations

from types import SimpleNamespace

import msgspec
import pytest

from multiqueue.api.conditions import Reason
from multiqueue.api.v1beta2 import Workload
from multiqueue.api.v1beta2.meta import OwnerReference
from multiqueue.api.workload_state import (
    complete_eviction,
    finish,
    preempt,
    set_pending,
    target_deactivation,
)
from multiqueue.controllers.transitions import (
    Step,
    TransitionRecorder,
    find_transitions,
    queued_at,
    split_eviction,
)
from tests.workloads import (
    T0,
    admitted,
    evicted,
    make_workload,
    minutes,
    reserved,
    with_status,
)


def steps(old: Workload, new: Workload) -> list[Step]:
    return [transition.step for transition in find_transitions(old, new)]


def test_an_admission_in_one_write_is_two_steps() -> None:
    workload = make_workload()
    assert steps(workload, admitted(workload)) == [Step.QUOTA_RESERVED, Step.ADMITTED]
    assert steps(reserved(workload), admitted(workload)) == [Step.ADMITTED]


def test_a_preemption_is_an_eviction() -> None:
    running = admitted(make_workload())
    preempted = with_status(
        running, preempt(running.status, Reason.IN_CLUSTER_QUEUE, "for another", now=T0)
    )
    assert steps(running, preempted) == [Step.EVICTED]


def test_an_eviction_for_another_reason_is_told_again() -> None:
    first = evicted(admitted(make_workload()), Reason.PREEMPTED)
    assert steps(first, evicted(first, Reason.DEACTIVATED)) == [Step.EVICTED]


def test_a_new_reason_to_wait_is_told_but_not_new_figures() -> None:
    workload = make_workload()
    waiting = with_status(workload, set_pending(workload.status, reason="A", message="1", now=T0))
    assert steps(workload, waiting) == [Step.PENDING]
    more = with_status(waiting, set_pending(waiting.status, reason="A", message="2", now=T0))
    assert steps(waiting, more) == []


def test_the_end_of_an_eviction_is_a_wait() -> None:
    leaving = evicted(admitted(make_workload()))
    left = with_status(leaving, complete_eviction(leaving.status, now=minutes(1)))
    assert steps(leaving, left) == [Step.PENDING]
    assert queued_at(left) == minutes(1)
    assert queued_at(make_workload()) == T0


def test_what_is_of_no_interest_is_not_told() -> None:
    running = admitted(make_workload())
    asked = with_status(running, target_deactivation(running.status, "X", "", now=T0))
    assert steps(running, asked) == []


def test_the_end_is_told_once() -> None:
    running = admitted(make_workload())
    ended = with_status(running, finish(running.status, "Succeeded", "done", now=T0))
    assert steps(running, ended) == [Step.FINISHED]
    assert steps(ended, ended) == []


def test_the_cause_of_a_deactivation_is_told_apart() -> None:
    assert split_eviction("DeactivatedDueToAdmissionCheck") == ("Deactivated", "AdmissionCheck")
    assert split_eviction("Preempted") == ("Preempted", "")


@pytest.mark.parametrize(
    ("reason", "told"),
    [
        (Reason.EXCEEDS_MAX_QUOTA, ["Workload", "Job"]),
        (Reason.NO_MATCHING_FLAVOR, ["Workload", "Job"]),
        (Reason.WAITING_FOR_QUOTA, ["Workload"]),
    ],
)
def test_a_job_that_waits_in_vain_is_told_so_itself(reason: Reason, told: list[str]) -> None:
    job = OwnerReference(api_version="batch/v1", kind="Job", name="j", uid="u", controller=True)
    workload = make_workload()
    metadata = msgspec.structs.replace(workload.metadata, owner_references=(job,))
    workload = msgspec.structs.replace(workload, metadata=metadata)
    waiting = with_status(
        workload, set_pending(workload.status, reason=reason, message="too big", now=T0)
    )
    events: list[tuple[str, ...]] = []

    def event(regarding: dict[str, str], *what: str) -> None:
        events.append((regarding["kind"], *what))

    context = SimpleNamespace(recorder=SimpleNamespace(event=event), metrics=None)
    recorder = TransitionRecorder(context)  # type: ignore[arg-type]
    recorder._on_workload(workload, waiting)
    recorder._on_workload(waiting, waiting)
    assert events == [(kind, "Warning", reason, "too big") for kind in told]
