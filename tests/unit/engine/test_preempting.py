"""A head that fits only when others leave: whom it asks, what it keeps, and what it waits for."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from multiqueue.api.conditions import Reason
from multiqueue.engine.cache.cached_queue import CachedQueue
from multiqueue.engine.head_order import after_their_preemptors
from multiqueue.engine.nomination import Rejected
from multiqueue.engine.options import AdmissionFairSharing, EngineOptions
from multiqueue.engine.plan import Admit, CyclePlan, Preempt, Requeue, RequeueReason, Skip
from multiqueue.engine.preemption import search
from multiqueue.engine.preemption.classical import find_classical_targets
from multiqueue.engine.preemption.context import SearchContext
from multiqueue.engine.preemption.target import PreemptionRequest, Target
from multiqueue.engine.preemption_limit import LIMIT
from multiqueue.engine.queues.entry import Entry
from multiqueue.engine.queues.pending_queue import PendingQueue
from multiqueue.engine.world import Head
from multiqueue.lib.quantity import Quantity
from multiqueue.model.cluster_queue import (
    AdmissionMode,
    ClusterQueue,
    Preemption,
    PreemptionPolicy,
    QueueingStrategy,
)
from multiqueue.model.past_usage import ConsumedResources
from multiqueue.model.workload import Workload
from tests.builders.engine import (
    NAMESPACE,
    T0,
    condition,
    flavor_quotas,
    make_queue,
    make_workload,
    pod_set,
    reserved,
    seconds,
    with_changes,
)
from tests.engine_world import EngineWorld

LOWER = PreemptionPolicy.LOWER_PRIORITY
WITHIN = Preemption(within_cluster_queue=LOWER)
RECLAIM = Preemption(reclaim_within_cohort=PreemptionPolicy.ANY)
STRICT = QueueingStrategy.STRICT_FIFO


def job(name: str, *, cpu: int, queue: str = "lq", priority: int = 0, at: int = 0) -> Workload:
    return make_workload(
        name, queue=queue, priority=priority, at=T0 + seconds(at), pod_sets=[pod_set(cpu=cpu)]
    )


def run(world: EngineWorld, *, after: float = 0) -> CyclePlan:
    """Run a cycle and write its admissions, which end the evictions before them (E-83)."""
    plan = world.cycle(after=after)
    for decision in plan.decisions:
        if isinstance(decision, Admit):
            old = world.workloads[decision.workload]
            world.workloads[decision.workload] = with_changes(old, evicted=None)
    world.write_back(plan)
    return plan


def full_world(**fields: object) -> EngineWorld:
    """A queue of 10 cpu whose policy is to preempt lower priorities; "low" uses all of it."""
    world = EngineWorld(make_queue(preemption=WITHIN, **fields))
    world.submit(job("low", cpu=10))
    running(world, run(world))
    return world


def running(world: EngineWorld, plan: CyclePlan) -> None:
    for decision in plan.decisions:
        if isinstance(decision, Admit):
            workload = world.workloads[decision.workload]
            world.workloads[decision.workload] = reserved(
                workload, decision.admission, at=world.now
            )


def evict(world: EngineWorld, name: str, *, at: datetime = T0) -> None:
    """Let the eviction become visible; the quota is still held (E-104)."""
    old = world.workloads[f"{NAMESPACE}/{name}"]
    evicted = condition("Evicted", status=True, reason="Preempted", at=at)
    world.submit(with_changes(old, evicted=evicted))


def release(world: EngineWorld, name: str) -> None:
    """Let the job have stopped: the quota is given back."""
    evict(world, name)
    world.submit(with_changes(world.workloads[f"{NAMESPACE}/{name}"], reservation=None))


def victims(plan: CyclePlan) -> list[tuple[str, str, bool]]:
    """(preemptor, victim, whether it is new) of every preemption, in order."""
    return [
        (d.workload.partition("/")[2], v.workload.partition("/")[2], v.is_new)
        for d in plan.decisions
        if isinstance(d, Preempt)
        for v in d.victims
    ]


# ------------------------------------------------------------------ asking


def test_a_head_asks_lower_priorities_to_leave_and_says_so() -> None:
    """E-79."""
    world = full_world()
    world.submit(job("high", cpu=4, priority=1, at=1))
    (decision,) = world.cycle().decisions

    assert isinstance(decision, Preempt)
    (victim,) = decision.victims
    assert (victim.workload, victim.reason, victim.is_new) == ("team/low", "InClusterQueue", True)
    assert "Preempted to accommodate a workload (UID: uid-high" in victim.message
    assert decision.reason == "WaitingForPreemptedWorkloads"
    assert decision.message == (
        "couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor "
        "default, 4 more needed. Pending the preemption of 1 workload(s)"
    )
    assert world.reason("high") == f"{decision.reason}: {decision.message}"


def test_nobody_is_asked_twice_while_a_preemption_is_on_its_way() -> None:
    """E-80."""
    world = full_world()
    world.submit(job("high", cpu=4, priority=1, at=1))
    assert victims(world.cycle()) == [("high", "low", True)]
    assert world.engine.next_cycle_at(world.now) is None

    world.submit(job("other", cpu=1, at=2))  # the tree is looked at again
    assert world.cycle().decisions == ()
    evict(world, "low")
    world.submit(job("third", cpu=1, at=3))
    assert victims(world.cycle()) == [("high", "low", False)]


def test_an_update_on_the_way_is_not_the_eviction() -> None:
    world = full_world()
    world.submit(job("high", cpu=4, priority=1, at=1))
    world.cycle()
    holder = world.workloads["team/low"]
    world.submit(with_changes(holder, priority=-1))

    assert victims(world.cycle()) == [("high", "low", False)]


def test_a_preemption_that_failed_is_decided_on_again_a_second_later() -> None:
    world = full_world()
    world.submit(job("high", cpu=4, priority=1, at=1))
    world.cycle()
    world.engine.preemption_failed("team/low", world.now)
    assert world.engine.next_cycle_at(world.now) == world.now + seconds(1)
    assert victims(world.cycle(after=1)) == [("high", "low", True)]


def test_a_preemption_is_decided_on_again_however_often_it_fails() -> None:
    world = full_world()
    world.submit(job("high", cpu=4, priority=1, at=1))
    world.cycle()
    for _ in range(LIMIT + 2):
        world.engine.preemption_failed("team/low", world.now)
        assert victims(world.cycle(after=1)) == [("high", "low", True)]


@pytest.mark.parametrize("key", ["team/high", "team/unknown"])
def test_only_a_preemption_on_its_way_can_fail(key: str) -> None:
    world = full_world()
    world.submit(job("high", cpu=4, priority=1, at=1))
    world.cycle()
    world.engine.preemption_failed(key, world.now)

    assert world.engine.next_cycle_at(world.now) is None


def test_the_victim_holds_its_quota_until_it_gives_it_back() -> None:
    world = full_world()
    world.submit(job("high", cpu=4, priority=1, at=1))
    world.cycle()
    evict(world, "low")
    assert world.admitted() == []

    release(world, "low")
    assert world.admitted() == ["high"]
    assert [p.workload for p in world.engine.pending_workloads("cq")] == ["team/low"]


def test_who_was_admitted_again_is_asked_again() -> None:
    """The object of an assumed admission may still say Evicted; the write ends that."""
    world = full_world()
    evict(world, "low")
    release(world, "low")
    assert world.admitted() == ["low"]
    world.submit(world.workloads["team/low"])  # an old event, before the write
    world.submit(job("high", cpu=4, priority=1, at=1))

    assert victims(world.cycle()) == [("high", "low", True)]


def test_fewer_pods_are_asked_for_before_nobody_is() -> None:
    """Both of "low" together make room for 3 of the 5 pods (E-43, E-60)."""
    world = EngineWorld(make_queue(preemption=WITHIN))
    world.submit(job("equal", cpu=4, priority=1), job("low", cpu=6))
    running(world, run(world))
    pods = [pod_set(count=5, min_count=1, cpu=2)]
    world.submit(make_workload("high", priority=1, at=T0 + seconds(1), pod_sets=pods))
    assert victims(world.cycle()) == [("high", "low", True)]

    release(world, "low")
    (admit,) = [d for d in world.cycle().decisions if isinstance(d, Admit)]
    assert [(ps.count, ps.usage) for ps in admit.admission.pod_sets] == [(3, {"cpu": 6000})]


# ------------------------------------------------------------------ the first of its queue


def waiting_for_room(strategy: QueueingStrategy) -> EngineWorld:
    """ "high" waits for "low" to leave; "higher" comes before that."""
    world = full_world(strategy=strategy)
    world.submit(job("high", cpu=4, priority=1, at=1))
    world.cycle()
    world.submit(job("higher", cpu=10, priority=2, at=2))
    world.cycle()
    release(world, "low")
    return world


def test_who_waits_for_room_is_first_whoever_comes() -> None:
    """E-15."""
    world = waiting_for_room(QueueingStrategy.BEST_EFFORT_FIFO)

    names = [p.workload for p in world.engine.pending_workloads("cq")]
    assert names == ["team/high", "team/higher", "team/low"]
    assert world.admitted() == ["high"]


def test_strict_fifo_keeps_its_order() -> None:
    """E-15."""
    world = waiting_for_room(STRICT)

    assert world.engine.pending_workloads("cq")[0].workload == "team/higher"
    assert world.admitted() == ["higher"]


def test_an_update_does_not_cost_the_first_place() -> None:
    world = full_world()
    world.submit(job("high", cpu=4, priority=2, at=1))
    world.cycle()
    world.submit(job("higher", cpu=10, priority=3, at=2))
    world.submit(job("high", cpu=4, priority=1, at=1))
    release(world, "low")

    assert world.admitted() == ["high"]


def test_the_first_place_ends_with_the_workload() -> None:
    world = waiting_for_room(QueueingStrategy.BEST_EFFORT_FIFO)
    world.delete("high")

    assert world.admitted() == ["higher"]


# ------------------------------------------------------------------ other heads of the cycle


def cohort(*queues: ClusterQueue) -> EngineWorld:
    """Queues in a cohort, whose names are those of their LocalQueues."""
    return EngineWorld(*queues, local_queues={queue.name: queue.name for queue in queues})


def owners(**quotas: int) -> list[ClusterQueue]:
    return [
        make_queue(name, flavor_quotas("f", cpu=cpu), cohort="co", preemption=RECLAIM)
        for name, cpu in quotas.items()
    ]


def test_two_heads_do_not_count_on_the_room_of_the_same_victim() -> None:
    """ "borrower" leaves for "first"; "second" fits in the rest of its room (E-70, E-75, E-76)."""
    world = cohort(*owners(a=4, b=4, c=0))
    world.submit(job("borrower", queue="c", cpu=8))
    running(world, run(world))
    world.submit(job("first", queue="a", cpu=4, at=1), job("second", queue="b", cpu=4, at=2))
    plan = world.cycle()

    assert victims(plan) == [("first", "borrower", True)]
    (deferred,) = [d for d in plan.decisions if d.workload == "team/second"]
    assert isinstance(deferred, Requeue)
    assert deferred.requeue_reason is RequeueReason.PENDING_PREEMPTION
    assert deferred.reason == "WaitingForPreemptedWorkloads"
    release(world, "borrower")
    assert world.admitted() == ["first", "second"]


def test_a_head_finds_another_victim_where_its_own_leaves_for_somebody_else() -> None:
    world = cohort(*owners(a=4, b=4, c=0))
    world.submit(job("old", queue="c", cpu=4), job("new", queue="c", cpu=4, at=1))
    running(world, run(world))
    world.submit(job("first", queue="a", cpu=4, at=2), job("second", queue="b", cpu=4, at=3))

    got = victims(world.cycle())
    assert [preemptor for preemptor, _, _ in got] == ["first", "second"]
    assert {victim for _, victim, _ in got} == {"old", "new"}


def test_the_room_of_a_preemptor_is_kept_for_it() -> None:
    """6 cpu are free, too few for "owner" alone; "late" would fit there (E-78)."""
    world = cohort(*owners(a=10, c=0))
    world.submit(job("borrower", queue="c", cpu=4))
    running(world, run(world))
    world.submit(job("owner", queue="a", cpu=10, at=1), job("late", queue="c", cpu=5, at=2))
    plan = world.cycle()

    assert victims(plan) == [("owner", "borrower", True)]
    assert [type(d) for d in plan.decisions if d.workload == "team/late"] == [Skip]
    release(world, "borrower")
    assert world.admitted() == ["owner"]


def test_nobody_is_admitted_into_room_that_has_not_been_left_yet() -> None:
    """ "a" leaves 5 of the 6 of "borrower": with 4 free, "d" and "e" both fit only then (E-77)."""
    world = cohort(*owners(a=5, c=0, d=0, e=0, f=5))
    world.submit(job("borrower", queue="c", cpu=6))
    running(world, run(world))
    world.submit(
        job("owner", queue="a", cpu=5, at=1),
        job("one", queue="d", cpu=2, at=2),
        job("two", queue="e", cpu=3, at=3),
    )
    plan = world.cycle()

    assert [d.workload for d in plan.decisions if isinstance(d, Admit)] == ["team/one"]
    assert world.engine.parts.cache.trees["co"].cohorts["co"].usage == [8000]


def head_of(name: str) -> Head:
    entry = Entry(make_workload(name))
    verdict = Rejected(requeue_reason=RequeueReason.GENERIC, reason=Reason.MISCONFIGURED, note="")
    queue = CachedQueue(make_queue(name))
    pending = PendingQueue(name, STRICT)
    return Head(entry=entry, queue=queue, pending=pending, verdict=verdict, is_new=True)


def test_a_victim_that_left_comes_after_whom_it_left_for() -> None:
    """ "v" left for "p", and "u" for "v" before (E-28)."""
    u, v, p, other = heads = [head_of(name) for name in ("u", "v", "p", "other")]
    displaced = {p.entry: frozenset({v.entry}), v.entry: frozenset({u.entry})}

    got = after_their_preemptors(iter([u, v, other, p]), displaced)
    assert list(got) == [other, p, v, u]
    assert list(after_their_preemptors(iter(heads), {})) == heads


def test_whom_a_head_displaced_is_known_while_it_waits() -> None:
    world = full_world()
    world.submit(job("high", cpu=4, priority=1, at=1))
    world.cycle()
    entries = world.engine.parts.entries
    assert entries["team/high"].displaced == {entries["team/low"]}

    release(world, "low")
    assert world.admitted() == ["high"]
    assert entries["team/high"].displaced == frozenset()


def test_one_that_is_gone_keeps_nobody_in_memory() -> None:
    """Else each keeps whom it preempted, who keeps whom that one had preempted, without end."""
    world = full_world()
    world.submit(job("high", cpu=4, priority=1, at=1))
    world.cycle()
    release(world, "low")
    assert world.admitted() == ["high"]
    high = world.engine.parts.entries["team/high"]
    assert high.victims is not None
    world.delete("high")
    assert (high.victims, high.memo, high.displaced) == (None, None, frozenset())


# ------------------------------------------------------------------ no end by timing


def rivals() -> EngineWorld:
    """Three workloads each of which beats the next, where there is room for one of them.

    "small" takes back what its queue lends to "big"; "older" comes before "small" in that queue;
    and the room it gets by that is taken by "big", whose priority is higher.
    """
    takes = Preemption(
        within_cluster_queue=PreemptionPolicy.LOWER_OR_NEWER_EQUAL_PRIORITY,
        reclaim_within_cohort=PreemptionPolicy.ANY,
        borrow_within_cohort=LOWER,
    )
    world = cohort(
        make_queue("a", flavor_quotas("f", cpu=4), cohort="co", preemption=takes),
        make_queue("b", flavor_quotas("f", cpu=2), cohort="co", strategy=STRICT, preemption=takes),
        make_queue("c", flavor_quotas("f", cpu=10), cohort="co"),
        make_queue("d", flavor_quotas("f", cpu=4), cohort="co"),
    )
    world.submit(job("b0", queue="b", cpu=1, priority=3), job("c0", queue="c", cpu=8, priority=3))
    running(world, run(world))
    world.now += seconds(1)
    world.submit(job("low", queue="c", cpu=1), job("c1", queue="c", cpu=2, priority=1))
    world.submit(job("big", queue="b", cpu=8, priority=3))
    running(world, run(world))
    world.submit(job("older", queue="a", cpu=6, at=1), job("c2", queue="c", cpu=2, priority=2))
    running(world, run(world))
    world.submit(job("small", queue="a", cpu=3, at=2))
    return world


def settle(world: EngineWorld) -> list[tuple[str, str, bool]]:
    """Act on every decision for a minute; all preemptions, in order."""
    seen: list[tuple[str, str, bool]] = []
    for _ in range(60):
        plan = run(world, after=1)
        running(world, plan)
        seen += [asked for asked in victims(plan) if asked[2]]
        for _, victim, is_new in victims(plan):
            if is_new:
                release(world, victim)
    return seen


def test_workloads_do_not_drive_each_other_out_for_ever() -> None:
    """E-28."""
    seen = settle(world := rivals())

    assert seen.count(("small", "big", True)) == LIMIT
    assert seen.count(("older", "small", True)) == 1  # in vain
    assert settle(world) == []


def test_who_comes_back_before_its_preemptor_is_not_taken_for_ever() -> None:
    """ "low" is of the LocalQueue that used less, so its turn comes before that of "high"."""
    sharing = AdmissionFairSharing(half_life=timedelta(hours=1))
    world = EngineWorld(
        make_queue("cq", preemption=WITHIN, admission_mode=AdmissionMode.USAGE_BASED),
        options=EngineOptions(admission_fair_sharing=sharing),
        local_queues={"spender": "cq", "saver": "cq"},
    )
    assert world.engine.usage is not None
    used = ConsumedResources(by_resource={"cpu": Quantity.of(1000)}, updated_at=T0)
    world.engine.usage.seed(f"{NAMESPACE}/spender", used, world.now)
    world.submit(job("low", queue="saver", cpu=6))
    running(world, run(world))
    world.submit(job("high", queue="spender", cpu=10, priority=1))

    assert settle(world) == [("high", "low", True)] * LIMIT
    assert world.engine.parts.cache.queues["cq"].reserving == 1


def test_something_from_outside_lets_them_try_again() -> None:
    world = rivals()
    settle(world)
    world.delete("low")

    assert ("older", "small", True) in settle(world)


# ------------------------------------------------------------------ when quota was reserved


def test_the_time_of_a_reservation_is_in_whole_seconds() -> None:
    world = EngineWorld(make_queue())
    world.now = T0 + seconds(1.5)
    world.submit(job("assumed", cpu=1))
    plan = world.cycle()
    entry = world.engine.parts.entries["team/assumed"]
    assert entry.reserved_at == int(T0.timestamp()) + 1

    (admit,) = plan.decisions
    assert isinstance(admit, Admit)
    world.submit(reserved(world.workloads["team/assumed"], admit.admission, at=T0 + seconds(7)))
    assert entry.reserved_at == int(T0.timestamp()) + 7
    release(world, "assumed")
    assert entry.reserved_at == 0


def test_one_flavor_of_one_resource_is_searched_once(monkeypatch: pytest.MonkeyPatch) -> None:
    searches: list[PreemptionRequest] = []

    def count(request: PreemptionRequest, context: SearchContext) -> list[Target]:
        searches.append(request)
        return find_classical_targets(request, context)

    monkeypatch.setattr(search, "find_classical_targets", count)
    world = EngineWorld(make_queue("cq", flavor_quotas("f", cpu=2), preemption=WITHIN))
    world.submit(job("low", cpu=2))
    run(world)
    world.submit(job("high", cpu=2, priority=1))
    plan = world.cycle()
    assert [victim for _, victim, _ in victims(plan)] == ["low"]
    assert len(searches) == 1


def test_victims_are_searched_again_for_all_that_a_head_asks() -> None:
    """What was found for one resource is not taken for the answer for two."""
    quotas = flavor_quotas("f", cpu=4, gpu=2)
    world = EngineWorld(make_queue("cq", quotas, preemption=WITHIN))
    cores = make_workload("cores", pod_sets=[pod_set(cpu=4)])
    gpus = make_workload("gpus", pod_sets=[pod_set(gpu=2)])
    world.submit(cores, gpus)
    run(world)
    world.submit(make_workload("high", priority=1, pod_sets=[pod_set(cpu=4, gpu=2)]))
    assert {victim for _, victim, _ in victims(world.cycle())} == {"cores", "gpus"}
