"""Gangs that need another number of pods on other hardware."""

from dataclasses import replace

import pytest

from multiqueue.api.alternatives import OTHERWISE
from multiqueue.engine.plan import Admit, Preempt
from multiqueue.model.cluster_queue import (
    ClusterQueue,
    FlavorFungibility,
    FungibilityPolicy,
    Preemption,
    PreemptionPolicy,
)
from multiqueue.model.resource_flavor import ResourceFlavor
from multiqueue.model.workload import PodSet, Workload
from tests.builders.engine import (
    flavor_quotas,
    group,
    make_queue,
    make_workload,
    pod_set,
    quota,
    reserved,
)
from tests.engine_world import EngineWorld

TRY_NEXT = FungibilityPolicy.TRY_NEXT_FLAVOR


def gang(
    *others: PodSet, name: str = "w", count: int = 8, priority: int = 0, **pods: int
) -> Workload:
    """A gang of pods with a GPU and a CPU each: so many, or on that hardware fewer."""
    main = pod_set(count=count, gpu=1, cpu=1)
    alternatives = tuple(sorted({OTHERWISE: count, **pods}.items()))
    main = replace(main, alternatives=alternatives if pods else ())
    return make_workload(name, pod_sets=[main, *others], priority=priority)


def gpus(**flavors: object) -> ClusterQueue:
    """A queue with GPUs of these flavors, in this order, and enough CPU."""
    return make_queue(
        "cq",
        group(*(flavor_quotas(name, gpu=count) for name, count in flavors.items())),
        flavor_quotas("default", cpu=100),
    )


def given(
    world: EngineWorld, workload: Workload
) -> list[tuple[int, dict[str, str], dict[str, int]]]:
    """What its pod sets got: pods, flavors, usage."""
    world.submit(workload)
    return [
        (ps.count, dict(ps.flavors), dict(ps.usage))
        for decision in world.cycle().decisions
        if isinstance(decision, Admit) and decision.workload == workload.key
        for ps in decision.admission.pod_sets
    ]


def on(flavor: str, pods: int) -> list[tuple[int, dict[str, str], dict[str, int]]]:
    flavors = {"cpu": "default", "nvidia.com/gpu": flavor}
    return [(pods, flavors, {"cpu": pods * 1000, "nvidia.com/gpu": pods})]


@pytest.mark.parametrize(
    ("queue", "want"),
    [
        pytest.param(gpus(a100=8, h100=8), on("a100", 8), id="the first flavor that fits"),
        pytest.param(gpus(h100=8, a100=8), on("h100", 4), id="in the order of the queue"),
        pytest.param(gpus(a100=7, h100=4), on("h100", 4), id="the one that fits"),
        pytest.param(gpus(a100=7, h100=3), [], id="none, where none does"),
        pytest.param(gpus(v100=4, h100=3), [], id="never fewer than asked on that hardware"),
        pytest.param(gpus(h100=4), on("h100", 4), id="the only one"),
        pytest.param(gpus(v100=8), on("v100", 8), id="all of it on what is not named"),
    ],
)
def test_a_gang_of_eight_or_four_h100_gets(queue: ClusterQueue, want: object) -> None:
    assert given(EngineWorld(queue), gang(h100=4)) == want


def test_hardware_is_named_by_node_labels_too() -> None:
    flavor = ResourceFlavor(name="fast", node_labels={"accelerator": "h100", "zone": "b"})

    world = EngineWorld(gpus(fast=6), flavors=[flavor])

    assert given(world, gang(h100=4)) == on("fast", 4)


def test_another_takes_what_is_left() -> None:
    world = EngineWorld(gpus(h100=6))

    assert given(world, gang(h100=4)) == on("h100", 4)
    assert given(world, gang(name="v", count=2)) == on("h100", 2)


def test_what_keeps_it_waiting_is_said_of_all_flavors() -> None:
    world = EngineWorld(gpus(a100=7, h100=3))
    world.submit(gang(h100=4))
    (decision,) = world.cycle().decisions

    words = decision.explanation.message.replace("previously considered podsets requests (0)", "0")
    assert "in flavor a100, 0 + current podset request (8) > maximum capacity (7)" in words
    assert "in flavor h100, 0 + current podset request (4) > maximum capacity (3)" in words


def test_pods_without_alternatives_stay_as_they_are() -> None:
    launcher = pod_set("launcher", count=2, cpu=1)

    got = given(EngineWorld(gpus(a100=4, h100=4)), gang(launcher, h100=4))

    assert got == [*on("h100", 4), (2, {"cpu": "default"}, {"cpu": 2000})]


def test_lent_quota_is_taken_only_where_the_next_flavor_has_none() -> None:
    lender = make_queue("other", flavor_quotas("a100", gpu=8), cohort="all")
    groups = gpus(a100=quota("nvidia.com/gpu", 0), h100=4).resource_groups
    lendable = make_queue("cq", *groups, cohort="all")
    looks_on = replace(lendable, fungibility=FlavorFungibility(when_can_borrow=TRY_NEXT))

    for queue, want in ((lendable, on("a100", 8)), (looks_on, on("h100", 4))):
        world = EngineWorld(queue, lender, local_queues={"lq": "cq"})
        assert given(world, gang(h100=4)) == want


def test_it_preempts_as_many_as_it_needs_there() -> None:
    preemption = Preemption(within_cluster_queue=PreemptionPolicy.LOWER_PRIORITY)
    world = EngineWorld(replace(gpus(h100=6), preemption=preemption))
    for name in ("a", "b", "c"):
        low = gang(name=name, count=2)
        world.submit(low)
        (decision,) = (d for d in world.cycle().decisions if isinstance(d, Admit))
        world.submit(reserved(low, decision.admission))

    world.submit(gang(priority=1, h100=4))

    (decision,) = (d for d in world.cycle().decisions if isinstance(d, Preempt))
    assert len(decision.victims) == 2


def test_one_that_waits_is_woken_by_room_on_either() -> None:
    world = EngineWorld(gpus(a100=8, h100=4))
    for name, count in (("x", 8), ("y", 4)):
        other = gang(name=name, count=count)
        world.submit(other)
        (decision,) = (d for d in world.cycle().decisions if isinstance(d, Admit))
        world.submit(reserved(other, decision.admission))
    assert given(world, gang(h100=4)) == []

    world.engine.delete_workload("team/y", world.now)

    (decision,) = (d for d in world.cycle(after=2).decisions if isinstance(d, Admit))
    assert decision.admission.pod_sets[0].count == 4
