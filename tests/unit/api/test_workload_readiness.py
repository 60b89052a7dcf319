"""PodsReady follows the pods, and a Workload whose pods are late goes."""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec
import pytest

from multiqueue.api.conditions import Reason, WorkloadCondition
from multiqueue.api.v1beta2 import RequeueState, Workload
from multiqueue.api.v1beta2.meta import format_time
from multiqueue.api.workload_readiness import (
    ReadinessRules,
    backoff,
    give_up_waiting,
    readiness_deadline,
    sync_pods_ready,
)
from multiqueue.api.workload_state import complete_eviction, eviction_reason, find
from tests.builders.workloads import (
    T0,
    admitted,
    evicted,
    make_workload,
    minutes,
    reserved,
    with_status,
)

RULES = ReadinessRules(timeout=timedelta(minutes=5), recovery_timeout=timedelta(minutes=3))

ENDLESS = ReadinessRules(timeout=timedelta(minutes=5), recovery_timeout=timedelta(0))


def looked_at(workload: Workload, *ready: bool) -> Workload:
    """The Workload after so many looks at its pods, a minute apart."""
    for number, value in enumerate(ready, start=1):
        status = sync_pods_ready(workload.status, ready=value, now=minutes(number))
        workload = with_status(workload, status)
    return workload


def tried(workload: Workload, count: int, at: str | None = None) -> Workload:
    state = RequeueState(count=count, requeue_at=at)
    return with_status(workload, msgspec.structs.replace(workload.status, requeue_state=state))


@pytest.mark.parametrize(
    ("workload", "looks", "want"),
    [
        pytest.param(reserved(make_workload()), [True], "WaitForStart", id="not admitted"),
        pytest.param(admitted(make_workload()), [False], "WaitForStart", id="starting"),
        pytest.param(admitted(make_workload()), [True], "Started", id="started"),
        pytest.param(admitted(make_workload()), [True, True], "Started", id="still ready"),
        pytest.param(admitted(make_workload()), [True, False], "WaitForRecovery", id="lost one"),
        pytest.param(
            admitted(make_workload()), [True, False, False], "WaitForRecovery", id="lost for long"
        ),
        pytest.param(admitted(make_workload()), [True, False, True], "Recovered", id="came back"),
        pytest.param(
            admitted(make_workload()), [True, False, True, False], "WaitForRecovery", id="again"
        ),
    ],
)
def test_the_condition_follows_the_pods(workload: Workload, looks: list[bool], want: str) -> None:
    """E-185."""
    condition = find(looked_at(workload, *looks).status, WorkloadCondition.PODS_READY)
    assert condition is not None
    assert condition.reason == want
    assert condition.status == ("True" if want in {"Started", "Recovered"} else "False")


def test_nothing_is_written_while_nothing_changes() -> None:
    status = looked_at(admitted(make_workload()), True).status
    assert sync_pods_ready(status, ready=True, now=minutes(9), generation=7) is status


def test_what_is_evicted_waits_for_its_start_again() -> None:
    leaving = evicted(looked_at(admitted(make_workload()), True))
    left = complete_eviction(leaving.status, now=minutes(9))
    condition = find(left, WorkloadCondition.PODS_READY)
    assert condition is not None
    assert (condition.status, condition.reason) == ("False", "WaitForStart")


@pytest.mark.parametrize(
    ("workload", "rules", "want"),
    [
        pytest.param(admitted(make_workload()), RULES, minutes(5), id="never looked at"),
        pytest.param(looked_at(admitted(make_workload()), False), RULES, minutes(5), id="starting"),
        pytest.param(looked_at(admitted(make_workload()), True), RULES, None, id="ready"),
        pytest.param(
            looked_at(admitted(make_workload()), True, False), RULES, minutes(5), id="recovering"
        ),
        pytest.param(
            looked_at(admitted(make_workload()), True, False),
            ENDLESS,
            None,
            id="may recover for ever",
        ),
        pytest.param(reserved(make_workload()), RULES, None, id="not admitted"),
    ],
)
def test_how_long_it_may_take(
    workload: Workload, rules: ReadinessRules, want: datetime | None
) -> None:
    assert readiness_deadline(workload.status, rules) == want


def test_the_late_are_evicted_and_come_back_after_a_pause() -> None:
    """E-106."""
    status = give_up_waiting(admitted(make_workload()).status, "ns/a", RULES, now=minutes(5))
    assert eviction_reason(status) == "PodsReadyTimeout"
    assert status.requeue_state == RequeueState(count=1, requeue_at=format_time(minutes(6)))
    assert status.scheduling_stats is not None
    assert [(e.reason, e.underlying_cause) for e in status.scheduling_stats.evictions] == [
        ("PodsReadyTimeout", "WaitForStart")
    ]


def test_the_cause_tells_a_lost_pod_from_a_late_one() -> None:
    recovering = looked_at(admitted(make_workload()), True, False)
    status = give_up_waiting(recovering.status, "ns/a", RULES, now=minutes(5))
    assert status.scheduling_stats is not None
    assert status.scheduling_stats.evictions[0].underlying_cause == "WaitForRecovery"


def test_a_pause_never_ends_earlier_than_it_was_to() -> None:
    later = format_time(minutes(60))
    workload = tried(admitted(make_workload()), 1, later)
    status = give_up_waiting(workload.status, "ns/a", RULES, now=minutes(5))
    assert status.requeue_state == RequeueState(count=2, requeue_at=later)


@pytest.mark.parametrize(("tries", "given_up"), [(1, False), (2, True)])
def test_after_too_many_tries_it_is_given_up(tries: int, given_up: bool) -> None:
    rules = ReadinessRules(
        timeout=RULES.timeout, recovery_timeout=RULES.recovery_timeout, backoff_limit=2
    )
    workload = tried(admitted(make_workload()), tries)
    status = give_up_waiting(workload.status, "ns/a", rules, now=T0)
    target = find(status, WorkloadCondition.DEACTIVATION_TARGET)
    assert (target is not None) is given_up
    assert (eviction_reason(status) is None) is given_up
    if target is not None:
        assert target.reason == Reason.REQUEUING_LIMIT_EXCEEDED


@pytest.mark.parametrize(
    ("count", "seconds"), [(1, 60), (2, 120), (3, 240), (7, 3600), (500, 3600)]
)
def test_pauses_double_to_a_cap(count: int, seconds: int) -> None:
    """E-106."""
    assert backoff(count, RULES) == timedelta(seconds=seconds)
