"""Gangs that accept fewer pods (E-60)."""

import pytest

from multiqueue.engine.flavors.assignment import Assignment
from multiqueue.engine.flavors.partial_admission import find_reduced
from multiqueue.engine.options import EngineOptions
from multiqueue.engine.plan import Admit
from tests.builders.engine import T0, flavor_quotas, make_queue, make_workload, pod_set, seconds
from tests.engine_world import EngineWorld


def counts_admitted(cpu: int, *pod_sets: object, **options: object) -> list[int]:
    world = EngineWorld(
        make_queue("cq", flavor_quotas("f", cpu=cpu)), options=EngineOptions(**options)
    )
    world.submit(make_workload("w", pod_sets=pod_sets))
    decisions = world.cycle().decisions
    return [ps.count for d in decisions if isinstance(d, Admit) for ps in d.admission.pod_sets]


@pytest.mark.parametrize(
    ("cpu", "want"),
    [
        pytest.param(10, [8], id="all of them where they fit"),
        pytest.param(5, [5], id="as many as fit"),
        pytest.param(2, [2], id="the fewest that it accepts"),
        pytest.param(1, [], id="never fewer"),
    ],
)
def test_a_shrinkable_gang_gets(cpu: int, want: list[int]) -> None:
    assert counts_admitted(cpu, pod_set(count=8, min_count=2, cpu=1)) == want


def test_pod_sets_shrink_in_proportion_and_only_those_that_may() -> None:
    fixed = pod_set("driver", count=2, cpu=1)
    workers = pod_set("workers", count=6, min_count=2, cpu=1)

    assert counts_admitted(6, fixed, workers) == [2, 4]


def test_nothing_shrinks_where_it_is_switched_off() -> None:
    assert counts_admitted(5, pod_set(count=8, min_count=2, cpu=1), partial_admission=False) == []


def test_usage_and_reasons_follow_the_admitted_count() -> None:
    world = EngineWorld(make_queue("cq", flavor_quotas("f", cpu=5)))
    world.submit(make_workload("w", pod_sets=[pod_set(count=8, min_count=2, cpu=2)]))
    (decision,) = world.cycle().decisions
    world.submit(make_workload("v", at=T0 + seconds(1), pod_sets=[pod_set(cpu=1)]))

    assert decision.admission.pod_sets[0].usage == {"cpu": 4000}
    assert world.admitted() == ["v"]


def test_the_search_gives_up_where_no_reduction_helps() -> None:
    pod_sets = [pod_set(count=8, min_count=2)]

    assert find_reduced(pod_sets, lambda _counts: None) is None
    assert find_reduced([pod_set(count=8)], lambda _counts: Assignment()) is None


@pytest.mark.parametrize("fewest", range(9))
def test_the_search_finds_the_smallest_reduction_that_fits(fewest: int) -> None:
    tried: list[int] = []

    def at_most(counts: list[int]) -> Assignment | None:
        tried.append(counts[0])
        return Assignment(borrowing=counts[0]) if counts[0] <= fewest else None

    found = find_reduced([pod_set(count=8, min_count=1)], at_most)

    assert (found.borrowing if found else 0) == fewest
    assert len(tried) <= 4
