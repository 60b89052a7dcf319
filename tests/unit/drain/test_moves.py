"""Which Workload moves for a gang, and whether it is worth it (P-97)."""

from __future__ import annotations

import pytest

from multiqueue.drain.moves import Movable, list_worthy

M = Movable(key="m", devices=8, cost=1680, notice=150, stop=30, gain=2)
"""P-97: the gang needs 32 and starts in 90 min; it has 8 GPUs, and costs 1,680."""


def test_the_example_of_the_rule() -> None:
    assert M.price == 4_480
    assert M.seconds == 180
    assert list_worthy([M], devices=32, wait=5400) == [M]


@pytest.mark.parametrize(("wait", "worth"), [(320, True), (319.9, False), (100, False)])
def test_what_is_saved_is_the_wait_after_the_room_is_free(wait: float, worth: bool) -> None:
    """4,480 device-seconds are 140 s of 32 devices, after the 180 s of notice and stop."""
    assert bool(list_worthy([M], devices=32, wait=wait)) is worth


def test_the_cheapest_come_first_each_at_its_own_gain() -> None:
    quick = Movable(key="q", devices=4, cost=240, notice=0, stop=30, gain=10)
    assert quick.price == 10 * (240 + 4 * 70)
    same = Movable(key="l", devices=8, cost=1680, notice=150, stop=30, gain=2)
    assert list_worthy([quick, M, same], devices=32, wait=5400) == [same, M, quick]
    assert list_worthy([quick, M], devices=32, wait=319) == [quick]
