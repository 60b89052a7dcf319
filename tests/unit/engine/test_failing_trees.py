"""A cycle that raises: what it assumed is taken back, and nobody else is stopped."""

from __future__ import annotations

from typing import NoReturn

from multiqueue.engine.engine import FAILED_PAUSE
from multiqueue.engine.plan import Admit, Requeue
from multiqueue.model.cluster_queue import Preemption, PreemptionPolicy
from tests.builders.engine import T0, check_rule, make_queue, make_workload, pod_set, seconds
from tests.engine_world import EngineWorld


class BugError(Exception):
    """What no code expects."""


class BrokenStates(dict[str, object]):
    """Check states that cannot be looked up, so that an admission fails on its way."""

    def get(self, key: str, default: object = None) -> NoReturn:
        raise BugError(key)


def used(world: EngineWorld, queue: str) -> int:
    state = world.engine.cluster_queue_state(queue)
    assert state is not None
    return state.reservation["default"]["cpu"].total


def broken_world() -> EngineWorld:
    """Queue "c" admits; in the tree of "a" and "b" the workload of "b" raises after that of "a"."""
    world = EngineWorld(
        make_queue("a", cohort="team"),
        make_queue("b", cohort="team", checks=(check_rule("ac"),)),
        make_queue("c"),
    )
    world.add_check("ac")
    world.cycle(after=5)
    world.submit(
        make_workload("first", queue="a"),
        make_workload("bad", queue="b", at=T0 + seconds(1), checks=BrokenStates()),
        make_workload("other", queue="c"),
    )
    return world


def test_a_cycle_that_raises_takes_back_what_it_assumed_and_other_trees_go_on() -> None:
    world = broken_world()
    plan = world.cycle()

    assert [d.workload for d in plan.decisions if isinstance(d, Admit)] == ["team/other"]
    assert [type(failure.error) for failure in plan.failures] == [BugError]
    assert (used(world, "a"), used(world, "b"), used(world, "c")) == (0, 0, 1000)
    assert [p.workload for p in world.engine.pending_workloads("a")] == ["team/first"]
    assert [p.workload for p in world.engine.pending_workloads("b")] == ["team/bad"]


def test_a_tree_that_raised_is_tried_again_after_a_pause() -> None:
    world = broken_world()
    world.cycle()

    assert world.engine.next_cycle_at(world.now) == world.now + FAILED_PAUSE
    assert world.engine.run_cycle(world.now).failures == ()
    assert len(world.cycle(after=5).failures) == 1


def test_a_tree_that_raised_is_tried_again_when_something_in_it_changed() -> None:
    world = broken_world()
    world.cycle()
    world.delete("bad")

    assert world.admitted() == ["first"]
    assert world.cycle(after=5).decisions == ()


def test_a_tree_that_is_gone_is_not_tried_again() -> None:
    world = broken_world()
    world.cycle()
    for name in "ab":
        world.engine.delete_cluster_queue(name)

    assert world.cycle(after=60).failures == ()


def test_refusals_before_the_error_are_told() -> None:
    world = broken_world()
    world.submit(make_workload("huge", queue="a", priority=1, pod_sets=[pod_set(cpu=99)]))
    plan = world.cycle()

    assert [type(d) for d in plan.decisions if d.workload == "team/huge"] == [Requeue]
    assert len(plan.failures) >= 1


def test_an_error_while_judging_leaves_everything_as_it_was() -> None:
    def broken_oracle(*_: object, **__: object) -> NoReturn:
        raise BugError

    preemption = Preemption(within_cluster_queue=PreemptionPolicy.LOWER_PRIORITY)
    world = EngineWorld(make_queue(preemption=preemption), oracle=broken_oracle)
    world.submit(make_workload("big", pod_sets=[pod_set(cpu=10)]))
    world.write_back(world.cycle())
    world.submit(make_workload("waits"))
    plan = world.cycle()

    assert [type(failure.error) for failure in plan.failures] == [BugError]
    assert used(world, "cq") == 10000
    assert [p.workload for p in world.engine.pending_workloads("cq")] == ["team/waits"]
