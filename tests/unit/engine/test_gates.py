"""What each setting of the engine's feature gates decides."""

from __future__ import annotations

from typing import Any

import pytest

from multiqueue.engine.cycle import CycleResult, nominate, run_cycle, take_heads
from multiqueue.engine.fairness.order import FairOrder
from multiqueue.engine.head_order import sort_heads
from multiqueue.engine.options import EngineOptions, FairSharing, TurnRules
from multiqueue.engine.plan import Admit, CyclePlan, Preempt, Requeue, RequeueReason, Skip
from multiqueue.engine.queues.resume import ResumeState
from multiqueue.engine.world import Head
from multiqueue.model.cluster_queue import (
    ClusterQueue,
    FlavorFungibility,
    FungibilityPolicy,
    Preemption,
    PreemptionPolicy,
    QueueingStrategy,
)
from multiqueue.model.workload import Workload
from tests.builders.engine import (
    NAMESPACE,
    T0,
    flavor_quotas,
    group,
    make_queue,
    make_workload,
    pod_set,
    seconds,
    with_changes,
)
from tests.engine_world import EngineWorld

ANY, LOWER = PreemptionPolicy.ANY, PreemptionPolicy.LOWER_PRIORITY
RECLAIM = Preemption(reclaim_within_cohort=ANY)
ON_AND_OFF = pytest.mark.parametrize("on", [True, False])


def member(name: str, cpu: int, **fields: Any) -> ClusterQueue:
    return make_queue(name, flavor_quotas("default", cpu=cpu), cohort="co", **fields)


def job(name: str, *, cpu: int = 1, queue: str = "lq", at: int = 0, **fields: Any) -> Workload:
    return make_workload(
        name, queue=queue, at=T0 + seconds(at), pod_sets=[pod_set(cpu=cpu)], **fields
    )


def names_of(plan: CyclePlan | CycleResult, kind: type = Admit) -> list[str]:
    return [d.workload.partition("/")[2] for d in plan.decisions if isinstance(d, kind)]


def first_cycle(world: EngineWorld) -> CycleResult:
    """Run one cycle of the tree of queue "a"; what it parks lets others go first in the next."""
    engine, result = world.engine, CycleResult()
    tree = engine.parts.cache.tree_by_queue["a"]
    run_cycle(engine.parts, tree, engine.parts.schedule.serve(tree.key), world.now, result)
    return result


# ---------------------------------------------------------------- FlavorFungibility


@pytest.mark.parametrize(("on", "want"), [(True, "far"), (False, "near")])
def test_flavor_fungibility_looks_on_where_the_queue_says_so(*, on: bool, want: str) -> None:
    quotas = group(flavor_quotas("near", cpu=1), flavor_quotas("far", cpu=4))
    policy = FlavorFungibility(when_can_borrow=FungibilityPolicy.TRY_NEXT_FLAVOR)
    world = EngineWorld(
        make_queue("a", quotas, cohort="co", fungibility=policy),
        make_queue("b", flavor_quotas("near", cpu=9), cohort="co"),
        options=EngineOptions(fungibility=on),
    )
    world.submit(job("w", cpu=3, queue="a"))
    (decision,) = world.cycle().decisions

    assert isinstance(decision, Admit)
    assert decision.admission.pod_sets[0].flavors["cpu"] == want


@pytest.mark.parametrize(("on", "want"), [(True, []), (False, ["high"])])
def test_without_flavor_fungibility_a_later_flavor_that_fits_beats_preemption(
    *, on: bool, want: list[str]
) -> None:
    quotas = group(flavor_quotas("x", cpu=1), flavor_quotas("y", cpu=1))
    world = EngineWorld(
        make_queue(
            "cq",
            quotas,
            preemption=Preemption(within_cluster_queue=LOWER),
            fungibility=FlavorFungibility(when_can_preempt=FungibilityPolicy.MAY_STOP_SEARCH),
        ),
        options=EngineOptions(fungibility=on),
    )
    world.submit(job("low"))
    world.write_back(world.cycle())
    world.submit(job("high", priority=1, at=1))

    assert names_of(world.cycle()) == want


@pytest.mark.parametrize(("on", "parked"), [(True, True), (False, False)])
def test_without_flavor_fungibility_a_head_never_saw_its_last_flavor(
    *, on: bool, parked: bool
) -> None:
    """E-24."""
    within = Preemption(within_cluster_queue=LOWER)
    world = EngineWorld(make_queue(preemption=within), options=EngineOptions(fungibility=on))
    world.submit(job("holder", cpu=8))
    world.write_back(world.cycle())
    world.submit(job("w", cpu=5, at=1))
    (decision,) = world.cycle().decisions

    assert isinstance(decision, Requeue)
    assert decision.requeue_reason is RequeueReason.PREEMPTION_NO_CANDIDATES
    assert decision.parked is parked


# ------------------------------------------------ FlavorFungibilityPreserveScanProgress


@ON_AND_OFF
def test_preserving_scan_progress_an_update_keeps_where_the_search_goes_on(*, on: bool) -> None:
    quotas = group(flavor_quotas("x", cpu=4), flavor_quotas("y", cpu=4))
    strict = QueueingStrategy.STRICT_FIFO
    within = Preemption(within_cluster_queue=LOWER)
    world = EngineWorld(
        make_queue("cq", quotas, preemption=within, strategy=strict),
        options=EngineOptions(keep_scan_progress=on),
    )
    world.submit(job("holder", cpu=3))
    world.write_back(world.cycle())
    waiting = job("w", cpu=3, at=1)
    world.submit(waiting)
    entry = world.engine.parts.entries[waiting.key]
    known = entry.resume = ResumeState(shape=waiting.shape, cycle=1, generation=1, tried=({},))
    world.submit(waiting)
    assert entry.resume is known

    world.submit(with_changes(waiting, checks={"c": "Ready"}))

    assert (entry.resume is known) is on


# ---------------------------------------------------------- PrioritySortingWithinCohort


def two_heads(options: EngineOptions) -> EngineWorld:
    """The heads of two queues that want the last cpu of their cohort, which neither owns."""
    queues = [member("a", 0), member("b", 0), member("lender", 1)]
    world = EngineWorld(*queues, options=options)
    world.submit(job("early", queue="a"), job("urgent", queue="b", at=1, priority=1))
    return world


@pytest.mark.parametrize("sharing", [None, FairSharing()], ids=["classical", "fair"])
@pytest.mark.parametrize(("on", "want"), [(True, ["urgent"]), (False, ["early"])])
def test_priority_counts_between_queues(
    *, on: bool, want: list[str], sharing: FairSharing | None
) -> None:
    """E-63."""
    options = EngineOptions(turns=TurnRules(by_priority=on), fair_sharing=sharing)

    assert names_of(two_heads(options).cycle()) == want


# ---------------------------------------------------------- PrioritizePreemptorWorkloads


def nominated(world: EngineWorld) -> list[Head]:
    """The heads of the world; the one of queue "a" has others leaving for it."""
    engine = world.engine
    entry = engine.parts.entries[f"{NAMESPACE}/early"]
    engine.parts.pending["a"].stick(entry)
    tree = engine.parts.cache.tree_by_queue["a"]
    schedule = engine.parts.schedule.tree(tree.key)
    return [nominate(engine.parts, *taken) for taken in take_heads(engine.parts, tree, schedule)]


@pytest.mark.parametrize(("on", "want"), [(True, "early"), (False, "urgent")])
def test_a_preemptor_goes_first(*, on: bool, want: str) -> None:
    rules = TurnRules(preemptors_first=on)
    world = two_heads(EngineOptions())
    heads = nominated(world)

    assert sort_heads(heads, rules)[0].entry.key == f"{NAMESPACE}/{want}"
    fair = FairOrder(heads, FairSharing(), rules).pop()
    assert fair is not None
    assert fair.entry.key == f"{NAMESPACE}/{want}"


@pytest.mark.parametrize(("on", "want"), [(True, []), (False, ["small"])])
def test_a_preemptor_keeps_quota_free_though_it_may_reclaim(*, on: bool, want: list[str]) -> None:
    reclaims = Preemption(reclaim_within_cohort=ANY, borrow_within_cohort=LOWER)
    world = EngineWorld(
        member("a", 4, preemption=reclaims),
        member("b", 6),
        member("c", 0),
        options=EngineOptions(turns=TurnRules(preemptors_first=on)),
    )
    world.submit(job("own", cpu=6, queue="b", priority=9))
    world.write_back(world.cycle())
    world.submit(job("big", cpu=8, queue="a", priority=5, at=1), job("small", queue="c", at=2))
    engine = world.engine
    engine.parts.pending["a"].stick(engine.parts.entries[f"{NAMESPACE}/big"])

    assert names_of(first_cycle(world)) == want


# ---------------------------------------------------------- SchedulingEquivalenceHashing


@ON_AND_OFF
def test_equals_are_judged_together(*, on: bool) -> None:
    world = EngineWorld(make_queue(), options=EngineOptions(park_equals=on))
    world.submit(job("a", cpu=11), job("b", cpu=11, at=1))
    plan = world.cycle()

    assert names_of(plan, Requeue) == (["a"] if on else ["a", "b"])
    assert ("Bypassed" in world.reason("b")) is on


def test_what_parked_alone_wakes_as_well() -> None:
    world = EngineWorld(make_queue(), options=EngineOptions(park_equals=False))
    world.submit(job("holder", cpu=9))
    world.write_back(world.cycle())
    world.submit(job("a", cpu=5, at=1), job("b", cpu=5, at=2))
    assert names_of(world.cycle()) == []

    world.finish("holder")

    assert names_of(world.cycle(after=2)) == ["a", "b"]


# ------------------------------------- RecomputeAssignmentUponPreemptionTargetsOverlap


def test_targets_of_two_heads_overlap() -> None:
    decided = {on: overlapping(recompute=on) for on in (True, False)}

    assert decided[True] == [("a1", ["v1"], None), ("b1", ["v2"], None)]
    skipped = "Workload has overlapping preemption targets with another workload"
    assert decided[False] == [("a1", ["v1"], None), ("b1", [], skipped)]


def overlapping(*, recompute: bool) -> list[tuple[str, list[str], str | None]]:
    """Two owners want their quota back from the same two borrowers, in the first cycle."""
    queues = [member("a", 2, preemption=RECLAIM), member("b", 2, preemption=RECLAIM)]
    world = EngineWorld(*queues, member("v", 0), options=EngineOptions(recompute_overlap=recompute))
    world.submit(job("v1", cpu=2, queue="v"), job("v2", cpu=2, queue="v", at=1))
    plan = world.cycle()
    world.write_back(plan)
    assert names_of(plan) == ["v1", "v2"]
    world.submit(job("a1", cpu=2, queue="a", at=2), job("b1", cpu=2, queue="b", at=3))
    return [
        (
            d.workload.partition("/")[2],
            [v.workload.partition("/")[2] for v in d.victims] if isinstance(d, Preempt) else [],
            str(d.skip_reason) if isinstance(d, Skip) else None,
        )
        for d in first_cycle(world).decisions
    ]


# ------------------------------------------------ MultiKueueOrchestratedPreemption


def gated_world(*, on: bool = True, strategy: QueueingStrategy | None = None) -> EngineWorld:
    """A queue whose quota a workload of low priority holds."""
    fields = {} if strategy is None else {"strategy": strategy}
    within = Preemption(within_cluster_queue=LOWER)
    world = EngineWorld(
        make_queue(preemption=within, **fields), options=EngineOptions(preemption_gates=on)
    )
    world.submit(job("low", cpu=10))
    world.write_back(world.cycle())
    return world


def test_a_closed_gate_keeps_a_workload_from_preempting() -> None:
    """E-74."""
    world = gated_world()
    world.submit(job("high", cpu=10, priority=1, at=1, closed_gates=("g", "h")))
    (decision,) = world.cycle().decisions

    assert isinstance(decision, Requeue)
    assert (decision.requeue_reason, decision.parked) == (RequeueReason.PREEMPTION_GATED, True)
    assert decision.explanation.is_gated
    assert world.reason("high") == (
        "WaitingForQuota: Workload requires preemption, but it's gated by: g, h: couldn't assign "
        "flavors to pod set main: insufficient unused quota for cpu in flavor default, "
        "10 more needed"
    )


def test_without_its_gate_a_closed_preemption_gate_is_not_looked_at() -> None:
    world = gated_world(on=False)
    world.submit(job("high", cpu=10, priority=1, at=1, closed_gates=("g",)))

    assert names_of(world.cycle(), Preempt) == ["high"]


def test_a_closed_gate_does_not_matter_where_nobody_has_to_leave() -> None:
    world = gated_world()
    world.finish("low")
    world.submit(job("high", cpu=10, priority=1, at=1, closed_gates=("g",)))

    assert names_of(world.cycle(after=2)) == ["high"]


def test_an_opened_gate_wakes_the_workload() -> None:
    world = gated_world()
    gated = job("high", cpu=10, priority=1, at=1, closed_gates=("g", "h"))
    world.submit(gated)
    world.cycle()

    world.submit(with_changes(gated, closed_gates=("h",)))
    assert world.cycle().decisions == ()
    world.submit(with_changes(gated, closed_gates=()))
    assert names_of(world.cycle(), Preempt) == ["high"]


@pytest.mark.parametrize(
    ("strategy", "want"),
    [(QueueingStrategy.BEST_EFFORT_FIFO, ["small"]), (QueueingStrategy.STRICT_FIFO, [])],
)
def test_a_gated_head_blocks_only_a_strict_queue(
    strategy: QueueingStrategy, want: list[str]
) -> None:
    within = Preemption(within_cluster_queue=LOWER)
    world = EngineWorld(
        make_queue(preemption=within, strategy=strategy),
        options=EngineOptions(preemption_gates=True),
    )
    world.submit(job("low", cpu=8))
    world.write_back(world.cycle())
    world.submit(
        job("high", cpu=10, priority=1, at=1, closed_gates=("g",)), job("small", cpu=2, at=2)
    )

    assert names_of(world.cycle()) == want
