"""Which of several flavors is taken (E-47 to E-55)."""

import pytest

from multiqueue.api.v1beta2.meta import LabelSelectorRequirement
from multiqueue.api.v1beta2.workload import PodSetTopologyRequest
from multiqueue.engine.cache.cached_queue import CachedQueue
from multiqueue.engine.cache.tree import build_tree
from multiqueue.engine.flavors.assigner import assign_flavors
from multiqueue.engine.flavors.assignment import FlavorMode, preference_key
from multiqueue.engine.flavors.flavor_search import FlavorSearch
from multiqueue.engine.flavors.oracle import no_candidates
from multiqueue.engine.nominate import is_resume_outdated
from multiqueue.engine.pending_reasons import FlavorNotFound, TopologyMismatch
from multiqueue.engine.plan import Admit, Requeue
from multiqueue.engine.queues.resume import ResumeState
from multiqueue.engine.tas.forest import Forest
from multiqueue.model.cluster_queue import (
    ClusterQueue,
    Cohort,
    FlavorFungibility,
    FungibilityPolicy,
    FungibilityPreference,
    Preemption,
    PreemptionPolicy,
    QueueingStrategy,
)
from multiqueue.model.placement import Placement
from multiqueue.model.resource_flavor import ResourceFlavor
from multiqueue.model.workload import Admission, PodSetAssignment
from tests.builders.engine import (
    T0,
    flavor_quotas,
    group,
    make_queue,
    make_workload,
    pod_set,
    reserved,
    seconds,
)
from tests.engine_world import EngineWorld

NEXT, STOP = FungibilityPolicy.TRY_NEXT_FLAVOR, FungibilityPolicy.MAY_STOP_SEARCH
BOP = FungibilityPreference.BORROWING_OVER_PREEMPTION
POB = FungibilityPreference.PREEMPTION_OVER_BORROWING
LOWER = Preemption(within_cluster_queue=PreemptionPolicy.LOWER_PRIORITY)


def two_flavors(fungibility: FlavorFungibility, **fields: object) -> list[ClusterQueue]:
    """Queue "a" has 1 cpu of "near" and 4 of "far"; its cohort lends it "near"."""
    near_and_far = group(flavor_quotas("near", cpu=1), flavor_quotas("far", cpu=4))
    return [
        make_queue("a", near_and_far, cohort="co", fungibility=fungibility, **fields),
        make_queue("b", flavor_quotas("near", cpu=9), cohort="co"),
    ]


def flavor_of(world: EngineWorld) -> str:
    (decision,) = world.cycle().decisions
    assert isinstance(decision, Admit)
    return decision.admission.pod_sets[0].flavors["cpu"]


@pytest.mark.parametrize(
    ("policy", "want"),
    [
        pytest.param(STOP, "near", id="borrowing is good enough"),
        pytest.param(NEXT, "far", id="rather not borrow"),
    ],
)
def test_a_flavor_that_needs_borrowing(policy: FungibilityPolicy, want: str) -> None:
    world = EngineWorld(*two_flavors(FlavorFungibility(when_can_borrow=policy)))
    world.submit(make_workload("w", queue="a", pod_sets=[pod_set(cpu=3)]))

    assert flavor_of(world) == want


def test_borrowing_wins_when_nothing_better_follows() -> None:
    world = EngineWorld(*two_flavors(FlavorFungibility(when_can_borrow=NEXT)))
    world.submit(make_workload("w", queue="a", pod_sets=[pod_set(cpu=5)]))

    assert flavor_of(world) == "near"


def test_a_full_flavor_is_passed_over() -> None:
    world = EngineWorld(
        make_queue("cq", group(flavor_quotas("x", cpu=1), flavor_quotas("y", cpu=1)))
    )
    world.submit(make_workload("w0"), make_workload("w1", at=T0 + seconds(1)))
    plan = world.cycle()

    assert [d.admission.pod_sets[0].flavors["cpu"] for d in plan.decisions] == ["x", "y"]


def test_a_flavor_that_is_gone_does_not_match() -> None:
    world = EngineWorld(
        make_queue("cq", group(flavor_quotas("x", cpu=1), flavor_quotas("y", cpu=1)))
    )
    world.submit(make_workload("w", pod_sets=[pod_set(cpu=2)]))
    world.engine.delete_resource_flavor("x")

    assert world.admitted() == []
    assert world.reason("w") == "Suspended: ClusterQueue cq is inactive"


def test_affinity_that_cannot_be_understood_ends_the_search() -> None:
    flavors = [ResourceFlavor(name="x", node_labels={"zone": "a"})]
    quotas = group(flavor_quotas("x", cpu=1), flavor_quotas("y", cpu=1))
    world = EngineWorld(make_queue("cq", quotas), flavors=flavors)
    broken = Placement(affinity_terms=((LabelSelectorRequirement(key="zone", operator="Like"),),))
    world.submit(make_workload("w", pod_sets=[pod_set(cpu=1, placement=broken)]))

    assert world.admitted() == []
    assert world.reason("w").startswith("NoMatchingFlavor")


def test_the_least_hopeless_flavor_gives_the_reason() -> None:
    """E-58."""
    quotas = group(flavor_quotas("x", cpu=1), flavor_quotas("y", cpu=4))
    world = EngineWorld(make_queue("cq", quotas))
    world.submit(make_workload("w0", pod_sets=[pod_set(cpu=3)]))
    world.cycle()
    world.submit(make_workload("w1", at=T0 + seconds(1), pod_sets=[pod_set(cpu=3)]))
    (decision,) = world.cycle().decisions

    assert isinstance(decision, Requeue)
    assert decision.reason == "WaitingForQuota"
    assert "flavor x, previously considered" in decision.message
    assert "insufficient unused quota for cpu in flavor y, 2 more needed" in decision.message


def oracle_world(
    fungibility: FlavorFungibility, *modes: FlavorMode, **fields: object
) -> tuple[EngineWorld, list[int]]:
    """A full queue with a flavor per mode; the oracle says the modes, and notes what is asked."""
    asked: list[int] = []

    def oracle(
        queue: object, workload: object, slot: int, amount: int, borrowing: int
    ) -> tuple[FlavorMode, int]:
        asked.append(slot)
        return modes[slot], borrowing

    names = "xyz"[: len(modes)]
    flavors = group(*(flavor_quotas(name, cpu=2) for name in names))
    queue = make_queue("cq", flavors, fungibility=fungibility, preemption=LOWER, **fields)
    world = EngineWorld(queue, oracle=oracle)
    world.submit(make_workload("full", pod_sets=[pod_set(name, cpu=2) for name in names]))
    world.cycle()
    asked.clear()
    return world, asked


def test_a_flavor_that_can_preempt_stops_the_search_where_told_so() -> None:
    """The first cycle stops at x; what is left is looked at by the following cycles (E-53)."""
    modes = (FlavorMode.PREEMPT, FlavorMode.PREEMPT, FlavorMode.NO_CANDIDATES)
    world, asked = oracle_world(FlavorFungibility(when_can_preempt=STOP), *modes)
    world.submit(make_workload("w", at=T0 + seconds(1)))
    plan = world.cycle()

    assert asked == [0, 1, 2]
    assert [decision.parked for decision in plan.decisions] == [False, False, True]


def test_a_flavor_that_can_preempt_does_not_stop_the_search_by_default() -> None:
    world, asked = oracle_world(FlavorFungibility(), FlavorMode.RECLAIM, FlavorMode.RECLAIM)
    world.submit(make_workload("w", at=T0 + seconds(1)))
    plan = world.cycle()

    assert asked == [0, 1]
    assert [decision.parked for decision in plan.decisions] == [True]


def test_a_strict_head_goes_round_its_flavors_and_then_rests() -> None:
    """E-24."""
    strict = QueueingStrategy.STRICT_FIFO
    modes = (FlavorMode.PREEMPT, FlavorMode.PREEMPT)
    world, asked = oracle_world(FlavorFungibility(when_can_preempt=STOP), *modes, strategy=strict)
    world.submit(make_workload("w", at=T0 + seconds(1)))
    world.cycle()
    assert asked == [0, 1, 0]
    assert world.engine.next_cycle_at(world.now) is None

    asked.clear()
    world.submit(make_workload("w", at=T0 + seconds(1), pod_sets=[pod_set(cpu=2)]))
    world.cycle()
    assert asked[0] == 0  # another shape begins at the first flavor


def test_a_flavor_that_stops_the_search_is_taken_over_a_better_one_before_it() -> None:
    """x fits by borrowing, y could preempt: x is preferred, but the search stops at y (E-53)."""
    policy = FlavorFungibility(when_can_borrow=NEXT, when_can_preempt=STOP)
    quotas = group(flavor_quotas("x", cpu=0), flavor_quotas("y", cpu=2))
    world = EngineWorld(
        make_queue("a", quotas, cohort="co", fungibility=policy, preemption=LOWER),
        make_queue("b", flavor_quotas("x", cpu=5), cohort="co"),
        oracle=lambda *_: (FlavorMode.PREEMPT, 0),
    )
    on_y = Admission(
        cluster_queue="a",
        pod_sets=(PodSetAssignment(name="main", flavors={"cpu": "y"}, usage={"cpu": 2000}),),
    )
    world.submit(reserved(make_workload("full", queue="a"), on_y))
    world.submit(make_workload("w", queue="a", at=T0 + seconds(1)))
    (decision,) = world.cycle().decisions

    assert isinstance(decision, Requeue)


def test_a_flavor_is_as_good_as_its_worst_resource() -> None:
    """cpu would have to be borrowed two levels up, memory only one: the height is two."""
    world = EngineWorld(
        make_queue("a", flavor_quotas("f", cpu=0, memory=0), cohort="team"),
        make_queue("b", flavor_quotas("f", cpu=9, memory=1), cohort="org"),
        make_queue("c", flavor_quotas("f", cpu=0, memory=9), cohort="team"),
    )
    world.engine.upsert_cohort(Cohort(name="team", parent="org"))
    world.submit(make_workload("w", queue="a", pod_sets=[pod_set(cpu=1, memory=1)]))
    (decision,) = world.cycle().decisions

    assert decision.borrowing == 2


def outdated(*, cpu: int = 1, cycle: int, generation: int = 0) -> bool:
    """Whether a search of cycle 5 and generation 0 begins anew."""
    workload = make_workload("w", pod_sets=[pod_set(cpu=cpu)])
    shape = make_workload("w").shape
    resume = ResumeState(shape=shape, cycle=5, generation=0, tried=({"cpu": 0},))
    queue = CachedQueue(make_queue())
    queue.generation = generation
    return is_resume_outdated(resume, workload, queue, cycle)


def test_a_search_goes_on_in_the_next_cycle_whatever_became_free() -> None:
    assert not outdated(cycle=6, generation=3)


def test_a_later_search_goes_on_unless_quota_may_have_become_free() -> None:
    """E-41."""
    assert not outdated(cycle=9)
    assert outdated(cycle=9, generation=1)


def test_the_search_of_a_changed_workload_begins_anew() -> None:
    """E-41."""
    assert outdated(cpu=2, cycle=6)


def find(flavors: dict[str, ResourceFlavor], **fields: object) -> object:
    """The first refusal of a search over one flavor."""
    queue = CachedQueue(make_queue("cq", flavor_quotas("f", gpu=1)))
    build_tree("cq", (), [queue], Forest(), in_cycle=False)
    workload = make_workload("w", pod_sets=[pod_set(gpu=1, **fields)])
    search = FlavorSearch(
        queue=queue, workload=workload, flavors=flavors, rooms={}, oracle=no_candidates
    )
    got = assign_flavors(search, None)
    return got.pod_sets[0].explanation.refusals[0]


def test_a_flavor_without_an_object_is_not_found() -> None:
    assert find({}) == FlavorNotFound(flavor="f")


def test_a_flavor_without_a_topology_is_not_for_pods_that_want_one() -> None:
    request = PodSetTopologyRequest(required="rack")
    flavors = {"f": ResourceFlavor(name="f")}

    assert find(flavors, topology_request=request) == TopologyMismatch(flavor="f", wanted=True)


def key(mode: FlavorMode, borrowing: int, preference: FungibilityPreference = BOP) -> object:
    return preference_key(mode, borrowing, preference)


def test_borrowing_over_preemption_looks_at_the_mode_first() -> None:
    assert key(FlavorMode.FIT, 2) > key(FlavorMode.RECLAIM, 0) > key(FlavorMode.PREEMPT, 0)
    assert key(FlavorMode.FIT, 1) > key(FlavorMode.FIT, 2)


def test_preemption_over_borrowing_looks_at_the_borrowing_first() -> None:
    assert key(FlavorMode.PREEMPT, 0, POB) > key(FlavorMode.FIT, 1, POB)
    assert key(FlavorMode.FIT, 1, POB) > key(FlavorMode.PREEMPT, 1, POB)


@pytest.mark.parametrize("preference", [BOP, POB])
def test_no_candidates_and_no_fit_are_worst_by_any_preference(
    preference: FungibilityPreference,
) -> None:
    worst, bad = key(FlavorMode.NO_FIT, 0, preference), key(FlavorMode.NO_CANDIDATES, 0, preference)

    assert worst < bad < key(FlavorMode.PREEMPT, 9, preference)
    assert key(FlavorMode.NO_FIT, 5, preference) == worst


def test_without_reclaiming_a_borrower_that_the_root_cannot_serve_does_not_fit() -> None:
    world = EngineWorld(
        make_queue("a", flavor_quotas("f", cpu=1), cohort="co"),
        make_queue("b", flavor_quotas("f", cpu=4), cohort="co"),
    )
    world.submit(make_workload("w0", queue="b", pod_sets=[pod_set(cpu=4)]))
    world.cycle()
    world.submit(make_workload("w1", queue="a", pod_sets=[pod_set(cpu=3)]))
    (decision,) = world.cycle().decisions

    assert decision.requeue_reason == "NoFit"


def test_a_borrower_that_may_preempt_while_borrowing_waits_for_candidates() -> None:
    preemption = Preemption(borrow_within_cohort=PreemptionPolicy.LOWER_PRIORITY)
    world = EngineWorld(
        make_queue("a", flavor_quotas("f", cpu=1), cohort="co", preemption=preemption),
        make_queue("b", flavor_quotas("f", cpu=4), cohort="co"),
    )
    world.submit(make_workload("w0", queue="b", pod_sets=[pod_set(cpu=4)]))
    world.cycle()
    world.submit(make_workload("w1", queue="a", pod_sets=[pod_set(cpu=3)]))
    (decision,) = world.cycle().decisions

    assert decision.requeue_reason == "PreemptionNoCandidates"
