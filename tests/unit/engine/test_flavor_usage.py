"""What the flavors of a whole workload use and contest, and who may borrow by preempting."""

from typing import Any

import pytest

from multiqueue.api.v1beta2.workload import PodSetTopologyRequest
from multiqueue.engine.flavors.assigner import assign_flavors
from multiqueue.engine.flavors.assignment import (
    Assignment,
    FlavorChoice,
    FlavorMode,
    Mode,
    PodSetResult,
)
from multiqueue.engine.flavors.flavor_search import FlavorSearch
from multiqueue.engine.flavors.oracle import no_candidates
from multiqueue.engine.flavors.partial_admission import find_reduced
from multiqueue.engine.pending_reasons import Shortfall
from multiqueue.engine.plan import Preempt
from multiqueue.model.cluster_queue import FlavorFungibility, FungibilityPolicy
from multiqueue.model.workload import Workload
from tests.builders.engine import (
    T0,
    flavor_quotas,
    group,
    make_queue,
    make_workload,
    pod_set,
    seconds,
)
from tests.engine_world import EngineWorld
from tests.preemption_world import ANY, LOWER, Holdings, make_cpu_queue


@pytest.mark.parametrize(("cpu", "want"), [(5, []), (6, ["w"])])
def test_all_pod_sets_on_one_flavor_count_together(cpu: int, want: list[str]) -> None:
    world = EngineWorld(make_queue("cq", flavor_quotas("f", cpu=cpu)))
    world.submit(make_workload("w", pod_sets=[pod_set(name, cpu=2) for name in ("a", "b", "c")]))

    assert world.admitted() == want


def test_only_what_does_not_fit_is_contested_and_only_if_it_is_asked_for() -> None:
    chosen = {
        "cpu": FlavorChoice("f", FlavorMode.PREEMPT, 0, -1, 0),
        "memory": FlavorChoice("f", FlavorMode.FIT, 0, -1, 1),
        "gpu": FlavorChoice("f", FlavorMode.PREEMPT, 0, -1, 2),
    }
    asked = {"cpu": 1, "memory": 1, "gpu": 0}
    found = PodSetResult(pod_set(cpu=1), 1, asked, chosen)

    assert Assignment(pod_sets=(found,), usage={0: 1, 1: 1}).contested() == {0}


def test_several_pod_sets_shrink_by_whole_pods() -> None:
    pod_sets = [pod_set(name, count=4, min_count=1, cpu=1) for name in ("a", "b")]

    found = find_reduced(pod_sets, lambda counts: counts if sum(counts) <= 5 else None)

    assert found == [2, 2]


def test_nobody_is_preempted_to_borrow_in_a_cohort_that_could_not_reclaim_it() -> None:
    """Reclaiming is no licence to borrow; that is fair sharing, or borrowWithinCohort (E-48)."""
    world = EngineWorld(
        make_cpu_queue("a", 2, cohort="co", own=LOWER, reclaim=ANY),
        make_cpu_queue("b", 2, cohort="co"),
    )
    world.submit(make_workload("low", queue="a", pod_sets=[pod_set(cpu=4)]))
    world.write_back(world.cycle())
    world.submit(
        make_workload("high", queue="a", priority=9, at=T0 + seconds(1), pod_sets=[pod_set(cpu=3)])
    )

    assert not [d for d in world.cycle(after=2).decisions if isinstance(d, Preempt)]


def assign(world: Holdings, workload: Workload, *, undeclared: bool = False, **fields: Any) -> Any:
    """The flavors for a workload of queue "a"."""
    search = FlavorSearch(
        queue=world.queue("a"),
        workload=workload,
        flavors=world.cache.flavors,
        rooms={},
        **{"oracle": no_candidates, **fields},
    )
    return assign_flavors(search, None, ignore_undeclared=undeclared)


def one_pod(**requests: int) -> Workload:
    return make_workload("w", pod_sets=[pod_set(**requests)])


def near_and_far(near: int, far: int, **fields: object) -> Holdings:
    flavors = group(flavor_quotas("near", cpu=near), flavor_quotas("far", cpu=far))
    return Holdings(make_queue("a", flavors, **fields))


def flavor_of(got: Any) -> str:
    return got.pod_sets[0].flavors["cpu"].flavor


def test_every_resource_group_gives_a_flavor() -> None:
    groups = (flavor_quotas("cpus", cpu=4, memory=4), flavor_quotas("gpus", gpu=4))
    got = assign(Holdings(make_queue("a", *groups)), one_pod(cpu=1, memory=1, gpu=1))

    assert {name: choice.flavor for name, choice in got.pod_sets[0].flavors.items()} == {
        "cpu": "cpus",
        "memory": "cpus",
        "nvidia.com/gpu": "gpus",
    }
    assert got.borrowing == 0


def test_what_needs_no_quota_keeps_nothing_else_from_its_flavor() -> None:
    got = assign(Holdings(make_cpu_queue("a", 4)), one_pod(aaa=1, cpu=1), undeclared=True)

    assert got.usage == {0: 1000}


def test_a_single_pod_is_charged_where_pods_have_a_quota() -> None:
    """E-8."""
    world = Holdings(make_queue("a", flavor_quotas("f", cpu=4, pods=4)))

    assert assign(world, one_pod(cpu=1)).pod_sets[0].requests == {"cpu": 1000, "pods": 1}


def test_pod_sets_of_a_group_use_just_their_sum() -> None:
    together = PodSetTopologyRequest(pod_set_group_name="g")
    pod_sets = [pod_set(name, cpu=2, topology_request=together) for name in ("x", "y")]
    got = assign(Holdings(make_cpu_queue("a", 4)), make_workload("w", pod_sets=pod_sets))

    assert (got.mode, got.usage) == (Mode.FIT, {0: 4000})


def test_flavors_that_were_not_nominated_are_passed_over() -> None:
    got = assign(near_and_far(4, 4), one_pod(cpu=1), nominated={"main": frozenset({"far"})})

    assert flavor_of(got) == "far"


def test_what_fits_is_told_nothing_of_flavors_that_were_too_small() -> None:
    got = assign(near_and_far(1, 4), one_pod(cpu=2))

    assert flavor_of(got) == "far"
    assert got.explanations() == ()


def test_of_two_flavors_as_good_the_first_is_taken() -> None:
    fungibility = FlavorFungibility(when_can_preempt=FungibilityPolicy.TRY_NEXT_FLAVOR)
    world = near_and_far(2, 2, fungibility=fungibility)
    for flavor in ("near", "far"):
        world.hold(flavor, "a", flavor=flavor, cpu=2)
    got = assign(world, one_pod(cpu=1), oracle=lambda *_: (FlavorMode.PREEMPT, 0))

    assert flavor_of(got) == "near"


def test_the_search_goes_on_where_nobody_could_be_preempted() -> None:
    fungibility = FlavorFungibility(when_can_preempt=FungibilityPolicy.MAY_STOP_SEARCH)
    world = near_and_far(2, 2, fungibility=fungibility)
    world.hold("full", "a", flavor="near", cpu=2)

    assert flavor_of(assign(world, one_pod(cpu=1))) == "far"


@pytest.mark.parametrize(("held", "free", "borrowable"), [(3, 1000, 4000), (5, 0, 3000)])
def test_a_refusal_tells_own_and_borrowed_room_apart(held: int, free: int, borrowable: int) -> None:
    world = Holdings(make_cpu_queue("a", 4, cohort="co"), make_cpu_queue("b", 4, cohort="co"))
    world.hold("own", "a", cpu=held)
    got = assign(world, one_pod(cpu=9))
    (refusal,) = got.pod_sets[0].explanation.refusals

    assert refusal == Shortfall("default", "cpu", 9000, 0, free, borrowable, 8000)
