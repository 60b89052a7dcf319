"""Who may not be stopped, and until when: the worked examples of the rules."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from multiqueue.api.disruptions import Stop, StopCause
from multiqueue.engine.disruption.protection import find_protection, grown
from multiqueue.model.disruption_policy import ProtectionRule

DAY = datetime(2026, 11, 22, tzinfo=UTC)
START = int(DAY.timestamp())
MINUTE, HOUR = 60, 3600
MIN_RUN = {StopCause.QUEUE: 900, StopCause.RECLAIM: HOUR}


def stop(hour: float, *, cost: int = 100, count: int = 1) -> Stop:
    return Stop(DAY + timedelta(hours=hour), StopCause.QUEUE, cost, "prod", count)


def until(
    rule: ProtectionRule,
    *,
    now: float,
    started: float | None = 0,
    stops: tuple[Stop, ...] = (),
    cause: StopCause = StopCause.QUEUE,
    concede: int = 2 * HOUR,
) -> float | None:
    """Ask at some hour of the day about one admitted at another; the end in hours."""
    found = find_protection(
        None if started is None else START + int(started * HOUR),
        stops,
        cause,
        rule,
        concede=concede,
        now=START + int(now * HOUR),
    )
    return None if found is None or found.until is None else (found.until - START) / HOUR


def test_minimum_run_ends_with_its_last_second() -> None:
    rule = ProtectionRule(min_run=MIN_RUN)

    assert until(rule, now=0.2) == 0.25
    assert until(rule, now=0.25) is None
    assert until(rule, now=0.1, started=None) is None
    assert until(rule, now=0.1, cause=StopCause.FAIR_SHARE) is None


def test_growth_doubles_up_to_the_longest() -> None:
    rule = ProtectionRule(min_run=MIN_RUN, growth=2, longest=2 * HOUR)

    assert [grown(900, stops, rule) // MINUTE for stops in range(5)] == [15, 30, 60, 120, 120]
    assert grown(3 * HOUR, 4, rule) == 3 * HOUR


def test_stops_of_an_earlier_window_do_not_lengthen_it() -> None:
    rule = ProtectionRule(min_run=MIN_RUN, growth=2)

    assert until(rule, now=24.1, started=24, stops=(stop(0),)) == 24.25
    assert until(rule, now=24.1, started=24, stops=(stop(0.5),)) == 24.5


def test_three_stops_a_day_are_enough() -> None:
    rule = ProtectionRule(max_preemptions=3)
    stops = (stop(1), stop(4), stop(9))

    assert until(rule, now=9.5, started=9.2, stops=stops) == 25
    assert until(rule, now=25, started=9.2, stops=stops) is None
    assert until(rule, now=9.5, started=9.2, stops=stops[:2]) is None
    assert until(rule, now=9.5, started=9.2, stops=(*stops[:2], stop(9, cost=0))) is None
    # A fourth stop, of an exempt preemptor: two have to be forgotten.
    assert until(rule, now=12.5, started=12, stops=(*stops, stop(12))) == 28


def test_many_old_stops_in_one_entry_count_one_by_one() -> None:
    assert until(ProtectionRule(max_preemptions=3), now=5, stops=(stop(2, count=3),)) == 26


@pytest.mark.parametrize(
    ("cause", "want"), [(StopCause.RECLAIM, 0.25), (StopCause.QUEUE, 24.0)], ids=str
)
def test_a_lender_concedes_no_more_than_it_says(cause: StopCause, want: float) -> None:
    rule = ProtectionRule(min_run=MIN_RUN, max_preemptions=1)
    stops = (stop(0),)

    assert until(rule, now=0.1, stops=stops, cause=cause, concede=900) == want
