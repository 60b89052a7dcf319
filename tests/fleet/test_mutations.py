"""The checkers can fail: a rule that keeps a promise is broken, and some run shows it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import timedelta

import pytest

from multiqueue.multikueue import decide as deciding
from multiqueue.multikueue import remote_steps
from multiqueue.multikueue.clone import clone_workload
from multiqueue.multikueue.plan import GroupPlan, StopLocalJob
from multiqueue.multikueue.rules import choose, follow, gone
from tests.fleet.plan import Act, Plan, build_plan
from tests.fleet.plans import make_plan
from tests.fleet.run import run_plan
from tests.fleet.weather import Down

Patch = pytest.MonkeyPatch


def give_up_at_once(patch: Patch) -> None:
    """No grace for whoever is out of reach."""
    for module in (choose, follow, gone):
        patch.setattr(module, "grace_left", lambda *_: timedelta())


def finish_first(patch: Patch) -> None:
    """Finish a Workload without bringing the last status of its job back."""

    def finish(view, config, now):
        plan = deciding.finish(view, config, now)
        return replace(plan, steps=plan.steps[1:]) if plan is not None else None

    replace_rule(patch, "finish", finish)


def ignore_rivals(patch: Patch) -> None:
    """Choose a winner though another cluster may run the job."""
    patch.setattr(choose, "_blocks", lambda *_: False)


def sweep_nothing(patch: Patch) -> None:
    """Leave what a returning worker still has."""
    patch.setattr(deciding, "sweep", lambda _: ())


def stop_here_only(patch: Patch) -> None:
    """Say of what is evicted here that it stopped, whatever it does there."""

    def evict(view, config, now):
        if view.local is None or view.local.evicted_at is None:
            return None
        return GroupPlan(steps=(StopLocalJob(why="it was evicted"),))

    replace_rule(patch, "evict", evict)


def leave_no_mark(patch: Patch) -> None:
    """Create copies that nobody can tell from those of others."""

    def clone(*arguments, **keywords):
        body = clone_workload(*arguments, **keywords)
        return {**body, "metadata": {**body["metadata"], "labels": {}}}

    patch.setattr(remote_steps, "clone_workload", clone)


def replace_rule(patch: Patch, name: str, by: Callable) -> None:
    rules = tuple(by if rule.__name__ == name else rule for rule in deciding.RULES)
    patch.setattr(deciding, "RULES", rules)


SEEDS = [build_plan(seed) for seed in range(1, 16)]
CUT_AND_KILLED = [
    make_plan(
        Act(0.99, "kill_manager_at_write", (0, number, after, 1.0, "a", 200.0, Down.HANGS)),
        lost_timeout=300.0,
    )
    for number in range(10, 15)
    for after in (False, True)
]
"""The worker that has the job is lost with the manager that was about to say so."""
BACK_LATE = [make_plan(Act(10.0, "outage", (name, 100.0, Down.HANGS))) for name in "ab"]
"""A worker comes back after what it runs was moved."""
DEACTIVATED = [make_plan(Act(10.0, "deactivate", ("job1", 30.0)))]


@pytest.mark.parametrize(
    ("break_rule", "plans", "checker"),
    [
        (give_up_at_once, SEEDS, "GraceIsKept"),
        (finish_first, SEEDS, "FinishedIsFinal"),
        (ignore_rivals, CUT_AND_KILLED, "AtMostOneRuns"),
        (sweep_nothing, BACK_LATE, "ReturnedIsFenced"),
        (stop_here_only, DEACTIVATED, "QuotaWhileRunning"),
        (leave_no_mark, DEACTIVATED, "NothingForeignTouched"),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_a_broken_rule_is_found(break_rule, plans, checker, monkeypatch):
    break_rule(monkeypatch)
    assert checker in find_breaches(plans, checker)


@pytest.mark.parametrize("plans", [CUT_AND_KILLED, BACK_LATE, DEACTIVATED])
def test_whole_rules_keep_the_promises_there(plans):
    assert find_breaches(plans) == set()


def find_breaches(plans: Iterable[Plan], until: str = "") -> set[str]:
    """Live through runs until one breaks this promise; all that were broken."""
    found: set[str] = set()
    for plan in plans:
        found |= {breach.checker for breach in run_plan(plan).breaches}
        if until in found:
            break
    return found
