"""What the engine tells about queues and waiting workloads."""

import random
from collections import Counter
from typing import Any

import pytest

from multiqueue.api.conditions import QueueReason, Reason
from multiqueue.api.v1beta2.meta import Taint
from multiqueue.engine.options import EngineOptions
from multiqueue.engine.pending_reasons import (
    AffinityMismatch,
    Explanation,
    FlavorAttempt,
    FlavorNotFound,
    InvalidPlacement,
    PodSetExplanation,
    Refusal,
    ResourceNotCovered,
    Shortfall,
    TopologyMismatch,
    UntoleratedTaint,
)
from multiqueue.engine.state import Changed, LocalQueueState, PendingWorkload, UsedQuota
from multiqueue.model.cluster_queue import LocalQueue, QueueingStrategy, StopPolicy
from multiqueue.model.resource_flavor import ResourceFlavor
from multiqueue.model.workload import Workload
from tests.builders.engine import (
    NAMESPACE,
    T0,
    flavor_quotas,
    make_queue,
    make_workload,
    pod_set,
    seconds,
    with_changes,
)
from tests.engine_world import EngineWorld


def busy_world() -> EngineWorld:
    """Queue "a" borrows 2 of the 4 cpu of queue "b"."""
    world = EngineWorld(
        make_queue("a", flavor_quotas("f", cpu=1), cohort="co"),
        make_queue("b", flavor_quotas("f", cpu=4), cohort="co"),
    )
    world.submit(make_workload("w", queue="a", pod_sets=[pod_set(cpu=3)]))
    world.write_back(world.cycle())
    return world


def test_a_cluster_queue_shows_usage_borrowing_and_room() -> None:
    world = busy_world()
    a, b = (world.engine.cluster_queue_state(name) for name in ("a", "b"))

    assert a.reservation == a.usage == {"f": {"cpu": UsedQuota(total=3000, borrowed=2000)}}
    assert (a.reserving, a.admitted, a.pending) == (1, 1, 0)
    assert (a.active, a.reason, a.message) == (True, QueueReason.READY, "Can admit new workloads")
    assert (a.nominal, a.free, a.borrowable) == (
        {"f": {"cpu": 1000}},
        {"f": {"cpu": 0}},
        {"f": {"cpu": 2000}},
    )
    assert (b.free, b.borrowable) == ({"f": {"cpu": 2000}}, {"f": {"cpu": 0}})


def test_a_local_queue_shows_its_own_part() -> None:
    world = busy_world()
    world.submit(make_workload("x", queue="a", pod_sets=[pod_set(cpu=9)]))
    used = {"f": {"cpu": UsedQuota(total=3000, borrowed=2000)}}

    assert world.engine.local_queue_state(f"{NAMESPACE}/a") == LocalQueueState(
        key=f"{NAMESPACE}/a",
        active=True,
        reason=QueueReason.READY,
        message="Can submit new workloads to localQueue",
        pending=1,
        reserving=1,
        admitted=1,
        reservation=used,
        usage=used,
    )


def test_a_local_queue_says_why_it_takes_nothing() -> None:
    world = EngineWorld(make_queue("cq", stop_policy=StopPolicy.HOLD), local_queues={})

    def reason(**fields: object) -> QueueReason:
        spec = {"key": f"{NAMESPACE}/q", "cluster_queue": "cq", **fields}
        world.engine.upsert_local_queue(LocalQueue(**spec))
        return world.engine.local_queue_state(f"{NAMESPACE}/q").reason

    assert reason() is QueueReason.CLUSTER_QUEUE_IS_INACTIVE
    assert reason(stop_policy=StopPolicy.HOLD) is QueueReason.STOPPED
    assert reason(cluster_queue="gone") is QueueReason.CLUSTER_QUEUE_DOES_NOT_EXIST


def test_pending_workloads_have_positions_in_both_queues() -> None:
    world = EngineWorld(
        make_queue("cq", flavor_quotas("f", cpu=0)), local_queues={"x": "cq", "y": "cq"}
    )
    for i, queue in enumerate(["x", "y", "x"]):
        world.submit(make_workload(f"w{i}", queue=queue, at=T0 + seconds(i)))
    got = world.engine.pending_workloads("cq")

    assert [(p.workload, p.position_in_cluster_queue, p.position_in_local_queue) for p in got] == [
        (f"{NAMESPACE}/w0", 0, 0),
        (f"{NAMESPACE}/w1", 1, 0),
        (f"{NAMESPACE}/w2", 2, 1),
    ]
    assert got[1] == PendingWorkload(
        workload=f"{NAMESPACE}/w1",
        local_queue=f"{NAMESPACE}/y",
        priority=0,
        position_in_cluster_queue=1,
        position_in_local_queue=0,
        parked=False,
    )
    assert world.engine.pending_workloads("unknown") == []


def test_a_reason_has_the_numbers_by_pod_set_resource_and_flavor() -> None:
    """E-59."""
    world = busy_world()
    world.submit(make_workload("x", queue="b", pod_sets=[pod_set(cpu=4)]))
    world.cycle()
    got = world.engine.workload_reason(f"{NAMESPACE}/x")

    shortfall = Shortfall(
        flavor="f", resource="cpu", asked=4000, previous=0, free=2000, borrowable=0, maximum=5000
    )
    attempt = FlavorAttempt(flavor="f", refusals=(shortfall,))
    assert got == Explanation(
        workload=f"{NAMESPACE}/x",
        cluster_queue="b",
        cause=Reason.WAITING_FOR_QUOTA,
        pod_sets=(PodSetExplanation(name="main", pods=1, groups=((attempt,),)),),
    )
    assert shortfall.missing == 2000


def test_a_workload_that_nobody_looked_at_yet_says_so() -> None:
    world = EngineWorld(make_queue())
    world.submit(make_workload("w"))

    not_yet = "Workload is pending evaluation in the scheduling queue"
    assert world.reason("w") == f"PendingEvaluation: {not_yet}"
    assert world.engine.workload_reason("unknown/w") is None


def test_the_most_hopeless_resource_group_gives_the_reason() -> None:
    """E-58."""

    def attempt(asked: int, maximum: int) -> FlavorAttempt:
        shortfall = Shortfall("f", "cpu", asked, 0, 0, 0, maximum)
        return FlavorAttempt("f", (shortfall,))

    waits, exceeds = attempt(1, 2), attempt(3, 2)
    gone = FlavorAttempt("g", (FlavorNotFound(flavor="g"),))
    undeclared = FlavorAttempt("", (ResourceNotCovered(resource="tpu"),))

    def reason(*groups: tuple[FlavorAttempt, ...]) -> Reason:
        return PodSetExplanation("main", 1, groups).reason

    assert reason((waits, exceeds, gone)) is Reason.WAITING_FOR_QUOTA
    assert reason((waits,), (exceeds, gone)) is Reason.EXCEEDS_MAX_QUOTA
    assert reason((waits,), (undeclared,)) is Reason.NO_MATCHING_FLAVOR
    assert reason() is Reason.NO_MATCHING_FLAVOR
    assert str(gone.refusals[0]) == "flavor g not found"


@pytest.mark.parametrize(
    ("refusal", "words"),
    [
        (
            UntoleratedTaint(flavor="f", taint=Taint(key="spot", value="yes", effect="NoSchedule")),
            "untolerated taint {spot yes NoSchedule <nil>} in flavor f",
        ),
        (AffinityMismatch(flavor="f"), "flavor f doesn't match node affinity"),
        (
            TopologyMismatch(flavor="f", wanted=True),
            'Flavor "f" does not support TopologyAwareScheduling',
        ),
        (
            TopologyMismatch(flavor="f", wanted=False),
            'Flavor "f" supports only TopologyAwareScheduling',
        ),
        (
            InvalidPlacement(flavor="f", detail="no"),
            "node affinity cannot be matched with flavor f: no",
        ),
    ],
)
def test_a_flavor_that_does_not_match_says_why(refusal: Refusal, words: str) -> None:
    assert str(refusal) == words
    assert refusal.reason is Reason.NO_MATCHING_FLAVOR


def counts(world: EngineWorld, queue: str = "cq", local_queue: str = "lq") -> tuple[int, ...]:
    """Pending and inadmissible of a ClusterQueue, then of a LocalQueue before it."""
    one = world.engine.cluster_queue_state(queue)
    other = world.engine.local_queue_state(f"{NAMESPACE}/{local_queue}")
    assert one is not None
    assert other is not None
    return (one.pending, one.inadmissible, other.pending, other.inadmissible)


def crowded(**fields: Any) -> EngineWorld:
    """A full queue, before which are two LocalQueues."""
    world = EngineWorld(make_queue(**fields), local_queues={"lq": "cq", "other": "cq"})
    world.submit(make_workload("holder", pod_sets=[pod_set(cpu=9)]))
    world.write_back(world.cycle())
    return world


def big(name: str, *, at: int, **fields: Any) -> Workload:
    return make_workload(name, at=T0 + seconds(at), pod_sets=[pod_set(cpu=5)], **fields)


def test_those_that_wait_for_a_wake_are_inadmissible() -> None:
    world = crowded()
    world.submit(big("a", at=1), big("b", at=2, queue="other"), big("c", at=3))
    assert counts(world) == (3, 0, 2, 0)
    world.cycle()
    assert counts(world) == (3, 3, 2, 2)
    world.submit(big("late", at=4))
    assert counts(world) == (4, 4, 3, 3), "an equal failed just now"
    world.delete("b")
    assert counts(world, local_queue="other") == (3, 3, 0, 0)

    world.finish("holder")
    world.engine.next_cycle_at(world.now)
    world.cycle(after=2)

    assert counts(world) == (1, 1, 1, 1)


def test_those_that_back_off_are_inadmissible() -> None:
    world = crowded()
    small = make_workload("small", at=T0 + seconds(1))
    world.submit(with_changes(small, requeue_at=T0 + seconds(5)))
    assert counts(world) == (1, 1, 1, 1)

    assert world.admitted(after=5) == ["small"]
    assert counts(world) == (0, 0, 0, 0)


def test_a_queue_that_is_not_active_has_only_inadmissible_ones() -> None:
    """E-194."""
    world = crowded(strategy=QueueingStrategy.STRICT_FIFO)
    world.submit(big("a", at=1), big("b", at=2))
    world.cycle()
    assert counts(world) == (2, 0, 2, 0)

    world.engine.delete_resource_flavor("default")
    assert counts(world) == (2, 2, 2, 2)
    world.engine.upsert_resource_flavor(ResourceFlavor(name="default"))
    assert counts(world) == (2, 0, 2, 0)


@pytest.mark.parametrize("park_equals", [True, False])
@pytest.mark.parametrize("seed", range(5))
def test_the_counts_are_those_of_the_places(*, seed: int, park_equals: bool) -> None:
    """E-16."""
    chance = random.Random(seed)
    world = EngineWorld(
        make_queue(),
        local_queues={"lq": "cq", "other": "cq"},
        options=EngineOptions(park_equals=park_equals),
    )
    for step in range(200):
        name, queue = f"w{chance.randrange(30)}", chance.choice(["lq", "other"])
        requests = [pod_set(cpu=chance.choice([3, 5, 11]))]
        what = chance.randrange(4)
        if what == 0:
            world.delete(name)
        elif what == 1:
            world.write_back(world.cycle(after=chance.choice([0, 0.3, 2])))
        elif what == 2 and f"{NAMESPACE}/{name}" in world.workloads:
            world.finish(name)
        else:
            at = T0 + seconds(step)
            world.submit(make_workload(name, queue=queue, uid=f"{step}", at=at, pod_sets=requests))
        pending = world.engine.parts.pending["cq"]
        walked = Counter(e.workload.queue for e in pending.members.values() if not e.is_parked)
        assert (pending.active, pending.active_of) == (walked.total(), dict(walked))


def test_queues_whose_workloads_park_or_wake_are_named() -> None:
    world = crowded()
    world.submit(big("a", at=1), big("b", at=2, queue="other"))
    world.engine.changed_since_last_call()
    both = (f"{NAMESPACE}/lq", f"{NAMESPACE}/other")

    world.cycle()
    assert world.engine.changed_since_last_call() == Changed(
        cluster_queues=("cq",), local_queues=both
    )
    assert world.engine.changed_since_last_call() == Changed()

    world.engine.upsert_cluster_queue(make_queue("cq", flavor_quotas("default", cpu=12)))
    world.engine.changed_since_last_call()
    world.cycle(after=2)
    assert world.engine.changed_since_last_call() == Changed(
        cluster_queues=("cq",), local_queues=both
    )


def test_limits_and_what_waiting_workloads_ask_for_are_told() -> None:
    world = busy_world()
    for name in ("x", "y", "z"):
        world.submit(make_workload(name, queue="a", pod_sets=[pod_set(count=2, cpu=9)]))
    world.submit(make_workload("small", queue="a", pod_sets=[pod_set(cpu=7)]))
    world.cycle()
    state = world.engine.cluster_queue_state("a")
    assert state is not None
    assert state.pending_requests == {"cpu": 61000}
    assert (state.classes, state.active_classes) == (2, 0)
    assert state.borrowing_limit == state.lending_limit == {"f": {"cpu": None}}
    assert state.root == "co"

    world.engine.delete_workload(f"{NAMESPACE}/small", T0)
    state = world.engine.cluster_queue_state("a")
    assert state is not None
    assert state.pending_requests == {"cpu": 54000}


def test_a_cohort_tells_what_all_below_it_have() -> None:
    world = busy_world()
    state = world.engine.cohort_state("co")
    assert state is not None
    assert (state.parent, state.root, state.admitted) == ("", "co", 1)
    assert state.quota == {"f": {"cpu": 5000}}
    assert state.reservation == {"f": {"cpu": 3000}}
    assert world.engine.cohorts_above("a") == ["co"]
    assert world.engine.cohorts_above("unknown") == []


def test_changed_queues_are_named_once() -> None:
    world = busy_world()
    changed = world.engine.changed_since_last_call()
    assert changed.cluster_queues == ("a", "b")
    assert world.engine.changed_since_last_call() == Changed()

    world.finish("w")
    assert world.engine.changed_since_last_call() == Changed(
        cluster_queues=("a",), local_queues=(f"{NAMESPACE}/a",), cohorts=("co",)
    )


def test_a_queue_whose_activity_changed_is_named_with_its_local_queues() -> None:
    world = busy_world()
    world.engine.changed_since_last_call()
    world.engine.delete_resource_flavor("f")

    assert world.engine.changed_since_last_call() == Changed(
        cluster_queues=("a", "b"),
        local_queues=(f"{NAMESPACE}/a", f"{NAMESPACE}/b"),
        cohorts=("co",),
    )


def test_what_is_asked_of_each_flavor_is_known_also_of_one_that_does_not_exist() -> None:
    world = EngineWorld(
        make_queue("cq", flavor_quotas("f", cpu=4)), local_queues={"lq": "cq", "x": "no"}
    )
    world.engine.delete_resource_flavor("f")
    world.submit(make_workload("w", pod_sets=[pod_set(cpu=2), pod_set("more", count=3, cpu=1)]))
    world.submit(make_workload("lost", queue="x"))

    assert world.engine.requests_by_flavor(f"{NAMESPACE}/w") == {"f": {"cpu": 5000}}
    assert world.engine.requests_by_flavor(f"{NAMESPACE}/lost") == {}
    assert world.engine.requests_by_flavor("unknown/w") == {}
