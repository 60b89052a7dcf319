"""Ranges of estimates become as wide as the starts of before say."""

from __future__ import annotations

import math
import random
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multiqueue.api.v1beta2 import format_time
from multiqueue.forecast.calibration import Calibration
from multiqueue.forecast.range_factor import LEAST, MOST, find_factor, find_needed, widen
from multiqueue.observability.families import ROLE
from multiqueue.plugins.forecast import StartEstimate
from multiqueue.views.calibration import ENOUGH, WINDOW
from multiqueue.views.start import StartStage
from tests.unit.forecast.test_start_calibration import KEY, BusyQueue, after, make_seen

MINUTE = timedelta(minutes=1)
TENTH = 1.2816
"""Standard deviations from the median to the outermost tenth."""


@given(st.lists(st.floats(0, 9) | st.just(math.inf), min_size=ENOUGH, max_size=WINDOW))
def test_the_factor_is_the_smallest_that_four_in_five_needed(needed: list[float]) -> None:
    factor = find_factor(needed)
    assert LEAST <= factor <= MOST

    def count(at_most: float) -> float:
        return sum(each <= at_most for each in needed) / len(needed)

    assert factor == MOST or count(factor) >= 0.8
    assert factor == LEAST or count(factor - 0.02) < 0.8


def test_few_estimates_change_nothing() -> None:
    assert find_factor([3.0] * (ENOUGH - 1)) == 1.0
    assert find_factor([3.0] * ENOUGH) == 3.0


def test_a_start_beyond_a_range_without_width_needs_more_than_any_factor() -> None:
    zero = timedelta()
    assert find_needed(3 * MINUTE, MINUTE, 2 * MINUTE) == 1.5
    assert find_needed(-3 * MINUTE, MINUTE, 2 * MINUTE) == 3.0
    assert find_needed(MINUTE, MINUTE, zero) == math.inf
    assert find_needed(zero, zero, zero) == 0.0


def test_a_wider_range_begins_not_before_now() -> None:
    start = StartEstimate(at=after(30), earliest=after(20), latest=after(50))
    wide = widen(start, 4, after(5))
    assert (wide.earliest, wide.at, wide.latest) == (after(5), after(30), after(110))
    narrow = widen(start, 0.5, after(5))
    assert (narrow.earliest, narrow.latest) == (after(25), after(40))


class RepeatedWait:
    """Waits of a day, whose starts spread more or less than their ranges say."""

    def __init__(self, seed: int, spread: float) -> None:
        self.dice, self.spread = random.Random(seed), spread
        self.calibration, self.now = Calibration(lambda *_: None), after(0)

    def run(self, count: int) -> float:
        """Return the share of starts inside of their ranges."""
        return sum(self.wait() for _ in range(count)) / count

    def wait(self) -> bool:
        """Estimate a start, let it come, and return whether it came in the range."""
        now, deviation = self.now, 60.0
        at = now + timedelta(days=1)
        tenth = TENTH * deviation * MINUTE
        narrow = StartEstimate(at=at, earliest=at - tenth, latest=at + tenth)
        factor = self.calibration.find_factor(StartStage.WHOLE, at, now)
        said = widen(narrow, factor, now)
        names = ("earliest", "at", "latest")
        start = {name: format_time(getattr(said, name)) for name in names}
        self.calibration.keep(KEY, {**start, "stage": "whole"}, now, narrow)
        self.now = at + self.dice.gauss(0, deviation * self.spread) * MINUTE
        minutes = (self.now - after(0)) / MINUTE
        seen = make_seen({"QuotaReserved": minutes, "Admitted": minutes})
        for _ in self.calibration.list_rows(self.now):
            pass  # somebody looks, so those whose range has passed are judged before it starts
        self.calibration.follow(KEY, seen, self.now)
        return said.earliest <= self.now <= said.latest


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("spread", [0.6, 1.0, 2.5])
def test_four_in_five_are_inside_once_two_hundred_were_judged(seed: int, spread: float) -> None:
    waits = RepeatedWait(seed, spread)
    waits.run(WINDOW)
    assert waits.run(2 * WINDOW) == pytest.approx(0.8, abs=0.06)


@pytest.mark.parametrize(("spread", "factor"), [(0.1, LEAST), (40.0, MOST)])
def test_the_factor_has_limits(spread: float, factor: float) -> None:
    waits = RepeatedWait(1, spread)
    waits.run(WINDOW)
    assert waits.calibration.find_factor(StartStage.WHOLE, after(0), after(-2000)) == factor


def test_room_that_is_kept_moves_the_start_and_not_the_middle_that_is_widened() -> None:
    calibration = Calibration(lambda *_: None)
    narrow = StartEstimate(at=after(60), earliest=after(50), latest=after(80))
    said = {"at": after(30), "earliest": after(20), "latest": after(30)}
    start = {**{name: format_time(at) for name, at in said.items()}, "stage": "quota"}
    for number in range(ENOUGH):
        calibration.keep(f"ns/w{number}", start, after(0), narrow)
        seen = make_seen({"QuotaReserved": 100})
        calibration.follow(f"ns/w{number}", seen, after(100))
    # 40 minutes after the middle, of which half a minute is borne; the range has 20 above it.
    assert calibration.find_factor(StartStage.QUOTA, after(60), after(0)) == 1.98
    assert calibration.find_factor(StartStage.QUOTA, after(30), after(0)) == 1.0, "another horizon"


def test_a_factor_goes_on_in_the_next_process_until_enough_were_judged_there() -> None:
    before = RepeatedWait(1, 2.5)
    before.run(WINDOW)
    kept = before.calibration.kept_factors
    factor = kept["whole-longer"]
    assert factor > 1.5
    after_restart = RepeatedWait(2, 1.0)
    told: list[bool] = []
    after_restart.calibration.on_kept = lambda: told.append(True)
    after_restart.calibration.restore(kept)

    def found() -> float:
        return after_restart.calibration.find_factor(StartStage.WHOLE, after(0), after(-2000))

    assert found() == factor
    after_restart.run(ENOUGH - 1)
    assert (found(), told) == (factor, [])
    after_restart.run(WINDOW)
    assert found() == pytest.approx(1.0, abs=0.2)
    assert told
    assert after_restart.calibration.kept_factors.get("whole-longer", 1.0) == found()


@pytest.mark.parametrize(
    "kept", [{"whole-longer": 99}, {"whole-longer": "2"}, {"whole-longer": None}, {"else": 2.0}]
)
def test_what_is_no_factor_is_ignored(kept: dict[str, object]) -> None:
    calibration = Calibration(lambda *_: None)
    calibration.restore(kept)
    assert calibration.find_factor(StartStage.WHOLE, after(0), after(-2000)) == 1.0
    assert calibration.kept_factors == {}


async def test_the_managers_ranges_grow_if_runtimes_spread_more_than_they_say() -> None:
    busy = BusyQueue(7, said=0.05)
    for number in range(240):
        busy.submit(f"w{number}")
        await busy.ask(f"w{number}")
    row = next(each for each in busy.manager.starts.list_calibrations() if each["judged"] > 60)
    assert row["factor"] > 1.5
    labels = {"stage": row["stage"], "horizon": row["horizon"], ROLE: "standalone"}
    registry = busy.manager.metrics.registry
    shown = registry.get_sample_value("multiqueue_start_estimate_factor", labels)
    assert shown == row["factor"]
    factors = {told["factor"] for told in busy.said.values()}
    assert max(factors) > 1.5
