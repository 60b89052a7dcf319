"""Completion indexes as text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multiqueue.embedded.cluster.indexes import format_indexes, parse_indexes


@pytest.mark.parametrize(
    ("text", "indexes"),
    [
        ("", set()),
        ("3", {3}),
        ("0,2-4", {0, 2, 3, 4}),
        ("1,2", {1, 2}),
        ("x,5-,-3,²,7,0-999999999999", {7}),
    ],
)
def test_parse(text: str, indexes: set[int]) -> None:
    assert parse_indexes(text) == indexes


def test_runs_of_three_and_more_get_a_dash() -> None:
    assert format_indexes([7, 1, 2, 4, 5, 6]) == "1,2,4-7"


@given(st.sets(st.integers(0, 60)))
def test_formatted_indexes_parse_back(indexes: set[int]) -> None:
    assert parse_indexes(format_indexes(indexes)) == indexes
