"""What newer objects, and objects that are gone, mean for workloads that wait or hold quota."""

from __future__ import annotations

import pytest

from multiqueue.engine.options import EngineOptions
from multiqueue.engine.pending_reasons import PodSetExplanation, words_of
from multiqueue.engine.plan import Requeue
from multiqueue.model.cluster_queue import (
    LocalQueue,
    Preemption,
    PreemptionPolicy,
    QueueingStrategy,
)
from tests.builders.engine import (
    NAMESPACE,
    T0,
    condition,
    flavor_quotas,
    group,
    make_queue,
    make_workload,
    pod_set,
    quota,
    seconds,
    with_changes,
)
from tests.engine_world import EngineWorld

KEY = f"{NAMESPACE}/w"


def parked_world() -> EngineWorld:
    """ "w" waits for the whole quota, which "running" has, and does so on its own (E-25)."""
    world = EngineWorld(make_queue(), options=EngineOptions(park_equals=False))
    world.submit(make_workload("running", pod_sets=[pod_set(cpu=10)]))
    world.write_back(world.cycle())
    world.submit(make_workload("w"))
    world.cycle(after=5)
    assert is_parked(world)
    return world


def is_parked(world: EngineWorld) -> bool:
    (pending,) = world.engine.pending_workloads("cq")
    return pending.parked


@pytest.mark.parametrize(
    ("changes", "parked"),
    [
        pytest.param({}, True, id="nothing"),
        pytest.param({"checks": {"c": "Pending"}}, True, id="nothing that counts"),
        pytest.param({"generation": 1}, False, id="the spec"),
        pytest.param({"queue_order_at": T0 + seconds(1)}, False, id="its place in the queue"),
        pytest.param({"evicted": condition("Evicted", status=False)}, False, id="its eviction"),
        pytest.param({"pod_sets": (pod_set(cpu=2),)}, False, id="what it asks for"),
    ],
)
def test_an_update_wakes_who_is_parked_only_with_something_new(
    changes: dict[str, object], parked: bool
) -> None:
    world = parked_world()
    world.submit(with_changes(world.workloads[KEY], **changes))
    assert is_parked(world) is parked


def names_in_order(world: EngineWorld) -> list[str]:
    return [p.workload.partition("/")[2] for p in world.engine.pending_workloads("cq")]


def test_another_place_in_the_queue_counts_at_once() -> None:
    world = EngineWorld(
        make_queue("cq", flavor_quotas("f", cpu=1), strategy=QueueingStrategy.STRICT_FIFO)
    )
    world.submit(make_workload("a"), make_workload("w", at=T0 + seconds(5)))
    world.submit(with_changes(world.workloads[KEY], queue_order_at=T0 - seconds(1)))
    assert names_in_order(world) == ["w", "a"]
    assert world.admitted() == ["w"]


def test_who_asks_for_less_before_its_turn_does_not_park_with_those_that_ask_for_more() -> None:
    world = EngineWorld(make_queue("cq", flavor_quotas("f", cpu=1)))
    world.submit(*(make_workload(n, pod_sets=[pod_set(cpu=2)]) for n in ("a", "w")))
    world.submit(with_changes(world.workloads[KEY], pod_sets=(pod_set(cpu=1),)))
    assert world.admitted() == ["w"]


def test_an_update_of_who_waits_in_turn_does_not_end_its_backoff() -> None:
    world = EngineWorld(make_queue())
    world.submit(make_workload("w", requeue_at=T0 + seconds(60)))
    world.submit(with_changes(world.workloads[KEY], generation=1))
    assert world.admitted(after=5) == []
    assert world.admitted(after=60) == ["w"]


def test_a_workload_is_found_while_it_is_unfinished() -> None:
    world = parked_world()
    assert world.engine.find_workload(KEY) == world.workloads[KEY]
    world.finish("w")
    assert world.engine.find_workload(KEY) is None
    assert world.engine.workload_reason(KEY) is None


def test_a_cluster_queue_that_is_gone_lends_nothing_and_admits_nobody() -> None:
    queues = [make_queue(name, cohort="co") for name in ("one", "two")]
    world = EngineWorld(*queues)
    world.engine.delete_cluster_queue("two")
    world.submit(make_workload("big", queue="one", pod_sets=[pod_set(cpu=11)]))
    world.submit(make_workload("lost", queue="two"))
    assert world.admitted(after=5) == []
    assert world.engine.cluster_queue_state("two") is None
    assert "one" in world.engine.parts.cache.queues
    world.engine.upsert_cluster_queue(queues[1])
    assert sorted(world.admitted(after=5)) == ["big", "lost"]


def test_a_namespace_that_is_gone_keeps_its_workloads_out() -> None:
    world = EngineWorld(make_queue())
    world.engine.delete_namespace(NAMESPACE)
    world.submit(make_workload("w"))
    assert world.admitted(after=5) == []
    assert world.reason("w") == (
        f'Misconfigured: Could not obtain workload namespace: namespace "{NAMESPACE}" not found'
    )


def test_what_became_of_queues_that_are_gone_is_told() -> None:
    world = EngineWorld(make_queue())
    world.engine.changed_since_last_call()
    world.engine.delete_local_queue(f"{NAMESPACE}/lq")
    assert world.engine.changed_since_last_call().local_queues == (f"{NAMESPACE}/lq",)
    world.engine.delete_cluster_queue("cq")
    assert world.engine.changed_since_last_call().cluster_queues == ("cq",)


def test_a_local_queue_that_moved_takes_no_notice_of_its_former_cluster_queue() -> None:
    world = EngineWorld(
        make_queue("one"), make_queue("two"), local_queues={"lq": "one", "other": "one"}
    )
    world.engine.upsert_local_queue(LocalQueue(key=f"{NAMESPACE}/lq", cluster_queue="two"))
    world.cycle(after=5)
    world.engine.changed_since_last_call()
    world.engine.delete_cluster_queue("one")
    world.engine.upsert_cluster_queue(make_queue("one"))
    assert world.engine.changed_since_last_call().local_queues == (f"{NAMESPACE}/other",)


def test_who_waits_for_the_victims_of_another_head_says_so() -> None:
    """Both owners take back from "borrower"; "second" finds nobody else (E-75)."""
    takes = Preemption(reclaim_within_cohort=PreemptionPolicy.ANY)
    owners = [
        make_queue(name, flavor_quotas("f", cpu=cpu), cohort="co", preemption=takes)
        for name, cpu in (("a", 4), ("b", 4), ("c", 0))
    ]
    world = EngineWorld(*owners)
    world.submit(make_workload("borrower", queue="c", pod_sets=[pod_set(cpu=8)]))
    world.write_back(world.cycle())
    for name, queue in (("first", "a"), ("second", "b")):
        world.submit(
            make_workload(name, queue=queue, at=T0 + seconds(1), pod_sets=[pod_set(cpu=4)])
        )
    (deferred,) = [d for d in world.cycle().decisions if d.workload == f"{NAMESPACE}/second"]
    assert isinstance(deferred, Requeue)
    assert (deferred.cluster_queue, deferred.parked) == ("b", False)
    assert deferred.message.startswith(
        "Workload fits once the workloads that other workloads preempt have left"
    )
    world.submit(make_workload("late", queue="b", priority=5))
    names = [p.workload for p in world.engine.pending_workloads("b")]
    assert names == [f"{NAMESPACE}/second", f"{NAMESPACE}/late"]


def test_who_was_only_refused_keeps_no_first_place() -> None:
    world = EngineWorld(make_queue())
    world.submit(make_workload("w", pod_sets=[pod_set(cpu=11)]))
    assert world.admitted() == []
    world.submit(make_workload("urgent", priority=5, pod_sets=[pod_set(cpu=12)]))
    assert names_in_order(world) == ["urgent", "w"]


def test_words_of_several_refusals_and_pod_sets_are_joined_as_upstream_does() -> None:
    """E-59."""
    flavors = [flavor_quotas(n, cpu=quota("cpu", 2, borrow=0)) for n in ("x", "y")]
    world = EngineWorld(make_queue("cq", group(*flavors)))
    world.submit(make_workload("w", pod_sets=[pod_set(cpu=3)]))
    world.cycle()
    first, second = (
        f"insufficient quota for cpu in flavor {n}, previously considered podsets requests (0) "
        "+ current podset request (3) > maximum capacity (2)"
        for n in ("x", "y")
    )
    assert world.reason("w").endswith(f"couldn't assign flavors to pod set main: {first}, {second}")
    pod_sets = [PodSetExplanation(name, 1, ()) for name in ("one", "two")]
    assert words_of(pod_sets) == (
        "couldn't assign flavors to pod set one: ; couldn't assign flavors to pod set two: "
    )
