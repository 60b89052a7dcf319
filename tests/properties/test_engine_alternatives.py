"""Gangs with alternatives, in random histories: the right size, and nobody waits for nothing."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from multiqueue.api.alternatives import OTHERWISE
from multiqueue.engine.flavors.assignment import Mode
from multiqueue.engine.nomination import Nominated
from multiqueue.engine.plan import Admit
from multiqueue.model.cluster_queue import ClusterQueue, FlavorFungibility, FungibilityPolicy
from multiqueue.model.workload import Workload
from tests.builders.engine import flavor_quotas, group, make_queue, make_workload, pod_set, reserved
from tests.engine_world import EngineWorld

HARDWARE = ("a100", "h100", "b200")
GPU = "nvidia.com/gpu"


def draw_queue(chance: Random, name: str) -> ClusterQueue:
    flavors = chance.sample(HARDWARE, chance.randint(1, 3))
    policies = list(FungibilityPolicy)
    return make_queue(
        name,
        group(*(flavor_quotas(flavor, gpu=chance.randint(0, 8)) for flavor in flavors)),
        flavor_quotas("default", cpu=chance.choice((10, 100))),
        cohort="all" if chance.random() < 0.6 else "",
        fungibility=FlavorFungibility(
            when_can_borrow=chance.choice(policies), when_can_preempt=chance.choice(policies)
        ),
    )


def draw_gang(chance: Random, number: int) -> Workload:
    count = chance.choice((1, 2, 4, 8))
    fewer = {name: chance.randint(1, count) for name in chance.sample(HARDWARE, 2)}
    main = pod_set(count=count, gpu=1, cpu=1)
    if chance.random() < 0.7:
        main = replace(main, alternatives=tuple(sorted({OTHERWISE: count, **fewer}.items())))
    queue, priority = chance.choice(("q1", "q2")), chance.choice((0, 0, 1))
    return make_workload(f"w{number:03}", queue=queue, pod_sets=[main], priority=priority)


def settle(world: EngineWorld, held: set[str]) -> None:
    """Run cycles until nothing is decided, and look at what is admitted."""
    for _ in range(30):
        decisions = world.cycle(after=2).decisions
        if not decisions:
            return
        for decision in decisions:
            if isinstance(decision, Admit):
                workload = reserved(world.workloads[decision.workload], decision.admission)
                (given,) = decision.admission.pod_sets
                needed = workload.pod_sets[0].pods_on(given.flavors[GPU], {})
                assert (given.count, given.usage[GPU]) == (needed, needed)
                held.add(workload.key)
                world.submit(workload)
    raise AssertionError("it never rests")


@pytest.mark.parametrize("seed", range(20))
def test_each_gets_what_it_needs_there_and_none_waits_that_fits(seed: int) -> None:
    chance = Random(seed)
    world, held = EngineWorld(draw_queue(chance, "q1"), draw_queue(chance, "q2")), set[str]()
    for step in range(20):
        if chance.random() < 0.6 or not world.workloads:
            world.submit(draw_gang(chance, step))
        else:
            key = chance.choice(sorted(world.workloads))
            del world.workloads[key]
            held.discard(key)
            world.engine.delete_workload(key, world.now)
        settle(world, held)
        for key, workload in world.workloads.items():
            trial = world.engine.try_workload(workload, workload.queue.partition("/")[2])
            assert trial is not None
            fits = isinstance(trial.verdict, Nominated) and (
                trial.verdict.assignment.mode is Mode.FIT
            )
            assert key in held or not fits, key
