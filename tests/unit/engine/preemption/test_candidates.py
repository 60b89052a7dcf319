"""Who may be preempted, and in which order (E-87, E-90)."""

from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Any

import pytest

from multiqueue.engine.preemption.candidates import (
    QuotaHolder,
    RankLimit,
    find_candidates,
    is_within_nominal,
    rank_limit,
    sort_candidates,
)
from multiqueue.model.cluster_queue import PreemptionPolicy
from multiqueue.model.resource_flavor import ResourceFlavor
from tests.builders.engine import T0, condition, seconds
from tests.preemption_world import ANY, LOWER, LOWER_OR_NEWER, NEVER, Holdings, make_cpu_queue

CPU = frozenset({("default", "cpu")})


def names(candidates: Iterable[QuotaHolder]) -> list[str]:
    return [candidate.entry.key.partition("/")[2] for candidate in candidates]


def find(
    world: Holdings, queue: str = "cq", *, limit: RankLimit = (), **excluded: Any
) -> Sequence[QuotaHolder]:
    return find_candidates(world.index, queue, CPU, limit=limit, **excluded).candidates


@pytest.mark.parametrize(
    ("policy", "want"),
    [
        (LOWER, ["lower"]),
        (LOWER_OR_NEWER, ["lower", "newer"]),
        (ANY, ["lower", "older", "same", "newer", "higher"]),
    ],
)
def test_the_policy_compares_priority_and_then_the_time_in_the_queue(
    policy: PreemptionPolicy, want: list[str]
) -> None:
    world = Holdings(make_cpu_queue("cq", 10))
    for name, priority, age in (
        ("lower", 4, 9),
        ("older", 5, 9),
        ("same", 5, 0),
        ("newer", 5, -1),
        ("higher", 6, -9),
    ):
        world.hold(name, "cq", priority=priority, at=T0 - seconds(age), cpu=1)

    limit = rank_limit(policy, world.preemptor(priority=5))
    assert limit is not None
    found = find(world, limit=limit)

    assert sorted(names(found)) == sorted(want)


def test_newer_by_the_least_is_newer() -> None:
    world = Holdings(make_cpu_queue("cq", 10))
    world.hold("newer", "cq", at=T0 + timedelta(microseconds=1), cpu=1)

    limit = rank_limit(LOWER_OR_NEWER, world.preemptor())
    assert limit is not None
    assert names(find(world, limit=limit)) == ["newer"]


def test_never_means_nobody() -> None:
    world = Holdings(make_cpu_queue("cq", 10))

    assert rank_limit(NEVER, world.preemptor(priority=5)) is None


def test_only_who_was_assigned_something_needed_is_a_candidate_even_if_it_is_nothing() -> None:
    world = Holdings(make_cpu_queue("cq", 10))
    world.cache.set_flavor("spot", ResourceFlavor(name="spot"))
    world.hold("elsewhere", "cq", flavor="spot", cpu=1)
    world.hold("other-resource", "cq", memory=1)
    world.hold("zero", "cq", cpu=0, memory=1)
    world.hold("one", "cq", cpu=1)

    assert names(find(world)) == ["one", "zero"]


def test_who_is_preempted_already_is_no_candidate() -> None:
    world = Holdings(make_cpu_queue("cq", 10))
    world.hold("a", "cq", cpu=1)
    world.hold("b", "cq", cpu=1)

    excluded = frozenset({"team/a"})
    assert names(find(world, excluded=excluded)) == ["b"]


def test_a_queue_that_nobody_holds_has_no_candidates() -> None:
    world = Holdings(make_cpu_queue("cq", 10))
    assert names(find(world)) == []

    world.hold("a", "cq", cpu=1)
    assert names(find(world)) == ["a"]
    world.release("a")
    assert names(find(world)) == []


def test_the_order_is_evicted_then_priority_then_youngest_reservation_then_uid() -> None:
    world = Holdings(make_cpu_queue("cq", 10))
    world.hold("c-uid", "cq", cpu=1)
    world.hold("b-uid", "cq", cpu=1, reserved_at=T0 + seconds(0.9))
    world.hold("young", "cq", cpu=1, reserved_at=T0 + seconds(1))
    world.hold("low", "cq", cpu=1, priority=-1)
    world.hold("evicted", "cq", cpu=1, priority=9, is_evicted=True)

    found = find(world)

    assert names(found) == ["evicted", "low", "young", "b-uid", "c-uid"]


@pytest.mark.parametrize(
    "changes",
    [
        {"priority": -1},
        {"evicted": condition("Evicted", status=True)},
        {"queue_order_at": T0 + seconds(9), "priority": -1},
    ],
)
def test_the_order_follows_the_objects(changes: dict[str, object]) -> None:
    world = Holdings(make_cpu_queue("cq", 10))
    world.hold("a", "cq", cpu=1)
    world.hold("b", "cq", cpu=1)
    assert names(find(world)) == ["a", "b"]
    version = world.cache.tree_by_queue["cq"].version

    world.change("b", **changes)

    assert names(find(world)) == ["b", "a"]
    assert world.cache.tree_by_queue["cq"].version > version


def test_an_update_that_changes_no_order_keeps_verdicts_valid() -> None:
    world = Holdings(make_cpu_queue("cq", 10))
    world.hold("a", "cq", cpu=1)
    version = world.cache.tree_by_queue["cq"].version

    world.change("a", generation=2)

    assert world.cache.tree_by_queue["cq"].version == version


def test_an_eviction_that_is_over_does_not_count() -> None:
    world = Holdings(make_cpu_queue("cq", 10))
    world.hold("a", "cq", cpu=1)
    world.hold("b", "cq", cpu=1)
    world.change("b", evicted=condition("Evicted", status=False))

    assert names(find(world)) == ["a", "b"]


def test_past_usage_counts_between_local_queues_of_one_queue_only() -> None:
    world = Holdings(make_cpu_queue("x", 10), make_cpu_queue("y", 10))
    world.hold("x-light", "x", local_queue="light", priority=1, cpu=1)
    world.hold("x-heavy", "x", local_queue="heavy", priority=2, cpu=1)
    world.hold("x-unknown", "x", local_queue="unknown", priority=3, cpu=1)
    world.hold("y-heavy", "y", local_queue="heavy", priority=4, cpu=1)
    usage = {"team/light": 1.0, "team/heavy": 2.0}

    found = [c for q in "yx" for c in find(world, q)]
    by_usage = sort_candidates(found, lambda _, local_queue: usage.get(local_queue))

    assert names(by_usage) == ["x-heavy", "x-light", "x-unknown", "y-heavy"]
    assert names(sort_candidates(found)) == ["x-light", "x-heavy", "x-unknown", "y-heavy"]


def test_who_is_evicted_goes_before_who_used_more() -> None:
    world = Holdings(make_cpu_queue("cq", 10))
    world.hold("light", "cq", local_queue="light", cpu=1, is_evicted=True)
    world.hold("heavy", "cq", local_queue="heavy", cpu=1)

    found = find(world)

    usage = {"team/light": 1.0, "team/heavy": 2.0}
    by_usage = sort_candidates(found, lambda _, local_queue: usage[local_queue])
    assert names(by_usage) == ["light", "heavy"]


def test_a_node_is_within_nominal_if_it_borrows_nothing_of_what_is_needed() -> None:
    world = Holdings(make_cpu_queue("a", 2, cohort="co"), make_cpu_queue("b", 2, cohort="co"))
    world.hold("w", "a", cpu=2)
    node = world.queue("a").node
    assert is_within_nominal(node, CPU)

    world.hold("v", "a", cpu=1)

    assert not is_within_nominal(node, CPU)
    assert is_within_nominal(node, frozenset({("default", "memory")}))
