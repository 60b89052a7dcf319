"""Claims: room is kept for who waited long, and others pass only if they do not delay it."""

from __future__ import annotations

import re
from datetime import datetime

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from multiqueue.engine.plan import Admit
from multiqueue.model.cluster_queue import QueueingStrategy
from multiqueue.model.disruption_policy import ClaimRule, DisruptionRules, OwnQuotaRule
from multiqueue.model.workload import Workload
from tests.builders.engine import (
    NAMESPACE,
    T0,
    flavor_quotas,
    make_queue,
    make_workload,
    pod_set,
    reserved,
    seconds,
)
from tests.engine_world import EngineWorld

MINUTE, HOUR = 60, 3600
POLICY = "gentle"


def job(name: str, gpu: int, *, lasts: int = 0, after: float = 0, **fields: object) -> Workload:
    """A job that declares how long it runs (in seconds; 0: it does not say)."""
    return make_workload(
        name, pod_sets=[pod_set(gpu=gpu)], run_limit=lasts, at=T0 + seconds(after), **fields
    )


def make_world(rule: ClaimRule | None, *, gpus: int = 16, queues: int = 1) -> EngineWorld:
    names = ["cq"] if queues == 1 else [f"cq{number}" for number in range(queues)]
    cohort = "" if queues == 1 else "all"
    made = [
        make_queue(
            name,
            flavor_quotas("default", gpu=gpus // queues),
            cohort=cohort,
            strategy=QueueingStrategy.BEST_EFFORT_FIFO,
            disruption_policy=POLICY,
        )
        for name in names
    ]
    world = EngineWorld(*made)
    if rule is not None:
        world.engine.upsert_disruption_policy(DisruptionRules(name=POLICY, waiting=rule))
    return world


def run(world: EngineWorld, *, after: float = 1) -> list[str]:
    """Let time pass, run cycles until they repeat themselves, and return who got quota."""
    started = []
    for wait in (after, 0, 2):
        plan = world.cycle(after=wait)
        for decision in plan.decisions:
            if isinstance(decision, Admit):
                old = world.workloads[decision.workload]
                world.submit(reserved(old, decision.admission, at=world.now))
        started += [d.workload.partition("/")[2] for d in plan.decisions if isinstance(d, Admit)]
    return started


def submit(world: EngineWorld, *jobs: Workload) -> list[str]:
    for each in jobs:
        world.submit(each)
    return run(world)


def make_busy(rule: ClaimRule | None, gang: int) -> EngineWorld:
    """16 GPUs: 8 are in use for an hour, 4 for two, 2 for half an hour; a gang waits."""
    world = make_world(rule)
    submit(world, job("a", 8, lasts=HOUR), job("b", 4, lasts=2 * HOUR))
    submit(world, job("c", 2, lasts=30 * MINUTE), job("gang", gang))
    run(world, after=20)
    return world


RULE = ClaimRule(claims=1, after=10)


def test_a_job_passes_if_it_ends_before_the_claim_starts() -> None:
    assert submit(make_busy(RULE, 12), job("x", 2, lasts=50 * MINUTE, after=30)) == ["x"]


def test_a_job_passes_if_it_needs_only_what_the_claim_leaves_over() -> None:
    """At 11:00 12 GPUs are free, and the claim needs 10 of them: 2 are over."""
    world = make_busy(RULE, 10)
    assert submit(world, job("x", 1, after=30)) == ["x"]
    assert submit(world, job("y", 1, lasts=3 * HOUR, after=31)) == ["y"]
    assert submit(world, job("z", 1, after=32)) == []


@pytest.mark.parametrize("lasts", [0, 3 * HOUR])
def test_a_job_waits_if_it_would_delay_the_claim(lasts: int) -> None:
    world = make_busy(RULE, 12)
    assert submit(world, job("x", 1, lasts=lasts, after=30)) == []
    assert "delay one that is promised to start by" in world.reason("x")
    assert "room is kept for this Workload, which starts by" in world.reason("gang")


@pytest.mark.parametrize("lasts", [0, 3 * HOUR])
def test_turns_let_nobody_pass_a_claim(lasts: int) -> None:
    world = make_busy(ClaimRule(passing=1000, claims=1, after=10), 12)
    assert submit(world, job("x", 1, lasts=lasts, after=30)) == []
    assert "delay one that is promised to start by" in world.reason("x")


@pytest.mark.parametrize("rule", [None, ClaimRule(), ClaimRule(claims=1, after=HOUR)])
def test_without_a_claim_everything_that_fits_starts(rule: ClaimRule | None) -> None:
    assert submit(make_busy(rule, 12), job("x", 1, after=30)) == ["x"]


def test_a_higher_priority_is_not_held_up() -> None:
    assert submit(make_busy(RULE, 12), job("x", 1, after=30, priority=1)) == ["x"]


def test_the_gang_starts_when_it_was_promised() -> None:
    world = make_busy(RULE, 12)
    submit(world, job("x", 1, after=30))
    for name, at in (("c", 30 * MINUTE), ("a", HOUR)):
        run(world, after=at - (world.now - T0).total_seconds())
        world.finish(name)
        last = run(world)
    assert last[0] == "gang"


def test_nothing_is_kept_for_a_start_that_nobody_knows() -> None:
    world = make_world(RULE)
    submit(world, job("a", 14), job("gang", 12))
    run(world, after=20)
    assert submit(world, job("x", 2, after=30)) == ["x"]


def test_who_is_refused_is_tried_again_without_any_change() -> None:
    world = make_busy(RULE, 12)
    submit(world, job("x", 1, after=30))
    wakes_at = world.engine.next_cycle_at(world.now)
    assert wakes_at is not None
    assert wakes_at <= world.now + seconds(61)


def test_a_claim_does_not_hold_up_who_stays_within_the_quota_of_another_queue() -> None:
    world = make_world(RULE, queues=2)
    submit(world, job("a", 7, queue="cq0"), job("b", 2, lasts=HOUR, queue="cq1"))
    submit(world, job("gang", 8, queue="cq0"))
    run(world, after=20)
    assert "room is kept" in world.reason("gang")
    assert submit(world, job("x", 2, queue="cq0", after=30)) == []
    assert submit(world, job("owner", 6, queue="cq1", after=31)) == ["owner"]


def make_borrower(rule: ClaimRule) -> EngineWorld:
    """Two queues with 8 GPUs each, of which 5 are free; a gang of 12 has to borrow."""
    world = make_world(rule, queues=2)
    submit(world, job("a", 8, lasts=HOUR, queue="cq0"), job("b", 3, lasts=HOUR, queue="cq1"))
    submit(world, job("gang", 12, queue="cq0"))
    run(world, after=20)
    return world


def test_a_gang_that_has_to_borrow_has_room_kept_for_it() -> None:
    world = make_borrower(RULE)
    assert "room is kept for this Workload, which starts by" in world.reason("gang")
    assert submit(world, job("x", 3, queue="cq0", after=30)) == ["x"]  # 13 GPUs are left
    assert submit(world, job("y", 2, queue="cq0", after=31)) == []


@pytest.mark.parametrize(("own_quota", "starts"), [("Passes", ["owner"]), ("Waits", [])])
def test_the_policy_of_the_owner_says_whether_own_quota_waits(
    own_quota: str, starts: list[str]
) -> None:
    world = make_borrower(ClaimRule(claims=1, after=10, own_quota=OwnQuotaRule(own_quota)))
    assert submit(world, job("owner", 5, queue="cq1", after=31)) == starts


def test_no_room_is_kept_for_a_gang_that_never_fits() -> None:
    world = make_world(RULE, queues=2)
    submit(world, job("a", 8, lasts=HOUR, queue="cq0"), job("gang", 17, queue="cq0"))
    run(world, after=20)
    assert "room is kept" not in world.reason("gang")


def test_a_claim_is_made_anew_if_the_queue_moves_to_another_cohort() -> None:
    world = make_busy(RULE, 12)
    assert "room is kept for this Workload" in world.reason("gang")
    quotas = flavor_quotas("default", gpu=16)
    world.engine.upsert_cluster_queue(
        make_queue("cq", quotas, cohort="elsewhere", disruption_policy=POLICY)
    )
    run(world)
    assert "room is kept for this Workload" in world.reason("gang")
    assert submit(world, job("x", 1, after=30)) == []
    assert "delay one that is promised to start by" in world.reason("x")


def test_a_claim_ends_with_its_workload() -> None:
    world = make_busy(RULE, 12)
    submit(world, job("x", 1, after=30))
    world.delete("gang")
    assert run(world, after=61) == ["x"]


@settings(max_examples=60, deadline=None)
@given(
    holders=st.lists(st.tuples(st.integers(1, 5), st.integers(2, 12)), min_size=2, max_size=6),
    gang=st.integers(4, 12),
    later=st.lists(st.tuples(st.integers(1, 6), st.integers(0, 14)), max_size=8),
)
def test_a_claim_starts_no_later_than_promised(
    holders: list[tuple[int, int]], gang: int, later: list[tuple[int, int]]
) -> None:
    """Jobs run for exactly as long as they declare, in minutes; with 0 they never end."""
    world = make_world(ClaimRule(claims=1, after=5), gpus=12)
    submit(world, *(job(f"h{i}", gpu, lasts=m * MINUTE) for i, (gpu, m) in enumerate(holders)))
    submit(world, job("gang", gang, after=3))
    run(world, after=5)
    found = re.search(r"starts by (\S+Z)", world.reason("gang"))
    assume(found is not None)
    assert found is not None
    promised = datetime.fromisoformat(found[1])
    for number, (gpu, minutes) in enumerate(later):
        submit(world, job(f"l{number}", gpu, lasts=minutes * MINUTE, after=20 + number))
    gang_key = world.workloads[f"{NAMESPACE}/gang"].key
    while world.workloads[gang_key].reservation is None:
        assert world.now <= promised + seconds(15), world.reason("gang")
        for each in list(world.workloads.values()):
            held = each.reservation
            if held is None or each.finished or not each.run_limit:
                continue
            if held.reserved_at + seconds(each.run_limit) <= world.now:
                world.finish(each.key.partition("/")[2])
        run(world, after=5)
