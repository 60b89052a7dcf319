"""Whose turn it is in a cycle with fair sharing (E-64, E-65)."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

from multiqueue.engine.fairness.order import FairOrder
from multiqueue.engine.flavors.assignment import Assignment, Mode
from multiqueue.engine.nomination import Nominated
from multiqueue.engine.options import FairSharing
from multiqueue.engine.queues.entry import Entry
from multiqueue.engine.queues.pending_queue import PendingQueue
from multiqueue.engine.world import Head
from multiqueue.lib.quantity import parse_quantity
from multiqueue.model.cluster_queue import ClusterQueue, Cohort
from tests.builders.engine import T0, make_workload, seconds
from tests.preemption_world import Holdings, make_cpu_queue


def member(name: str, cpu: int = 0, *, cohort: str = "team", weight: str = "1") -> ClusterQueue:
    return replace(make_cpu_queue(name, cpu, cohort=cohort), weight=parse_quantity(weight))


def make_head(
    world: Holdings,
    name: str,
    queue: str,
    cpu: int,
    *,
    priority: int = 0,
    at: datetime = T0,
    mode: Mode = Mode.FIT,
) -> Head:
    cached = world.queue(queue)
    slot = cached.node.slot_by_flavor_resource["default", "cpu"]
    assignment = Assignment(mode=mode, usage={slot: cpu * 1000})
    return Head(
        entry=Entry(make_workload(name, priority=priority, at=at)),
        queue=cached,
        pending=PendingQueue(queue, cached.spec.strategy),
        verdict=Nominated(assignment=assignment),
        is_new=True,
    )


def play(
    world: Holdings, heads: Iterable[Head], *, admits: bool = True, **rules: bool
) -> list[str]:
    """Return the names in their order; each head gets what it asks for before the next is taken."""
    names = []
    for head in FairOrder(heads, FairSharing(**rules)):
        names.append(head.entry.key.partition("/")[2])
        if admits and isinstance(head.verdict, Nominated):
            for slot, amount in head.verdict.assignment.usage.items():
                head.queue.node.add_usage(slot, amount)
    return names


def test_who_would_have_the_smallest_share_comes_first() -> None:
    world = Holdings(member("a"), member("b"), member("c"), member("lender", 10))
    heads = [make_head(world, n, q, cpu) for n, q, cpu in (("x", "a", 3), ("y", "b", 1))]
    world.hold("w", "c", cpu=4)

    assert play(world, [*heads, make_head(world, "z", "c", 1)]) == ["y", "x", "z"]


def test_of_equal_shares_priority_counts_then_time_then_uid() -> None:
    world = Holdings(*(member(name) for name in "abcd"), member("lender", 10))
    heads = [
        make_head(world, "n1", "a", 1),
        make_head(world, "n0", "b", 1),
        make_head(world, "early", "c", 1, at=T0 - seconds(1)),
        make_head(world, "high", "d", 1, priority=1, at=T0 + seconds(9)),
    ]

    assert play(world, heads) == ["high", "early", "n0", "n1"]
    assert play(world, heads[::-1], admits=False) == ["high", "early", "n0", "n1"]


def test_who_does_not_borrow_what_it_asks_for_comes_before_smaller_shares() -> None:
    world = Holdings(member("a", 2), member("b", 0, weight="9"), member("lender", 10))
    heads = [make_head(world, "borrows", "b", 1), make_head(world, "own", "a", 2, priority=-1)]

    assert play(world, heads) == ["own", "borrows"]


def test_without_the_gate_only_the_share_counts() -> None:
    world = Holdings(member("a", 2), member("b", 2, weight="0"), member("lender", 10))
    heads = [
        make_head(world, "own", "a", 2, priority=-1),
        make_head(world, "also-own", "b", 2),
    ]

    assert play(world, heads, prioritize_non_borrowing=False) == ["also-own", "own"]
    world.hold("w", "b", cpu=3)
    assert play(world, heads, prioritize_non_borrowing=False, admits=False)[-1] == "also-own"


def departments() -> Holdings:
    return Holdings(
        *(member(name, cohort="left") for name in "ab"),
        *(member(name, cohort="right") for name in "cd"),
        member("lender", 12, cohort="root"),
        cohorts=[
            Cohort(name="root"),
            Cohort(name="left", parent="root"),
            Cohort(name="right", parent="root"),
        ],
    )


def test_departments_take_turns_as_their_shares_grow() -> None:
    world = departments()
    heads = [
        make_head(world, "a", "a", 1),
        make_head(world, "b", "b", 2),
        make_head(world, "c", "c", 2),
        make_head(world, "d", "d", 3),
    ]

    # left 1; then right 2 is less than left 3; then left 3 is less than right 5.
    assert play(world, heads) == ["a", "c", "b", "d"]


def test_a_head_that_gets_nothing_leaves_the_shares_as_they_are() -> None:
    world = departments()
    heads = [
        make_head(world, "a", "a", 1),
        make_head(world, "b", "b", 2),
        make_head(world, "c", "c", 3),
    ]

    assert play(world, heads, admits=False) == ["a", "b", "c"]


def test_what_fits_nowhere_takes_part_without_usage() -> None:
    world = Holdings(member("a"), member("b"), member("lender", 10))
    heads = [
        make_head(world, "fits", "a", 1, priority=9),
        make_head(world, "none", "b", 5, mode=Mode.NO_FIT),
    ]

    assert play(world, heads, admits=False) == ["none", "fits"]


def test_of_two_heads_of_a_queue_the_last_one_competes() -> None:
    world = Holdings(member("a"), member("lender", 10))
    heads = [make_head(world, "first", "a", 1), make_head(world, "second-pass", "a", 1)]

    assert play(world, heads) == ["second-pass"]


def test_a_queue_on_its_own_has_its_turn() -> None:
    world = Holdings(make_cpu_queue("alone", 4))

    assert play(world, [make_head(world, "w", "alone", 1)]) == ["w"]


def test_a_victim_has_its_turn_only_after_whom_it_left_for() -> None:
    world = Holdings(member("a"), member("b"), member("c"), member("lender", 10))
    victim = make_head(world, "victim", "a", 1, priority=9)
    preemptor = make_head(world, "preemptor", "b", 3)
    preemptor.entry.displaced = frozenset({victim.entry})
    other = make_head(world, "other", "c", 2)

    assert play(world, [victim, preemptor, other]) == ["other", "preemptor", "victim"]
