"""How well a worker does, and when it is sent nothing, little, or everything again."""

from __future__ import annotations

from multiqueue.workers.connections import health
from multiqueue.workers.connections.health import (
    MAX_ALLOWANCE,
    MAX_OPEN_SECONDS,
    OPEN_SECONDS,
    PROBATION_SECONDS,
    Circuit,
    HealthRecord,
    note_answer,
    note_dispatch,
    note_failure,
    note_hang,
    note_late,
    pass_time,
)


def failed(times: int, *, known: HealthRecord | None = None, now: float = 0.0) -> HealthRecord:
    for _ in range(times):
        known = note_failure(known or HealthRecord(), "requests fail", now)
    assert known is not None
    return known


def on_probation(*, trips: int = 1) -> HealthRecord:
    known = answered(failed(10))
    for _ in range(trips - 1):
        known = answered(failed(1, known=pass_time(known, known.due_at), now=known.due_at))
    return pass_time(known, known.due_at)


def answered(known: HealthRecord) -> HealthRecord:
    return note_answer(known, 0.01, known.since)


def test_nothing_is_tried_on_a_worker_that_has_not_answered_since():
    known = pass_time(failed(10), OPEN_SECONDS)
    assert (known.circuit, known.trips, known.due_at) == (Circuit.OPEN, 1, 2 * OPEN_SECONDS)
    assert pass_time(answered(known), 2 * OPEN_SECONDS).circuit is Circuit.HALF_OPEN


def test_failures_in_a_row_open_the_circuit_and_few_do_not():
    assert failed(6).circuit is Circuit.CLOSED
    broken = failed(7)
    assert (broken.circuit, broken.trouble, broken.score) == (Circuit.OPEN, "requests fail", 0.0)


def test_failures_among_good_answers_lower_the_score_only():
    known = HealthRecord()
    for _ in range(50):
        known = note_answer(note_answer(failed(1, known=known), 0.01, 0.0), 0.01, 0.0)
    assert known.circuit is Circuit.CLOSED
    assert 0.6 < known.score < 0.8


def test_what_was_bad_is_forgotten():
    later = note_answer(failed(5), 0.01, 600.0)
    assert later.score > 0.99


def test_slow_answers_are_as_bad_as_none():
    known = HealthRecord()
    for _ in range(20):
        known = note_answer(known, 6.0, 0.0)
    assert (known.circuit, known.trouble) == (Circuit.OPEN, "it answers slowly")


def test_answers_within_a_second_are_good_whatever_their_number():
    known = HealthRecord()
    for _ in range(20):
        known = note_answer(known, 0.9, 0.0)
    assert known.score == 1.0


def late(count: int) -> HealthRecord:
    """The health of a worker that let so many requests wait, from 0 to 1 s."""
    known = HealthRecord()
    for _ in range(count):
        known = note_late(known, 1.0, waited=1.0)
    return known


def test_a_worker_that_hangs_is_known_after_three_that_waited_in_vain():
    known = late(2)
    assert note_hang(known, 1.2).circuit is Circuit.CLOSED
    known = note_late(known, 1.1, waited=0.1)
    assert note_hang(known, 1.3).circuit is Circuit.OPEN


def test_one_answer_in_between_shows_that_it_does_not_hang():
    known = late(3)
    assert note_hang(note_answer(known, 1.1, 1.1), 1.2).circuit is Circuit.CLOSED


def test_refusals_lower_the_score_and_never_open_the_circuit():
    """A namespace that is missing on one worker must not take it from all the others."""
    known = HealthRecord()
    for _ in range(100):
        known = note_dispatch(known, 0.0, taken=False)
    assert known.circuit is Circuit.CLOSED
    assert 0.49 < known.score < 0.51


def test_probation_begins_with_one_and_doubles_with_what_arrives():
    known = on_probation()
    steps = []
    while known.circuit is Circuit.HALF_OPEN:
        steps.append(known.allowance)
        known = note_dispatch(known, 10.0, taken=True)
    assert sorted(set(steps)) == [1, 2, 4, 8, MAX_ALLOWANCE]
    assert [steps.count(step) for step in (1, 2, 4, 8, 16)] == [1, 2, 4, 8, 16]
    assert (known.circuit, known.trips) == (Circuit.CLOSED, 0)


def test_a_failure_on_probation_opens_it_again_for_twice_as_long():
    first, second = on_probation(), on_probation(trips=2)
    assert first.since == OPEN_SECONDS
    assert second.since == OPEN_SECONDS + 2 * OPEN_SECONDS


def test_the_pause_grows_to_a_bound():
    known = on_probation(trips=12)
    again = failed(1, known=known, now=known.since)
    assert again.due_at - again.since == MAX_OPEN_SECONDS


def test_probation_ends_by_itself_where_nobody_wants_to_go_there():
    known = on_probation()
    assert pass_time(known, known.since + PROBATION_SECONDS - 1) == known
    assert pass_time(known, known.since + PROBATION_SECONDS).circuit is Circuit.CLOSED


def test_a_session_that_breaks_three_times_in_a_minute_opens_it():
    known = HealthRecord()
    for now in (0.0, 20.0, 40.0):
        known = note_failure(known, "lost", now, weight=health.LOST_WEIGHT)
    assert known.circuit is Circuit.OPEN


def test_a_session_that_breaks_now_and_then_does_not():
    known = HealthRecord()
    for now in range(0, 3600, 180):
        known = note_failure(known, "lost", float(now), weight=health.LOST_WEIGHT)
    assert known.circuit is Circuit.CLOSED
