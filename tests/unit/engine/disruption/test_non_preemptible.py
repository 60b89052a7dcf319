"""Jobs that nobody may stop for others (P-30 to P-33)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from multiqueue.engine.plan import Admit, Preempt
from multiqueue.model.cluster_queue import (
    ClusterQueue,
    Preemption,
    PreemptionPolicy,
    QueueingStrategy,
)
from multiqueue.model.disruption_policy import (
    CostRule,
    DisruptionRules,
    NonPreemptibleRule,
    ProtectionRule,
    SaveHabits,
)
from multiqueue.model.workload import Workload
from tests.builders.engine import flavor_quotas, make_queue, make_workload, pod_set
from tests.engine_world import EngineWorld
from tests.unit.engine.disruption.test_claims import POLICY, run

HOUR = 3600
RULE = NonPreemptibleRule(percent=40, longest_run=24 * HOUR)
LOWER = Preemption(within_cluster_queue=PreemptionPolicy.LOWER_PRIORITY)
RECLAIM = Preemption(reclaim_within_cohort=PreemptionPolicy.ANY)


def rules(rule: NonPreemptibleRule = RULE, **changes: object) -> DisruptionRules:
    return DisruptionRules(name=POLICY, protection=ProtectionRule(non_preemptible=rule), **changes)


def job(
    name: str, gpu: int, *, keeps: bool = True, lasts: int = HOUR, **fields: object
) -> Workload:
    return make_workload(
        name, pod_sets=[pod_set(gpu=gpu, cpu=1)], non_preemptible=keeps, run_limit=lasts, **fields
    )


def make_world(
    *workloads: Workload,
    governed: DisruptionRules | None = None,
    lender: ClusterQueue | None = None,
    **queue: object,
) -> EngineWorld:
    """A queue of 40 GPUs, 16 of them for jobs that nobody may stop, with these jobs."""
    fields = {"preemption": LOWER, "disruption_policy": POLICY, **queue}
    spec = make_queue("cq", flavor_quotas("default", gpu=40, cpu=100), **fields)
    queues = [spec] if lender is None else [spec, lender]
    names = {"lq": "cq"} if lender is None else {"lq": "cq", "lender": lender.name}
    world = EngineWorld(*queues, local_queues=names)
    world.engine.upsert_disruption_policy(governed or rules())
    for each in workloads:
        world.submit(each)
        run(world)
    return world


def told(world: EngineWorld) -> list[str]:
    """Let a second pass; return who is told to leave, and who got quota (+)."""
    found = []
    for after in (1, 0):
        for decision in world.cycle(after=after).decisions:
            if isinstance(decision, Preempt):
                found += [victim.workload.partition("/")[2] for victim in decision.victims]
            elif isinstance(decision, Admit):
                found.append(f"+{decision.workload.partition('/')[2]}")
    return sorted(set(found))


def test_a_higher_priority_stops_an_older_one_in_its_place() -> None:
    world = make_world(job("b", 24, keeps=False), job("a", 16))
    world.submit(job("c", 24, keeps=False, priority=9))
    assert told(world) == ["b"]


def test_nobody_stops_it_if_nobody_else_is_there() -> None:
    world = make_world(job("a", 16))
    world.submit(job("c", 40, keeps=False, priority=9))
    assert told(world) == []
    assert 'DisruptionPolicy "gentle": it is non-preemptible' in world.reason("c")


def test_an_exempt_priority_does_not_stop_it() -> None:
    world = make_world(job("a", 16), governed=rules(exempt_priority=5))
    world.submit(job("c", 40, keeps=False, priority=9))
    assert told(world) == []


@pytest.mark.parametrize("strategy", list(QueueingStrategy))
def test_beyond_the_limit_it_waits_for_others_of_its_kind(strategy: QueueingStrategy) -> None:
    world = make_world(job("a", 12), strategy=strategy)
    world.submit(job("b", 8))
    assert told(world) == []
    assert world.reason("b") == (
        "WaitingForQuota: Workload is non-preemptible, and such ones may hold 16 nvidia.com/gpu of "
        "flavor default in this ClusterQueue, 40 % of its nominal quota "
        f'(DisruptionPolicy "{POLICY}"): they hold 12, and it needs 8'
    )
    world.submit(job("c", 8, keeps=False))
    assert told(world) == ([] if strategy is QueueingStrategy.STRICT_FIFO else ["+c"])
    world.finish("a")
    assert "+b" in told(world)


def test_what_never_fits_says_so() -> None:
    world = make_world(job("a", 17))
    assert "it needs 17, which is more than that, so it never starts" in world.reason("a")


def test_a_larger_part_lets_it_start() -> None:
    world = make_world(job("a", 17))
    world.engine.upsert_disruption_policy(rules(NonPreemptibleRule(percent=50)))
    assert told(world) == ["+a"]


@pytest.mark.parametrize(
    ("rule", "lasts", "why"),
    [
        (NonPreemptibleRule(), HOUR, "no DisruptionPolicy of its ClusterQueue allows it"),
        (RULE, 0, "it has no kueue.x-k8s.io/max-exec-time-seconds label"),
        (
            RULE,
            25 * HOUR,
            'it may run for 25h, and DisruptionPolicy "gentle" allows 24h',
        ),
    ],
)
def test_a_wish_that_does_not_count_is_said(rule: NonPreemptibleRule, lasts: int, why: str) -> None:
    world = make_world(governed=rules(rule, max_preempted_workloads=9))
    world.submit(job("a", 40, lasts=lasts))
    (admit,) = world.cycle().decisions
    assert isinstance(admit, Admit)
    said = f"it may be stopped for others, because {why}"
    assert admit.message == f"Quota reserved in ClusterQueue cq; {said}"
    world.submit(job("c", 40, keeps=False, priority=9))
    assert told(world) == ["a"]


def test_a_smaller_quota_stops_nobody_and_protects_who_came_first() -> None:
    world = make_world(job("a", 8), job("b", 8))
    world.engine.upsert_cluster_queue(
        make_queue(
            "cq",
            flavor_quotas("default", gpu=20, cpu=100),
            preemption=LOWER,
            disruption_policy=POLICY,
        )
    )
    assert told(world) == []
    world.submit(job("c", 8, keeps=False, priority=9))
    assert told(world) == ["b"], "8 of 20 are 40 %"


def test_without_accelerators_every_resource_counts() -> None:
    world = make_world()
    small, large = [pod_set(cpu=40)], [pod_set(cpu=41)]
    world.submit(make_workload("a", pod_sets=large, non_preemptible=True, run_limit=HOUR))
    assert told(world) == []
    world.submit(make_workload("b", pod_sets=small, non_preemptible=True, run_limit=HOUR))
    assert told(world) == ["+b"]


def test_it_is_not_moved_to_another_worker() -> None:
    saving = replace(job("a", 8), saves=SaveHabits(on_notice=True))
    world = make_world(saving, governed=rules(gain=1, cost=CostRule(longest_notice=60)))
    entry = world.engine.parts.entries[saving.key]
    weight = world.engine.parts.disruption.weigh_move(entry)
    assert weight is not None
    assert weight.hold_off is not None
    assert weight.hold_off.reason == "nonPreemptible"


def test_a_lender_takes_back_all_that_was_borrowed() -> None:
    """The example of P-31: nominal 40, 16 kept and 34 others, so 10 are borrowed."""
    lender = make_queue(
        "lender", flavor_quotas("default", gpu=10, cpu=100), cohort="all", preemption=RECLAIM
    )
    others = [job(f"other-{index}", 1, keeps=False) for index in range(34)]
    world = make_world(*others[:17], job("a", 16), *others[17:], lender=lender, cohort="all")
    world.submit(job("mine", 10, keeps=False, queue="lender"))
    victims = told(world)
    assert len(victims) == 10
    assert all(name.startswith("other-") for name in victims)
