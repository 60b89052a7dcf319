"""What holds for the engine whatever happens."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from multiqueue.engine.flavors.assignment import Mode
from multiqueue.engine.nominate import judge
from multiqueue.engine.nomination import Nominated
from multiqueue.engine.options import AdmissionFairSharing, EngineOptions
from multiqueue.engine.plan import Admit, CyclePlan
from multiqueue.engine.preemption_limit import LIMIT
from multiqueue.engine.queue_states import workload_reason
from multiqueue.engine.queues.entry import Entry, QueuePlace
from tests.builders.engine import (
    T0,
    flavor_quotas,
    group,
    make_queue,
    make_workload,
    pod_set,
    seconds,
)
from tests.engine_world import EngineWorld
from tests.properties.engine_history import History, rebuilt
from tests.properties.engine_invariants import assert_all, assert_past_usage_holds, overuse

SEEDS = st.integers(0, 2**32)


@given(SEEDS)
@settings(max_examples=150, deadline=None)
def test_sums_hold_and_nothing_is_lost_over_any_history(seed: int) -> None:
    history = History(seed)
    for _ in range(40):
        history.step()
        assert_all(history.engine, history.known)


@given(SEEDS)
@settings(max_examples=100, deadline=None)
def test_the_queues_of_an_owner_have_one_usage_over_any_history(seed: int) -> None:
    sharing = AdmissionFairSharing(
        half_life=seconds(20), sampling_interval=seconds(5), by_owner=True
    )
    history = History(seed, options=EngineOptions(admission_fair_sharing=sharing))
    for _ in range(40):
        history.step()
        assert_past_usage_holds(history.engine)


@given(SEEDS)
@settings(max_examples=150, deadline=None)
def test_no_admission_uses_more_than_there_is_at_any_node(seed: int) -> None:
    """Usage may exceed quota when quota shrinks; an admission never makes it so."""
    history = History(seed)
    for _ in range(40):
        history.event()
        before = overuse(history.engine)
        plan = history.decide()
        for node, amount in overuse(history.engine).items():
            assert amount <= before.get(node, 0)
        history.act(plan, at_once=False)


@given(SEEDS)
@settings(max_examples=60, deadline=None)
def test_the_same_history_gives_the_same_plans(seed: int) -> None:
    def plans() -> list[CyclePlan]:
        history = History(seed)
        return [history.step() for _ in range(30)]

    assert plans() == plans()


@given(SEEDS, st.randoms(use_true_random=False))
@settings(max_examples=150, deadline=None)
def test_the_plan_does_not_depend_on_the_order_of_objects(
    seed: int, shuffle: random.Random
) -> None:
    """Whoever starts anew on the objects of a history decides the same, whatever came first."""
    history = History(seed)
    for _ in range(30):
        history.step()

    def plans(order: random.Random | None) -> list[CyclePlan]:
        engine = rebuilt(history, order)
        engine.next_cycle_at(history.now)
        assert_all(engine, history.known)
        return [engine.run_cycle(history.now + seconds(after)) for after in (0, 60, 120)]

    assert plans(None) == plans(shuffle)


@given(SEEDS)
@settings(max_examples=150, deadline=None)
def test_nobody_waits_while_a_slot_that_fits_stays_free(seed: int) -> None:
    """BestEffortFIFO: who waits once all is quiet fits nowhere, tried on its own.

    Nowhere where it was refused, that is: who was passed over in one flavor goes on with the next,
    and parks after the last, though the first may be free again (E-53; recorded in deepfair-12).
    """
    history = History(seed, best_effort=True)
    for _ in range(30):
        history.step()
    history.settle()
    for pending in history.engine.parts.pending.values():
        for entry in pending.members.values():
            assert workload_reason(history.engine.parts, entry) is not None
            is_active = history.engine.parts.cache.queues[pending.name].is_active
            if is_active and entry.place is not QueuePlace.HELD:
                assert not fits_now(history, entry), entry.key


def fits_now(history: History, entry: Entry) -> bool:
    """Whether a judgement at the present usage would admit the workload where it was refused."""
    world = history.engine.parts
    verdict = judge(world, entry.workload, world.cache.queues[entry.queue], None)
    if not isinstance(verdict, Nominated) or verdict.assignment.mode is not Mode.FIT:
        return False
    explanation = workload_reason(world, entry)
    assert explanation is not None
    groups = [group for pod_set in explanation.pod_sets for group in pod_set.groups]
    refused = {attempt.flavor for group in groups for attempt in group}
    given = {flavor for flavors in verdict.assignment.flavors().values() for flavor in flavors}
    return not refused or given <= refused


@given(SEEDS)
@settings(max_examples=150, deadline=None)
def test_preemptions_come_to_an_end(seed: int) -> None:
    """With nothing new from outside, no pair of workloads takes turns more often than allowed."""
    history = History(seed)
    for _ in range(30):
        history.step()
    history.preempted.clear()
    history.settle()
    assert_all(history.engine, history.known)
    assert max(history.preempted.values(), default=0) <= LIMIT


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(0, 2)), min_size=1, max_size=30))
@settings(max_examples=150, deadline=None)
def test_a_deep_queue_ends_as_one_head_per_call_would(shapes: list[tuple[int, int]]) -> None:
    """Many cycles in one call decide what the same cycles in many calls do."""
    queues = [
        make_queue("a", group(flavor_quotas("x", cpu=7), flavor_quotas("y", cpu=5)), cohort="co"),
        make_queue("b", flavor_quotas("x", cpu=4), cohort="co"),
    ]

    def admitted(budget: int) -> list[str]:
        world = EngineWorld(*queues, options=EngineOptions(decision_budget=budget))
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


@pytest.mark.parametrize(
    "reached",
    ["Admit", "Replace", "Requeue", "Skip", "Preempt", "PlacePods", "PlaceFailed", "Evict"],
)
def test_histories_reach_every_decision(reached: str) -> None:
    """The properties above would hold for an engine that never does anything."""
    histories = map(History, range(200))
    assert any(_reaches(history, reached) for history in histories)


def _reaches(history: History, reached: str) -> bool:
    for _ in range(40):
        history.step()
    return history.counts[reached] > 0
