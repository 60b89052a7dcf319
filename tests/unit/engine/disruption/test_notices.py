"""Notices: who gets one, what ends it, and who may use the room meanwhile."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

import pytest

from multiqueue.api.conditions import NoticeEnd, Reason
from multiqueue.api.disruptions import StopCause
from multiqueue.engine.plan import CyclePlan, EndNotice, Preempt, RescindNotice
from multiqueue.model.disruption_policy import (
    BudgetRule,
    BudgetScope,
    DisruptionRules,
    NonPreemptibleRule,
    ProtectionRule,
    SaveHabits,
)
from tests.builders.engine import (
    NAMESPACE,
    T0,
    flavor_quotas,
    make_queue,
    seconds,
    with_changes,
)
from tests.notice_world import LOWER, NOTICE, POLICY, RULES, SAVES, NoticeWorld, submit


def noticed_world(rules: DisruptionRules = RULES, **fields: object) -> NoticeWorld:
    """One job has all four GPUs, and was told to leave for another one."""
    world = NoticeWorld(rules)
    submit(world, world.job("low", 4, **fields))
    submit(world, world.job("high", 4, priority=1))
    return world


def ends(plan: CyclePlan) -> list[tuple[str, NoticeEnd]]:
    return [
        (d.workload.partition("/")[2], d.end) for d in plan.decisions if isinstance(d, EndNotice)
    ]


def rescinded(plan: CyclePlan) -> dict[str, str]:
    return {
        d.workload.partition("/")[2]: d.message
        for d in plan.decisions
        if isinstance(d, RescindNotice)
    }


# -------------------------------------------------------------------- who gets one


def test_a_victim_that_saves_on_notice_is_told_and_runs_on() -> None:
    world = noticed_world()
    notice = world.notice("low")
    assert notice is not None
    assert notice.by - notice.given_at == NOTICE
    assert (notice.reason, notice.preemptor) == (Reason.IN_CLUSTER_QUEUE, "uid-high")
    assert world.old("low").evicted is None
    assert world.reason("high").startswith("WaitingForPreemptedWorkloads: ")


@pytest.mark.parametrize(
    ("rules", "saves"),
    [
        pytest.param(DisruptionRules(name=POLICY), SAVES, id="the policy gives none"),
        pytest.param(RULES, None, id="the job does not ask for one"),
        pytest.param(RULES, SaveHabits(save_seconds=20), id="it saves when it is stopped"),
        pytest.param(
            DisruptionRules(name=POLICY, cost=RULES.cost, exempt_priority=1),
            SAVES,
            id="the preemptor is exempt",
        ),
    ],
)
def test_others_are_stopped_at_once(rules: DisruptionRules, saves: SaveHabits | None) -> None:
    world = noticed_world(rules, saves=saves)
    assert world.notice("low") is None
    assert world.old("low").evicted is not None


def test_nobody_is_told_twice() -> None:
    world = noticed_world()
    world.submit(world.job("more", 1, priority=2))
    plans = [world.run(after=10), world.run(after=10)]
    told = [d for plan in plans for d in plan.decisions if isinstance(d, Preempt)]
    assert all(not victim.is_new for decision in told for victim in decision.victims)


# -------------------------------------------------------------------- what ends it


def test_it_ends_when_the_job_has_saved_its_work() -> None:
    world = noticed_world()
    assert world.save("low", world.now + seconds(20))
    plan = world.run(after=20)
    assert ends(plan) == [("low", NoticeEnd.SAVED)]
    (end,) = (d for d in plan.decisions if isinstance(d, EndNotice))
    assert (end.reason, end.preemptor) == (Reason.IN_CLUSTER_QUEUE, f"{NAMESPACE}/high")
    assert "Preempted to accommodate a workload (UID: uid-high, JobUID: job-high)" in end.message
    assert "480 device-seconds have to be done again" in end.message
    assert end.stop is not None
    assert (end.stop.cause, end.stop.cost) == (StopCause.QUEUE, 480)


def test_it_ends_without_cost_when_the_pods_of_the_job_are_gone() -> None:
    """P-52 (c): what ran there ended before anybody stopped it."""
    world = noticed_world()
    key = f"{NAMESPACE}/low"
    assert not world.engine.note_pods_gone(f"{NAMESPACE}/high", "uid-high"), "it was not told"
    assert not world.engine.note_pods_gone(key, "uid-of-an-earlier-one")
    assert ends(world.run(after=10)) == []
    assert world.engine.note_pods_gone(key, "uid-low")
    plan = world.run(after=10)
    assert ends(plan) == [("low", NoticeEnd.ENDED)]
    (end,) = (d for d in plan.decisions if isinstance(d, EndNotice))
    assert end.stop is not None
    assert end.stop.cost == 0
    assert "0 device-seconds have to be done again" in end.message


def test_pods_that_were_gone_do_not_end_a_later_notice() -> None:
    world = noticed_world()
    assert world.engine.note_pods_gone(f"{NAMESPACE}/low", "uid-low")
    world.delete("high")
    assert list(rescinded(world.run(after=10))) == ["low"]
    plan = submit(world, world.job("again", 4, priority=1))
    assert world.notice("low") is not None
    assert ends(plan) == ends(world.run(after=10)) == []


def test_a_checkpoint_from_before_the_notice_does_not_end_it() -> None:
    world = noticed_world()
    notice = world.notice("low")
    assert notice is not None
    world.save("low", datetime.fromtimestamp(notice.given_at - 1, T0.tzinfo))
    assert ends(world.run(after=60)) == []


def test_a_checkpoint_far_in_the_future_does_not_end_it() -> None:
    world = noticed_world()
    world.save("low", world.now + seconds(300))
    assert ends(world.run(after=60)) == []


def test_it_ends_by_its_time_whatever_the_job_does() -> None:
    world = noticed_world()
    notice = world.notice("low")
    assert notice is not None
    assert world.engine.next_cycle_at(world.now) == datetime.fromtimestamp(notice.by, T0.tzinfo)
    assert ends(world.run(after=notice.by - world.now.timestamp() - 3)) == []
    plan = world.run(after=1)
    assert ends(plan) == [("low", NoticeEnd.TIMED_OUT)]


def test_who_did_not_save_costs_all_that_is_lost() -> None:
    world = noticed_world()
    plan = world.run(after=NOTICE)
    (end,) = (d for d in plan.decisions if isinstance(d, EndNotice))
    assert end.stop is not None
    assert end.stop.cost >= 4 * (NOTICE + 120)


def test_an_eviction_that_was_not_written_is_decided_again() -> None:
    world = noticed_world()
    plan = world.run(after=NOTICE, writes=False)
    assert ends(plan) == [("low", NoticeEnd.TIMED_OUT)]
    assert ends(world.run(after=10)) == []
    world.engine.preemption_failed(f"{NAMESPACE}/low", world.now)
    assert ends(world.run()) == [("low", NoticeEnd.TIMED_OUT)]


def test_a_new_manager_goes_on_with_it() -> None:
    world = noticed_world()
    other = NoticeWorld(RULES)
    other.now = world.now
    for workload in world.workloads.values():
        other.submit(workload)
    assert not rescinded(other.run())
    assert ends(other.run(after=NOTICE)) == [("low", NoticeEnd.TIMED_OUT)]


# -------------------------------------------------------------------- rescinded


def test_it_is_rescinded_if_the_preemptor_is_gone() -> None:
    world = noticed_world()
    world.delete("high")
    plan = world.run()
    assert rescinded(plan) == {"low": "goes on: the workload that it was to leave for is gone"}
    assert world.notice("low") is None
    assert world.run(after=NOTICE).decisions == ()


def test_it_is_rescinded_if_the_preemptor_fits_without_it() -> None:
    world = NoticeWorld(RULES)
    submit(world, world.job("low", 2), world.job("other", 2, saves=None, priority=5))
    submit(world, world.job("high", 2, priority=1))
    assert world.notice("low") is not None
    world.finish("other")
    plan = world.run()
    assert world.holds("high")
    assert list(rescinded(plan)) == ["low"]
    assert world.holds("low")


@pytest.mark.parametrize(
    ("protection", "why"),
    [
        (ProtectionRule(min_run={StopCause.QUEUE: 3600}), "minimum run 1h"),
        (ProtectionRule(non_preemptible=NonPreemptibleRule(percent=100)), "it is non-preemptible"),
    ],
)
def test_it_is_rescinded_if_a_change_of_the_policy_protects_it(
    protection: ProtectionRule, why: str
) -> None:
    world = noticed_world(non_preemptible=True, run_limit=3600)
    world.engine.upsert_disruption_policy(replace(RULES, protection=protection))
    plan = world.run()
    assert why in rescinded(plan)["low"]
    assert ends(world.run(after=NOTICE)) == []
    assert "1 of 1 candidate may not be stopped" in world.reason("high")


def test_it_is_rescinded_if_the_policy_is_deleted() -> None:
    """Then nothing of the queue is preempted, and it preempts nobody."""
    world = noticed_world()
    world.engine.delete_disruption_policy(POLICY)
    assert list(rescinded(world.run())) == ["low"]
    assert ends(world.run(after=NOTICE)) == []


def test_it_goes_on_to_its_end_if_the_queue_moves_to_another_cohort() -> None:
    world = noticed_world()
    notice = world.notice("low")
    assert notice is not None
    world.engine.upsert_cluster_queue(
        make_queue(
            "cq",
            flavor_quotas("default", gpu=4),
            cohort="elsewhere",
            preemption=LOWER,
            disruption_policy=POLICY,
        )
    )
    assert ends(world.run(after=60)) == []
    assert world.notice("low") == notice
    assert ends(world.run(after=NOTICE - 60)) == [("low", NoticeEnd.TIMED_OUT)]


def test_a_notice_that_somebody_edited_is_rescinded() -> None:
    world = noticed_world()
    notice = world.notice("low")
    assert notice is not None
    world.submit(with_changes(world.old("low"), notice=notice._replace(by=0)))
    plan = world.cycle(after=1)
    assert rescinded(plan) == {"low": "goes on: its notice cannot be read any more"}


def test_a_rescission_that_was_not_written_is_decided_again() -> None:
    world = noticed_world()
    world.delete("high")
    assert list(rescinded(world.run(writes=False))) == ["low"]
    assert rescinded(world.run()) == {}
    world.engine.preemption_failed(f"{NAMESPACE}/low", world.now)
    assert list(rescinded(world.run())) == ["low"]


# -------------------------------------------------------------------- others meanwhile


def test_a_second_preemptor_of_one_queue_waits_until_the_first_one_is_served() -> None:
    world = noticed_world()
    plan = submit(world, world.job("highest", 4, priority=2))
    assert rescinded(plan) == {}
    assert ends(world.run(after=NOTICE)) == [("low", NoticeEnd.TIMED_OUT)]
    world.leave("low")
    world.run()
    assert (world.holds("high"), world.holds("highest")) == (True, False)
    assert world.notice("high") is not None


def test_room_that_one_victim_leaves_is_kept_while_the_other_saves() -> None:
    """Two are told; one saves at once. Nobody of a lower rank gets the room before the other."""
    world = NoticeWorld(RULES, ("a", 8), ("b", 0))
    submit(world, *(world.job(name, 4, queue="b") for name in ("one", "two")))
    submit(world, world.job("high", 8, queue="a"))
    assert world.notice("one") is not None
    assert world.notice("two") is not None
    world.save("one", world.now)
    world.run()
    world.leave("one")
    world.submit(world.job("small", 1, queue="a", priority=-1))
    world.submit(world.job("late", 1, queue="b", priority=-1))
    world.run(after=5)
    assert not any(world.holds(name) for name in ("one", "small", "late", "high"))
    world.run(after=NOTICE)
    world.leave("two")
    world.run()
    assert world.holds("high")


CALM = BudgetRule(policy=POLICY, name="calm", per=BudgetScope.POLICY, max_workloads=1)


def two_queues_under_a_budget() -> NoticeWorld:
    """One job was told to leave, and the budget allows no second stop."""
    world = NoticeWorld(replace(RULES, budgets=(CALM,)), ("a", 2), ("b", 2))
    submit(world, world.job("one", 2, queue="a"), world.job("two", 2, queue="b"))
    submit(world, world.job("high", 2, queue="a", priority=1))
    assert world.notice("one") is not None
    return world


def test_budgets_count_a_notice_and_get_it_back() -> None:
    world = two_queues_under_a_budget()
    submit(world, world.job("more", 2, queue="b", priority=1))
    assert world.notice("two") is None
    assert 'budget "calm"' in world.reason("more")
    world.delete("high")
    world.run()
    world.run()
    assert world.notice("one") is None
    assert world.notice("two") is not None


def test_a_new_manager_counts_notices_in_its_budgets() -> None:
    world = two_queues_under_a_budget()
    other = NoticeWorld(replace(RULES, budgets=(CALM,)), ("a", 2), ("b", 2))
    other.now = world.now
    for workload in world.workloads.values():
        other.submit(workload)
    submit(other, other.job("more", 2, queue="b", priority=1))
    assert other.notice("two") is None
    assert 'budget "calm"' in other.reason("more")
