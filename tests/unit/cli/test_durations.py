"""Durations mean the same in every option."""

from __future__ import annotations

from datetime import timedelta

import click
import pytest

from multiqueue.cli.durations import DURATION, DurationType


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("45s", 45), ("10m", 600), ("1h30m", 5400), ("90", 90), ("0", 0), ("0.5", 0.5), ("0s", 0)],
)
def test_durations(text: str, seconds: float) -> None:
    assert DURATION.convert(text, None, None) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is not a duration; write a number with a unit"),
        ("5d", "is not a duration"),
        ("1m30", "is not a duration"),
        ("-3", "is negative"),
        ("-3s", "is negative"),
    ],
)
def test_what_is_no_duration(text: str, says: str) -> None:
    with pytest.raises(click.BadParameter, match=says):
        DURATION.convert(text, None, None)


def test_some_may_not_be_short() -> None:
    with pytest.raises(click.BadParameter, match="is less than 600 s"):
        DurationType(shortest=timedelta(minutes=10)).convert("9m", None, None)
