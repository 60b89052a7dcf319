"""What the flavors of a whole workload use and contest, and who may borrow by preempting."""

import pytest

from multiqueue.engine.flavors.assignment import Assignment, FlavorChoice, FlavorMode, PodSetResult
from multiqueue.engine.flavors.partial_admission import find_reduced
from multiqueue.engine.plan import Preempt
from tests.engine_world import T0, World, flavor_quotas, make_queue, make_workload, pod_set, seconds
from tests.preemption_world import ANY, LOWER, make_cpu_queue


@pytest.mark.parametrize(("cpu", "want"), [(5, []), (6, ["w"])])
def test_all_pod_sets_on_one_flavor_count_together(cpu: int, want: list[str]) -> None:
    world = World(make_queue("cq", flavor_quotas("f", cpu=cpu)))
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
    world = World(
        make_cpu_queue("a", 2, cohort="co", own=LOWER, reclaim=ANY),
        make_cpu_queue("b", 2, cohort="co"),
    )
    world.submit(make_workload("low", queue="a", pod_sets=[pod_set(cpu=4)]))
    world.write_back(world.cycle())
    world.submit(
        make_workload("high", queue="a", priority=9, at=T0 + seconds(1), pod_sets=[pod_set(cpu=3)])
    )

    assert not [d for d in world.cycle(after=2).decisions if isinstance(d, Preempt)]
