"""What the flavor search is told about preemption (E-49)."""

from dataclasses import replace

import pytest

from multiqueue.engine.flavors.assignment import FlavorMode
from multiqueue.engine.flavors.oracle import PreemptionOracle
from multiqueue.model.cluster_queue import Cohort, Preemption
from tests.preemption_world import ANY, LOWER, Holdings, make_cpu_queue, make_preemption


def ask(
    world: Holdings, queue: str, cpu: int, *excluded: str, priority: int = 9
) -> tuple[FlavorMode, int]:
    """Ask about so much cpu, with the height at which it would be borrowed now."""
    oracle = PreemptionOracle(world.cache.tree_by_queue, world.context(*excluded))
    cached, amount = world.queue(queue), cpu * 1000
    slot = cached.node.slot(("default", "cpu"))
    before = world.usage()
    height = cached.node.borrow_height(slot, amount)[0]

    answer = oracle(cached, world.preemptor(priority=priority), slot, amount, height)

    assert world.usage() == before
    return answer


def make_world(preemption: Preemption) -> Holdings:
    """A queue in a cohort with another one that lends everything it has."""
    queues = (
        replace(make_cpu_queue("cq", 4, cohort="left"), preemption=preemption),
        make_cpu_queue("other", 4, cohort="left"),
        make_cpu_queue("far", 4, cohort="root"),
    )
    return Holdings(*queues, cohorts=[Cohort(name="left", parent="root")])


def test_others_alone_are_reclaimed_from() -> None:
    world = make_world(make_preemption(own=LOWER, reclaim=ANY))
    world.hold("borrower", "other", cpu=8)
    world.hold("far", "far", cpu=4)

    assert ask(world, "cq", 4) == (FlavorMode.RECLAIM, 0)


def test_anybody_of_the_queue_itself_is_preempted() -> None:
    world = make_world(make_preemption(own=LOWER, reclaim=ANY))
    world.hold("own", "cq", cpu=4)
    world.hold("borrower", "other", cpu=8)

    assert ask(world, "cq", 4) == (FlavorMode.PREEMPT, 0)


def test_without_targets_the_height_stays_that_of_now() -> None:
    world = make_world(make_preemption(own=LOWER))
    world.hold("borrower", "other", cpu=12)

    assert ask(world, "cq", 6) == (FlavorMode.NO_CANDIDATES, 2)


@pytest.mark.parametrize(
    ("keeps", "height"),
    [
        pytest.param(0, 1, id="all that is missing is in the cohort"),
        pytest.param(3, 2, id="some of it is lent from beyond"),
    ],
)
def test_the_height_is_that_after_the_targets_left(keeps: int, height: int) -> None:
    world = make_world(make_preemption(reclaim=ANY, while_borrowing=LOWER))
    world.hold("borrower", "other", cpu=5)
    world.hold("keeper", "other", priority=20, cpu=keeps)
    world.hold("filler", "far", cpu=3)

    assert ask(world, "cq", 6) == (FlavorMode.RECLAIM, height)


def test_who_is_preempted_already_makes_no_room_again() -> None:
    world = make_world(make_preemption(own=LOWER))
    world.hold("own", "cq", cpu=4)
    world.hold("far", "far", cpu=8)

    assert ask(world, "cq", 4) == (FlavorMode.PREEMPT, 0)
    assert ask(world, "cq", 4, "own") == (FlavorMode.NO_CANDIDATES, 1)
