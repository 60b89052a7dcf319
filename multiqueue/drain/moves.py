"""Which running Workloads move to other workers so that a gang starts now (P-96, P-97). Pure.

Units: times are in seconds, costs in device-seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

MOST = 4
"""Workloads that move for one gang."""
MOST_TRIED = 16
"""Candidates that are tried; the cheapest ones come first."""
START_SECONDS = 40
"""What a move takes beside the stop, until the job runs elsewhere: dispatch and start of pods."""


class MigrationResult(StrEnum):
    """What became of a Workload that was to move."""

    MOVED = "Moved"
    """It was stopped, to run elsewhere."""
    RESCINDED = "Rescinded"
    """It was told, and runs on where it is."""
    NOT_STARTED = "NotStarted"
    """It was stopped, and no worker had taken it two minutes later."""


Fits = Callable[[frozenset[str]], bool]
"""Whether the gang would start if the Workloads with these keys were gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Movable:
    """A Workload that could run elsewhere.

    Attributes:
        key: ``namespace/name``.
        devices: Devices that it leaves.
        cost: What has to be done again after its stop.
        notice: For how long it is told before.
        stop: How long its pods may take to stop.
        gain: How many times its move has to be worth, as its policy says; at least 1.
    """

    key: str
    devices: int
    cost: int
    notice: int = 0
    stop: int = 30
    gain: int = 1

    @property
    def price(self) -> int:
        """What the move must save at least."""
        return self.gain * (self.cost + self.devices * (self.stop + START_SECONDS))

    @property
    def seconds(self) -> int:
        """How long it takes until its devices are free."""
        return self.notice + self.stop


def list_cheapest(movables: Iterable[Movable]) -> list[Movable]:
    """Return the Workloads by their price for each device that they leave."""
    return sorted(movables, key=lambda m: (Fraction(m.price, max(1, m.devices)), m.key))


def pick_moves(movables: Iterable[Movable], fits: Fits) -> tuple[Movable, ...]:
    """Return the cheapest set that was found with which the gang fits; empty without one (P-96).

    Args:
        movables: Who could move.
        fits: Asked at most some 40 times.
    """
    cheap = list_cheapest(movables)[:MOST_TRIED]
    large = sorted(cheap, key=lambda m: (-m.devices, m.price, m.key))
    found = [found for order in (cheap, large) if (found := _search(order, fits))]
    return min(found, key=lambda moves: (sum(m.price for m in moves), len(moves)), default=())


def _search(order: Sequence[Movable], fits: Fits) -> tuple[Movable, ...]:
    """Take one after another; each that would be enough is an end, and is not taken (P-43)."""
    taken: list[Movable] = []
    best: tuple[Movable, ...] = ()
    for movable in order:
        trial = (*taken, movable)
        if fits(_keys(trial)):
            if not best or sum(m.price for m in trial) < sum(m.price for m in best):
                best = trial
        elif len(taken) < MOST - 1:
            taken.append(movable)
    for movable in best[:-1]:
        fewer = tuple(m for m in best if m is not movable)
        if fits(_keys(fewer)):
            best = fewer
    return best


def is_worth_it(moves: Sequence[Movable], *, devices: int, wait: float) -> bool:
    """Whether the gang gains as much as the moves must save (P-97).

    Args:
        moves: Who would move.
        devices: How many the gang waits for.
        wait: In how many seconds it would start if nobody moved.
    """
    freed_after = max(move.seconds for move in moves)
    return sum(move.price for move in moves) <= devices * (wait - freed_after)


def _keys(moves: Iterable[Movable]) -> frozenset[str]:
    return frozenset(move.key for move in moves)
