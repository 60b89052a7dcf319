"""Parking, waking and backoff (E-13 to E-30)."""

import pytest

from multiqueue.api.v1beta2.meta import LabelSelector
from multiqueue.engine.engine import Engine
from multiqueue.engine.options import EngineOptions
from multiqueue.engine.plan import Admit
from multiqueue.engine.queue_states import BYPASSED
from multiqueue.model.cluster_queue import (
    ClusterQueue,
    Cohort,
    LocalQueue,
    QueueingStrategy,
    StopPolicy,
)
from multiqueue.model.resource_flavor import ResourceFlavor
from tests.builders.engine import (
    NAMESPACE,
    T0,
    condition,
    flavor_quotas,
    make_queue,
    make_workload,
    pod_set,
    seconds,
    with_changes,
)
from tests.engine_world import EngineWorld


def full_world(*, cpu: int = 2, strategy: str = "BestEffortFIFO", waiting: int = 3) -> EngineWorld:
    """A queue that is full with "running", and equal workloads that wait."""
    queue = make_queue("cq", flavor_quotas("f", cpu=cpu), strategy=QueueingStrategy(strategy))
    world = EngineWorld(queue)
    world.submit(make_workload("running", pod_sets=[pod_set(cpu=cpu)]))
    world.write_back(world.cycle())
    world.submit(*(make_workload(f"w{i}", at=T0 + seconds(i)) for i in range(waiting)))
    return world


def test_equal_workloads_are_judged_once() -> None:
    world = full_world()

    assert len(world.cycle().decisions) == 1
    assert [p.parked for p in world.engine.pending_workloads("cq")] == [True, True, True]
    assert BYPASSED in world.reason("w2")
    assert BYPASSED not in world.reason("w0")


def test_a_workload_is_explained_again_only_for_another_reason() -> None:
    world = full_world(waiting=1)
    assert world.cycle().explained == (f"{NAMESPACE}/w0",)

    world.engine.upsert_resource_flavor(ResourceFlavor(name="f", node_labels={"says": "no more"}))
    plan = world.cycle(after=2)
    assert (len(plan.decisions), plan.explained) == (1, ())

    world.engine.upsert_cluster_queue(make_queue("cq", flavor_quotas("f", cpu=0)))
    assert world.cycle(after=2).explained == (f"{NAMESPACE}/w0",)


def test_a_finished_workload_wakes_the_parked_ones_a_second_later() -> None:
    world = full_world()
    world.cycle()
    world.cycle(after=1)
    world.finish("running")

    assert world.admitted() == []
    assert world.engine.next_cycle_at(world.now) == world.now + seconds(1)
    assert world.admitted(after=0.9) == []
    assert world.admitted(after=0.1) == ["w0", "w1"]


def test_the_batch_may_be_configured_away() -> None:
    world = EngineWorld(
        make_queue("cq", flavor_quotas("f", cpu=1)), options=EngineOptions(wake_batch=seconds(0))
    )
    world.submit(make_workload("w0"), make_workload("w1", at=T0 + seconds(1)))
    world.write_back(world.cycle())
    world.finish("w0")

    assert world.admitted() == ["w1"]


def test_later_notifications_do_not_postpone_the_wake() -> None:
    world = full_world(cpu=1)
    world.cycle()
    world.finish("running")
    world.now += seconds(0.8)
    world.engine.upsert_cluster_queue(make_queue("cq", flavor_quotas("f", cpu=2)))

    assert world.admitted(after=0.2) == ["w0", "w1"]


def test_a_strict_queue_tries_its_head_again_at_once() -> None:
    """E-22, E-23."""
    world = full_world(strategy="StrictFIFO")
    world.cycle()
    world.finish("running")

    assert world.admitted() == ["w0", "w1"]


def test_an_idle_engine_has_nothing_to_wait_for() -> None:
    world = full_world(strategy="StrictFIFO")
    world.cycle()

    assert world.engine.next_cycle_at(world.now) is None
    assert world.cycle().cycles == 0


def test_a_new_equal_parks_with_the_others_until_the_wake() -> None:
    world = full_world()
    world.cycle()
    world.submit(make_workload("late", at=T0 + seconds(9)))
    plan = world.cycle()

    assert plan.decisions == ()
    assert world.reason("late").startswith(f"WaitingForQuota: {BYPASSED}")


def test_another_shape_does_not_park_with_them() -> None:
    """E-26."""
    world = full_world()
    world.cycle()
    world.submit(make_workload("other", priority=5))

    assert len(world.cycle().decisions) == 1


WAKES = {
    "its spec changed": lambda e: e.upsert_cluster_queue(
        make_queue("cq", flavor_quotas("f", cpu=9))
    ),
    "a cohort came with quota": lambda e: e.upsert_cohort(
        Cohort(
            name="co", resource_groups=make_queue("x", flavor_quotas("f", cpu=9)).resource_groups
        )
    ),
}


@pytest.mark.parametrize("name", WAKES)
def test_a_queue_is_woken_when(name: str) -> None:
    world = EngineWorld(make_queue("cq", flavor_quotas("f", cpu=1), cohort="co"))
    world.submit(make_workload("w", pod_sets=[pod_set(cpu=4)]))
    world.cycle()
    WAKES[name](world.engine)

    assert world.admitted() == []
    assert world.admitted(after=1) == ["w"]


def test_a_workload_that_changed_is_looked_at_again() -> None:
    """E-17."""
    world = full_world(cpu=1)
    world.cycle()
    smaller = make_workload("w2", generation=2, pod_sets=[pod_set(cpu=0)])
    world.submit(smaller)

    assert world.admitted() == ["w2"]


def test_a_status_that_does_not_matter_wakes_nobody() -> None:
    """E-17."""
    world = full_world()
    world.cycle()
    world.submit(with_changes(world.workloads[f"{NAMESPACE}/w0"]))

    assert world.cycle().decisions == ()
    assert BYPASSED not in world.reason("w0")


def test_a_changed_priority_moves_a_workload_that_waits_in_the_heap() -> None:
    world = full_world(strategy="StrictFIFO")
    world.submit(make_workload("w2", at=T0 + seconds(2), priority=1))
    world.finish("running")

    assert world.admitted()[0] == "w2"


def requeued(*, status: bool, reason: str = "Preempted") -> object:
    return condition("Requeued", status=status, reason=reason)


def test_a_workload_that_may_not_requeue_is_held_until_it_may() -> None:
    """E-18."""
    world = EngineWorld(make_queue())
    world.submit(make_workload("w", requeued=requeued(status=False)))
    assert world.admitted(after=100) == []

    world.submit(make_workload("w", requeued=requeued(status=True)))
    assert world.admitted() == ["w"]


def test_a_backoff_that_ends_is_noticed_by_a_timer() -> None:
    """E-18."""
    world = EngineWorld(make_queue())
    world.submit(make_workload("w", requeue_at=T0 + seconds(60)))

    assert world.admitted() == []
    assert world.engine.next_cycle_at(world.now) == T0 + seconds(60)
    assert world.admitted(after=60) == ["w"]


def test_a_backoff_of_a_workload_that_left_is_forgotten() -> None:
    world = EngineWorld(make_queue())
    world.submit(make_workload("w", requeue_at=T0 + seconds(60)))
    world.delete("w")
    world.cycle()

    assert world.engine.next_cycle_at(world.now) is None


def test_the_nearest_timer_counts() -> None:
    world = full_world()
    world.cycle()
    world.submit(make_workload("later", requeue_at=T0 + seconds(60)))
    world.finish("running")

    assert world.engine.next_cycle_at(world.now) == world.now
    world.cycle()
    assert world.engine.next_cycle_at(world.now) == T0 + seconds(1)


def test_a_backoff_that_begins_in_the_heap_shows_at_the_next_requeue() -> None:
    """A held head leaves the heap of a StrictFIFO queue and blocks nobody (E-30)."""
    world = full_world(strategy="StrictFIFO", waiting=2)
    world.cycle()
    world.submit(with_changes(world.workloads[f"{NAMESPACE}/w0"], requeue_at=T0 + seconds(60)))
    world.cycle()
    world.finish("running")

    assert world.admitted() == ["w1"]
    assert world.admitted(after=60) == ["w0"]


def test_a_best_effort_head_whose_backoff_began_is_held_too() -> None:
    world = full_world(waiting=1)
    world.submit(with_changes(world.workloads[f"{NAMESPACE}/w0"], requeue_at=T0 + seconds(60)))
    world.cycle()
    world.finish("running")

    assert world.admitted(after=1) == []
    assert world.admitted(after=59) == ["w0"]


def test_a_restart_ends_no_backoff_whichever_object_comes_first() -> None:
    """Queues that are there before the first cycle did not come back: they were there all along."""
    started = EngineWorld(make_queue())
    backs_off = make_workload("a", requeue_at=T0 + seconds(60))
    told = condition("Requeued", status=False, reason="PodsReadyTimeout")
    engine = Engine()
    engine.upsert_workload(backs_off, T0)
    engine.upsert_workload(make_workload("b", requeued=told), T0)
    engine.upsert_local_queue(LocalQueue(key=f"{NAMESPACE}/lq", cluster_queue="cq"))
    engine.upsert_cluster_queue(make_queue())
    engine.upsert_resource_flavor(ResourceFlavor(name="default"))
    engine.upsert_namespace(NAMESPACE, {})
    started.engine = engine
    assert started.admitted() == []
    assert started.admitted(after=59) == []
    assert started.admitted(after=1) == ["a"]


def test_a_queue_that_comes_back_takes_everybody_even_those_in_backoff() -> None:
    """E-19."""
    world = EngineWorld(make_queue(), local_queues={})
    world.submit(make_workload("w", requeue_at=T0 + seconds(60)), make_workload("v"))
    assert world.reason("w") == "Misconfigured: LocalQueue lq doesn't exist"

    world.engine.upsert_local_queue(LocalQueue(key=f"{NAMESPACE}/lq", cluster_queue="cq"))
    assert world.admitted() == ["v", "w"]


def selective(value: str) -> ClusterQueue:
    return make_queue(namespace_selector=LabelSelector(match_labels={"team": value}))


def test_a_namespace_that_does_not_match_parks_even_in_a_strict_queue() -> None:
    """E-22, E-23."""
    strict = with_strategy(selective("ml"), "StrictFIFO")
    world = EngineWorld(strict)
    world.submit(make_workload("w"))
    world.cycle()

    assert world.reason("w") == (
        "Misconfigured: workload namespace doesn't match ClusterQueue selector"
    )
    assert world.engine.pending_workloads("cq")[0].parked


def with_strategy(queue: ClusterQueue, strategy: str) -> ClusterQueue:
    fields = {name: getattr(queue, name) for name in queue.__dataclass_fields__}
    return ClusterQueue(**{**fields, "strategy": QueueingStrategy(strategy)})


def test_a_namespace_that_comes_to_match_wakes() -> None:
    world = EngineWorld(selective("ml"))
    world.submit(make_workload("w"))
    world.cycle()
    world.engine.upsert_namespace(NAMESPACE, {"team": "web"})
    assert world.admitted(after=1) == []

    world.engine.upsert_namespace(NAMESPACE, {"team": "ml"})
    assert world.admitted(after=1) == ["w"]


def test_others_are_woken_while_a_namespace_still_does_not_match() -> None:
    world = EngineWorld(selective("ml"))
    world.engine.upsert_namespace("ml", {"team": "ml"})
    world.engine.upsert_local_queue(LocalQueue(key="ml/lq", cluster_queue="cq"))
    world.submit(
        make_workload("mismatch"),
        make_workload("large", namespace="ml", pod_sets=[pod_set(cpu=11)]),
    )
    world.cycle()
    wider = selective("ml")
    wider = with_strategy(wider, "StrictFIFO")
    world.engine.upsert_cluster_queue(wider)

    assert world.admitted(after=1) == []
    assert [p.parked for p in world.engine.pending_workloads("cq")] == [False, True]


def test_a_workload_waits_for_its_namespace_to_be_known() -> None:
    world = EngineWorld(make_queue())
    world.engine.upsert_local_queue(LocalQueue(key="new/lq", cluster_queue="cq"))
    world.submit(make_workload("w", namespace="new"))
    world.cycle()
    explanation = world.engine.workload_reason("new/w")
    assert explanation is not None
    assert 'namespace "new" not found' in explanation.message

    world.engine.upsert_namespace("new", {})
    assert world.admitted(after=1) == ["w"]
    world.engine.delete_namespace("new")


def test_a_stopped_queue_admits_nobody_until_it_goes_on() -> None:
    world = EngineWorld(make_queue())
    world.engine.upsert_cluster_queue(make_queue(stop_policy=StopPolicy.HOLD))
    world.submit(make_workload("w"))
    assert world.admitted() == []
    assert world.reason("w") == "Suspended: ClusterQueue cq is inactive"

    world.engine.upsert_cluster_queue(make_queue())
    assert world.admitted() == ["w"]


def test_a_flavor_that_appears_makes_its_queue_active() -> None:
    world = EngineWorld(make_queue("cq", flavor_quotas("f", cpu=2)))
    world.engine.delete_resource_flavor("f")
    world.submit(make_workload("w"))
    assert world.admitted() == []

    world.engine.upsert_resource_flavor(ResourceFlavor(name="f"))
    assert world.admitted() == ["w"]


def test_a_parked_mismatch_may_leave_alone_or_in_company() -> None:
    world = EngineWorld(selective("ml"))
    world.submit(make_workload("v"), make_workload("w"))
    world.cycle()
    world.delete("v")
    assert [p.workload for p in world.engine.pending_workloads("cq")] == [f"{NAMESPACE}/w"]

    world.delete("w")
    assert world.engine.pending_workloads("cq") == []


def test_a_mismatch_whose_backoff_began_is_held() -> None:
    world = EngineWorld(selective("ml"))
    world.submit(make_workload("w"))
    world.submit(make_workload("w", requeue_at=T0 + seconds(60)))  # already in the heap: stays
    world.cycle()
    world.engine.upsert_namespace(NAMESPACE, {"team": "ml"})

    assert world.admitted(after=1) == []
    assert world.admitted(after=59) == ["w"]


def test_a_class_whose_members_left_while_parked_is_forgotten_at_the_wake() -> None:
    world = full_world(waiting=1)
    world.cycle()
    world.delete("w0")
    world.finish("running")

    assert world.admitted(after=1) == []
    world.submit(make_workload("w0"))
    assert world.admitted() == ["w0"]


def test_a_new_equal_is_tried_at_once_after_the_wake() -> None:
    world = full_world(cpu=3, waiting=1)
    world.cycle()
    world.finish("running")
    assert world.admitted(after=1) == ["w0"]

    world.submit(make_workload("late"))
    assert world.admitted() == ["late"]


def test_a_namespace_that_matches_late_wakes_after_wakes_that_passed_it_by() -> None:
    world = EngineWorld(selective("ml"))
    world.submit(make_workload("w"))
    world.cycle()
    world.engine.upsert_cluster_queue(with_strategy(selective("ml"), "StrictFIFO"))
    assert world.admitted(after=1) == []

    world.engine.upsert_namespace(NAMESPACE, {"team": "ml"})
    assert world.admitted(after=1) == ["w"]


def test_a_workload_parked_alone_is_looked_at_again_when_its_eviction_changed() -> None:
    world = EngineWorld(make_queue())
    world.submit(make_workload("w", problems=("malformed",)))
    assert len(world.cycle().decisions) == 1

    evicted = condition("Evicted", status=True)
    world.submit(make_workload("w", problems=("malformed",), evicted=evicted))
    assert len(world.cycle().decisions) == 1


def test_a_busy_tree_is_woken_again_soon() -> None:
    world = EngineWorld(make_queue("cq", flavor_quotas("f", cpu=1)))
    world.submit(*(make_workload(f"wl-{i}", at=T0 + seconds(i)) for i in range(4)))
    world.write_back(world.cycle())
    world.cycle(after=1)

    world.finish("wl-0")
    assert world.admitted(after=0.9) == []
    plan = world.cycle(after=0.1)
    world.write_back(plan)
    assert [d.workload for d in plan.decisions if isinstance(d, Admit)] == [f"{NAMESPACE}/wl-1"]

    world.finish("wl-1")
    plan = world.cycle(after=0.02)
    world.write_back(plan)
    assert [d.workload for d in plan.decisions if isinstance(d, Admit)] == [f"{NAMESPACE}/wl-2"]

    world.cycle(after=5)
    world.finish("wl-2")
    assert world.admitted(after=0.9) == [], "a quiet tree waits for what belongs together"
    assert world.admitted(after=0.1) == ["wl-3"]


def test_a_newcomer_sees_what_becomes_free_in_the_same_moment() -> None:
    world = full_world(waiting=2)
    world.cycle(after=1)
    world.submit(make_workload("new", at=T0 + seconds(9)))
    assert world.admitted() == []

    world.now += seconds(0.05)
    world.finish("running")

    assert world.admitted() == ["new"]
    assert world.admitted(after=1) == ["w0"]


def test_a_newcomer_whose_queue_moved_is_looked_at_in_its_new_tree() -> None:
    world = EngineWorld(make_queue("a", cohort="co"), make_queue("b", cohort="co"))
    world.submit(make_workload("running", queue="b", pod_sets=[pod_set(cpu=20)]))
    world.write_back(world.cycle())
    world.submit(make_workload("new", queue="a", at=T0 + seconds(9)))
    assert world.admitted() == []
    world.engine.upsert_cluster_queue(make_queue("a"))
    assert world.admitted() == []

    world.finish("running")

    assert world.admitted() == ["new"]


def test_who_came_earlier_waits_for_the_wake_with_the_others() -> None:
    world = full_world(waiting=2)
    world.cycle(after=1)
    world.submit(make_workload("new", at=T0 + seconds(9)))
    assert world.admitted() == []

    world.now += seconds(0.6)
    world.finish("running")

    assert world.admitted() == []
    assert world.admitted(after=1) == ["w0", "w1"]


def test_a_newcomer_that_backs_off_is_not_looked_at_again() -> None:
    world = full_world(waiting=0)
    world.submit(make_workload("new", requeue_at=T0 + seconds(60)))
    world.cycle()

    world.finish("running")

    assert world.admitted(after=2) == []
    assert world.admitted(after=60) == ["new"]


def test_what_a_victim_leaves_is_not_for_newcomers() -> None:
    world = full_world(waiting=1)
    world.cycle(after=1)
    world.submit(make_workload("new", at=T0 + seconds(9)))
    assert world.admitted() == []

    running = world.workloads[f"{NAMESPACE}/running"]
    preempted = condition("Evicted", status=True, reason="Preempted", at=world.now)
    waits = condition("Requeued", status=False, reason="Preempted", at=world.now)
    world.submit(with_changes(running, reservation=None, evicted=preempted, requeued=waits))

    assert world.admitted() == []
    assert world.admitted(after=1) == ["w0", "new"]
