"""Patience: who could stop others waits if they end soon by themselves (P-58)."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from unittest.mock import Mock

import pytest

from multiqueue.api.disruptions import StopCause
from multiqueue.engine.disruption.patience import (
    Patience,
    PatientWait,
    find_stop,
    is_worth_it,
)
from multiqueue.engine.plan import Admit, Preempt
from multiqueue.engine.queues.entry import Entry
from multiqueue.model.cluster_queue import LocalQueue, Preemption, PreemptionPolicy, Quota
from multiqueue.model.disruption_policy import BudgetRule, DisruptionRules, ProtectionRule
from multiqueue.model.workload import Workload
from tests.builders.engine import NAMESPACE, flavor_quotas, make_queue, make_workload, pod_set
from tests.engine_world import EngineWorld
from tests.unit.engine.disruption.test_claims import POLICY, run

MINUTE, HOUR = 60, 3600
RULES = DisruptionRules(name=POLICY, patience=20 * MINUTE)
LOWER = Preemption(within_cluster_queue=PreemptionPolicy.LOWER_PRIORITY)


@pytest.mark.parametrize(
    ("cost", "patience", "self_at", "waits"),
    [
        pytest.param(21_120, 1200, 900, True, id="A and B of the example"),
        pytest.param(21_120, 600, 900, False, id="870 s are more than 600"),
        pytest.param(1_680, 1200, 900, False, id="E is cheap to stop"),
        pytest.param(13_920, 870, 900, True, id="both limits are reached and not passed"),
        pytest.param(13_919, 870, 900, False, id="one device-second too dear"),
        pytest.param(0, 1, 30, True, id="they end as soon as a stop would take"),
        pytest.param(10**9, 10**9, None, False, id="nobody says when"),
    ],
)
def test_the_example(cost: int, patience: int, self_at: int | None, waits: bool) -> None:
    stop_at = find_stop(0, [0, 0])
    assert stop_at == 30
    assert waits is is_worth_it(
        devices=16, cost=cost, patience=patience, stop_at=stop_at, self_at=self_at
    )


def test_a_notice_makes_a_stop_last_longer() -> None:
    assert find_stop(100, [0, 250]) == 280


def job(name: str, gpu: int, *, lasts: int = 0, priority: int = 0) -> Workload:
    return make_workload(
        name,
        uid=f"uid-{name}",
        pod_sets=[pod_set(gpu=gpu)],
        run_limit=lasts,
        priority=priority,
    )


def make_world(
    rules: DisruptionRules = RULES,
    *,
    lasts: int = 75 * MINUTE,
    ran: int = HOUR,
    others: tuple[Workload, ...] = (),
) -> EngineWorld:
    """32 GPUs: A and B have 8 each, D has 16 and ends after `lasts`; then 16 are asked for."""
    queue = make_queue(
        "cq", flavor_quotas("default", gpu=32), preemption=LOWER, disruption_policy=POLICY
    )
    world = EngineWorld(queue)
    world.engine.upsert_disruption_policy(rules)
    ending = others or (job("d", 16, lasts=lasts, priority=9),)
    for each in (job("a", 8), job("b", 8), *ending):
        world.submit(each)
    run(world)
    world.now = world.now.replace(microsecond=0)
    run(world, after=ran)
    world.submit(job("p", 16, priority=5))
    return world


def step(world: EngineWorld, *, after: float = 1) -> list[str]:
    """Let time pass; return who was told to leave, and who got quota (+)."""
    told = []
    for wait in (after, 0, 2):
        for decision in world.cycle(after=wait).decisions:
            if isinstance(decision, Preempt):
                told += [victim.workload.partition("/")[2] for victim in decision.victims]
            elif isinstance(decision, Admit):
                told.append(f"+{decision.workload.partition('/')[2]}")
    return sorted(set(told))


def test_it_waits_for_who_ends_by_itself() -> None:
    world = make_world()
    assert step(world) == []
    assert "Workload fits once others have ended by themselves, which is by " in world.reason("p")
    assert "; to stop 2 workloads instead would cost 30,720 device-seconds" in world.reason("p")
    assert world.engine.next_cycle_at(world.now) is not None, "the wait has an end (P-3)"
    assert step(world, after=5 * MINUTE) == []
    world.finish("d")
    assert step(world) == ["+p"]


def test_it_stops_others_when_they_did_not_end_in_time() -> None:
    world = make_world()
    assert step(world, after=10 * MINUTE) == []
    assert step(world, after=7 * MINUTE) == ["a", "b"]
    assert step(world, after=MINUTE) == [], "they were told once"


def test_it_stops_others_if_the_end_is_farther_off_by_now() -> None:
    """The declared run time of the other one is made longer meanwhile."""
    world = make_world()
    assert step(world) == []
    key = f"{NAMESPACE}/d"
    world.submit(replace(world.workloads[key], run_limit=10 * HOUR))
    world.finish("a")
    assert step(world) == ["b"]


@pytest.mark.parametrize(
    ("rules", "fields"),
    [
        pytest.param(replace(RULES, patience=0), {}, id="no patience"),
        pytest.param(replace(RULES, patience=10 * MINUTE), {}, id="too little patience"),
        pytest.param(replace(RULES, exempt_priority=5), {}, id="it is exempt"),
        pytest.param(RULES, {"lasts": 0}, id="nobody says when it ends"),
        pytest.param(RULES, {"ran": MINUTE, "lasts": 16 * MINUTE}, id="a stop costs little"),
    ],
)
def test_it_stops_others_at_once(rules: DisruptionRules, fields: dict[str, int]) -> None:
    assert step(make_world(rules, **fields)) == ["a", "b"]


def test_a_budget_that_others_used_up_meanwhile_counts() -> None:
    """The two stops were allowed when the wait began; another tree has made one since."""
    budget = BudgetRule(policy=POLICY, name="calm", window=HOUR, max_workloads=2)
    world = make_world(replace(RULES, budgets=(budget,)))
    quotas = flavor_quotas("default", gpu=1)
    other = make_queue("other", quotas, preemption=LOWER, disruption_policy=POLICY)
    world.engine.upsert_cluster_queue(other)
    world.engine.upsert_local_queue(LocalQueue(key=f"{NAMESPACE}/other", cluster_queue="other"))
    assert step(world) == []
    world.submit(replace(job("x", 1), queue=f"{NAMESPACE}/other"))
    run(world)
    world.submit(replace(job("y", 1, priority=1), queue=f"{NAMESPACE}/other"))
    assert step(world) == ["x"]
    assert step(world, after=17 * MINUTE) == []
    assert "is used up: 2 of 2 stops in 1h" in world.reason("p")


def test_room_is_kept_for_it_meanwhile() -> None:
    """What ends early goes to nobody who would take it for longer; who ends before may run."""
    d = job("d", 8, lasts=75 * MINUTE, priority=9)
    world = make_world(others=(d, job("e", 8, lasts=76 * MINUTE, priority=9)))
    assert step(world) == []
    world.finish("a")
    world.submit(job("small", 8))
    assert step(world) == []
    assert "it would delay one that is promised to start by" in world.reason("small")
    world.submit(job("short", 8, lasts=5 * MINUTE))
    assert step(world) == ["+short"]


def test_another_wait_does_not_hide_when_a_protection_ends() -> None:
    """The tree is woken for who waits instead; who was refused until later still gets its turn."""
    quotas = flavor_quotas("default", gpu=Quota(nominal=32, borrowing_limit=0))
    few = flavor_quotas("default", gpu=Quota(nominal=8, borrowing_limit=0))
    world = EngineWorld(
        make_queue("a", quotas, preemption=LOWER, disruption_policy=POLICY, cohort="all"),
        make_queue("b", few, preemption=LOWER, disruption_policy="protects", cohort="all"),
    )
    protection = ProtectionRule(min_run={StopCause.QUEUE: 3 * HOUR})
    world.engine.upsert_disruption_policy(RULES)
    world.engine.upsert_disruption_policy(DisruptionRules(name="protects", protection=protection))
    ends = job("d", 16, lasts=75 * MINUTE, priority=9)
    held = replace(job("held", 8), queue=f"{NAMESPACE}/b")
    for each in (
        *(replace(w, queue=f"{NAMESPACE}/a") for w in (job("a", 8), job("c", 8), ends)),
        held,
    ):
        world.submit(each)
    run(world)
    world.now = world.now.replace(microsecond=0)
    run(world, after=HOUR)
    world.submit(replace(job("wants", 8, priority=5), queue=f"{NAMESPACE}/b"))
    assert step(world) == []
    world.submit(replace(job("p", 16, priority=5), queue=f"{NAMESPACE}/a"))
    assert step(world) == []
    world.finish("d")
    assert step(world, after=MINUTE) + step(world) == ["+p"]
    told: list[str] = []
    while not told and (due := world.engine.next_cycle_at(world.now)) is not None:
        told = step(world, after=(due - world.now).total_seconds())
    assert told == ["held"]


def test_who_got_quota_is_asked_anew() -> None:
    patience, entry = Patience(), Mock(spec=Entry)
    patience.begin(entry, PatientWait(until=60, words="others end"))
    patience.end(entry)
    known = patience.of(entry)
    assert known is not None
    assert known.is_over
    patience.forget(entry)
    assert patience.of(entry) is None


def test_who_was_evicted_again_waits_for_others_anew() -> None:
    """Its first wait was in vain, so it preempted; that says nothing about the next one."""
    world = make_world()
    assert step(world) == []
    assert step(world, after=17 * MINUTE) == ["a", "b"]
    for name in ("a", "b"):
        world.finish(name)
    assert run(world) == ["p"]
    world.finish("d")
    world.submit(job("a2", 8), job("b2", 8))
    assert sorted(run(world)) == ["a2", "b2"]
    requeue_at = world.now.replace(microsecond=0) + timedelta(hours=1)
    world.submit(
        replace(world.workloads[f"{NAMESPACE}/p"], reservation=None, requeue_at=requeue_at)
    )
    world.submit(job("e", 16, lasts=75 * MINUTE, priority=9))
    assert run(world) == ["e"]

    assert step(world, after=HOUR) == []
    assert "Workload fits once others have ended by themselves" in world.reason("p")
