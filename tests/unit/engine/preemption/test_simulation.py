"""Usage taken out of the tree for a while, quota and nodes alike."""

from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest

from multiqueue.engine.cache.tree import Tree
from multiqueue.engine.preemption.simulation import LeavingUsage, without
from multiqueue.engine.queues.entry import Entry
from multiqueue.engine.tas.usage import PlacedPods
from multiqueue.model.topology import TopologyAssignment, TopologyDomain
from tests.preemption_world import Holdings, make_cpu_queue

TakenOut = Callable[[Tree, list[Entry]], AbstractContextManager[object]]


def as_sums(tree: Tree, entries: list[Entry]) -> AbstractContextManager[object]:
    leaving = LeavingUsage(tree)
    for entry in entries:
        leaving.add(entry)
    return leaving.taken_out()


@pytest.mark.parametrize("taken_out", [without, as_sums])
def test_placed_pods_are_off_their_nodes_inside_the_block_only(taken_out: TakenOut) -> None:
    world = Holdings(make_cpu_queue("cq", 4))
    entry = world.hold("a", "cq", cpu=2)
    domains = TopologyAssignment(
        levels=("rack",), domains=(TopologyDomain(values=("r0",), count=2),)
    )
    forest, tree = world.cache.forest, world.cache.tree_by_queue["cq"]
    forest.charge(entry.key, [PlacedPods("default", (("cpu", 1000),), domains)])
    charged = forest.usage.of(entry.key)
    assert charged

    with taken_out(tree, [entry]):
        assert forest.usage.of(entry.key) == ()
        assert world.usage() == {}

    assert forest.usage.of(entry.key) == charged
    assert world.usage() == {("queue cq", ("default", "cpu")): 2000}


@pytest.mark.parametrize("taken_out", [without, as_sums])
def test_usage_is_back_after_an_error_in_the_block(taken_out: TakenOut) -> None:
    world = Holdings(make_cpu_queue("one", 4, cohort="c"), make_cpu_queue("two", 4, cohort="c"))
    entries = [world.hold(f"w{number}", "one", cpu=3) for number in range(2)]
    entries.append(world.hold("other", "two", cpu=1))
    before = world.usage()

    def fail_inside() -> None:
        with taken_out(world.cache.tree_by_queue["one"], entries):
            assert world.usage() == {}
            raise ValueError("a bug")

    with pytest.raises(ValueError, match="a bug"):
        fail_inside()

    assert world.usage() == before


def test_pods_stay_where_only_some_quota_is_looked_at() -> None:
    world = Holdings(make_cpu_queue("cq", 4))
    entry = world.hold("a", "cq", cpu=2, memory=1)
    tree = world.cache.tree_by_queue["cq"]

    with without(tree, [entry], {("default", "cpu")}):
        assert world.usage() == {("queue cq", ("default", "memory")): 1}
