"""What every search for victims keeps, whatever the tree and whoever holds its quota."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from multiqueue.engine.cache.quota_node import FlavorResource
from multiqueue.engine.options import EngineOptions, FairSharing, FairStrategy
from multiqueue.engine.preemption.hierarchy import Candidates
from multiqueue.engine.preemption.room import can_make_room, fits
from multiqueue.engine.preemption.simulation import without
from multiqueue.engine.preemption.target import PreemptionRequest
from multiqueue.lib.quantity import Quantity
from multiqueue.model.cluster_queue import ClusterQueue, Cohort, StopPolicy
from tests.builders.engine import T0, flavor_quotas, group, make_queue, quota, seconds
from tests.preemption_world import (
    ANY,
    LOWER,
    LOWER_OR_NEWER,
    NEVER,
    Holdings,
    make_preemption,
)

COHORTS = ("root", "left", "right", "deep")
FLAVORS = ("x", "y")
amounts = st.integers(1, 6)
limits = st.sampled_from([None, None, None, 0, 2, 4])


@dataclass(frozen=True)
class Holder:
    """A workload that holds cpu and gpu of one flavor."""

    name: str
    queue: str
    flavor: str
    priority: int
    age: int
    is_evicted: bool
    cpu: int
    gpu: int | None


@dataclass(frozen=True)
class Case:
    """A tree, who holds its quota, and who wants some."""

    queues: Sequence[ClusterQueue]
    holders: Sequence[Holder]
    priority: int
    age: int
    flavor: str
    cpu: int
    gpu: int
    contested: Sequence[str]
    sharing: FairSharing | None

    def world(self, holders: Sequence[Holder] | None = None) -> Holdings:
        cohorts = [
            Cohort(name="left", parent="root", weight=Quantity.of(2)),
            Cohort(name="right", parent="root"),
            Cohort(name="deep", parent="right"),
        ]
        options = EngineOptions(fair_sharing=self.sharing)
        world = Holdings(*self.queues, cohorts=cohorts, options=options)
        for holder in self.holders if holders is None else holders:
            optional = {} if holder.gpu is None else {"gpu": holder.gpu}
            world.hold(
                holder.name,
                holder.queue,
                flavor=holder.flavor,
                priority=holder.priority,
                at=T0 - seconds(holder.age),
                reserved_at=T0 + seconds(holder.age),
                is_evicted=holder.is_evicted,
                cpu=holder.cpu,
                **optional,
            )
        return world

    def request(self, world: Holdings) -> PreemptionRequest:
        return world.request(
            "q0",
            priority=self.priority,
            at=T0 - seconds(self.age),
            flavor=self.flavor,
            contested=self.contested,
            cpu=self.cpu,
            gpu=self.gpu,
        )


both = tuple(FairStrategy)
sharings = st.none() | st.builds(
    FairSharing,
    strategies=st.sampled_from([both, both[:1], both[1:]]),
    preempt_within_nominal=st.booleans(),
)


@st.composite
def queue_specs(draw: st.DrawFn, name: str, *, cohort: st.SearchStrategy[str]) -> ClusterQueue:
    def limited(resource: str) -> object:
        return quota(resource, draw(amounts), borrow=draw(limits), lend=draw(limits))

    in_cohort = draw(cohort)
    stops = name != "q0" and draw(st.integers(0, 7)) == 0
    flavors = [flavor_quotas(f, cpu=limited("cpu"), gpu=limited("gpu")) for f in FLAVORS]
    return make_queue(
        name,
        group(*flavors),
        cohort=in_cohort,
        weight=Quantity.of(draw(st.sampled_from([0, 1, 1, 3]))),
        stop_policy=StopPolicy.HOLD if stops else StopPolicy.NONE,
        preemption=make_preemption(
            own=draw(st.sampled_from([LOWER, LOWER_OR_NEWER, LOWER_OR_NEWER, NEVER])),
            reclaim=draw(st.sampled_from([ANY, ANY, LOWER, LOWER_OR_NEWER, NEVER])),
            while_borrowing=draw(st.sampled_from([NEVER, LOWER])),
            threshold=draw(st.none() | st.integers(0, 3)),
        ),
    )


@st.composite
def cases(
    draw: st.DrawFn, *, cohorts: Sequence[str] = COHORTS, flavors: str = "xxxy", fewest: int = 6
) -> Case:
    names = [f"q{i}" for i in range(5)]
    holders = [
        Holder(
            name=f"w{i}",
            queue=draw(st.sampled_from(names)),
            flavor=draw(st.sampled_from(flavors)),
            priority=draw(st.integers(0, 3)),
            age=draw(st.integers(0, 3)),
            is_evicted=draw(st.integers(0, 5)) == 0,
            cpu=draw(st.integers(0, 5)),
            gpu=draw(st.none() | st.integers(0, 3)),
        )
        for i in range(draw(st.integers(fewest, 14)))
    ]
    return Case(
        queues=[draw(queue_specs(name, cohort=st.sampled_from(cohorts))) for name in names],
        holders=holders,
        priority=draw(st.integers(1, 4)),
        age=draw(st.integers(0, 3)),
        flavor=draw(st.sampled_from(flavors)),
        cpu=draw(st.integers(1, 6)),
        gpu=draw(st.integers(1, 3)),
        contested=draw(st.sampled_from([["cpu"], ["gpu"], ["cpu", "gpu"]])),
        sharing=draw(sharings),
    )


@given(cases())
@settings(deadline=None, max_examples=50)
def test_a_search_leaves_the_usage_as_it_was(case: Case) -> None:
    world = case.world()
    before = world.usage()

    world.find(case.request(world))

    assert world.usage() == before


@given(cases())
@settings(deadline=None, max_examples=200)
def test_the_targets_make_room_and_sparing_any_of_them_does_not(case: Case) -> None:
    world = case.world()
    request = case.request(world)
    assume(not fits(request, may_borrow=True))
    entries = [target.entry for target in world.find(request)]
    if not entries:
        return

    with without(request.tree, entries) as simulation:
        assert fits(request, may_borrow=True)
        # A search that may not borrow stops at the quota of the queue itself; a fair one may.
        may_borrow = case.sharing is not None or not fits(request, may_borrow=False)
        for entry in entries:
            simulation.put_back(entry)
            assert not fits(request, may_borrow=may_borrow), entry.key
            simulation.remove(entry)


@given(cases(), st.randoms(use_true_random=False))
@settings(deadline=None, max_examples=50)
def test_the_targets_do_not_depend_on_the_order_of_the_objects(case: Case, random: object) -> None:
    shuffled = list(case.holders)
    random.shuffle(shuffled)
    world, other = case.world(), case.world(shuffled)

    assert world.targets(case.request(world)) == other.targets(case.request(other))


@given(cases())
@settings(deadline=None, max_examples=50)
def test_nobody_is_taken_whom_the_policies_protect(case: Case) -> None:
    world = case.world()
    request = case.request(world)
    policies = request.queue.spec.preemption

    for target in world.find(request):
        entry = target.entry
        queue = world.queue(entry.charged)
        policy = policies.reclaim_within_cohort
        if queue is request.queue:
            policy = policies.within_cluster_queue
        else:
            assert queue.is_active
            assert any(_borrows(world, entry.charged, pair) for pair in request.needed())
        assert policy is not NEVER
        if policy is not ANY:
            assert entry.workload.priority <= case.priority
        if policy is LOWER:
            assert entry.workload.priority < case.priority
        assert not request.needed().isdisjoint(entry.usage)


def _borrows(world: Holdings, queue: str, pair: FlavorResource) -> bool:
    node = world.queue(queue).node
    slot = node.slot(pair)
    return node.usage[slot] > node.nominal[slot]


@given(cases())
@settings(deadline=None, max_examples=50)
def test_a_search_is_not_given_up_where_room_could_be_made(case: Case) -> None:
    world = case.world()
    request = case.request(world)
    candidates = Candidates(request, world.context(), request.needed())
    for may_borrow in (False, True):
        everybody = [c.entry for c, _ in candidates.in_order(may_borrow=may_borrow)]
        with without(request.tree, everybody):
            has_room = fits(request, may_borrow=may_borrow)

        totals = candidates.totals(may_borrow=may_borrow)
        assert not has_room or can_make_room(request, request.needed(), totals)
