"""What a move to another worker costs, and what forbids it (P-95, P-99)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from multiqueue.api.disruptions import Stop, StopCause
from multiqueue.engine.disruption.moves import MoveWeight
from multiqueue.model.disruption_policy import (
    BudgetRule,
    CostRule,
    DisruptionRules,
    ProtectionRule,
    SaveHabits,
)
from tests.builders.engine import NAMESPACE, T0, seconds, with_changes
from tests.notice_world import NOTICE, POLICY, RULES, SAVES, NoticeWorld, submit

MOVING = replace(RULES, gain=2)
HOUR = 3600


def weigh(world: NoticeWorld, name: str = "m") -> MoveWeight | None:
    return world.engine.weigh_move(f"{NAMESPACE}/{name}", world.now)


def make_world(rules: DisruptionRules = MOVING, *names: str, saves: object = SAVES) -> NoticeWorld:
    """A queue whose jobs of a GPU each have run for an hour."""
    world = NoticeWorld(rules)
    submit(world, *(world.job(name, 1, saves=saves) for name in names or ("m",)))
    world.now += seconds(HOUR)
    return world


def one(world: NoticeWorld, name: str = "m") -> MoveWeight:
    weight = weigh(world, name)
    assert weight is not None
    return weight


def words(world: NoticeWorld, name: str = "m") -> str:
    held = one(world, name).hold_off
    return "" if held is None else held.words


def test_a_move_costs_the_saving_and_the_restart() -> None:
    weight = one(make_world())
    assert (weight.loss.cost, weight.gain, weight.notice) == (90 + 120, 2, NOTICE)
    assert weight.hold_off is None


@pytest.mark.parametrize(
    ("rules", "saves"),
    [
        (RULES, SAVES),
        (MOVING, None),
        (MOVING, SaveHabits(interval=600)),
        (replace(MOVING, problem="is broken"), SAVES),
    ],
    ids=["gain 0", "says nothing", "saves at intervals only", "no usable policy"],
)
def test_who_is_never_moved(rules: DisruptionRules, saves: SaveHabits | None) -> None:
    assert weigh(make_world(rules, saves=saves)) is None


def test_who_saves_its_work_while_it_is_stopped_moves_without_a_notice() -> None:
    weight = one(make_world(saves=SaveHabits(save_seconds=20)))
    assert (weight.loss.cost, weight.notice) == (20 + 120, 0)


def test_who_is_gone_or_waits_is_not_moved() -> None:
    world = make_world()
    submit(world, world.job("large", 5))
    assert weigh(world, "gone") is None
    assert weigh(world, "large") is None


def test_who_was_admitted_lately_is_protected_as_against_a_smaller_share() -> None:
    protection = ProtectionRule(min_run={StopCause.MIGRATION: 2 * HOUR})
    world = make_world(replace(MOVING, protection=protection))
    assert words(world) == "minimum run 2h"
    world.now += seconds(HOUR)
    assert words(world) == ""


def test_who_was_moved_lately_is_not_moved_again() -> None:
    world = make_world(replace(MOVING, protection=ProtectionRule(window=2 * HOUR)))
    stop = Stop(T0, StopCause.MIGRATION, 100, "cq")
    world.submit(with_changes(world.old("m"), stops=(stop,)))
    assert words(world) == "it was moved within 2h"
    world.now = T0 + seconds(2 * HOUR)
    assert words(world) == ""


@pytest.mark.parametrize("limit", [{"max_workloads": 1}, {"max_device_seconds": 300}])
def test_a_move_that_is_planned_counts_for_others_until_it_is_taken_back_or_recorded(
    limit: dict[str, int],
) -> None:
    rule = BudgetRule(policy=POLICY, name="loss", window=HOUR, **limit)
    world = make_world(replace(MOVING, budgets=(rule,)), "m", "n")
    stop = Stop(world.now, StopCause.MIGRATION, one(world, "n").loss.cost, "cq")
    world.engine.plan_move(f"{NAMESPACE}/n", stop)
    assert "is used up" in words(world)
    assert not words(world, "n"), "its own does not count against it"
    world.submit(world.old("n"))
    assert "is used up" in words(world), "a change of the Workload does not end it"
    world.engine.plan_move(f"{NAMESPACE}/n", None)
    assert not words(world)
    world.engine.plan_move(f"{NAMESPACE}/n", stop)
    world.submit(with_changes(world.old("n"), stops=(stop,)))
    assert "is used up" in words(world)
    world.engine.plan_move(f"{NAMESPACE}/n", None)
    assert "is used up" in words(world), "it is in the record of the Workload"
    world.now += seconds(HOUR)
    assert not words(world)


def test_a_move_that_was_recorded_counts_in_a_budget() -> None:
    rule = BudgetRule(policy=POLICY, name="calm", window=HOUR, max_workloads=1)
    world = make_world(replace(MOVING, budgets=(rule,)), "m", "n")
    moved = Stop(world.now, StopCause.MIGRATION, 100, "cq")
    world.submit(with_changes(world.old("n"), stops=(moved,)))
    assert "1 of 1 stops in 1h" in words(world)


def test_without_notice_the_whole_loss_counts() -> None:
    assert one(make_world(replace(MOVING, cost=CostRule()))).loss.cost == 1800 + 120
