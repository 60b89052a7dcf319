"""Usage taken out of the tree for a while, quota and nodes alike."""

from multiqueue.engine.preemption.simulation import without
from multiqueue.engine.tas.usage import PlacedPods
from multiqueue.model.topology import TopologyAssignment, TopologyDomain
from tests.preemption_world import Holdings, make_cpu_queue


def test_placed_pods_are_off_their_nodes_inside_the_block_only() -> None:
    world = Holdings(make_cpu_queue("cq", 4))
    entry = world.hold("a", "cq", cpu=2)
    domains = TopologyAssignment(
        levels=("rack",), domains=(TopologyDomain(values=("r0",), count=2),)
    )
    forest, tree = world.cache.forest, world.cache.tree_by_queue["cq"]
    forest.charge(entry.key, [PlacedPods("default", (("cpu", 1000),), domains)])
    charged = forest.usage.of(entry.key)
    assert charged

    with without(tree, [entry]):
        assert forest.usage.of(entry.key) == ()
        assert world.usage() == {}

    assert forest.usage.of(entry.key) == charged
    assert world.usage() == {("queue cq", ("default", "cpu")): 2000}


def test_pods_stay_where_only_some_quota_is_looked_at() -> None:
    world = Holdings(make_cpu_queue("cq", 4))
    entry = world.hold("a", "cq", cpu=2, memory=1)
    tree = world.cache.tree_by_queue["cq"]

    with without(tree, [entry], {("default", "cpu")}):
        assert world.usage() == {("queue cq", ("default", "memory")): 1}
