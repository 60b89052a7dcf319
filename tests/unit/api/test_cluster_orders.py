"""What the annotations of a MultiKueueCluster ask for."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from multiqueue.api.cluster_orders import (
    ANY_TIME,
    DrainOrder,
    DrainPace,
    Orders,
    format_drain,
    parse_drain,
    parse_rate,
    read_orders,
)
from multiqueue.api.names import CORDON, DRAIN

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "want"),
    [
        (None, ""),
        ("false", ""),
        ("true", "is cordoned"),
        ("", "is cordoned"),
        ("rack 3 gets firmware", "is cordoned (rack 3 gets firmware)"),
    ],
)
def test_a_cordon_is_true_or_says_why(value: str | None, want: str) -> None:
    assert read_orders({} if value is None else {CORDON: value}).refusal == want


def test_a_drain_is_a_cordon() -> None:
    orders = read_orders({DRAIN: "true"})
    assert orders == Orders(cordoned=True, drain=DrainOrder(), text="true")
    assert orders.refusal == "is being drained"
    assert read_orders({DRAIN: "false"}) == Orders()


def test_a_drain_names_pace_start_and_force() -> None:
    text = "rate=30/h, at-once=2,not-before=2026-01-01T13:00:00+01:00,force"
    pace = DrainPace(every=timedelta(minutes=2), at_once=2)
    assert parse_drain(text) == DrainOrder(pace=pace, not_before=NOON, force=True)


def test_what_a_drain_does_not_name_is_the_default() -> None:
    default = DrainPace(every=timedelta(hours=1), at_once=7)
    assert parse_drain("at-once=9", default).pace == DrainPace(every=timedelta(hours=1), at_once=9)
    assert read_orders({DRAIN: "true"}, default).drain == DrainOrder(pace=default)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("yes", '"yes": use true'),
        ("rate=fast", 'rate "fast"'),
        ("rate=0/min", 'rate "0/min"'),
        ("at-once=0", 'at-once "0"'),
        ("at-once=²", 'at-once "²"'),
        ("not-before=noon", 'not-before "noon"'),
        ("not-before=2026-01-01T12:00:00", "use a time such as"),
    ],
)
def test_what_cannot_be_understood_cordons_and_moves_nothing(text: str, says: str) -> None:
    orders = read_orders({DRAIN: text})
    assert orders.cordoned
    assert orders.drain is None
    assert says in orders.problem


@pytest.mark.parametrize(
    ("text", "seconds"), [("10/min", 6), ("10", 6), ("60/h", 60), ("600/min", 0.1)]
)
def test_rates(text: str, seconds: float) -> None:
    assert parse_rate(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "order",
    [
        DrainOrder(),
        DrainOrder(not_before=NOON, force=True),
        DrainOrder(pace=DrainPace(every=timedelta(seconds=3), at_once=5)),
    ],
)
def test_what_the_command_line_writes_is_read_again(order: DrainOrder) -> None:
    own = order.pace != DrainPace()
    text = format_drain(
        rate="20/min" if own else "",
        at_once=order.pace.at_once if own else 0,
        not_before=order.not_before,
        force=order.force,
    )
    assert parse_drain(text) == order


@pytest.mark.parametrize(
    ("known", "changes", "want"),
    [
        ("rate=1/h,force", {}, "rate=1/h,force"),
        ("true", {"at_once": 2}, "at-once=2"),
        ("rate=1/h,at-once=2", {"rate": "9/min"}, "rate=9/min,at-once=2"),
        (
            "not-before=2026-01-01T12:00:00Z",
            {"force": True},
            "not-before=2026-01-01T12:00:00Z,force",
        ),
        ("not-before=2026-01-01T12:00:00Z", {"not_before": ANY_TIME}, "true"),
        ("force", {"force": False}, "true"),
        ("force=false, at-once=3", {}, "at-once=3"),
        ("fast", {"rate": "9/min"}, "rate=9/min"),
    ],
)
def test_what_another_order_does_not_say_stays(
    known: str, changes: dict[str, Any], want: str
) -> None:
    assert format_drain(known=known, **changes) == want
