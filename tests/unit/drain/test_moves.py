"""Which Workloads move for a gang (P-96), and whether it is worth it (P-97)."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from random import Random

import pytest

from multiqueue.drain.moves import MOST, Movable, is_worth_it, pick_moves


def movable(name: str, devices: int, cost: int, **fields: int) -> Movable:
    return Movable(key=name, devices=devices, cost=cost, **fields)


def frees(
    movables: list[Movable], missing: int
) -> tuple[Callable[[frozenset[str]], bool], list[frozenset[str]]]:
    """Whether a set leaves enough devices, and the sets that were asked for."""
    asked: list[frozenset[str]] = []

    def fits(gone: frozenset[str]) -> bool:
        asked.append(gone)
        return sum(m.devices for m in movables if m.key in gone) >= missing

    return fits, asked


def pick(movables: list[Movable], missing: int) -> set[str]:
    fits, _ = frees(movables, missing)
    return {move.key for move in pick_moves(movables, fits)}


class TestWorth:
    """P-97: k needs 32 and starts in 90 min; m has 8 GPUs, notice 150 s, stop 30 s, cost 1,680."""

    M = Movable(key="m", devices=8, cost=1680, notice=150, stop=30, gain=2)

    def test_the_example_of_the_rule(self) -> None:
        assert self.M.price == 4_480
        assert self.M.seconds == 180
        assert is_worth_it([self.M], devices=32, wait=5400)

    @pytest.mark.parametrize(("wait", "worth"), [(320, True), (319.9, False), (100, False)])
    def test_what_is_saved_is_the_wait_after_the_room_is_free(
        self, wait: float, worth: bool
    ) -> None:
        """4,480 device-seconds are 140 s of 32 devices, after the 180 s of notice and stop."""
        assert is_worth_it([self.M], devices=32, wait=wait) is worth

    def test_the_longest_of_a_set_counts_and_each_at_its_own_gain(self) -> None:
        quick = Movable(key="q", devices=4, cost=240, notice=0, stop=30, gain=10)
        assert quick.price == 10 * (240 + 4 * 70)
        needed = 180 + (4_480 + quick.price) / 32
        assert is_worth_it([quick, self.M], devices=32, wait=needed)
        assert not is_worth_it([quick, self.M], devices=32, wait=needed - 1)


class TestPick:
    def test_the_cheapest_that_is_enough_alone_moves(self) -> None:
        """Example 1 of P-43: E alone is cheaper than G and A, and G need not leave beside it."""
        movables = [
            movable("G", 2, 240),
            movable("E", 8, 1_680),
            movable("A", 8, 5_760),
            movable("C", 4, 5_280),
        ]
        assert pick(movables, 8) == {"E"}

    def test_two_small_ones_move_if_that_is_cheaper(self) -> None:
        """Example 2 of P-43."""
        movables = [movable("a", 9, 900), movable("b", 16, 8_000), movable("c", 1, 600)]
        assert pick(movables, 10) == {"a", "c"}

    def test_large_ones_are_tried_too_if_small_ones_are_never_enough(self) -> None:
        small = [movable(f"s{number}", 1, 0) for number in range(8)]
        assert pick([*small, movable("x", 8, 9_000), movable("y", 8, 9_000)], 16) == {"x", "y"}

    def test_nobody_moves_if_no_four_are_enough(self) -> None:
        assert pick([movable(f"s{number}", 1, 0) for number in range(9)], 5) == set()
        assert pick([], 1) == set()

    @pytest.mark.parametrize("seed", range(40))
    def test_a_set_is_enough_minimal_and_at_most_four_and_cheap(self, seed: int) -> None:
        chance = Random(seed)
        movables = [
            movable(f"m{number}", chance.choice((1, 2, 4, 8)), chance.randint(0, 5_000))
            for number in range(chance.randint(1, 8))
        ]
        missing = chance.randint(1, 14)
        fits, asked = frees(movables, missing)
        found = pick_moves(movables, fits)
        assert len(asked) <= 2 * len(movables) + 2 * MOST
        enough = [
            some
            for number in range(1, MOST + 1)
            for some in combinations(movables, number)
            if sum(m.devices for m in some) >= missing
        ]
        if not found:
            return
        assert len(found) <= MOST
        assert fits(frozenset(m.key for m in found))
        assert not any(fits(frozenset({m.key for m in found} - {left.key})) for left in found)
        least = min(sum(m.price for m in some) for some in enough)
        assert sum(m.price for m in found) <= 3 * least

    def test_the_order_of_the_input_does_not_matter(self) -> None:
        movables = [movable(f"m{number}", 2, 600) for number in range(6)]
        assert pick(movables, 4) == pick(movables[::-1], 4)
