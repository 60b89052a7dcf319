"""Whom to look at when room changed on a worker: what waits, in queue order, a few at a time.

News of what runs comes first. So one Workload at a time is put among those that are looked at, and
of each queue no more than the freed room can take: after some in a row whose answer stayed the same
the rest is owed a look, which comes slowly.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import structlog

SWEEP_SECONDS = 0.25
"""Shortest time between two sweeps; changes of room come in bursts."""
SWEEP_SHARE = 4
"""A sweep takes at most one part in so many of the time."""
MAX_MISSES = 5
"""Workloads of one queue in a row that stay where they are before the rest is taken to as well."""
OWED_SECONDS = 0.05
"""Pause after a look that was owed and changed nothing: several times what it costs."""
FAILED_SECONDS = 5.0
"""Pause after an error of this program; what raised may have changed by then."""

log = structlog.get_logger("multiqueue.dispatch")


@dataclass(frozen=True, slots=True, order=True)
class Rank:
    """Where a Workload stands.

    Attributes:
        urgency: Its priority, negated.
        turn: When it comes up: when it was created, or later; as on the wire.
        key: Of the Workload.
        queue: Its LocalQueue, as ``namespace/name``.
    """

    urgency: int
    turn: str
    key: str
    queue: str = field(compare=False)


class WaitingLane:
    """Has what waits looked at after changes of room.

    Args:
        list_waiting: Returns who waits.
        look: Asks for a look at one Workload; `answer` tells what came of it.
    """

    def __init__(
        self, list_waiting: Callable[[], Iterable[Rank]], look: Callable[[str], None]
    ) -> None:
        self._list_waiting = list_waiting
        self._look_at = look
        self._changed = asyncio.Event()
        self._owed: dict[str, None] = {}
        self._asked: tuple[str, asyncio.Future[bool]] | None = None

    def wake(self) -> None:
        """Note that room changed."""
        self._changed.set()

    def answer(self, key: str, *, moved: bool) -> None:
        """Take note that a look led to another offer, or that it is over."""
        if self._asked is not None and self._asked[0] == key and not self._asked[1].done():
            self._asked[1].set_result(moved)

    async def run(self) -> None:
        """Sweep after every change, and between sweeps pay what is owed, until cancelled."""
        while True:
            try:
                await self._run_once()
            except Exception:  # what is looked at already must not be cancelled for this
                log.exception("waiting Workloads not looked at, trying again")
                self._changed.set()
                await asyncio.sleep(FAILED_SECONDS)

    async def _run_once(self) -> None:
        loop = asyncio.get_running_loop()
        if not self._owed:
            await self._changed.wait()
        if self._changed.is_set():
            await asyncio.sleep(SWEEP_SECONDS)
            self._changed.clear()
            begun = loop.time()
            await self._sweep()
            await asyncio.sleep((loop.time() - begun) * (SWEEP_SHARE - 1))
        else:
            await self._pay()

    async def _sweep(self) -> None:
        misses: dict[str, int] = {}
        for rank in sorted(self._list_waiting()):
            if misses.get(rank.queue, 0) >= MAX_MISSES:
                self._owed.setdefault(rank.key)
                continue
            moved = await self._look(rank.key)
            misses[rank.queue] = 0 if moved else misses.get(rank.queue, 0) + 1

    async def _pay(self) -> None:
        """Look at one to which a look is owed."""
        key = next(iter(self._owed))
        del self._owed[key]
        if any(rank.key == key for rank in self._list_waiting()) and not await self._look(key):
            await asyncio.sleep(OWED_SECONDS)

    async def _look(self, key: str) -> bool:
        future: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._asked = (key, future)
        try:
            self._look_at(key)
            return await future
        finally:
            self._asked = None
