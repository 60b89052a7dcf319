"""Reconciles waiting Workloads when room changed: in queue order, a few at a time.

Running Workloads come first, so only one waiting Workload at a time is put into the work queue, and
of each queue no more than the freed room can take. After `MAX_MISSES` Workloads in a row whose
answer stayed the same, the rest of their queue is reconciled slowly.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import structlog

SWEEP_SECONDS = 0.25
"""Shortest time between two sweeps; changes of room come in bursts."""
SWEEP_SHARE = 4
"""A sweep takes at most one part in this many of the time."""
MAX_MISSES = 5
"""After this many unchanged Workloads of a queue in a row, the rest counts as unchanged too."""
OWED_SECONDS = 0.05
"""Pause after a slow reconcile that changed nothing: several times its cost."""
FAILED_SECONDS = 5.0
"""Pause after an error of this program; the cause may be gone by then."""

log = structlog.get_logger("multiqueue.dispatch")


@dataclass(frozen=True, slots=True, order=True)
class Rank:
    """The position of a Workload.

    Attributes:
        urgency: Its priority, negated.
        yields: Whether it lets Workloads of the same priority go first that do not.
        turn: When it was created, or a later turn; a timestamp as in the API.
        key: The key of the Workload.
        queue: Its LocalQueue, as ``namespace/name``.
    """

    urgency: int
    yields: bool = field(default=False, kw_only=True)
    turn: str
    key: str
    queue: str = field(compare=False)


class WaitingLane:
    """Reconciles waiting Workloads after changes of room.

    Args:
        list_waiting: Returns the ranks of the waiting Workloads.
        look: Asks for a reconcile of one Workload; `answer` reports the result.
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
        """Note that a reconcile led to another offer (``moved``), or ended without one."""
        if self._asked is not None and self._asked[0] == key and not self._asked[1].done():
            self._asked[1].set_result(moved)

    async def run(self) -> None:
        """Sweep after every change, and reconcile the rest between sweeps, until cancelled."""
        while True:
            try:
                await self._run_once()
            except Exception:  # an error must not cancel the reconcile in progress
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
        """Reconcile one Workload of the rest."""
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
