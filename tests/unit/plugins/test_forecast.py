"""What is known of run times."""

from __future__ import annotations

from datetime import timedelta

import pytest

from multiqueue.plugins.forecast import Runtime


@pytest.mark.parametrize(
    ("expected", "high", "mean"),
    [
        (3600, 3600, 3600),
        (3600, 7200, 4168),
        (0, 3600, 0),
        (1, 86_400, 86_400),
        (1, 10**9, 10**9),
    ],
    ids=["exact", "log-normal", "nothing", "at most high", "no number that is too large"],
)
def test_the_mean_is_above_the_median_the_less_is_known(
    expected: int, high: int, mean: int
) -> None:
    runtime = Runtime(
        expected=timedelta(seconds=expected), low=timedelta(), high=timedelta(seconds=high)
    )
    assert runtime.mean.total_seconds() == pytest.approx(mean, rel=1e-3)
