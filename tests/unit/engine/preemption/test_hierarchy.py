"""Whom a search without fair sharing preempts in a tree of cohorts (E-88, E-93)."""

import pytest

from multiqueue.api.conditions import Reason
from multiqueue.model.cluster_queue import ClusterQueue, Cohort
from tests.preemption_world import ANY, LOWER, Holdings, make_cpu_queue

RECLAIM = Reason.IN_COHORT_RECLAMATION
BORROWING = Reason.IN_COHORT_RECLAIM_WHILE_BORROWING


def make_world(*queues: ClusterQueue) -> Holdings:
    """Cohorts left, middle and right below the root."""
    cohorts = [Cohort(name=name, parent="root") for name in ("left", "middle", "right")]
    return Holdings(*queues, cohorts=[Cohort(name="root"), *cohorts])


def test_a_cohort_takes_back_what_it_lent_whatever_the_priority() -> None:
    world = make_world(
        make_cpu_queue("a", 2, cohort="left", reclaim=ANY),
        make_cpu_queue("b", 4, cohort="left"),
        make_cpu_queue("c", 2, cohort="right"),
    )
    world.hold("c1", "c", priority=9, cpu=6)

    # More than the quota of a itself, but not more than that of left: a may borrow.
    assert world.targets(world.request("a", cpu=4)) == [("c1", RECLAIM)]


def test_inside_the_cohort_that_has_the_quota_nobody_is_taken_from_to_borrow() -> None:
    world = make_world(
        make_cpu_queue("a", 2, cohort="left", reclaim=ANY),
        make_cpu_queue("b", 4, cohort="left"),
    )
    world.hold("b1", "b", cpu=5)

    assert world.targets(world.request("a", priority=9, cpu=4)) == []


def test_a_strong_claim_goes_before_a_weak_one() -> None:
    world = make_world(
        make_cpu_queue("a", 2, cohort="left", reclaim=ANY, while_borrowing=LOWER),
        make_cpu_queue("b", 1, cohort="left"),
        make_cpu_queue("d", 3, cohort="left"),
        make_cpu_queue("c", 2, cohort="right"),
    )
    world.hold("b1", "b", priority=0, cpu=2)
    world.hold("c1", "c", priority=5, cpu=6)

    assert world.targets(world.request("a", priority=9, cpu=4)) == [("c1", RECLAIM)]
    # With 7 cpu, left is beyond its quota: both claims are weak, and the lower priority is first.
    assert world.targets(world.request("a", priority=9, cpu=7)) == [
        ("b1", BORROWING),
        ("c1", BORROWING),
    ]


def test_a_cohort_within_its_quota_shields_its_queues() -> None:
    world = make_world(
        make_cpu_queue("a", 4, cohort="left", reclaim=ANY),
        make_cpu_queue("c", 0, cohort="right"),
        make_cpu_queue("d", 4, cohort="right"),
        make_cpu_queue("e", 0, cohort="middle"),
    )
    world.hold("c1", "c", cpu=4)
    world.hold("e1", "e", priority=9, cpu=4)

    # c borrows from d, inside right; e borrows from left.
    assert world.targets(world.request("a", cpu=4)) == [("e1", RECLAIM)]


def test_a_cohort_keeps_the_rest_once_it_borrows_no_longer() -> None:
    world = make_world(
        make_cpu_queue("a", 6, cohort="left", reclaim=ANY),
        make_cpu_queue("c", 0, cohort="right"),
        make_cpu_queue("d", 4, cohort="right"),
        make_cpu_queue("e", 0, cohort="middle"),
    )
    for name in ("c1", "c2", "c3"):
        world.hold(name, "c", cpu=2)
    world.hold("e1", "e", priority=9, cpu=2)

    # After c1, right uses its own 4 although c still borrows them.
    assert world.targets(world.request("a", cpu=6)) == [("c1", RECLAIM), ("e1", RECLAIM)]


@pytest.mark.parametrize(
    ("lend", "want"),
    [
        pytest.param(None, ["c1"], id="what it lent"),
        pytest.param(0, [], id="nothing where it lent nothing"),
    ],
)
def test_a_queue_with_a_lending_limit_takes_back_only(lend: int | None, want: list[str]) -> None:
    world = make_world(
        make_cpu_queue("a", 4, cohort="left", reclaim=ANY, lend=lend),
        make_cpu_queue("c", 4, cohort="right"),
    )
    world.hold("own", "a", priority=9, cpu=2)
    world.hold("c1", "c", priority=9, cpu=6 if lend is None else 4)

    assert world.names(world.request("a", cpu=2 if want else 3)) == want


def test_a_borrowing_limit_is_kept() -> None:
    world = make_world(
        make_cpu_queue("a", 2, cohort="left", borrow=1, reclaim=ANY, while_borrowing=LOWER),
        make_cpu_queue("b", 4, cohort="left"),
        make_cpu_queue("c", 2, cohort="right"),
    )
    world.hold("c1", "c", cpu=8)

    assert world.names(world.request("a", priority=9, cpu=3)) == ["c1"]
    assert world.names(world.request("a", priority=9, cpu=4)) == []


def test_the_claim_on_a_queue_ends_where_the_whole_tree_has_no_such_quota() -> None:
    world = make_world(
        make_cpu_queue("a", 2, cohort="left", reclaim=ANY),
        make_cpu_queue("b", 2, cohort="left"),
        make_cpu_queue("c", 2, cohort="right"),
    )
    world.hold("own", "b", cpu=2)
    world.hold("c1", "c", cpu=4)

    # left itself would borrow: whom it takes from then is a question of borrowWithinCohort.
    assert world.targets(world.request("a", priority=9, cpu=4)) == []


@pytest.mark.parametrize(
    ("held", "cpu", "want"),
    [
        pytest.param(0, "5", ["c1"], id="what it keeps to itself is not asked of the cohort"),
        pytest.param(3, "2001m", [], id="once it is used, everything is"),
        pytest.param(3, "2", ["c1"], id="and the cohort has just that much"),
    ],
)
def test_a_cohort_owes_what_the_queue_has_not_kept_to_itself(
    held: int, cpu: str, want: list[str]
) -> None:
    """Queue a keeps 3 of its 4 cpu, so left has 2 in all."""
    world = make_world(
        make_cpu_queue("a", 4, cohort="left", lend=1, reclaim=ANY),
        make_cpu_queue("b", 1, cohort="left"),
        make_cpu_queue("c", 2, cohort="right"),
    )
    world.hold("own", "a", priority=9, cpu=held)
    world.hold("c1", "c", cpu=4)

    assert world.names(world.request("a", cpu=cpu)) == want


def test_a_queue_below_two_cohorts_that_borrow_gives_once() -> None:
    world = make_world(
        make_cpu_queue("a", 2, cohort="left", reclaim=ANY, while_borrowing=LOWER),
        make_cpu_queue("b", 1, cohort="left"),
        make_cpu_queue("c", 2, cohort="right"),
        make_cpu_queue("lender", 6, cohort="root"),
    )
    world.hold("b1", "b", cpu=2)
    world.hold("b2", "b", cpu=4)
    world.hold("c1", "c", cpu=4)

    assert world.names(world.request("a", priority=9, cpu=11)) == ["b1", "b2", "c1"]


def test_what_the_own_queue_borrows_is_not_taken_back_from_itself() -> None:
    world = make_world(
        make_cpu_queue("a", 2, cohort="left", reclaim=ANY, while_borrowing=LOWER),
        make_cpu_queue("b", 2, cohort="left"),
    )
    world.hold("own", "a", cpu=4)

    assert world.targets(world.request("a", priority=9, cpu=1)) == []
