"""A slice of an elastic job takes over the quota of the one it replaces (E-167)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from multiqueue.api.conditions import Reason
from multiqueue.engine.plan import Admit, CyclePlan, Preempt
from multiqueue.model.cluster_queue import ClusterQueue, Preemption, PreemptionPolicy
from multiqueue.model.resource_flavor import ResourceFlavor, Topology
from multiqueue.model.workload import Admission, PodSetAssignment, Workload
from tests.builders.engine import (
    NAMESPACE,
    T0,
    condition,
    flavor_quotas,
    group,
    make_queue,
    make_workload,
    pod_set,
    reserved,
    seconds,
    with_changes,
)
from tests.engine_world import EngineWorld

WITHIN = Preemption(within_cluster_queue=PreemptionPolicy.LOWER_PRIORITY)


def job(name: str, *, pods: int, replaces: str = "", at: int = 0, priority: int = 0) -> Workload:
    return make_workload(
        name,
        pod_sets=[pod_set(count=pods, cpu=1)],
        replaces=f"{NAMESPACE}/{replaces}" if replaces else "",
        at=T0 + seconds(at),
        priority=priority,
    )


def running(queue: ClusterQueue, *workloads: Workload, **fields: object) -> EngineWorld:
    """A world in which these workloads run."""
    world = EngineWorld(queue, **fields)
    world.submit(*workloads)
    world.write_back(world.cycle())
    return world


def used(world: EngineWorld) -> int:
    """How much cpu counts as used."""
    state = world.engine.cluster_queue_state("cq")
    assert state is not None
    by_flavor = state.reservation.values()
    return sum(quota.total for used in by_flavor for quota in used.values()) // 1000


def admit(world: EngineWorld) -> Admit:
    (decision,) = world.cycle().decisions
    assert isinstance(decision, Admit)
    return decision


def victims(plan: CyclePlan) -> list[str]:
    (decision,) = plan.decisions
    assert isinstance(decision, Preempt)
    return [victim.workload for victim in decision.victims]


def test_only_the_difference_asks_for_quota() -> None:
    """Eight of ten are not free, but five of them are its own."""
    world = running(make_queue(), job("old", pods=5), job("other", pods=2))
    world.submit(job("new", pods=8, replaces="old", at=1))
    decision = admit(world)

    assert decision.replaces == "team/old"
    assert decision.admission.pod_sets[0].count == 8
    assert decision.admission.pod_sets[0].resource_usage == {"cpu": "8"}
    assert used(world) == 10


def test_the_quota_is_handed_over_in_one_step() -> None:
    world = running(make_queue(), job("old", pods=5))
    world.submit(job("new", pods=8, replaces="old", at=1))
    plan = world.cycle()
    assert used(world) == 8  # decided
    world.write_back(plan)
    assert used(world) == 8  # written, while the old one is not finished yet
    world.finish("old")
    assert used(world) == 8
    world.finish("new")
    assert used(world) == 0


def test_the_old_slice_has_its_quota_again_where_the_admission_is_not_written() -> None:
    world = running(make_queue(), job("old", pods=5))
    world.submit(job("new", pods=8, replaces="old", at=1))
    admit(world)
    world.engine.forget("team/new", world.now)
    assert used(world) == 5
    assert world.admitted() == ["new"]
    assert used(world) == 8


@pytest.mark.parametrize("replaces", ["", "team/other"])
@pytest.mark.parametrize("is_written", [True, False])
def test_what_it_replaces_may_change_while_its_admission_is_written(
    replaces: str, is_written: bool
) -> None:
    """The old slice counts for nothing no longer than it was taken for replaced."""
    world = running(make_queue(), job("old", pods=2), job("other", pods=1))
    world.submit(job("new", pods=5, replaces="old", at=1))
    plan = world.cycle()
    assert used(world) == 6
    world.submit(with_changes(world.workloads["team/new"], replaces=replaces))
    assert used(world) == 6
    if is_written:
        world.write_back(plan)
        assert used(world) == (7 if replaces else 8)
        world.finish("new")
    else:
        world.engine.forget("team/new", world.now)
    assert used(world) == 3


def test_a_slice_that_does_not_fit_waits_and_says_how_much_is_missing() -> None:
    world = running(make_queue(), job("old", pods=5), job("other", pods=4))
    world.submit(job("new", pods=8, replaces="old", at=1))
    assert world.admitted() == []
    assert used(world) == 9
    assert "insufficient unused quota for cpu in flavor default, 2 more needed" in world.reason(
        "new"
    )
    world.finish("other")
    assert world.admitted(after=1) == ["new"]


def test_what_can_never_fit_is_told_of_the_whole_job() -> None:
    world = running(make_queue(), job("old", pods=5))
    world.submit(job("new", pods=11, replaces="old", at=1))
    assert world.admitted() == []
    assert world.reason("new").startswith(str(Reason.EXCEEDS_MAX_QUOTA))
    assert "requests (5) + current podset request (6) > maximum capacity (10)" in world.reason(
        "new"
    )


def test_the_flavor_of_the_running_pods_is_the_only_one() -> None:
    """Another flavor has room, but the pods that run are of the first."""
    flavors = group(flavor_quotas("a", cpu=4), flavor_quotas("b", cpu=10))
    world = running(make_queue("cq", flavors), job("old", pods=3))
    world.submit(job("new", pods=6, replaces="old", at=1))
    assert world.admitted() == []
    assert "could not assign b flavor since the original workload is assigned: a" in world.reason(
        "new"
    )


def test_a_slice_is_no_victim_of_the_one_that_replaces_it() -> None:
    """Of lower priority by now, and the best victim by all rules."""
    queue = make_queue(preemption=WITHIN)
    world = running(queue, job("old", pods=5), job("low", pods=5))
    world.submit(job("new", pods=8, replaces="old", at=1, priority=1))
    assert victims(world.cycle()) == ["team/low"]


def test_no_slice_takes_over_the_quota_of_one_that_is_being_stopped() -> None:
    """Whoever preempted it counts on that quota."""
    queue = make_queue(preemption=WITHIN)
    world = running(queue, job("old", pods=5), job("other", pods=5, priority=5))
    evicted = condition("Evicted", status=True, reason="Preempted")
    world.submit(with_changes(world.workloads["team/old"], evicted=evicted))
    world.submit(job("new", pods=8, replaces="old", at=1))
    assert world.admitted() == []
    assert "is being stopped" in world.reason("new")

    old = with_changes(world.workloads["team/old"], reservation=None)
    world.submit(old)
    world.finish("other")
    world.finish("old")
    assert world.admitted(after=1) == ["new"]


def test_a_slice_that_is_taken_for_another_head_is_not_replaced_in_the_same_cycle() -> None:
    """The other head is of higher priority, and comes first."""
    queues = (
        make_queue("a", cohort="c", preemption=WITHIN),
        make_queue(
            "b",
            flavor_quotas("default", cpu=5),
            cohort="c",
            preemption=Preemption(reclaim_within_cohort=PreemptionPolicy.ANY),
        ),
    )
    world = EngineWorld(*queues)
    world.submit(with_queue(job("old", pods=12), "a"))
    world.write_back(world.cycle())
    world.submit(with_queue(job("mine", pods=4, priority=9, at=1), "b"))
    world.submit(with_queue(job("new", pods=13, replaces="old", at=2), "a"))
    decisions = {d.workload: d for d in world.cycle().decisions}
    assert isinstance(decisions["team/mine"], Preempt)
    assert not isinstance(decisions["team/new"], Admit)


def with_queue(workload: Workload, name: str) -> Workload:
    return with_changes(workload, queue=f"{NAMESPACE}/{name}")


def test_two_slices_do_not_replace_the_same_one_twice() -> None:
    """Forks come of races; the second one counts in full, and fits not."""
    world = running(make_queue(), job("old", pods=5))
    world.submit(job("new", pods=7, replaces="old", at=1))
    world.submit(job("twin", pods=7, replaces="old", at=2))
    assert world.admitted() == ["new"]
    assert used(world) == 7


@pytest.mark.parametrize("first", ["old", "new"])
def test_after_a_restart_the_two_count_as_one(first: str) -> None:
    world = running(make_queue(), job("old", pods=5))
    world.submit(job("new", pods=8, replaces="old", at=1))
    world.write_back(world.cycle())
    again = EngineWorld(make_queue())
    known = sorted(world.workloads.values(), key=lambda w: w.key != f"team/{first}")
    again.submit(*known)
    assert used(again) == 8
    again.delete("new")
    assert used(again) == 5


def test_a_slice_that_shrinks_in_place_makes_room_at_once() -> None:
    world = running(make_queue(), job("old", pods=8))
    world.submit(job("waiting", pods=5, at=1))
    assert world.admitted() == []
    old = world.workloads["team/old"]
    assert old.reservation is not None
    shrunk = job("old", pods=3)
    admission = with_usage(old, pods=3)
    world.submit(with_changes(old, pod_sets=shrunk.pod_sets, reservation=admission))
    assert world.admitted(after=1) == ["waiting"]
    assert used(world) == 8


def with_usage(workload: Workload, *, pods: int) -> object:
    reservation = workload.reservation
    assert reservation is not None
    (only,) = reservation.admission.pod_sets
    small = replace(only, usage={"cpu": pods * 1000}, count=pods)
    return replace(reservation, admission=replace(reservation.admission, pod_sets=(small,)))


def test_a_slice_in_a_topology_keeps_its_size() -> None:
    """E-152."""
    flavor = ResourceFlavor(name="default", topology_name="racks")
    world = EngineWorld(make_queue(), flavors=[flavor])
    world.engine.upsert_topology(Topology(name="racks", levels=("rack",)))
    old = job("old", pods=2)
    world.submit(old)
    given = PodSetAssignment(name="main", flavors={"cpu": "default"}, usage={"cpu": 2000}, count=2)
    world.submit(reserved(old, Admission(cluster_queue="cq", pod_sets=(given,))))
    world.submit(job("new", pods=3, replaces="old", at=1))
    assert world.admitted(after=1) == []
    assert "elastic jobs keep their size" in world.reason("new")


def test_a_slice_waits_while_the_quota_of_the_one_before_it_is_being_written() -> None:
    """It would ask for all of it, though its job has a part, and in any flavor."""
    world = EngineWorld(make_queue())
    world.submit(job("old", pods=5))
    plan = world.cycle()
    world.submit(job("new", pods=8, replaces="old", at=1))
    assert world.admitted() == []
    assert "is being admitted" in world.reason("new")
    world.write_back(plan)
    assert admit(world).replaces == "team/old"


def test_a_slice_is_looked_at_again_when_the_one_before_it_need_not_stop() -> None:
    world = running(make_queue(), job("old", pods=5))
    old = world.workloads["team/old"]
    evicted = condition("Evicted", status=True, reason="Preempted")
    world.submit(with_changes(old, evicted=evicted))
    world.submit(job("new", pods=8, replaces="old", at=1))
    assert world.admitted() == []
    world.submit(old)
    assert world.admitted() == ["new"]


def test_slices_that_replace_each_other_are_refused() -> None:
    """One would have the quota of the other for nothing, and be finished by it."""
    world = running(make_queue(), job("old", pods=5, replaces="new"))
    world.submit(job("new", pods=6, replaces="old", at=1))
    assert world.admitted() == []
    assert "replaces it, too: delete one of them" in world.reason("new")
    assert used(world) == 5
    world.submit(with_changes(world.workloads["team/old"], replaces=""))
    assert world.admitted() == ["new"]
    assert used(world) == 6


@pytest.mark.parametrize("names", [("a", "b"), ("a", "b", "c")])
@pytest.mark.parametrize("turn", [0, 1, 2])
def test_slices_that_replace_each_other_all_count(names: tuple[str, ...], turn: int) -> None:
    """Somebody else admitted them; in whichever order they are seen."""
    admission = running(make_queue(), job("any", pods=2)).workloads["team/any"].reservation
    assert admission is not None
    order = [*names[turn:], *names[:turn]]
    world = EngineWorld(make_queue())
    for name in order:
        before = names[names.index(name) - 1]
        world.submit(reserved(job(name, pods=2, replaces=before), admission.admission))
    assert used(world) == 2 * len(names)
    world.delete(order[0])
    assert used(world) == 2  # the others are a chain by now
    world.finish(order[-1])
    assert used(world) == 2 * (len(names) - 2)
