"""Estimates are good for a while, and a burst sees the queue that it makes."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from multiqueue.forecast.estimates import Budget, Estimates, StartQuestion
from multiqueue.forecast.replica import Replica
from multiqueue.forecast.runs import FEW
from multiqueue.plugins.forecast import Runtime, StartEstimate
from tests.builders.engine import T0, condition, flavor_quotas, make_queue, seconds
from tests.unit.forecast.test_replica import ask, gang, make_replica, running

HOUR = timedelta(hours=1)
QUESTION = StartQuestion("team/cq", 4, ())
FOUND = StartEstimate(at=T0 + HOUR, earliest=T0 + HOUR / 2, latest=T0 + 2 * HOUR, ahead=1)
EVICTED = condition("Evicted", status=True, reason="Preempted")
EVEN = Runtime(expected=HOUR, low=HOUR / 2, high=2 * HOUR)


def make_estimates(*, quick: bool = False) -> Estimates:
    estimates = Estimates()
    estimates.keep(QUESTION, 0, T0, FOUND, quick=quick)
    return estimates


def test_an_estimate_is_good_for_a_fiftieth_of_the_wait() -> None:
    estimates = make_estimates()
    assert estimates.find(QUESTION, 0, T0 + seconds(72)) == FOUND
    assert estimates.find(QUESTION, 0, T0 + seconds(73)) is None


def test_one_that_came_since_ends_it_and_moves_what_has_to_do() -> None:
    estimates = make_estimates()
    assert estimates.find(QUESTION, 1, T0) is None
    # Of the two who wait, each waits for half an hour.
    assert estimates.find_stale(QUESTION, 1, T0) == replace(
        FOUND, at=T0 + 1.5 * HOUR, earliest=T0 + HOUR, latest=T0 + 2.5 * HOUR
    )


def test_what_was_to_do_for_the_moment_is_asked_again() -> None:
    estimates = make_estimates(quick=True)
    assert estimates.find(QUESTION, 0, T0) is None
    assert estimates.find_stale(QUESTION, 0, T0) == FOUND


def test_a_gang_of_about_that_size_may_answer() -> None:
    estimates = make_estimates()
    alike = StartQuestion("team/cq", 16, (1,))
    assert estimates.find(alike, 0, T0) is None
    assert estimates.find_stale(alike, 0, T0) == FOUND
    assert estimates.find_stale(alike._replace(size=17), 0, T0) is None
    assert estimates.find_stale(alike._replace(queue="team/other"), 0, T0) is None


def test_no_estimate_is_before_now() -> None:
    late = replace(FOUND, earliest=T0, at=T0 + HOUR)
    estimates = Estimates()
    estimates.keep(QUESTION, 0, T0, late, quick=False)
    found = estimates.find(QUESTION, 0, T0 + seconds(60))
    assert found is not None
    assert found.earliest == T0 + seconds(60)


def make_full() -> Replica:
    replica = make_replica()
    for number in range(8):
        replica.upsert_workload(running(f"run-{number}", 1), T0, runtime=EVEN)
    return replica


def test_where_the_budget_is_spent_a_coarse_answer_comes_at_once() -> None:
    replica, spent = make_full(), Budget(left=0)
    quick = replica.forecast(gang("a", 4), T0, budget=spent)
    exact = replica.forecast(gang("a", 4), T0)
    assert quick is not None
    assert exact is not None
    assert quick.start is not None
    assert exact.start is not None
    assert spent.left < 0
    assert abs(quick.start.at - exact.start.at) < HOUR / 2


def test_who_comes_after_others_starts_later() -> None:
    replica = make_full()
    first = ask(replica, gang("a", 8)).start
    replica.assume(gang("b", 8), T0, runtime=EVEN)
    second = ask(replica, gang("c", 8), after=1).start
    assert first is not None
    assert second is not None
    assert second.at - first.at > HOUR / 2
    assert (first.ahead, second.ahead) == (0, 1)


def test_who_is_told_to_stop_stops_soon() -> None:
    replica = make_full()
    before = ask(replica, gang("a", 1)).start
    leaving = running("run-3", 1)
    evicted = replace(leaving, evicted=EVICTED)
    replica.upsert_workload(evicted, T0)
    after = ask(replica, gang("b", 1), after=2).start
    assert before is not None
    assert after is not None
    assert after.latest <= T0 + seconds(40) < before.latest


def test_the_same_state_gives_the_same_estimate() -> None:
    assert ask(make_full(), gang("a", 4)) == ask(make_full(), gang("a", 4))


def test_who_asks_first_waits_for_few_to_be_put_in_order() -> None:
    replica = make_replica(make_queue("cq", flavor_quotas("a100", gpu=100)))
    for index in range(500):
        replica.upsert_workload(running(f"runs-{index}", 1), T0)
        replica.upsert_workload(gang(f"waits-{index}", 1), T0)
    assert replica.starts.unsettled_count < 2 * FEW
