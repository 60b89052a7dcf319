"""Jobs that move to another worker so that a gang starts, while other things go wrong (P-101)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.fleet.plan import Act, Plan
from tests.fleet.plans import LONG, make_plan
from tests.fleet.run import run_plan
from tests.fleet.trainers import Habit
from tests.fleet.weather import Down

pytestmark = pytest.mark.fleet
SMALL = replace(LONG, gpus=2, seconds=900.0, saves=Habit.IN_TIME)
OTHER = replace(SMALL, name="job2", at=3.0, gpus=4)
GANG = replace(LONG, name="job3", at=10.0, gpus=8, seconds=60.0)
"""It needs all of a worker: another job, which may save its work first, is in the way on each."""
TOLD = 60.0
"""Then the manager looks at who might move; it has 50 s to save its work, and 4 to stop."""


def make_moving_plan(*acts: Act, habit: Habit = Habit.IN_TIME) -> Plan:
    keep_off, away = Act(2.0, "cordon", ("b", 3.0)), Act(2.0, "cordon", ("a", 6.0))
    jobs = (replace(SMALL, saves=habit), replace(OTHER, saves=habit), GANG)
    plan = make_plan(keep_off, away, *acts, jobs=jobs)
    return replace(plan, saving=True, dispatcher="score")


@pytest.mark.parametrize("habit", list(Habit))
def test_a_job_moves_and_the_gang_starts(habit: Habit) -> None:
    report = run_plan(make_moving_plan(habit=habit))
    assert not report.breaches
    assert (report.counts["told"], report.counts["migrated"]) == (1, 1)
    assert report.virtual_seconds < SMALL.seconds + 400, "nobody waited for the small ones to end"


@pytest.mark.parametrize("after", [True, False])
@pytest.mark.parametrize("number", range(1, 25, 5))
@pytest.mark.parametrize("at", [TOLD - 0.01, TOLD + 50.0])
def test_a_manager_that_dies_between_two_writes_loses_and_doubles_nothing(
    at: float, number: int, after: bool
) -> None:
    killed = Act(at, "kill_manager_at_write", (0, number, after, 1.0, "b", 0.0, Down.HANGS))
    assert not run_plan(make_moving_plan(killed, habit=Habit.NEVER)).breaches


@pytest.mark.parametrize("worker", ["a", "b"])
@pytest.mark.parametrize("seconds", [30.0, 100.0])
@pytest.mark.parametrize("at", [TOLD + 5, TOLD + 51, TOLD + 55])
def test_nor_does_a_worker_that_is_away_meanwhile(worker: str, seconds: float, at: float) -> None:
    away = Act(at, "outage", (worker, seconds, Down.HANGS))
    assert not run_plan(make_moving_plan(away, habit=Habit.NEVER)).breaches
