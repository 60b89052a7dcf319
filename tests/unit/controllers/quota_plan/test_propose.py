"""What a QuotaPlan proposes: the worked example, and what no proposal may do."""

from __future__ import annotations

import random
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from multiqueue.controllers.quota_plan.histogram import (
    MOST_BUCKETS,
    SAMPLE,
    DemandHistogram,
    format_histogram,
    parse_histogram,
)
from multiqueue.controllers.quota_plan.propose import (
    MeasuredDemand,
    NoProposal,
    PlanRules,
    Proposal,
    QuotaBounds,
    QuotaKey,
    QuotaNow,
    propose,
)
from multiqueue.lib.amount import UNLIMITED
from tests.builders.workloads import T0

GPU = ("a100", "nvidia.com/gpu")
WEEK = timedelta(days=7)
WEEK_OF_SAMPLES = 2016
NOW = T0 + 2 * WEEK


def key(queue: str) -> QuotaKey:
    return QuotaKey(queue, *GPU)


def make_rules(**changes: object) -> PlanRules:
    return PlanRules(**{"name": "plan", "steps": {GPU: 1}, **changes})  # type: ignore[arg-type]


def measured(*amounts: int, samples: float = WEEK_OF_SAMPLES) -> MeasuredDemand:
    """Each of these demands for the same part of a week."""
    histogram = DemandHistogram()
    for amount in amounts:
        histogram.add(amount, SAMPLE * samples / len(amounts))
    return MeasuredDemand(since=T0, histogram=histogram)


def at_least(**floors: int) -> dict[QuotaKey, QuotaBounds]:
    return {key(queue): QuotaBounds(least=least) for queue, least in floors.items()}


def nominal(**sizes: int) -> dict[QuotaKey, QuotaNow]:
    return {key(queue): QuotaNow(nominal=size) for queue, size in sizes.items()}


def demand(**sizes: int) -> dict[QuotaKey, MeasuredDemand]:
    return {key(queue): measured(size) for queue, size in sizes.items()}


def afters(got: Proposal | NoProposal, quotas: dict[QuotaKey, QuotaNow]) -> dict[str, int]:
    assert isinstance(got, Proposal), got
    after = {each: quota.nominal for each, quota in quotas.items()}
    after.update({move.key: move.after for move in got.moves})
    return {each.cluster_queue: size for each, size in after.items()}


EXAMPLE = nominal(a=40, b=40, c=20)
EXAMPLE_DEMAND = demand(a=58, b=22, c=15)
FLOORS = at_least(a=10, b=10, c=10)


def test_the_worked_example_of_the_design() -> None:
    got = propose(EXAMPLE_DEMAND, EXAMPLE, make_rules(bounds=FLOORS), NOW)
    assert afters(got, EXAMPLE) == {"a": 44, "b": 37, "c": 19}


def test_without_a_limit_it_goes_to_the_targets_at_once() -> None:
    rules = make_rules(bounds=FLOORS, percent=100, month_percent=100)
    got = propose(EXAMPLE_DEMAND, EXAMPLE, rules, NOW)
    assert afters(got, EXAMPLE) == {"a": 60, "b": 24, "c": 16}


def test_too_little_for_all_wants_is_shared_by_what_is_missing() -> None:
    quotas = nominal(a=50, b=50)
    rules = make_rules(bounds=at_least(a=20, b=20), percent=100, month_percent=100)
    # 60 above the floors are shared 80:40.
    got = propose(demand(a=100, b=60), quotas, rules, NOW)
    assert afters(got, quotas) == {"a": 60, "b": 40}


def test_nobody_gets_more_than_its_most() -> None:
    quotas = nominal(a=40, b=40)
    bounds = {key("a"): QuotaBounds(most=44)}
    rules = make_rules(bounds=bounds, percent=100, month_percent=100)
    assert afters(propose(demand(a=70, b=5), quotas, rules, NOW), quotas) == {"a": 44, "b": 36}


def test_the_month_has_a_limit_too() -> None:
    quotas = {
        key("a"): QuotaNow(nominal=49, month_ago=40),
        key("b"): QuotaNow(nominal=51, month_ago=60),
    }
    # a may be 52 at most within the month: 30 % above 40.
    assert afters(propose(demand(a=80, b=10), quotas, make_rules(), NOW), quotas)["a"] == 52


def test_a_change_within_the_deadband_is_none() -> None:
    got = propose(demand(a=41, b=39), nominal(a=40, b=40), make_rules(), NOW)
    assert got == NoProposal(state="Unchanged", message="no quota has to change by 5 % or more")


@pytest.mark.parametrize(
    ("history", "words"),
    [
        ({}, "measured since 2026-01-15 00:00 UTC: until 2026-01-22 00:00 UTC at least"),
        (
            {key("a"): measured(4, samples=600)},
            "30% of the time was sampled, 80% is needed",
        ),
    ],
    ids=["just begun", "a manager ran for less than half of the time"],
)
def test_it_learns_until_it_knows_enough(
    history: dict[QuotaKey, MeasuredDemand], words: str
) -> None:
    got = propose(history, nominal(a=4), make_rules(half_life=1000 * WEEK), NOW)
    assert isinstance(got, NoProposal)
    assert got.state == "Learning"
    assert words in got.message


def test_floors_above_the_sum_are_told_with_the_numbers() -> None:
    rules = make_rules(bounds=at_least(a=60, b=50))
    got = propose(demand(a=1, b=1), nominal(a=50, b=50), rules, NOW)
    assert got == NoProposal(
        state="Impossible",
        message="spec.bounds, and jobs that nobody may stop, need at least a 60 + b 50 = 110 "
        "nvidia.com/gpu in flavor a100, and all queues together have 100; lower min",
    )


def test_what_has_no_limit_cannot_be_moved() -> None:
    got = propose(demand(a=1, b=1), nominal(a=50, b=UNLIMITED), make_rules(), NOW)
    assert isinstance(got, NoProposal)
    assert got.message.startswith('ClusterQueue "b" has no limit of nvidia.com/gpu in flavor a100')


sizes = st.integers(0, 60)
worlds = st.lists(
    st.tuples(sizes, sizes, st.integers(0, 20), st.integers(0, 60)), min_size=1, max_size=6
)


@settings(max_examples=200, deadline=None)
@given(
    world=worlds,
    step=st.integers(1, 5),
    percent=st.integers(1, 100),
    month=st.integers(1, 100),
)
def test_no_proposal_makes_quota_or_leaves_its_limits(
    world: list[tuple[int, int, int, int]], step: int, percent: int, month: int
) -> None:
    names = [f"q{number}" for number in range(len(world))]
    quotas = nominal(**dict(zip(names, (row[0] for row in world), strict=True)))
    history = demand(**dict(zip(names, (row[1] for row in world), strict=True)))
    bounds = {
        key(name): QuotaBounds(least=least, most=max(least, most))
        for name, (_, _, least, most) in zip(names, world, strict=True)
    }
    rules = make_rules(steps={GPU: step}, bounds=bounds, percent=percent, month_percent=month)
    got = propose(history, quotas, rules, NOW)
    shuffled = {each: quotas[each] for each in reversed(quotas)}
    assert propose(history, shuffled, rules, NOW) == got
    if isinstance(got, NoProposal):
        return
    assert sum(move.after for move in got.moves) == sum(move.before for move in got.moves)
    for move in got.moves:
        change, bound = abs(move.after - move.before), bounds[move.key]
        assert change % step == 0
        assert change <= max(step, move.before * percent / 100)
        assert move.after >= min(move.before, bound.least)
        assert bound.most is not None
        assert move.after <= max(move.before, bound.most)


def test_a_hash_stands_for_one_plan_and_one_time() -> None:
    hashes = {
        got.hash
        for rules in (make_rules(), make_rules(), make_rules(name="b"), make_rules(changes=1))
        if isinstance(got := propose(EXAMPLE_DEMAND, EXAMPLE, rules, NOW), Proposal)
    }
    assert len(hashes) == 3


# ---------------------------------------------------------------- the histogram


def test_many_different_amounts_keep_their_percentiles() -> None:
    draw = random.Random(1)
    histogram, amounts = DemandHistogram(), [int(draw.gauss(500, 120)) for _ in range(2000)]
    for amount in amounts:
        histogram.add(amount)
    assert len(list(histogram)) == MOST_BUCKETS
    for percent in (50, 80, 95):
        exact = sorted(amounts)[len(amounts) * percent // 100]
        assert abs(histogram.percentile(percent) - exact) <= 0.03 * exact
    assert list(parse_histogram(format_histogram(histogram))) == [
        (amount, int(weight)) for amount, weight in histogram
    ]


def test_unreadable_buckets_count_as_never_seen() -> None:
    assert list(parse_histogram("4:1000 x:1 7 -1:3 5:x")) == [(4, 1000.0)]
