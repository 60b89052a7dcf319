"""Counts in words."""

from __future__ import annotations

from multiqueue.lib.words import count_of


def test_one_is_not_many() -> None:
    got = [count_of(number, "GPU") for number in (0, 1, 1200)]
    assert got == ["0 GPUs", "1 GPU", "1,200 GPUs"]
