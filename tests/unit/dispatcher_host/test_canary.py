"""Canaries: whom they decide for, and when they return."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from multiqueue.dispatcher_host.canary import MAX_TRIALS, Side, Trials, is_chosen
from multiqueue.dispatcher_host.policy import CanaryReturnLimits
from multiqueue.plugins.testing import T0

LIMITS = CanaryReturnLimits(
    min_workloads=10, failures=0.1, slower=0.5, start_within=timedelta(minutes=5)
)
SECOND = timedelta(seconds=1)


class Looked(datetime):
    """A time that counts how often times were compared with it."""

    count = 0

    def __lt__(self, other: datetime) -> bool:
        Looked.count += 1
        return super().__lt__(other)

    def __ge__(self, other: datetime) -> bool:
        Looked.count += 1
        return super().__ge__(other)


def make_trials(
    canary: tuple[int, int, float], base: tuple[int, int, float], *, count: int = 10
) -> Trials:
    """So many Workloads on each side: (failed, never started, seconds that the others took)."""
    trials = Trials(LIMITS)
    for side, (failed, stuck, seconds) in ((Side.CANARY, canary), (Side.BASE, base)):
        for number in range(count):
            uid = f"{side}-{number}"
            fails = number < failed
            trials.note_decision(uid, side, T0, nominated=not fails, failed=fails)
            if failed <= number < count - stuck:
                trials.note_start(uid, T0 + seconds * SECOND)
    trials.expire(T0 + timedelta(hours=1))
    return trials


def test_a_percentage_of_the_uids_is_chosen_and_stays_so_as_it_grows() -> None:
    uids = [f"uid-{number}" for number in range(2000)]
    chosen = {percent: {u for u in uids if is_chosen(u, percent)} for percent in (0, 5, 50, 100)}
    assert chosen[0] < chosen[5] < chosen[50] < chosen[100] == set(uids)
    assert 60 <= len(chosen[5]) <= 140
    assert 900 <= len(chosen[50]) <= 1100


@pytest.mark.parametrize(
    ("canary", "base", "words"),
    [
        ((0, 0, 10), (0, 0, 10), ""),
        ((1, 0, 10), (0, 0, 10), ""),
        ((2, 0, 10), (0, 0, 10), "it failed for 2 of 10 Workloads, the base for 0 of 10"),
        ((2, 0, 10), (1, 0, 10), ""),
        ((0, 1, 10), (0, 0, 10), ""),
        (
            (0, 2, 10),
            (0, 0, 10),
            "2 of its 10 nominated Workloads did not start in time, 0 of the base's 10",
        ),
        ((0, 5, 10), (0, 5, 10), ""),
        ((0, 0, 15), (0, 0, 10), ""),
        (
            (0, 0, 17),
            (0, 0, 10),
            "its Workloads were admitted after 17 s, the base's after 10 s (medians)",
        ),
        ((0, 0, 1), (0, 0, 0.1), ""),
        ((0, 0, 301), (0, 0, 10), "10 of its 10 nominated Workloads did not start in time"),
    ],
)
def test_it_returns_when_it_does_worse_than_it_may(
    canary: tuple[int, int, float], base: tuple[int, int, float], words: str
) -> None:
    why = make_trials(canary, base).why_return()
    assert why.startswith(words) if words else why == ""


def test_few_workloads_say_nothing() -> None:
    assert make_trials((9, 0, 10), (0, 0, 10), count=9).why_return() == ""
    assert make_trials((0, 9, 10), (0, 0, 10), count=9).why_return() == ""


def test_a_workload_counts_once_however_often_it_is_asked_about() -> None:
    trials = Trials(LIMITS)
    for failed in (True, False, True):
        trials.note_decision("a", Side.CANARY, T0, nominated=not failed, failed=failed)
    tally = trials.tallies[Side.CANARY]
    assert (tally.workloads, tally.failures) == (1, 1)


def test_one_that_changes_sides_counts_where_it_is_now() -> None:
    trials = Trials(LIMITS)
    trials.note_decision("uid", Side.BASE, T0, nominated=True, failed=False)
    trials.note_decision("uid", Side.CANARY, T0 + SECOND, nominated=True, failed=True)
    trials.note_start("uid", T0 + 3 * SECOND)
    base, canary = trials.tallies[Side.BASE], trials.tallies[Side.CANARY]
    assert (base.failures, base.started, canary.workloads, canary.failures) == (0, 0, 1, 1)
    assert (canary.started, canary.median_seconds) == (1, 2)


def test_time_counts_from_the_first_nomination() -> None:
    trials = Trials(LIMITS)
    for seconds in (0, 20):
        now = T0 + seconds * SECOND
        trials.note_decision("a", Side.BASE, now, nominated=True, failed=False)
    trials.note_start("a", T0 + 30 * SECOND)
    assert trials.tallies[Side.BASE].to_status().median_seconds == 30


def test_one_that_is_gone_says_nothing() -> None:
    trials = Trials(LIMITS)
    trials.note_decision("a", Side.BASE, T0, nominated=True, failed=False)
    trials.forget("a")
    trials.note_start("a", T0)
    trials.expire(T0 + timedelta(days=1))
    assert trials.tallies[Side.BASE].concluded == 0


def test_it_returns_when_its_workloads_start_but_do_not_stay() -> None:
    trials = make_trials((0, 0, 10), (0, 0, 10))
    soon, later = T0 + 60 * SECOND, T0 + timedelta(hours=1)
    assert trials.note_loss("base-0", soon)
    for number in range(2):
        assert trials.why_return() == ""
        assert trials.note_loss(f"canary-{number}", soon)
    assert trials.why_return() == "", "one in ten more is what it may"
    assert not trials.note_loss("canary-2", later), "that was long after its start"
    assert not trials.note_loss("canary-0", soon), "it was lost already"
    trials.forget("canary-4")
    assert not trials.note_loss("canary-4", soon), "it ended"
    assert trials.note_loss("canary-3", soon)
    assert trials.why_return() == (
        "3 of its 10 started Workloads lost their cluster again, 1 of the base's 10"
    )
    assert trials.tallies[Side.CANARY].to_status().lost == 3


def test_what_is_remembered_is_bounded() -> None:
    trials = Trials(LIMITS)
    for number in range(MAX_TRIALS + 5):
        trials.note_decision(str(number), Side.BASE, T0, nominated=True, failed=False)
    trials.expire(T0 + timedelta(days=1))
    assert trials.tallies[Side.BASE].not_started == MAX_TRIALS


def test_one_that_did_not_start_in_time_counts_once_however_long_it_waits() -> None:
    trials = Trials(LIMITS)
    for hours in range(4):
        now = T0 + timedelta(hours=hours)
        trials.note_decision("a", Side.CANARY, now, nominated=True, failed=False)
        trials.expire(now + timedelta(minutes=30))
    trials.note_start("a", T0 + timedelta(hours=4))
    tally = trials.tallies[Side.CANARY]
    assert (tally.workloads, tally.not_started, tally.started) == (1, 1, 0)


def test_it_says_how_it_failed_the_last_time() -> None:
    trials = Trials(LIMITS)
    for number in range(10):
        problem = f"KeyError: {number}" if number < 5 else ""
        failed = bool(problem)
        trials.note_decision(
            str(number), Side.CANARY, T0, nominated=not failed, failed=failed, problem=problem
        )
    assert trials.why_return() == (
        "it failed for 5 of 10 Workloads, the base for 0 of 0; the last time: KeyError: 4"
    )


def test_giving_up_costs_what_is_given_up_not_what_waits() -> None:
    trials = Trials(LIMITS)
    for number in range(50):
        now = Looked.fromtimestamp(T0.timestamp() + number, T0.tzinfo)
        trials.note_decision(str(number), Side.BASE, now, nominated=True, failed=False)
    Looked.count = 0
    trials.expire(T0 + LIMITS.start_within + 2 * SECOND)
    assert trials.tallies[Side.BASE].not_started == 2
    assert Looked.count == 3
