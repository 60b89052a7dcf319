"""The checkers can fail: a rule that keeps a promise is broken, and some seed shows it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from multiqueue.multikueue import decide as deciding
from multiqueue.multikueue.rules import choose, follow, gone
from tests.fleet.run import run_seed

SEEDS = range(1, 16)
Patch = pytest.MonkeyPatch


def give_up_at_once(patch: Patch) -> None:
    """No grace for whoever is out of reach."""
    for module in (choose, follow, gone):
        patch.setattr(module, "grace_left", lambda *_: timedelta())


def finish_first(patch: Patch) -> None:
    """Finish a Workload without bringing the last status of its job back."""

    def without_status(view, config, now):
        plan = deciding.finish(view, config, now)
        return replace(plan, steps=plan.steps[1:]) if plan is not None else None

    replace_rule(patch, "finish", without_status)


def replace_rule(patch: Patch, name: str, by: Callable) -> None:
    rules = tuple(by if rule.__name__ == name else rule for rule in deciding.RULES)
    patch.setattr(deciding, "RULES", rules)


@pytest.mark.parametrize(
    ("break_rule", "checker"),
    [
        (give_up_at_once, "GraceIsKept"),
        (finish_first, "FinishedIsFinal"),
    ],
    ids=["no grace", "no last status"],
)
def test_a_broken_rule_is_found(break_rule, checker, monkeypatch):
    break_rule(monkeypatch)
    found: set[str] = set()
    for seed in SEEDS:
        found |= {breach.checker for breach in run_seed(seed).breaches}
        if checker in found:
            return
    pytest.fail(f"no seed shows it; found {found or 'nothing'}")
