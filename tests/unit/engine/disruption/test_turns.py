"""Turns: later Workloads that take less may pass one that waits, for a while (P-67)."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from multiqueue.engine.plan import Preempt
from multiqueue.model.cluster_queue import Preemption, PreemptionPolicy, QueueingStrategy
from multiqueue.model.disruption_policy import ClaimRule, DisruptionRules
from multiqueue.model.turn import LONGEST, find_head_start
from multiqueue.model.workload import Workload
from tests.builders.engine import (
    NAMESPACE,
    T0,
    flavor_quotas,
    make_queue,
    make_workload,
    pod_set,
    seconds,
)
from tests.engine_world import EngineWorld

HOUR = 3600
POLICY = "gentle"
STRATEGIES = list(QueueingStrategy)


def job(name: str, gpu: int, *, lasts: int = HOUR, after: float = 0, **more: object) -> Workload:
    """A job that declares how long it runs, in seconds."""
    return make_workload(
        name, pod_sets=[pod_set(gpu=gpu)], expected_run=lasts, at=T0 + seconds(after), **more
    )


def make_world(
    passing: int,
    strategy: QueueingStrategy = QueueingStrategy.BEST_EFFORT_FIFO,
    preempts: PreemptionPolicy = PreemptionPolicy.NEVER,
) -> EngineWorld:
    """A queue with 8 GPUs, which "holds" has until it is finished."""
    queue = make_queue(
        "cq",
        flavor_quotas("default", gpu=8),
        strategy=strategy,
        preemption=Preemption(within_cluster_queue=preempts),
        disruption_policy=POLICY,
    )
    world = EngineWorld(queue)
    set_passing(world, passing)
    world.submit(job("holds", 8))
    world.write_back(world.cycle())
    return world


def set_passing(world: EngineWorld, percent: int) -> None:
    rule = ClaimRule(passing=percent)
    world.engine.upsert_disruption_policy(DisruptionRules(name=POLICY, waiting=rule))


def admitted_then(world: EngineWorld) -> list[str]:
    """Who gets quota once the holder has ended."""
    world.cycle(after=60)
    world.finish("holds")
    return world.admitted(after=2)


LARGE, SMALL = job("large", 8, after=10), job("small", 1, after=20)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize(("passing", "first"), [(0, "large"), (100, "small")])
def test_who_takes_less_passes_if_the_policy_lets_it(
    strategy: QueueingStrategy, passing: int, first: str
) -> None:
    world = make_world(passing, strategy)
    world.submit(LARGE, SMALL)
    assert admitted_then(world) == [first]


@pytest.mark.parametrize(("after", "first"), [(7 * HOUR - 60, "small"), (7 * HOUR + 60, "large")])
def test_nobody_passes_after_the_turn(after: int, first: str) -> None:
    """8 GPUs for an hour let 1 GPU for an hour pass that is submitted in the next 7 hours."""
    world = make_world(100)
    world.submit(job("large", 8), job("small", 1, after=after))
    assert admitted_then(world) == [first]


@pytest.mark.parametrize(
    ("fields", "first"),
    [
        ({"expected_run": HOUR // 16}, "large"),
        ({"expected_run": 0, "run_limit": HOUR // 16}, "large"),
        ({"expected_run": 0, "run_limit": 0}, "small"),
        ({"expected_run": HOUR // 16, "priority": -1}, "small"),
    ],
    ids=["declared", "limited", "nothing is known: an hour", "priority comes first"],
)
def test_the_turn_depends_on_what_is_known_of_the_run_time(
    fields: dict[str, int], first: str
) -> None:
    world = make_world(100)
    world.submit(make_workload("large", pod_sets=[pod_set(gpu=8)], at=T0, **fields), SMALL)
    assert admitted_then(world) == [first]


@pytest.mark.parametrize(("runs", "first"), [(HOUR // 16, "large"), (HOUR, "small"), (0, "small")])
def test_what_is_known_of_run_times_counts_instead_of_what_is_declared(
    runs: int, first: str
) -> None:
    world = make_world(100)
    world.engine.ask_run_times(lambda each: runs if each.key == LARGE.key else HOUR)
    set_passing(world, 99)
    world.submit(LARGE, SMALL)
    assert admitted_then(world) == [first]


@pytest.mark.parametrize(("before", "now", "first"), [(0, 100, "small"), (100, 0, "large")])
def test_a_change_of_the_policy_orders_who_waits_already(before: int, now: int, first: str) -> None:
    world = make_world(before)
    world.submit(LARGE, SMALL)
    world.cycle(after=30)
    set_passing(world, now)
    assert admitted_then(world) == [first]


@pytest.mark.parametrize("passing", [0, 100])
def test_turns_do_not_change_whom_one_may_preempt(passing: int) -> None:
    """The holder is older than "newer", whose turn would come long before the holder's."""
    policy = PreemptionPolicy.LOWER_OR_NEWER_EQUAL_PRIORITY
    world = make_world(passing, preempts=policy)
    world.submit(job("newer", 1, lasts=1, after=30))
    assert not any(isinstance(each, Preempt) for each in world.cycle(after=60).decisions)
    world.submit(job("older", 2, after=-30))  # another size, so it is judged anew
    (decision,) = (d for d in world.cycle(after=60).decisions if isinstance(d, Preempt))
    assert decision.workload == f"{NAMESPACE}/older"


def test_an_event_of_a_waiting_workload_keeps_its_turn() -> None:
    world = make_world(100)
    world.submit(LARGE, SMALL)
    before = [each.workload for each in world.engine.pending_workloads("cq")]
    world.cycle(after=30)
    world.submit(*world.workloads.values())
    assert [each.workload for each in world.engine.pending_workloads("cq")] == before


@pytest.mark.parametrize(
    ("devices", "hours", "percent", "want"),
    [
        (8, 2, 100, timedelta(hours=16)),
        (1, 0.5, 100, timedelta(minutes=30)),
        (8, 1, 10, timedelta(minutes=48)),
        (8, 1, 0, timedelta()),
        (0, 1, 100, timedelta(hours=1)),
        (512, 10**7, 1000, LONGEST),
    ],
)
def test_the_time_for_which_others_pass(
    devices: int, hours: float, percent: int, want: timedelta
) -> None:
    assert find_head_start(devices, timedelta(hours=hours), percent) == want


waiting = st.tuples(st.integers(1, 8), st.integers(1, 7200), st.integers(0, 40_000))


@settings(max_examples=60, deadline=None)
@given(jobs=st.lists(waiting, max_size=8), percent=st.sampled_from([1, 100, 1000]))
def test_who_is_submitted_after_the_turn_of_another_is_never_before_it(
    jobs: list[tuple[int, int, int]], percent: int
) -> None:
    world = make_world(percent)
    made = [job(f"j{n}", g, lasts=t, after=at) for n, (g, t, at) in enumerate(jobs)]
    world.submit(*made)
    order = {
        each.workload: place for place, each in enumerate(world.engine.pending_workloads("cq"))
    }
    assert len(order) == len(made)
    for one, (gpus, lasts, _) in zip(made, jobs, strict=True):
        turn = one.created_at + find_head_start(gpus, seconds(lasts), percent)
        assert all(order[one.key] < order[o.key] for o in made if o.created_at > turn)
