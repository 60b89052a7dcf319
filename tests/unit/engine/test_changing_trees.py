"""What happens to quota and queues as trees, flavors and checks change (E-21, E-32, E-39)."""

from multiqueue.model.cluster_queue import ClusterQueue, Cohort
from multiqueue.model.resource_flavor import ResourceFlavor, Topology
from tests.builders.engine import (
    NAMESPACE,
    check_rule,
    flavor_quotas,
    group,
    make_queue,
    make_workload,
    pod_set,
)
from tests.engine_world import EngineWorld


def used(world: EngineWorld, queue: str) -> int:
    state = world.engine.cluster_queue_state(queue)
    assert state is not None
    return state.reservation["f"]["cpu"].total // 1000


def cohort_queue(name: str, cohort: str, cpu: int = 1) -> ClusterQueue:
    return make_queue(name, flavor_quotas("f", cpu=cpu), cohort=cohort)


def test_a_wake_skips_a_queue_that_was_deleted_meanwhile() -> None:
    world = EngineWorld(cohort_queue("a", "co"), cohort_queue("b", "co"))
    world.submit(
        make_workload("v", queue="a", pod_sets=[pod_set(cpu=3)]),
        make_workload("w", queue="b", pod_sets=[pod_set(cpu=3)]),
    )
    world.cycle()
    world.engine.delete_cluster_queue("a")
    world.engine.upsert_cluster_queue(cohort_queue("b", "co", 3))

    assert world.admitted(after=1) == ["w"]


def test_repeating_what_is_known_changes_nothing() -> None:
    queue = cohort_queue("a", "")
    world = EngineWorld(queue)
    world.cycle()
    world.engine.upsert_cluster_queue(queue)
    world.engine.upsert_resource_flavor(ResourceFlavor(name="f"))
    world.engine.upsert_namespace(NAMESPACE, {})

    assert world.engine.next_cycle_at(world.now) is None


def test_a_queue_that_joins_a_cohort_may_borrow_at_once() -> None:
    world = EngineWorld(cohort_queue("a", ""), cohort_queue("b", "co", 4))
    world.submit(make_workload("w", queue="a", pod_sets=[pod_set(cpu=4)]))
    assert world.admitted() == []

    world.engine.upsert_cluster_queue(cohort_queue("a", "co"))
    assert world.admitted(after=1) == ["w"]


def test_a_queue_that_leaves_takes_its_usage_along() -> None:
    world = EngineWorld(cohort_queue("a", "co"), cohort_queue("b", "co", 4))
    world.submit(make_workload("w", queue="a", pod_sets=[pod_set(cpu=3)]))
    world.write_back(world.cycle())
    world.engine.upsert_cluster_queue(cohort_queue("a", ""))
    world.submit(make_workload("v", queue="b", pod_sets=[pod_set(cpu=4)]))

    assert world.admitted() == ["v"]
    assert used(world, "a") == 3


def test_a_cohort_that_gets_a_parent_shares_with_its_tree() -> None:
    world = EngineWorld(cohort_queue("a", "team"), cohort_queue("b", "other", 4))
    world.submit(make_workload("w", queue="a", pod_sets=[pod_set(cpu=5)]))
    world.cycle()
    world.engine.upsert_cohort(Cohort(name="team", parent="org"))
    world.engine.upsert_cohort(Cohort(name="other", parent="org"))
    world.engine.upsert_cohort(Cohort(name="other", parent="org"))
    assert world.admitted(after=1) == ["w"]

    world.engine.delete_cohort("other")
    world.engine.delete_cohort("other")
    world.finish("w")
    world.submit(make_workload("v", queue="a", pod_sets=[pod_set(cpu=5)]))
    assert world.admitted(after=1) == []


def test_a_cycle_of_cohorts_stops_its_queues_until_it_is_cut() -> None:
    world = EngineWorld(cohort_queue("a", "x"))
    world.engine.upsert_cohort(Cohort(name="x", parent="y"))
    world.engine.upsert_cohort(Cohort(name="y", parent="x"))
    world.submit(make_workload("w"))
    assert world.admitted() == []

    world.engine.upsert_cohort(Cohort(name="y"))
    assert world.admitted(after=1) == ["w"]


def test_topologies_and_checks_switch_queues_on_and_off() -> None:
    racks = ResourceFlavor(name="f", topology_name="dc")
    queue = make_queue("cq", group(flavor_quotas("f", cpu=4)), checks=(check_rule("ac"),))
    world = EngineWorld(queue, flavors=[racks])

    def is_active() -> bool:
        return world.engine.cluster_queue_state("cq").active

    world.add_check("ac")
    assert not is_active()
    world.engine.upsert_topology(Topology(name="dc", levels=("rack",)))
    world.engine.upsert_topology(Topology(name="dc", levels=("rack",)))
    assert is_active()
    world.engine.delete_admission_check("ac")
    assert not is_active()
    world.add_check("ac", active=False)
    world.add_check("ac", active=False)
    assert not is_active()
    world.add_check("ac")
    assert is_active()
    world.engine.delete_topology("dc")
    assert not is_active()


def test_stopping_the_only_queue_of_a_cohort_changes_its_height() -> None:
    """A cohort whose queues are all inactive has no children (E-37)."""
    world = EngineWorld(cohort_queue("a", "team"), cohort_queue("b", "org", 4))
    world.engine.upsert_cohort(Cohort(name="team", parent="org"))
    tree = world.engine.parts.cache.tree_by_queue["a"]
    assert tree.cohorts["org"].height == 2

    world.engine.upsert_cluster_queue(
        make_queue("a", flavor_quotas("f", cpu=1), cohort="team", terminating=True)
    )
    assert tree.cohorts["org"].height == 1


def test_a_queue_that_drops_its_check_no_longer_waits_for_it() -> None:
    checked = make_queue("a", flavor_quotas("f", cpu=1), checks=(check_rule("ac"),))
    world = EngineWorld(checked)
    world.submit(make_workload("w"))
    assert world.admitted() == []

    world.engine.upsert_cluster_queue(make_queue("a", flavor_quotas("f", cpu=1)))
    assert world.admitted() == ["w"]


def test_the_last_of_two_holders_leaves_a_deleted_queue() -> None:
    world = EngineWorld(make_queue("a", flavor_quotas("f", cpu=2)))
    world.submit(make_workload("v"), make_workload("w"))
    world.write_back(world.cycle())
    world.engine.delete_cluster_queue("a")
    world.finish("v")
    world.finish("w")
    world.engine.upsert_cluster_queue(make_queue("a", flavor_quotas("f", cpu=2)))

    assert used(world, "a") == 0


def generation(world: EngineWorld, queue: str = "a") -> int:
    return world.engine.parts.cache.queues[queue].generation


def test_the_generation_tells_that_quota_may_have_become_free() -> None:
    """It grows with every event of a holder and every rebuild, not with an assumption (E-38)."""
    world = EngineWorld(cohort_queue("a", ""))
    world.submit(make_workload("w"))
    first = generation(world)
    plan = world.cycle()
    assert generation(world) == first

    world.write_back(plan)
    echoed = generation(world)
    assert echoed > first

    world.finish("w")
    finished = generation(world)
    assert finished > echoed

    world.engine.upsert_cluster_queue(cohort_queue("a", "co"))
    assert generation(world) > finished


def test_the_generation_does_not_grow_with_other_fields_of_the_spec() -> None:
    world = EngineWorld(cohort_queue("a", ""))
    before = generation(world)
    world.engine.upsert_cluster_queue(make_queue("a", flavor_quotas("f", cpu=1), terminating=True))

    assert generation(world) == before
