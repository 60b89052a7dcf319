"""The arithmetic of past usage (E-120, E-121)."""

import math
from datetime import timedelta

import pytest

from multiqueue.engine.fairness.usage import PastUsage, decay_rate, nanos_of, scale, weigh
from tests.builders.engine import T0, seconds

HOUR = timedelta(hours=1)
CORE = 10**9


@pytest.mark.parametrize(
    ("elapsed", "half_life", "rate"),
    [
        (timedelta(0), HOUR, 0.0),
        (HOUR, HOUR, 0.5),
        (2 * HOUR, HOUR, 0.75),
        (timedelta(minutes=5), HOUR, 1 - 0.5 ** (1 / 12)),
        (HOUR, timedelta(0), 0.0),
    ],
    ids=["no time", "one half-life", "two half-lives", "five minutes", "no half-life"],
)
def test_history_is_replaced_by_half_every_half_life(
    elapsed: timedelta, half_life: timedelta, rate: float
) -> None:
    assert decay_rate(elapsed, half_life) == pytest.approx(rate)


def test_after_a_half_life_history_and_present_count_the_same() -> None:
    record = PastUsage()
    record.advance({"cpu": 8 * CORE}, T0)

    assert record.decay({"cpu": 2 * CORE, "memory": 6}, T0 + HOUR, HOUR) == {
        "cpu": 5 * CORE,
        "memory": 3,
    }


def test_a_clock_that_goes_back_changes_nothing() -> None:
    record = PastUsage()
    record.advance({"cpu": 8 * CORE}, T0)

    assert record.decay({"cpu": 100 * CORE}, T0 - HOUR, HOUR) == {"cpu": 8 * CORE}
    record.advance({"cpu": CORE}, T0 - seconds(5))
    assert record.updated_at == T0


def test_what_is_scaled_again_and_again_ends_at_nothing() -> None:
    nanos = {"cpu": 3}
    for _ in range(3):
        nanos = dict(scale(nanos, 0.9))

    assert nanos == {"cpu": 0}


def test_amounts_count_in_natural_units() -> None:
    assert nanos_of("cpu", 1500) == 1_500_000_000
    assert nanos_of("nvidia.com/gpu", 2) == 2_000_000_000


def test_usage_is_weighed_by_resource_and_by_local_queue() -> None:
    record = PastUsage()
    record.advance({"cpu": 8 * CORE, "memory": 4 * CORE, "nvidia.com/gpu": 1 * CORE}, T0)
    record.penalize("a", {"cpu": 2 * CORE})
    weighed = weigh(record.total, {"memory": 0.0, "nvidia.com/gpu": 20.0}, weight=2.0)

    assert weighed == pytest.approx((8 + 2 + 20) / 2)


def test_a_local_queue_without_weight_comes_last_even_unused() -> None:
    assert weigh({}, {}, weight=0.0) == math.inf


def test_a_second_penalty_of_a_workload_replaces_the_first() -> None:
    record = PastUsage()
    record.penalize("a", {"cpu": 2 * CORE})
    record.penalize("b", {"cpu": 1 * CORE})
    record.penalize("a", {"cpu": 5 * CORE})
    assert record.pending == {"cpu": 6 * CORE}

    assert record.acquit("a") == {"cpu": 5 * CORE}
    assert record.acquit("a") is None
    assert record.pending == {"cpu": 1 * CORE}
    assert record.has_pending


def test_a_penalty_of_nothing_is_not_pending() -> None:
    record = PastUsage()
    record.penalize("a", {"cpu": 0})

    assert not record.has_pending
