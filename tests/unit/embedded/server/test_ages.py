"""Ages and durations in words."""

from datetime import timedelta

import pytest

from multiqueue.embedded.server.ages import age, between, human_duration
from tests.unit.embedded.server.kind_builders import T0

MINUTE, HOUR, DAY = 60, 3600, 86400


@pytest.mark.parametrize(
    ("seconds", "want"),
    [
        (-5, "<invalid>"),
        (-1, "0s"),
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (5 * MINUTE + 12, "5m12s"),
        (10 * MINUTE + 30, "10m"),
        (3 * HOUR - 1, "179m"),
        (3 * HOUR, "3h"),
        (7 * HOUR + 59 * MINUTE, "7h59m"),
        (9 * HOUR + 59 * MINUTE, "9h"),
        (2 * DAY + 3 * HOUR, "2d3h"),
        (8 * DAY + 3 * HOUR, "8d"),
        (3 * 365 * DAY, "3y"),
        (3 * 365 * DAY + 5 * DAY, "3y5d"),
        (9 * 365 * DAY, "9y"),
    ],
)
def test_durations_get_coarser(seconds: int, want: str) -> None:
    assert human_duration(seconds) == want


@pytest.mark.parametrize(
    ("timestamp", "want"),
    [
        ("2026-01-01T00:00:00Z", "5m"),
        (None, "<unknown>"),
        ("", "<unknown>"),
        ("soon", "<invalid>"),
        ("2026-01-01", "<invalid>"),
    ],
)
def test_an_age_counts_from_a_timestamp(timestamp: object, want: str) -> None:
    assert age(timestamp, T0 + timedelta(minutes=5)) == want


def test_a_duration_ends_now_or_at_its_end() -> None:
    start, now = "2026-01-01T00:00:00Z", T0 + timedelta(hours=3)
    assert between(start, None, now) == "3h"
    assert between(start, "2026-01-01T00:00:30Z", now) == "30s"
    assert between(None, None, now) == ""
