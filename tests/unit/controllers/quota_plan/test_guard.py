"""What counts as harm of a change: longer waits, more stops by Reclaim (P-111)."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from multiqueue.api.disruptions import Stop, StopCause, record_stop
from multiqueue.api.v1alpha1 import WatchedQueue
from multiqueue.controllers.quota_plan.guard import (
    WEEK,
    QueueHistory,
    QueueWait,
    find_harm,
    find_long_wait,
    measure_before,
)
from multiqueue.controllers.quota_plan.propose import PlanRules
from tests.builders.workloads import T0, admitted, make_workload, minutes, with_status

NOW = T0 + 2 * WEEK
DAY = timedelta(days=1)
RULES = PlanRules(name="plan", steps={})


def waits(*lengths: int, until: datetime = NOW) -> list[QueueWait]:
    """Waits of so many minutes that ended then."""
    return [QueueWait(until - timedelta(minutes=each), until) for each in lengths]


def reclaimed(*moments: datetime) -> list[Stop]:
    return [Stop(at, StopCause.RECLAIM, 10, "other") for at in moments]


def before(wait: int | None = 20, reclaims: int | None = 0) -> list[WatchedQueue]:
    seconds = None if wait is None else wait * 60
    return [WatchedQueue(cluster_queue="cq", wait_seconds=seconds, reclaims=reclaims)]


def harm(history: QueueHistory, was: list[WatchedQueue], rules: PlanRules = RULES) -> str:
    return find_harm(was, {"cq": history}, rules, since=NOW - timedelta(hours=6), now=NOW)


def test_nine_in_ten_keep_the_wait_that_is_found() -> None:
    assert find_long_wait(waits(*range(1, 11)), NOW - DAY, NOW) == timedelta(minutes=9)
    assert find_long_wait(waits(*range(1, 21)), NOW - DAY, NOW) == timedelta(minutes=18)


def test_nine_workloads_do_not_tell_it() -> None:
    assert find_long_wait(waits(*range(1, 10)), NOW - DAY, NOW) is None


def test_only_waits_that_end_in_the_time_count_and_those_that_last() -> None:
    early, late = waits(*[5] * 9, until=NOW - DAY), waits(*[5] * 9, until=NOW + DAY)
    assert find_long_wait([*early, *late], NOW - DAY, NOW) is None
    lasting = [QueueWait(NOW - timedelta(hours=3), None)] * 10
    assert find_long_wait(lasting, NOW - DAY, NOW) == timedelta(hours=3)
    assert find_long_wait(lasting, NOW - DAY, NOW - timedelta(hours=1)) == timedelta(hours=2)
    begun_later = [QueueWait(NOW - timedelta(hours=3), NOW + DAY)] * 10
    assert find_long_wait(begun_later, NOW - DAY, NOW) == timedelta(hours=3)


def test_before_is_the_same_time_of_the_week_before() -> None:
    week_ago = waits(*[30] * 10, until=NOW - WEEK + timedelta(hours=1))
    history = QueueHistory(
        waits=[*week_ago, *waits(*[90] * 10)],
        stops=reclaimed(NOW - WEEK + timedelta(hours=2), NOW - WEEK + 2 * DAY),
    )
    assert measure_before({"cq": history}, DAY, NOW) == tuple(before(30, 1))


def test_where_few_are_left_of_it_the_time_right_before_counts() -> None:
    history = QueueHistory(waits=waits(*[90] * 10))
    assert measure_before({"cq": history}, DAY, NOW) == tuple(before(90))
    assert measure_before({"cq": QueueHistory()}, DAY, NOW) == tuple(before(None, None))


def test_stops_of_workloads_that_are_gone_after_a_day_are_found_right_before_the_change() -> None:
    """The larger number of both times counts, with those that were put together."""
    stops = reclaimed(*[NOW - timedelta(hours=1)] * 8)
    stops += [Stop(NOW - timedelta(hours=2), StopCause.EARLIER, 10, "-", number=12)]
    history = QueueHistory(waits=waits(*[5] * 10), stops=stops)
    (was,) = measure_before({"cq": history}, DAY, NOW)
    assert was.reclaims == 20
    week_ago = reclaimed(*[NOW - WEEK + timedelta(hours=1)] * 30)
    there = [QueueWait(NOW - WEEK - DAY, NOW - WEEK, None)] * 10
    (was,) = measure_before({"cq": QueueHistory(waits=there, stops=week_ago)}, DAY, NOW)
    assert was.reclaims == 30


def test_stops_are_not_judged_where_few_workloads_of_before_are_left() -> None:
    history = QueueHistory(waits=waits(*[5] * 9), stops=reclaimed(NOW - timedelta(hours=1)))
    ended = [QueueWait(NOW - 3 * DAY, NOW - 3 * DAY, NOW - 2 * DAY)] * 10
    history.waits += ended
    assert measure_before({"cq": history}, DAY, NOW) == tuple(before(None, None))
    assert not harm(QueueHistory(stops=reclaimed(*[NOW] * 50)), before(None, None))


def test_workloads_that_waited_before_the_change_and_still_do_are_no_harm() -> None:
    """They may wait for something else; the same wait of new ones is harm."""
    since = NOW - timedelta(hours=6)
    stuck = QueueHistory(waits=[QueueWait(since - timedelta(hours=1), None)] * 10)
    (was,) = measure_before({"cq": stuck}, DAY, since)
    assert was.wait_seconds == 3600
    assert not harm(stuck, [was])
    assert harm(QueueHistory(waits=[QueueWait(since, None)] * 10), [was])


@pytest.mark.parametrize(
    ("was", "now", "harms"),
    [
        (20, 30, True),  # 50 % and 10 minutes
        (20, 29, False),
        (40, 55, False),  # 37 %
        (4, 12, False),  # 8 minutes
        (0, 10, True),
        (0, 0, False),
        (None, 500, False),
    ],
)
def test_a_wait_has_to_be_longer_by_both(was: int | None, now: int, *, harms: bool) -> None:
    got = harm(QueueHistory(waits=waits(*[now] * 10)), before(was))
    assert bool(got) == harms


def test_harm_is_told_with_its_numbers() -> None:
    assert harm(QueueHistory(waits=waits(*[90] * 10)), before(20)) == (
        'nine in ten Workloads of ClusterQueue "cq" waited up to 20m0s before, and up to 1h30m0s '
        "now"
    )


@pytest.mark.parametrize(
    ("was", "now", "harms"), [(0, 3, True), (0, 2, False), (2, 4, True), (2, 3, False)]
)
def test_stops_have_to_be_three_and_twice_as_many(was: int, now: int, *, harms: bool) -> None:
    moments = [NOW - timedelta(minutes=each) for each in range(now)]
    got = harm(QueueHistory(stops=reclaimed(*moments)), before(None, was))
    words = f'Reclaim stopped {now} Workloads of ClusterQueue "cq", and {was} before'
    assert got == (words if harms else "")


def test_workloads_tell_their_waits_and_stops() -> None:
    history = QueueHistory()
    stopped = record_stop(make_workload().status, Stop(minutes(5), StopCause.RECLAIM, 10, "other"))
    stopped = record_stop(stopped, Stop(minutes(6), StopCause.QUEUE, 10, "cq"))
    history.add(with_status(make_workload("stopped"), stopped))
    history.add(admitted(make_workload("runs"), at=minutes(7)))
    history.add(make_workload("off", active=False))
    history.add(make_workload("held"), stopped=True)
    causes = [(stop.at, stop.cause) for stop in history.stops]
    assert causes == [(minutes(5), StopCause.RECLAIM), (minutes(6), StopCause.QUEUE)]
    assert history.waits == [QueueWait(T0, None), QueueWait(T0, minutes(7))]
