"""One text says what a Workload waits for: who is ahead, who took the room, what is missing."""

from __future__ import annotations

from typing import Any

from multiqueue.engine.options import EngineOptions, FairSharing
from multiqueue.model.cluster_queue import (
    Preemption,
    PreemptionPolicy,
    QueueingStrategy,
)
from multiqueue.model.workload import Workload
from multiqueue.visibility.explanation_status import add_words, build_status, hide_names
from multiqueue.visibility.positions import PositionReader
from tests.builders.engine import (
    NAMESPACE,
    T0,
    flavor_quotas,
    group,
    make_queue,
    make_workload,
    pod_set,
    seconds,
)
from tests.engine_world import EngineWorld
from tests.preemption_world import ANY, make_cpu_queue


def gpu_job(name: str, gpus: int, *, at: int = 0, **fields: Any) -> Workload:
    submitted = T0 + seconds(at)
    return make_workload(name, at=submitted, pod_sets=[pod_set(gpu=gpus)], **fields)


async def explain(
    world: EngineWorld, name: str, queue: str = "cq", *, stranger: bool = False
) -> dict[str, Any]:
    """Return the explanation as the API answers it; a stranger may see no other namespace."""
    positions = await PositionReader(world.engine).of_cluster_queue(queue)
    status = build_status(world.engine, f"{NAMESPACE}/{name}", queue, positions, leading=True)
    if stranger:
        hide_names(status, "another")
    add_words(status)
    return status


def strict_world() -> EngineWorld:
    """Quota 4, jobs of 2, 4 and 2 GPUs: the second holds up the third, which would fit."""
    world = EngineWorld(
        make_queue("cq", flavor_quotas("a100", gpu=4), strategy=QueueingStrategy.STRICT_FIFO)
    )
    for number, gpus in enumerate((2, 4, 2)):
        world.submit(gpu_job(f"job-{number}", gpus, at=number))
        world.write_back(world.cycle())
    return world


async def test_behind_a_strict_head_the_head_is_named_with_what_it_waits_for() -> None:
    status = await explain(strict_world(), "job-2")
    assert [row["verdict"] for row in status["flavors"]] == ["fits"]
    assert status["blockedBy"]["workload"] == f"{NAMESPACE}/job-1"
    assert status["why"] == (
        f"ClusterQueue cq is StrictFIFO, so it waits behind {NAMESPACE}/job-1 (4 GPUs, priority "
        "0), which starts first. That one waits: nvidia.com/gpu in flavor a100: 2 more needed"
    )


async def test_the_head_itself_is_behind_nobody() -> None:
    status = await explain(strict_world(), "job-1")
    assert "blockedBy" not in status
    assert status["why"] == "nvidia.com/gpu in flavor a100: 2 more needed"


async def test_a_stranger_learns_the_size_of_the_head_and_not_its_name() -> None:
    status = await explain(strict_world(), "job-2", stranger=True)
    assert status["blockedBy"]["workload"] == ""
    assert "behind a Workload of another namespace (4 GPUs, priority 0)" in status["why"]
    assert "job-1" not in str(status)


async def test_the_text_has_the_numbers_of_the_table_not_those_of_the_last_attempt() -> None:
    world = EngineWorld(make_queue("cq", flavor_quotas("a100", gpu=8)))
    world.submit(gpu_job("early", 3))
    world.write_back(world.cycle())
    world.submit(gpu_job("waits", 8, at=1))
    world.cycle()
    world.submit(gpu_job("late", 4, at=2))
    world.write_back(world.cycle())
    status = await explain(world, "waits")
    assert "3 more needed" in status["message"], "the condition keeps what the attempt found"
    assert [row["verdict"] for row in status["flavors"]] == ["7 more needed"]
    assert status["why"] == "nvidia.com/gpu in flavor a100: 7 more needed"


async def test_an_equal_workload_is_told_what_is_missing_and_nothing_of_a_bypass() -> None:
    world = EngineWorld(make_queue("cq", flavor_quotas("a100", gpu=4)))
    world.submit(gpu_job("first", 8), gpu_job("equal", 8, at=1))
    world.cycle()
    status = await explain(world, "equal")
    assert status["message"].startswith("Bypassed scheduling evaluation")
    assert status["why"] == (
        "8 nvidia.com/gpu are more than the ClusterQueue can ever use in flavor a100, which is 4"
    )


async def test_who_took_the_room_earlier_in_the_cycle_is_named() -> None:
    """2 of 4 GPUs are free; "fast" preempts for all 4, so that "slow" gets none of them."""
    rules = Preemption(within_cluster_queue=PreemptionPolicy.LOWER_PRIORITY)
    world = EngineWorld(
        make_queue("a", flavor_quotas("a100", gpu=4), cohort="all", preemption=rules),
        make_queue("b", flavor_quotas("a100", gpu=0), cohort="all"),
    )
    world.submit(gpu_job("runs", 2, queue="a"))
    world.write_back(world.cycle())
    world.submit(gpu_job("fast", 4, at=1, queue="a", priority=9), gpu_job("slow", 2, queue="b"))
    world.cycle()
    status = await explain(world, "slow", "b")
    assert status["message"].startswith("Workload no longer fits after processing another")
    assert status["takenBy"] == [f"{NAMESPACE}/fast"]
    assert status["why"] == f"when its turn came, {NAMESPACE}/fast had just taken the room"


def fair_world() -> EngineWorld:
    world = EngineWorld(
        make_cpu_queue("a", 0, cohort="team", reclaim=ANY),
        make_cpu_queue("b", 0, cohort="team"),
        make_cpu_queue("lender", 6, cohort="team"),
        options=EngineOptions(fair_sharing=FairSharing()),
    )
    world.submit(make_workload("large", queue="b", pod_sets=[pod_set(cpu=3)]))
    world.submit(make_workload("other", queue="a", pod_sets=[pod_set(cpu=3)]))
    world.write_back(world.cycle())
    world.submit(make_workload("more", queue="a"))
    world.cycle()
    return world


async def test_in_a_fair_cohort_all_shares_are_told_and_why_nobody_is_preempted() -> None:
    status = await explain(fair_world(), "more", "a")
    assert status["fairSharing"]["clusterQueues"] == [
        {"name": "lender", "share": 0},
        {"name": "a", "share": 500},
        {"name": "b", "share": 500},
    ]
    assert status["preemption"]["refusal"] == (
        "fair sharing: a would have a share of 667, and b, the largest that may give, has 500"
    )


async def why_no_preemption(rules: Preemption, *, cohort: str = "") -> str:
    world = EngineWorld(
        make_queue("cq", group(flavor_quotas("a100", gpu=4)), cohort=cohort, preemption=rules)
    )
    world.submit(gpu_job("runs", 4, priority=5))
    world.write_back(world.cycle())
    world.submit(gpu_job("waits", 2, at=1, priority=5))
    world.cycle()
    return str((await explain(world, "waits"))["preemption"]["refusal"])


async def test_a_queue_without_preemption_is_named_with_its_fields() -> None:
    assert await why_no_preemption(Preemption()) == (
        "ClusterQueue cq preempts nobody: its preemption.withinClusterQueue and "
        "preemption.reclaimWithinCohort are Never"
    )


async def test_if_nobody_has_a_lower_priority_that_is_said() -> None:
    rules = Preemption(
        within_cluster_queue=PreemptionPolicy.LOWER_PRIORITY,
        reclaim_within_cohort=PreemptionPolicy.ANY,
    )
    assert await why_no_preemption(rules, cohort="all") == (
        "it may preempt nobody: no Workload that runs in cq has a lower priority than 5; no other "
        "queue of the cohort borrows what it needs"
    )


async def test_who_has_to_borrow_preempts_nobody_unless_the_queue_allows_it() -> None:
    rules = Preemption(within_cluster_queue=PreemptionPolicy.LOWER_PRIORITY)
    world = EngineWorld(
        make_queue("cq", flavor_quotas("a100", gpu=4), cohort="all", preemption=rules),
        make_queue("lender", flavor_quotas("a100", gpu=4), cohort="all"),
        local_queues={"lq": "cq"},
    )
    world.submit(gpu_job("runs", 4))
    world.write_back(world.cycle())
    world.submit(gpu_job("waits", 8, at=1, priority=5))
    world.cycle()
    assert (await explain(world, "waits"))["preemption"]["refusal"] == (
        "it needs more than the nominal quota of ClusterQueue cq, and a Workload that borrows "
        "preempts nobody while preemption.borrowWithinCohort is Never"
    )


async def test_room_that_is_too_small_is_said_alone_if_only_the_own_queue_has_to_give() -> None:
    rules = Preemption(within_cluster_queue=PreemptionPolicy.LOWER_PRIORITY)
    world = EngineWorld(make_queue("cq", group(flavor_quotas("a100", gpu=4)), preemption=rules))
    for number, priority in enumerate((0, 5)):
        world.submit(gpu_job(f"runs-{number}", 2, priority=priority))
        world.write_back(world.cycle())
    world.submit(gpu_job("waits", 4, at=1, priority=3))
    world.cycle()
    assert (await explain(world, "waits"))["preemption"]["refusal"] == (
        "the Workload that it may preempt would not make enough room"
    )
