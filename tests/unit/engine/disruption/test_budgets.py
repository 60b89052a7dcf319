"""Budgets, limits of one decision, and who is governed by which policy."""

from __future__ import annotations

from datetime import timedelta

import pytest

from multiqueue.api.disruptions import Stop, StopCause
from multiqueue.engine.plan import Preempt, Skip
from multiqueue.model.cluster_queue import (
    Cohort,
    ConcurrentAdmission,
    LocalQueue,
    Preemption,
    PreemptionPolicy,
)
from multiqueue.model.disruption_policy import (
    BudgetRule,
    BudgetScope,
    DisruptionRules,
    Preference,
    ProtectionRule,
)
from multiqueue.model.workload import Workload
from tests.builders.engine import (
    NAMESPACE,
    T0,
    condition,
    flavor_quotas,
    group,
    make_queue,
    make_workload,
    pod_set,
    seconds,
    with_changes,
)
from tests.engine_world import EngineWorld

WITHIN = Preemption(within_cluster_queue=PreemptionPolicy.LOWER_PRIORITY)
RECLAIM = Preemption(reclaim_within_cohort=PreemptionPolicy.ANY)
POLICY = "gpu"
HOUR = 3600
FLAVORS = ("good", "poor")


def budget(**fields: object) -> BudgetRule:
    return BudgetRule(policy=POLICY, **{"name": "loss", "window": HOUR, **fields})


def job(name: str, *, gpu: int = 1, priority: int = 0, **fields: object) -> Workload:
    return make_workload(name, priority=priority, pod_sets=[pod_set(gpu=gpu)], **fields)


def make_world(rules: DisruptionRules | None, *sizes: int, gpus: int | None = None) -> EngineWorld:
    """A queue under a policy, full of jobs of these sizes, "job0" the first, all running."""
    quotas = flavor_quotas("default", gpu=sum(sizes) if gpus is None else gpus)
    world = EngineWorld(make_queue("cq", quotas, preemption=WITHIN, disruption_policy=POLICY))
    if rules is not None:
        world.engine.upsert_disruption_policy(rules)
    for index, gpu in enumerate(sizes):
        world.submit(job(f"job{index}", gpu=gpu))
        world.write_back(world.cycle(after=1))
    return world


def stopped(world: EngineWorld, *, after: float = 0) -> list[str]:
    """Run a cycle, and let who was told to leave be gone, with the stop in its record."""
    plan = world.cycle(after=after)
    names = []
    for decision in plan.decisions:
        if isinstance(decision, Preempt):
            for victim in decision.victims:
                old = world.workloads[victim.workload]
                stops = (*old.stops, victim.stop) if victim.stop is not None else old.stops
                evicted = condition("Evicted", status=True, reason="Preempted", at=world.now)
                world.submit(with_changes(old, evicted=evicted, stops=stops, active=False))
                world.submit(with_changes(world.workloads[victim.workload], reservation=None))
                names.append(victim.workload.partition("/")[2])
    for _ in range(3):
        later = world.cycle(after=1)
        world.write_back(later)
    return sorted(names)


def test_stops_are_counted_until_their_window_is_over() -> None:
    world = make_world(DisruptionRules(name=POLICY, budgets=(budget(max_workloads=2),)), 1, 1, 1, 1)
    for number in range(2):
        world.submit(job(f"high{number}", priority=1))
        assert stopped(world, after=1200 - 4), "room in the budget"
    first = T0 + seconds(1200)
    world.submit(job("high2", priority=1))

    assert stopped(world) == []
    assert "2 of 2 stops in 1h" in world.reason("high2")
    at = world.engine.next_cycle_at(world.now)
    assert at is not None
    assert first + seconds(HOUR) <= at <= first + seconds(HOUR + 1)
    world.now = at
    assert len(stopped(world)) == 1


def test_one_search_goes_round_what_the_budget_forbids() -> None:
    """Team x was disturbed enough; the jobs of team y are next."""
    rules = DisruptionRules(name=POLICY, budgets=(budget(max_workloads=2, per=BudgetScope.OWNER),))
    world = make_world(rules, gpus=5)
    for namespace, labels in (
        ("x1", {"multiqueue.dev/owner": "x"}),
        ("x2", {"multiqueue.dev/owner": "x"}),
        ("y", {}),
    ):
        world.engine.upsert_namespace(namespace, labels)
        world.engine.upsert_local_queue(LocalQueue(key=f"{namespace}/lq", cluster_queue="cq"))
    for name, namespace in (("c", "y"), ("b", "y"), ("a3", "x2"), ("a2", "x1"), ("a1", "x1")):
        world.submit(job(name, namespace=namespace))
        world.write_back(world.cycle(after=1))
    world.submit(job("high", gpu=3, priority=1))

    assert stopped(world) == ["a1", "a2", "b"]
    world.submit(job("higher", gpu=5, priority=2))
    assert stopped(world) == []
    assert 'budget "loss" of DisruptionPolicy "gpu" for Owner "x" is used up: 2 of 2 stops' in (
        world.reason("higher")
    )


def test_device_seconds_are_a_part_of_the_quota() -> None:
    """3 % of 100 GPUs in 24 h are 259,200 device-seconds."""
    rules = DisruptionRules(name=POLICY, budgets=(budget(window=86_400, max_lost_percent=3),))
    world = make_world(rules, 99, 1)
    earlier = Stop(T0, StopCause.QUEUE, 251_880, "cq")
    world.submit(with_changes(world.workloads[f"{NAMESPACE}/job1"], stops=(earlier,)))
    world.submit(job("high", gpu=99, priority=1))

    assert stopped(world) == []
    assert (
        'budget "loss" of DisruptionPolicy "gpu" is used up: 251,880 of 259,200 device-seconds in '
        "24h, this would take 12,078" in world.reason("high")
    )
    assert "1 until 2026-01-02T00:00:00Z" in world.reason("high")


def test_a_single_stop_may_exceed_a_budget_that_nobody_used() -> None:
    rules = DisruptionRules(name=POLICY, budgets=(budget(max_device_seconds=10),))
    world = make_world(rules, 8, 8)
    world.submit(job("high", gpu=8, priority=1))
    world.submit(job("other", gpu=8, priority=1))

    assert stopped(world) == ["job0"]
    assert stopped(world) == []


def test_reclaim_counts_only_if_it_is_named() -> None:
    for causes, expected in (({StopCause.QUEUE}, ["b1", "b2"]), ({StopCause.RECLAIM}, [])):
        rule = budget(max_workloads=1, causes=frozenset(causes))
        quotas = flavor_quotas("default", gpu=2)
        world = EngineWorld(
            make_queue("owner", quotas, cohort="all", preemption=RECLAIM),
            make_queue("guest", flavor_quotas("default", gpu=0), cohort="all"),
        )
        world.engine.upsert_cohort(Cohort(name="all", disruption_policy=POLICY))
        world.engine.upsert_disruption_policy(DisruptionRules(name=POLICY, budgets=(rule,)))
        for name in ("b1", "b2"):
            world.submit(job(name, queue="guest"))
            world.write_back(world.cycle(after=1))
        world.submit(job("mine", gpu=2, queue="owner"))

        assert stopped(world) == expected


@pytest.mark.parametrize("limit", [{"max_workloads": 1}, {"max_device_seconds": 500}])
def test_heads_of_one_cycle_share_a_budget(limit: dict[str, int]) -> None:
    """Each of two queues of a cohort has a victim; there is budget for one of them."""
    rules = DisruptionRules(name=POLICY, budgets=(budget(**limit),))
    lower = Preemption(within_cluster_queue=PreemptionPolicy.LOWER_PRIORITY)
    quotas = flavor_quotas("default", gpu=2)
    world = EngineWorld(
        *(
            make_queue(name, quotas, cohort="all", preemption=lower, disruption_policy=POLICY)
            for name in ("one", "two")
        )
    )
    world.engine.upsert_disruption_policy(rules)
    for name in ("one", "two"):
        world.submit(job(f"low-{name}", gpu=2, queue=name))
    world.write_back(world.cycle(after=1))
    world.now += seconds(60)
    for name in ("one", "two"):
        world.submit(job(f"high-{name}", gpu=2, queue=name, priority=1))

    assert len(stopped(world)) == 1
    assert world.engine.next_cycle_at(world.now) is not None
    reasons = [world.reason(f"high-{name}") for name in ("one", "two")]
    assert sum("is used up" in each for each in reasons) == 1


def test_an_unwritten_stop_gives_its_budget_back() -> None:
    world = make_world(DisruptionRules(name=POLICY, budgets=(budget(max_workloads=1),)), 1, 1)
    world.submit(job("high", priority=1))
    first = world.cycle()
    assert any(isinstance(decision, Preempt) for decision in first.decisions)
    world.engine.preemption_failed(f"{NAMESPACE}/job0", world.now)

    assert stopped(world, after=2) == ["job0"]


def test_an_unwritten_stop_wakes_who_was_refused_for_it_elsewhere() -> None:
    """Two queues without a cohort share a budget of one stop; its preemptor wants it no more."""
    rules = DisruptionRules(name=POLICY, budgets=(budget(max_workloads=1),))
    quotas = flavor_quotas("default", gpu=1)
    world = EngineWorld(
        *(
            make_queue(name, quotas, preemption=WITHIN, disruption_policy=POLICY)
            for name in ("one", "two")
        )
    )
    world.engine.upsert_disruption_policy(rules)
    for name in ("one", "two"):
        world.submit(job(f"low-{name}", queue=name))
    world.write_back(world.cycle(after=1))
    world.now += seconds(60)
    world.submit(job("high-one", queue="one", priority=1))
    assert any(isinstance(each, Preempt) for each in world.cycle().decisions)
    world.submit(job("high-two", queue="two", priority=1))
    assert stopped(world) == []
    assert "is used up" in world.reason("high-two")
    world.delete("high-one")
    world.engine.preemption_failed(f"{NAMESPACE}/low-one", world.now)

    at = world.engine.next_cycle_at(world.now)
    assert at is not None
    assert at <= world.now + seconds(1)
    world.now = at
    assert stopped(world) == ["low-two"]


def test_the_stops_of_a_deleted_workload_count_on() -> None:
    world = make_world(DisruptionRules(name=POLICY, budgets=(budget(max_workloads=1),)), 1, 1)
    world.submit(job("high", priority=1))
    assert stopped(world) == ["job0"]
    world.delete("job0")
    world.submit(job("again", priority=1))

    assert stopped(world) == []


def test_the_stop_of_a_variant_counts_and_its_move_to_a_better_flavor_does_not() -> None:
    quotas = [flavor_quotas(name, gpu=1) for name in FLAVORS]
    queue = make_queue(
        "cq",
        group(*quotas),
        concurrent=ConcurrentAdmission(),
        preemption=WITHIN,
        disruption_policy=POLICY,
    )
    world = EngineWorld(queue)
    rules = DisruptionRules(name=POLICY, budgets=(budget(max_workloads=1),))
    world.engine.upsert_disruption_policy(rules)
    world.submit(variant("poor", "low"))
    world.write_back(world.cycle(after=1))
    world.submit(variant("good", "low"))
    assert stopped(world) == ["low-poor"], "it moves"
    world.submit(variant("good", "high", priority=1))
    assert stopped(world) == ["low-good"], "the budget was not touched"
    world.submit(variant("good", "higher", priority=2))
    assert stopped(world) == []
    assert "1 of 1 stops in 1h" in world.reason("higher-good")


def variant(flavor: str, of: str, priority: int = 0) -> Workload:
    """One of the ways in which a Workload may be admitted: in this flavor."""
    return job(
        f"{of}-{flavor}",
        priority=priority,
        family=f"uid-{of}",
        variant_order=FLAVORS.index(flavor),
        allowed_flavors=(flavor,),
    )


def test_too_many_victims_are_replaced_by_few_large_ones() -> None:
    """The order by cost needs the many small ones; a second search finds two of 8 and 16."""
    sizes = (16, 8, *[2] * 12)
    rules = DisruptionRules(
        name=POLICY, max_preempted_workloads=8, prefer=Preference.LEAST_LOST_WORK
    )
    world = make_world(rules, *sizes)
    world.submit(job("high", gpu=24, priority=1))
    assert stopped(world) == ["job0", "job1"]

    world = make_world(rules, *[1] * 12)
    world.submit(job("high", gpu=10, priority=1))
    assert stopped(world) == []
    assert (
        'it would stop 10 workloads, maxPreemptedWorkloads of DisruptionPolicy "gpu" is 8'
        in world.reason("high")
    )


def test_a_decision_may_be_too_dear() -> None:
    world = make_world(DisruptionRules(name=POLICY, max_device_seconds=900), 8)
    world.submit(job("high", gpu=8, priority=1))

    assert stopped(world) == []
    assert "maxDeviceSeconds" in world.reason("high")


def test_the_nearest_policy_counts_and_budgets_of_all() -> None:
    """`research` names its own policy; the budget of the Cohort's policy holds there, too."""
    quotas = flavor_quotas("default", gpu=2)
    world = EngineWorld(
        make_queue("research", quotas, cohort="all", preemption=WITHIN, disruption_policy="lab"),
        make_queue("prod", quotas, cohort="all", preemption=WITHIN),
    )
    fleet = BudgetRule(policy="fleet", name="calm", window=HOUR, max_workloads=1)
    protection = ProtectionRule(min_run={StopCause.QUEUE: 100})
    world.engine.upsert_cohort(Cohort(name="all", disruption_policy="fleet"))
    world.engine.upsert_disruption_policy(DisruptionRules(name="lab", protection=protection))
    world.engine.upsert_disruption_policy(DisruptionRules(name="fleet", budgets=(fleet,)))
    for queue in ("research", "prod"):
        for name in ("a", "b"):
            world.submit(job(f"{queue}-{name}", queue=queue))
            world.write_back(world.cycle(after=1))
    world.submit(job("prod-high", queue="prod", priority=1))
    world.submit(job("research-high", queue="research", priority=1))

    assert stopped(world) == ["prod-a"]
    assert 'DisruptionPolicy "lab": minimum run 1m40s' in world.reason("research-high")
    assert stopped(world, after=200) == []
    assert 'budget "calm" of DisruptionPolicy "fleet"' in world.reason("research-high")


def test_exempt_priorities_are_not_held_up_and_recorded() -> None:
    rules = DisruptionRules(
        name=POLICY,
        protection=ProtectionRule(min_run={StopCause.QUEUE: HOUR}),
        budgets=(budget(max_workloads=1),),
        exempt_priority=10,
    )
    world = make_world(rules, 1, 1, 1)
    world.submit(job("urgent", gpu=2, priority=10))

    assert stopped(world) == ["job0", "job1"]
    assert len(world.workloads[f"{NAMESPACE}/job1"].stops) == 1


@pytest.mark.parametrize("rules", [None, DisruptionRules(name=POLICY, problem="is broken")])
def test_without_a_usable_policy_admissions_go_on(rules: DisruptionRules | None) -> None:
    world = make_world(rules, 1, gpus=2)
    assert [r.admitted for w in world.workloads.values() if (r := w.reservation)] == [True]
    world.submit(job("high", gpu=2, priority=1))

    assert stopped(world) == []
    assert 'DisruptionPolicy "gpu" is ' in world.reason("high")
    world.engine.upsert_disruption_policy(DisruptionRules(name=POLICY))
    assert stopped(world, after=2) == ["job0"]


def test_who_is_refused_is_tried_again_when_the_protection_ends() -> None:
    """Without any event: the engine names the time itself."""
    protection = ProtectionRule(min_run={StopCause.QUEUE: 600})
    world = make_world(DisruptionRules(name=POLICY, protection=protection), 1)
    world.submit(job("high", priority=1))
    assert stopped(world) == []

    at = world.engine.next_cycle_at(world.now)

    assert at is not None
    assert timedelta() <= at - (T0 + seconds(600)) <= seconds(1)
    world.now = at
    assert stopped(world) == ["job0"]


def test_the_cause_decides_about_protection_within_one_cycle() -> None:
    """The holder is protected from its own queue, and not from the owner of what it borrows."""
    lower = PreemptionPolicy.LOWER_PRIORITY
    both = Preemption(within_cluster_queue=lower, reclaim_within_cohort=lower)
    world = EngineWorld(
        make_queue("guest", flavor_quotas("default", gpu=1), cohort="all", preemption=both),
        make_queue("owner", flavor_quotas("default", gpu=1), cohort="all", preemption=both),
    )
    world.engine.upsert_cohort(Cohort(name="all", disruption_policy=POLICY))
    protection = ProtectionRule(min_run={StopCause.QUEUE: 600})
    world.engine.upsert_disruption_policy(DisruptionRules(name=POLICY, protection=protection))
    world.submit(job("borrower", gpu=2, queue="guest"))
    world.write_back(world.cycle(after=1))
    world.submit(job("rival", queue="guest", priority=1))
    world.submit(job("mine", queue="owner", priority=1))

    plan = world.cycle(after=1)

    preempting = [each.workload for each in plan.decisions if isinstance(each, Preempt)]
    assert preempting == [f"{NAMESPACE}/mine"]


def test_the_room_of_a_refused_owner_is_lent_no_more_in_its_cycle() -> None:
    """As upstream does for owners that may not reclaim at all; later cycles do not know it."""
    quotas = flavor_quotas("default", gpu=2)
    world = EngineWorld(
        make_queue("guest", flavor_quotas("default", gpu=0), cohort="all"),
        make_queue("owner", quotas, cohort="all", preemption=RECLAIM),
        make_queue("third", flavor_quotas("default", gpu=0), cohort="all"),
    )
    world.engine.upsert_cohort(Cohort(name="all", disruption_policy=POLICY))
    protection = ProtectionRule(min_run={StopCause.RECLAIM: 600})
    world.engine.upsert_disruption_policy(DisruptionRules(name=POLICY, protection=protection))
    world.submit(job("borrower", queue="guest"))
    world.write_back(world.cycle(after=1))
    world.submit(job("mine", gpu=2, queue="owner"))
    world.submit(job("late", queue="third", at=T0 + seconds(60)))

    plan = world.cycle(after=1)

    skipped = [each.workload for each in plan.decisions if isinstance(each, Skip)]
    assert skipped == [f"{NAMESPACE}/late"]
