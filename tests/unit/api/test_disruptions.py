"""The record of a Workload's stops."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from multiqueue.api.conditions import DISRUPTED
from multiqueue.api.disruptions import (
    KEPT,
    LONGEST_WINDOW,
    Stop,
    StopCause,
    add_stop,
    parse_stops,
    record_stop,
)
from multiqueue.api.v1beta2 import Condition, WorkloadStatus

T0 = datetime(2026, 11, 22, 10, tzinfo=UTC)


def stop(minutes: float, cost: int = 10, cause: StopCause = StopCause.QUEUE) -> Stop:
    return Stop(T0 + timedelta(minutes=minutes), cause, cost, "prod")


def test_the_message_says_when_why_what_and_for_whom() -> None:
    status = record_stop(WorkloadStatus(), stop(0, 5760))
    status = record_stop(
        status, Stop(T0 + timedelta(minutes=75), StopCause.RECLAIM, 1680, "vision")
    )

    (condition,) = status.conditions
    assert condition.type == DISRUPTED
    assert condition.message == (
        "2 stops: 2026-11-22T10:00:00Z Queue 5760 prod, 2026-11-22T11:15:00Z Reclaim 1680 vision"
    )
    assert condition.last_transition_time == "2026-11-22T10:00:00Z"


def test_what_cannot_be_read_is_left_out() -> None:
    at = "2026-11-22T10:00:00Z"
    words = f"4 stops: yesterday Queue 1 a, {at} Whim 1 a, , {at} Queue 7 b"
    condition = Condition(type=DISRUPTED, status="True", message=words)

    assert parse_stops([condition]) == (stop(0, 7)._replace(cluster_queue="b"),)
    assert parse_stops([]) == ()


@given(st.lists(st.tuples(st.integers(0, 20_000), st.integers(0, 10**9)), max_size=60))
def test_nothing_of_the_last_week_is_forgotten(times: list[tuple[int, int]]) -> None:
    status, all_stops = WorkloadStatus(), []
    for minutes, cost in sorted(times):
        all_stops.append(stop(minutes, cost))
        status = record_stop(status, all_stops[-1])

    stops = parse_stops(status.conditions)

    assert len(stops) <= KEPT + 1
    if all_stops:
        recent = [s for s in all_stops if s.at > all_stops[-1].at - LONGEST_WINDOW]
        assert sum(s.number for s in stops) >= len(recent)
        assert sum(s.cost for s in stops) >= sum(s.cost for s in recent)


def test_old_stops_become_one_entry_with_the_newest_of_their_times() -> None:
    stops: tuple[Stop, ...] = ()
    for number in range(KEPT + 2):
        stops = add_stop(stops, stop(number))

    assert str(stops[0]) == "2026-11-22T10:01:00Z Earlier*2 20 -"
    assert stops[1:] == tuple(stop(number) for number in range(2, KEPT + 2))
