"""How long to wait between attempts to connect to a worker."""

from __future__ import annotations

from datetime import timedelta

import pytest

from multiqueue.workers.connections.retry_pause import (
    GRACE_CAP_SECONDS,
    LAST_CHANCE_SECONDS,
    retry_pause,
)

GRACE = timedelta(minutes=15)
GIVEN_UP = timedelta(seconds=-1)


def test_it_doubles_up_to_a_cap():
    """M-44."""
    pauses = [retry_pause(attempts, left=GIVEN_UP) for attempts in range(10)]
    assert pauses == [0, 5, 10, 20, 40, 80, 160, 320, 320, 320]


def test_while_a_worker_may_come_back_in_time_a_short_return_is_noticed():
    """M-44."""
    pauses = [retry_pause(attempts, left=GRACE) for attempts in range(1, 10)]
    assert pauses == [5, *[GRACE_CAP_SECONDS] * 8]


def test_it_stays_the_same_where_that_is_asked_for():
    assert [retry_pause(attempts, left=GRACE, steady=True) for attempts in (0, 1, 9)] == [0, 5, 5]


@pytest.mark.parametrize("seconds", [20.0, 60.0, 120.0, 900.0])
@pytest.mark.parametrize("attempt_seconds", [0.0, 10.0])
def test_whoever_answers_again_in_time_is_tried_before_it_is_given_up(seconds, attempt_seconds):
    """Between the last failed attempt before the end and the end there is time for another."""
    now, attempts, begun = 0.0, 0, []
    while now < seconds:
        begun.append(now)
        now += attempt_seconds
        attempts += 1
        now += retry_pause(attempts, left=timedelta(seconds=seconds - now))
    assert seconds - begun[-1] <= LAST_CHANCE_SECONDS
    in_the_end = [at for at in begun if seconds - at <= LAST_CHANCE_SECONDS]
    assert len(in_the_end) >= 2
