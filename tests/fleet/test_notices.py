"""Jobs that are told to save their work on a worker, in fleets where other things go wrong, too."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from multiqueue.api import workload_state
from multiqueue.api.conditions import NoticeEnd
from multiqueue.controllers import evictions
from multiqueue.dispatch.remote_notices import RemoteNotices
from multiqueue.engine.disruption.notices import Notices
from tests.fleet.plan import Act, Plan
from tests.fleet.plans import LONG, make_plan
from tests.fleet.run import run_plan
from tests.fleet.trainers import Habit
from tests.fleet.weather import Down

LOW = replace(LONG, gpus=4, seconds=200.0)
HIGH = replace(LONG, name="job2", at=20.0, gpus=4, priority="high", seconds=20.0)
"""It needs the quota of the first on the manager, which is told at 20 s to leave within 50 s."""
AWAY = Act(25.0, "outage", ("a", 40.0, Down.HANGS))
WITHDRAWN = Act(30.0, "delete_job", ("job2",))
Patch = pytest.MonkeyPatch


def make_noticed_plan(*acts: Act, habit: Habit = Habit.NEVER) -> Plan:
    jobs = (replace(LOW, saves=habit), HIGH)
    return replace(make_plan(*acts, workers={"a": 8}, jobs=jobs), hub_gpus=4, saving=True)


@pytest.mark.parametrize(
    ("habit", "end"),
    [
        (Habit.IN_TIME, NoticeEnd.SAVED),
        (Habit.LATE, NoticeEnd.TIMED_OUT),
        (Habit.NEVER, NoticeEnd.TIMED_OUT),
        (Habit.LIES, NoticeEnd.TIMED_OUT),
    ],
)
def test_a_notice_is_over_when_work_is_saved_or_in_time(habit: Habit, end: NoticeEnd) -> None:
    """P-52, P-53."""
    report = run_plan(make_noticed_plan(habit=habit))
    assert not report.breaches
    assert (report.counts["told"], report.counts[f"notice {end}"]) == (1, 1)


def test_who_may_stay_is_not_told_any_more_though_its_worker_was_away_and_the_manager_died() -> (
    None
):
    """P-55. A new manager looked only at the jobs of its own cluster for what was left."""
    killed = Act(35.0, "kill_manager", (0, 1.0))
    report = run_plan(make_noticed_plan(AWAY, WITHDRAWN, killed))
    assert not report.breaches
    assert report.counts[f"notice {NoticeEnd.RESCINDED}"] == 1


@pytest.mark.parametrize("number", range(2, 5))
def test_nor_though_the_manager_died_between_saying_so_and_telling_it(number: int) -> None:
    arguments = (0, number, True, 1.0, "a", 0.0, Down.HANGS)
    killed = Act(29.99, "kill_manager_at_write", arguments)
    report = run_plan(make_noticed_plan(WITHDRAWN, killed))
    assert not report.breaches
    assert report.counts[f"notice {NoticeEnd.RESCINDED}"] == 1


# ---------------------------------------------------------------- broken rules


def believe_liars(patch: Patch) -> None:
    """Take any report for a save."""
    patch.setattr(
        Notices,
        "_has_saved",
        lambda self, entry, *_: entry.workload.job_uid in self._losses.saved_at,
    )


def let_them_stay(patch: Patch) -> None:
    """Stop nobody whose time is over."""
    list_over = Notices.list_over
    patch.setattr(
        Notices,
        "list_over",
        lambda self, now: [o for o in list_over(self, now) if o.end is not NoticeEnd.TIMED_OUT],
    )


def leave_the_annotation(patch: Patch) -> None:
    """Tell jobs to save their work, and never that they may stay."""
    annotate = RemoteNotices.annotate

    async def tell(self, workload, notes):
        return not all(notes.values()) or await annotate(self, workload, notes)

    patch.setattr(RemoteNotices, "annotate", tell)


def keep_old_notices(patch: Patch) -> None:
    """End no notice with its stop, nor with the next reservation, nor for lack of need."""
    patch.setattr(evictions, "end_notice", lambda status, *_, **__: status)
    patch.setattr(workload_state, "PREEMPTION_NOTICE", "unknown")
    patch.setattr(Notices, "_find_wanting", lambda self, entry, first: first)


@pytest.mark.fleet
@pytest.mark.parametrize(
    ("break_rule", "plan"),
    [
        (believe_liars, make_noticed_plan(habit=Habit.LIES)),
        (let_them_stay, make_noticed_plan()),
        (leave_the_annotation, make_noticed_plan(WITHDRAWN)),
        (keep_old_notices, make_noticed_plan(Act(80.0, "deactivate", ("job2", 60.0)))),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_a_broken_rule_is_found(
    break_rule: Callable[[Patch], None], plan: Plan, monkeypatch: Patch
) -> None:
    break_rule(monkeypatch)
    assert "NoticesAreKept" in {breach.checker for breach in run_plan(plan).breaches}
