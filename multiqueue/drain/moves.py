"""Which running Workload moves to another worker so that a gang starts now (P-97). Pure.

Units: times are in seconds, costs in device-seconds.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

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


def list_worthy(movables: Iterable[Movable], *, devices: int, wait: float) -> list[Movable]:
    """Return those whose move the gang gains enough from, the cheapest ones first (P-97).

    Args:
        movables: Who could move.
        devices: How many the gang waits for.
        wait: In how many seconds it would start if nobody moved.
    """
    worth = (each for each in movables if each.price <= devices * (wait - each.seconds))
    return sorted(worth, key=lambda each: (each.price, each.key))
