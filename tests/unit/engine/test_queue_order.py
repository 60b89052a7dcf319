"""The whole order of a queue, in steps, and the token that tells whether it changed."""

from itertools import chain

import pytest

from multiqueue.engine.queues.pending_order import ordered_in_steps
from tests.builders.engine import (
    NAMESPACE,
    T0,
    flavor_quotas,
    make_queue,
    make_workload,
    pod_set,
    seconds,
)
from tests.engine_world import EngineWorld


def full_world(count: int) -> EngineWorld:
    """Nothing fits: all wait, the urgent ones and then the older ones first."""
    world = EngineWorld(make_queue("cq", flavor_quotas("f", cpu=0)))
    for number in range(count):
        priority = number % 3
        world.submit(
            make_workload(
                f"w{number:02}",
                priority=priority,
                at=T0 + seconds(count - number),
                pod_sets=[pod_set(cpu=1)],
            )
        )
    return world


@pytest.mark.parametrize("step", [1, 3, 7, 100])
def test_the_order_does_not_depend_on_the_steps(step: int) -> None:
    world = full_world(20)
    pieces = list(ordered_in_steps(world.engine.parts.pending["cq"], step))

    got = [key for key, _ in chain.from_iterable(pieces)]
    want = sorted(range(20), key=lambda number: (-(number % 3), -number))
    assert got == [f"{NAMESPACE}/w{number:02}" for number in want]
    assert max(map(len, pieces)) <= step
    assert {queue for _, queue in chain.from_iterable(pieces)} == {f"{NAMESPACE}/lq"}


def test_who_waits_is_fixed_by_the_first_step() -> None:
    world = full_world(4)
    steps = ordered_in_steps(world.engine.parts.pending["cq"], 2)
    next(steps)
    world.delete("w00")
    assert len(list(chain.from_iterable(steps))) == 4


def test_the_revision_changes_with_the_order_only() -> None:
    world = full_world(2)
    first = world.engine.pending_revision("cq")
    world.cycle()  # nobody is admitted, all are parked
    assert world.engine.pending_revision("cq") is first

    world.submit(make_workload("late", pod_sets=[pod_set(cpu=1)]))
    second = world.engine.pending_revision("cq")
    assert second is not first
    world.delete("late")
    assert world.engine.pending_revision("cq") not in {first, second}


def test_a_queue_made_anew_has_another_revision() -> None:
    world = full_world(0)
    first = world.engine.pending_revision("cq")
    world.engine.delete_cluster_queue("cq")
    assert world.engine.pending_revision("cq") is None
    world.engine.upsert_cluster_queue(make_queue("cq", flavor_quotas("f", cpu=0)))
    assert world.engine.pending_revision("cq") is not first
    assert world.engine.local_queue_target(f"{NAMESPACE}/lq") == "cq"
    assert world.engine.local_queue_target(f"{NAMESPACE}/none") is None
