"""What a stop costs: the worked examples of the rules, with their arithmetic."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multiqueue.api.conditions import Reason
from multiqueue.api.notices import Notice
from multiqueue.engine.disruption.cost import Loss, count_devices, find_loss
from multiqueue.engine.queues.entry import Entry
from multiqueue.model.disruption_policy import CostRule, SaveHabits
from multiqueue.model.workload import Admission, Reservation
from tests.builders.engine import T0, make_workload

NOW = int(T0.timestamp())
RULE = CostRule()
GPU = ("a100", "nvidia.com/gpu")
MINUTE, HOUR = 60, 3600


def holder(gpus: int, *, ran: int, saves: SaveHabits | None = None) -> Entry:
    """A holder of GPUs that was admitted so many seconds ago."""
    at = T0 - timedelta(seconds=ran)
    admission = Admission(cluster_queue="cq")
    reservation = Reservation(admission=admission, reserved_at=at, admitted=True, admitted_at=at)
    entry = Entry(make_workload("job", reservation=reservation, saves=saves))
    entry.usage, entry.admitted = {GPU: gpus}, True
    return entry


HALF_HOURLY, HOURLY = SaveHabits(interval=30 * MINUTE), SaveHabits(interval=HOUR)


@pytest.mark.parametrize(
    ("gpus", "ran", "saves", "saved_ago", "cost", "true_loss"),
    [
        pytest.param(8, 3 * HOUR, HALF_HOURLY, 600, 5_760, 5_760, id="A saved 10 minutes ago"),
        pytest.param(8, 3 * HOUR, None, None, 15_360, 87_360, id="B declares nothing"),
        pytest.param(4, 20 * MINUTE, None, None, 5_280, 5_280, id="C has just begun"),
        pytest.param(16, 5 * HOUR, HOURLY, 3_000, 49_920, 49_920, id="D saves every hour"),
        pytest.param(8, 4 * HOUR, HALF_HOURLY, 6_000, 15_360, 48_960, id="F no longer reports"),
        pytest.param(
            8, 2 * HOUR, SaveHabits(save_seconds=20), None, 1_120, 58_560, id="saves when stopped"
        ),
        pytest.param(
            1, 2 * HOUR, SaveHabits(restart=HOUR), None, 2_700, 8_100, id="restart is bounded"
        ),
        pytest.param(
            1, 125 * MINUTE, HALF_HOURLY, None, 300, 300, id="an interval without any report"
        ),
    ],
)
def test_examples(
    gpus: int, ran: int, saves: SaveHabits | None, saved_ago: int | None, cost: int, true_loss: int
) -> None:
    saved_at = None if saved_ago is None else NOW - saved_ago

    loss = find_loss(holder(gpus, ran=ran, saves=saves), saved_at, RULE, NOW)

    assert (loss.cost, loss.true_loss) == (cost, true_loss)


@pytest.mark.parametrize(
    ("saved_at", "lost"),
    [
        pytest.param(NOW + 60, 0, id="a clock that is a little ahead"),
        pytest.param(NOW + 61, 7200, id="a clock that is wrong"),
        pytest.param(NOW - 7200, 7200, id="a report of the very start"),
        pytest.param(NOW - 9000, 7200, id="a report of an earlier stay"),
    ],
)
def test_a_report_counts_within_the_stay_only(saved_at: int, lost: int) -> None:
    assert find_loss(holder(1, ran=7200), saved_at, RULE, NOW).lost == lost


ON_NOTICE = SaveHabits(on_notice=True, notice_seconds=90)


@pytest.mark.parametrize(
    ("longest", "cost"),
    [
        pytest.param(300, 1_680, id="E is told 150 s before"),
        pytest.param(90, 1_680, id="exactly long enough"),
        pytest.param(89, 15_360, id="too short to save"),
        pytest.param(0, 15_360, id="it is not told"),
    ],
)
def test_who_saves_on_notice_loses_little_if_the_notice_is_long_enough(
    longest: int, cost: int
) -> None:
    rule = CostRule(longest_notice=longest)

    loss = find_loss(holder(8, ran=2 * HOUR, saves=ON_NOTICE), None, rule, NOW)

    assert (loss.cost, loss.true_loss) == (cost, 58_560)


def test_a_save_in_the_notice_is_all_that_is_lost() -> None:
    entry, rule = holder(8, ran=2 * HOUR, saves=ON_NOTICE), CostRule(longest_notice=300)
    notice = Notice(NOW - 150, NOW, Reason.IN_CLUSTER_QUEUE, "", "uid")
    entry.replace(replace(entry.workload, notice=notice))

    assert find_loss(entry, NOW - 60, rule, NOW).true_loss == 8 * (60 + 120)
    assert find_loss(entry, None, rule, NOW).cost == 8 * (1800 + 120)


def test_who_is_not_admitted_loses_nothing() -> None:
    entry = holder(8, ran=7200)
    entry.admitted = False

    assert find_loss(entry, None, RULE, NOW) == Loss(8, 0, 0, 0)


@pytest.mark.parametrize(
    ("usage", "devices"),
    [
        ({("f", "cpu"): 100_000}, 2),
        ({("f", "cpu"): 64_000}, 1),
        ({("f", "memory"): 5}, 1),
        ({("f", "cpu"): 100_000, GPU: 3, ("tpu", "google.com/tpu"): 4}, 7),
    ],
)
def test_devices(usage: dict[tuple[str, str], int], devices: int) -> None:
    assert count_devices(usage) == devices


@given(
    interval=st.none() | st.integers(1, 4_000_000),
    restart=st.none() | st.integers(1, 4_000_000),
    save_seconds=st.none() | st.integers(0, 600),
    ran=st.integers(0, 1_000_000),
    saved_ago=st.none() | st.integers(-600, 1_000_000),
)
def test_no_declaration_is_worth_more_than_the_bound(
    interval: int | None,
    restart: int | None,
    save_seconds: int | None,
    ran: int,
    saved_ago: int | None,
) -> None:
    """The most that a lie gains over silence is (3600 + 900) / (1800 + 120) = 2.34 times."""
    entry = holder(3, ran=ran, saves=SaveHabits(interval, restart, save_seconds))
    saved_at = None if saved_ago is None else NOW - saved_ago

    loss = find_loss(entry, saved_at, RULE, NOW)

    bound = max(RULE.undeclared, RULE.longest_interval) + RULE.longest_restart
    assert 0 <= loss.cost <= 3 * bound
    assert loss.cost <= loss.true_loss
