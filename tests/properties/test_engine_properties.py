"""What holds for the engine whatever happens."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from multiqueue.engine.flavors.assignment import Mode
from multiqueue.engine.nominate import judge
from multiqueue.engine.nomination import Nominated
from multiqueue.engine.options import EngineOptions
from multiqueue.engine.plan import Admit, CyclePlan
from multiqueue.engine.reading import workload_reason
from multiqueue.model.cluster_queue import PreemptionPolicy
from multiqueue.model.workload import Workload
from tests.engine_world import (
    T0,
    World,
    flavor_quotas,
    group,
    make_queue,
    make_workload,
    pod_set,
    seconds,
)
from tests.properties.engine_history import QUEUES, History

SEEDS = st.integers(0, 2**32)


@given(SEEDS)
@settings(max_examples=60, deadline=None)
def test_sums_hold_and_nothing_is_lost_over_any_history(seed: int) -> None:
    history = History(seed)
    for _ in range(40):
        history.step()
        history.assert_sums_hold()
        history.assert_nothing_is_lost()


@given(SEEDS)
@settings(max_examples=60, deadline=None)
def test_no_admission_uses_more_than_there_is_at_any_node(seed: int) -> None:
    """Usage may exceed quota when quota shrinks; an admission never makes it so."""
    history = History(seed)
    for _ in range(30):
        before = overuse(history)
        history.random.choice([history.create, history.create, history.end, history.wait])()
        history.run()
        for node, amount in overuse(history).items():
            assert amount <= before.get(node, 0)


def overuse(history: History) -> dict[tuple[str, int], int]:
    """How much more than it may have each node uses, by name and slot."""
    found = {}
    for tree in history.trees():
        for node in [*tree.cohorts.values(), *(q.node for q in tree.queues.values())]:
            for slot, usage in enumerate(node.usage):
                over = usage - node.potential[slot]
                limit = node.borrowing_limit[slot]
                if node.parent is not None and limit is not None:
                    over = max(over, usage - node.subtree_quota[slot] - limit)
                if over > 0:
                    found[node.name, slot] = over
    return found


@given(SEEDS)
@settings(max_examples=40, deadline=None)
def test_the_same_history_gives_the_same_plans(seed: int) -> None:
    def plans() -> list[CyclePlan]:
        history = History(seed)
        seen = []
        for _ in range(20):
            history.step()
            history.wait()
            seen.append(history.run())
        return seen

    assert plans() == plans()


def workloads(seed: int, count: int = 12) -> list[Workload]:
    history = History(seed)
    return [history.make_workload() for _ in range(count)]


@given(SEEDS, st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None)
def test_the_plan_does_not_depend_on_the_order_of_objects(
    seed: int, shuffle: random.Random
) -> None:
    queues = [History(seed).make_queue(name) for name in QUEUES]
    waiting = workloads(seed)

    def plan(*, shuffled: bool) -> CyclePlan:
        ordered = [list(queues), list(waiting)]
        if shuffled:
            for objects in ordered:
                shuffle.shuffle(objects)
        names = {queue.name: queue.name for queue in ordered[0]}
        world = World(*ordered[0], local_queues=names)
        world.submit(*ordered[1])
        return world.cycle()

    assert plan(shuffled=False) == plan(shuffled=True)


@given(SEEDS)
@settings(max_examples=60, deadline=None)
def test_nobody_waits_while_a_slot_that_fits_stays_free(seed: int) -> None:
    """BestEffortFIFO: what waits after everything was woken fits nowhere, tried on its own.

    With another policy than Any a head that waits keeps room from others (E-73).
    """
    history = History(seed, strict=False, reclaim=(PreemptionPolicy.ANY,))
    for _ in range(30):
        history.step()
    world = history.world
    for _ in range(20):  # who was preempted leaves at once, and may preempt others
        history.act_on(world.cycle(after=60))
    for pending in list(world.engine._pending.values()):
        for entry in pending.members.values():
            assert workload_reason(world.engine._world, entry) is not None
            if entry.is_parked:
                assert not fits_now(history, entry.workload, pending.name)


def fits_now(history: History, workload: Workload, queue: str) -> bool:
    """Whether a judgement at the present usage would admit the workload."""
    world = history.world.engine._world
    verdict = judge(world, workload, world.cache.queues[queue], None)
    return isinstance(verdict, Nominated) and verdict.assignment.mode is Mode.FIT


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(0, 2)), min_size=1, max_size=30))
@settings(max_examples=60, deadline=None)
def test_a_deep_queue_ends_as_one_head_per_call_would(shapes: list[tuple[int, int]]) -> None:
    """Many cycles in one call decide what the same cycles in many calls do."""
    queues = [
        make_queue("a", group(flavor_quotas("x", cpu=7), flavor_quotas("y", cpu=5)), cohort="co"),
        make_queue("b", flavor_quotas("x", cpu=4), cohort="co"),
    ]

    def admitted(budget: int) -> list[str]:
        world = World(*queues, options=EngineOptions(decision_budget=budget))
        for i, (cpu, priority) in enumerate(shapes):
            world.submit(
                make_workload(
                    f"w{i:02}",
                    queue="ab"[i % 2],
                    at=T0 + seconds(i),
                    priority=priority,
                    pod_sets=[pod_set(cpu=cpu)],
                )
            )
        found = []
        while True:
            plan = world.cycle()
            found += [d.workload for d in plan.decisions if isinstance(d, Admit)]
            if not plan.exhausted:
                return found

    assert admitted(10_000) == admitted(1)


def test_histories_reach_admissions_and_refusals() -> None:
    """The properties above would hold for an engine that admits nobody."""
    histories = [History(seed) for seed in range(40)]
    for history in histories:
        for _ in range(40):
            history.step()

    assert sum(history.made for history in histories) > 100
    assert sum(history.admitted for history in histories) > 20
    assert sum(history.preempted for history in histories) > 10
    assert any(
        p.parked
        for history in histories
        for name in QUEUES
        for p in history.world.engine.pending_workloads(name)
    )
