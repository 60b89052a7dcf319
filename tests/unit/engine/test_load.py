"""Priorities in trees under load: who is awake when quota becomes free (E-27, E-28)."""

import statistics

import pytest

from multiqueue.engine.options import EngineOptions, FairSharing
from multiqueue.engine.plan import Preempt
from multiqueue.model.cluster_queue import ClusterQueue, Preemption, PreemptionPolicy
from multiqueue.model.workload import Workload
from tests.bench.upstream_generators import BASELINE, scaled
from tests.bench.upstream_world import Simulation
from tests.builders.engine import (
    T0,
    flavor_quotas,
    make_queue,
    make_workload,
    pod_set,
    quota,
    seconds,
)
from tests.engine_world import EngineWorld

SIZES = ("large", "medium", "small")


def running(world: EngineWorld, *names: str) -> None:
    world.submit(*(make_workload(name, priority=900) for name in names))
    world.write_back(world.cycle())


def workload(name: str, *, priority: int, cpu: int = 1, created: float = 0) -> Workload:
    return make_workload(
        name, priority=priority, at=T0 + seconds(created), pod_sets=[pod_set(cpu=cpu)]
    )


def busy_world(*, ends_apart: float = 0.1, later: float = 0) -> EngineWorld:
    """A full queue in which "high" is parked: two workloads ended, and later a third one."""
    world = EngineWorld(make_queue("cq", flavor_quotas("f", cpu=4)))
    running(world, "a", "b", "c", "d")
    world.submit(workload("high", priority=200, cpu=3))
    world.cycle(after=10)
    world.finish("a")
    world.cycle(after=ends_apart)
    world.finish("b")
    world.cycle(after=later)
    world.finish("c")
    return world


@pytest.mark.parametrize("later", [0, 9])
def test_under_load_a_parked_workload_is_awake_before_a_lower_one_takes_free_quota(
    later: float,
) -> None:
    world = busy_world(later=later)

    world.submit(workload("low", priority=100))

    assert world.admitted() == ["high"]


@pytest.mark.parametrize(
    ("ends_apart", "later"),
    [(0.1, 11), (2, 2)],
    ids=["the load is over", "ends that are far apart"],
)
def test_in_a_quiet_tree_free_quota_goes_to_whoever_is_awake(
    ends_apart: float, later: float
) -> None:
    world = busy_world(ends_apart=ends_apart, later=later)

    world.submit(workload("low", priority=100))

    assert world.admitted() == ["low"]


def test_under_load_nobody_is_woken_early_for_a_higher_priority() -> None:
    world = busy_world()

    world.submit(workload("higher", priority=300))

    assert world.admitted() == ["higher"]
    assert world.engine.pending_workloads("cq")[0].parked


def reclaiming_queue(name: str, policy: PreemptionPolicy) -> ClusterQueue:
    quotas = flavor_quotas("f", cpu=quota("cpu", 2, borrow=4))
    return make_queue(
        name, quotas, cohort="co", preemption=Preemption(reclaim_within_cohort=policy)
    )


def lender_world(policy: PreemptionPolicy, options: EngineOptions | None = None) -> EngineWorld:
    """Two CPUs are free: queue "lender" has two workloads for them, "borrower" has one."""
    world = EngineWorld(
        reclaiming_queue("lender", policy), reclaiming_queue("borrower", policy), options=options
    )
    world.submit(*(make_workload(f"own-{i}", queue="borrower", priority=900) for i in range(2)))
    world.write_back(world.cycle())
    world.submit(
        make_workload("borrows", queue="borrower", priority=150),
        make_workload("first", queue="lender", priority=100),
        make_workload("second", queue="lender", priority=100, at=T0 + seconds(1)),
    )
    return world


def test_a_queue_that_reclaims_uses_its_own_quota_before_others_borrow_it() -> None:
    world = lender_world(PreemptionPolicy.ANY)

    plan = world.cycle()

    assert [d.workload.partition("/")[2] for d in plan.decisions[:2]] == ["first", "second"]
    assert not [d for d in plan.decisions if isinstance(d, Preempt)]


@pytest.mark.parametrize(
    ("policy", "options"),
    [
        (PreemptionPolicy.NEVER, EngineOptions()),
        (PreemptionPolicy.LOWER_PRIORITY, EngineOptions()),
        (PreemptionPolicy.ANY, EngineOptions(fair_sharing=FairSharing())),
    ],
    ids=["nobody reclaims", "the borrower has the higher priority", "shares decide"],
)
def test_a_borrower_that_need_not_give_back_is_admitted_in_its_turn(
    policy: PreemptionPolicy, options: EngineOptions
) -> None:
    world = lender_world(policy, options)

    assert world.admitted()[:2] == ["first", "borrows"]


def test_a_borrower_gets_what_its_owner_does_not_need_at_once() -> None:
    world = lender_world(PreemptionPolicy.ANY)
    world.delete("second")

    assert world.admitted() == ["first", "borrows"]


def test_beside_a_slow_server_priorities_are_served_in_order() -> None:
    one_cohort = scaled(BASELINE, 5)._replace(cohorts=1)
    run = Simulation(one_cohort, round_trip=0.33)
    run.run()

    large, medium, small = (statistics.mean(run.waits[each]) for each in SIZES)
    assert large < 5 < medium < small
    assert run.preempted <= 60, "the first large ones preempt 72, some of which end before"
