"""Whom a policy has stopped first: the worked examples of the rules, and a brute force beside."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from multiqueue.model.cluster_queue import Preemption, PreemptionPolicy
from multiqueue.model.disruption_policy import CostRule, DisruptionRules, Preference
from tests.builders.engine import T0, flavor_quotas, make_queue, seconds
from tests.preemption_world import Holdings

WITHIN = Preemption(within_cluster_queue=PreemptionPolicy.LOWER_PRIORITY)
POLICY = "gpu"
Held = tuple[str, int, int]
"""(name, GPUs, seconds since its start): what it lost is at most half an hour of that."""


def make_world(
    prefer: Preference, held: list[Held], *, restart: int = 120, more: int = 0
) -> Holdings:
    """A queue of GPUs under a policy, full but for some more."""
    total = sum(gpus for _, gpus, _ in held) + more
    world = Holdings(
        make_queue(
            "cq", flavor_quotas("default", gpu=total), preemption=WITHIN, disruption_policy=POLICY
        )
    )
    for name, gpus, ran in held:
        world.hold(name, "cq", gpu=gpus, reserved_at=T0 - seconds(ran))
    world.govern(DisruptionRules(name=POLICY, prefer=prefer, cost=CostRule(restart=restart)))
    return world


def choose(prefer: Preference, gpus: int, held: list[Held], *, restart: int = 120) -> set[str]:
    """Ask for that many GPUs with a higher priority, and return who leaves."""
    world = make_world(prefer, held, restart=restart)
    return set(world.names(world.request("cq", priority=1, gpu=gpus)))


def test_the_cheapest_set_that_makes_room() -> None:
    """120, 210, 720 and 1320 device-seconds a GPU: G and E make room, and E alone is enough."""
    held = [("G", 2, 0), ("E", 8, 90), ("A", 8, 600), ("C", 4, 1200)]

    assert choose(Preference.LEAST_LOST_WORK, 8, held) == {"E"}
    assert choose(Preference.DEFAULT, 8, held) == {"E"}  # G got quota last, then E


def test_two_small_ones_may_be_cheaper_than_a_large_one() -> None:
    held = [("a", 9, 100), ("b", 16, 500), ("c", 1, 600)]

    assert choose(Preference.LEAST_LOST_WORK, 10, held, restart=0) == {"a", "c"}


def test_the_fewest_and_the_smallest() -> None:
    sizes = [("j4", 4, 0), ("i2", 2, 1), ("h2", 2, 2), ("g1", 1, 3), ("f1", 1, 4)]

    assert choose(Preference.FEWEST_VICTIMS, 8, sizes) == {"j4", "i2", "h2"}
    sizes = [("p16", 16, 0), ("p12", 12, 1), ("p9", 9, 2), ("p4", 4, 3)]
    assert choose(Preference.SMALLEST_THAT_FITS, 8, sizes) == {"p9"}


def test_who_ran_least_in_all_its_stays_goes_first() -> None:
    world = make_world(Preference.LEAST_RUN, [("often", 1, 10), ("new", 1, 60)])
    world.change("often", ran_before=100)

    assert world.names(world.request("cq", priority=1, gpu=1)) == ["new"]


@pytest.mark.parametrize("prefer", list(Preference))
def test_no_preference_stops_a_higher_priority_for_a_lower_one(prefer: Preference) -> None:
    world = make_world(prefer, [("cheap", 8, 0), ("dear", 8, 7200)], more=8)
    world.hold("first", "cq", gpu=8, priority=-1, reserved_at=T0 - seconds(9000))

    assert world.names(world.request("cq", priority=1, gpu=8)) == ["first"]


@pytest.mark.parametrize("prefer", list(Preference))
def test_who_leaves_anyway_goes_first(prefer: Preference) -> None:
    world = make_world(prefer, [("cheap", 8, 0), ("dear", 8, 7200)], more=8)
    world.hold("gone", "cq", gpu=8, reserved_at=T0 - seconds(9000), is_evicted=True)

    assert world.names(world.request("cq", priority=1, gpu=8)) == ["gone"]


holdings = st.lists(st.tuples(st.integers(1, 9), st.integers(0, 40)), min_size=1, max_size=8)


@given(holdings, st.integers(1, 30), st.randoms(use_true_random=False))
@settings(max_examples=150, deadline=None)
def test_choices_against_all_possible_ones(
    sizes: list[tuple[int, int]], wanted: int, shuffle: object
) -> None:
    """Costs in whole minutes; every set of holders is tried beside."""
    held = [(f"w{i}", gpus, 60 * minutes) for i, (gpus, minutes) in enumerate(sizes)]
    wanted = min(wanted, sum(gpus for _, gpus, _ in held))
    gpus_of = {name: gpus for name, gpus, _ in held}
    cost_of = {name: gpus * (min(ran, 1800) + 120) for name, gpus, ran in held}
    enough = [
        chosen
        for number in range(1, len(held) + 1)
        for chosen in combinations(gpus_of, number)
        if sum(gpus_of[name] for name in chosen) >= wanted
    ]

    for prefer in Preference:
        got = choose(prefer, wanted, held)
        shuffle.shuffle(held)  # type: ignore[attr-defined]
        assert choose(prefer, wanted, held) == got
        freed = sum(gpus_of[name] for name in got)
        assert freed >= wanted
        assert all(freed - gpus_of[name] < wanted for name in got), "nobody could stay"
        if prefer is Preference.FEWEST_VICTIMS:
            assert len(got) == min(map(len, enough))
        if prefer is Preference.SMALLEST_THAT_FITS and any(len(each) == 1 for each in enough):
            least = min(gpus for gpus in gpus_of.values() if gpus >= wanted)
            assert [gpus_of[name] for name in got] == [least]
        if prefer is Preference.LEAST_LOST_WORK:
            best = min(sum(cost_of[name] for name in each) for each in enough)
            assert sum(cost_of[name] for name in got) <= 2 * best
