"""Since when a worker counts as lost for a manager that starts."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from multiqueue.workers.connections.status import FIRST_CHANCE, first_lost_at

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
TIMEOUT = timedelta(minutes=15)


def minutes(number: float) -> datetime:
    return NOW + timedelta(minutes=number)


@pytest.mark.parametrize(
    ("noted", "counts"),
    [
        pytest.param(None, NOW, id="nothing was noted: now"),
        pytest.param(minutes(-5), minutes(-5), id="what the manager before noted"),
        pytest.param(minutes(-60), NOW - TIMEOUT + FIRST_CHANCE, id="a chance to answer is left"),
        pytest.param(minutes(3), NOW, id="noted by a clock that is ahead"),
    ],
)
def test_a_worker_is_lost_since(noted: datetime | None, counts: datetime) -> None:
    """M-40."""
    assert first_lost_at(noted, now=NOW, timeout=TIMEOUT) == counts
