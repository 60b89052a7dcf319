"""Whose reason for waiting is written next: admissions first, words with what is left.

A Workload that waits is told why, which is one status write and one Event each; with thousands in
the queues that would be most of what the API server does while others could be admitted. Both come
out of one allowance: admissions take theirs and never wait, words wait in the order in which they
were asked for. Who was admitted meanwhile needs no words. A person who asks is answered at once all
the same: `multiqueue why` and the visibility of the queues do not read what is written here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

RATE = 30.0
"""Admissions and words per second together before words begin to wait. As many admissions make a
queue a busy one; ten thousand that wait in a quiet one have all been told within six minutes."""
FLOOR = 5.0
"""Words per second that no number of admissions takes away: in a busy queue they add a sixth to the
writes of admissions at most."""
BURST = 200.0
"""Words that go out at once after a quiet time: what a person submits is explained immediately."""
DEBT = 50.0
"""How far admissions run ahead: after a burst of them words wait one second at most."""


class Words:
    """Rations the writes that only explain. Times are those of the event loop, in seconds.

    Args:
        on_turn: Called with a key when its words may be written.
        is_wanted: Whether a key still has something to be told, asked when its turn comes.
    """

    def __init__(
        self, on_turn: Callable[[str], None], is_wanted: Callable[[str], bool] = lambda _: True
    ) -> None:
        self._on_turn = on_turn
        self._is_wanted = is_wanted
        self._waiting: dict[str, None] = {}
        self._allowed: set[str] = set()
        self._tokens = BURST
        self._reserve = 0.0
        self._filled_at: float | None = None
        self._asked = asyncio.Event()

    def __len__(self) -> int:
        """How many wait for their turn."""
        return len(self._waiting)

    def may(self, key: str) -> bool:
        """Whether the words of a key may be written now; if not, it waits for its turn."""
        if key in self._allowed:
            self._allowed.remove(key)
            return True
        if not self._waiting and self._take():
            return True
        self._waiting[key] = None
        self._asked.set()
        return False

    def admitted(self) -> None:
        """An admission was written: words have so much less."""
        self._fill()
        self._tokens = max(-DEBT, self._tokens - 1)

    async def run(self) -> None:
        """Give out turns until cancelled."""
        while True:
            await self._asked.wait()
            self._drop_unwanted()
            if not self._waiting:
                self._asked.clear()
            elif self._take():
                key = next(iter(self._waiting))
                del self._waiting[key]
                self._allowed.add(key)
                self._on_turn(key)
            else:
                await asyncio.sleep(self._wait())

    def _drop_unwanted(self) -> None:
        while self._waiting:
            key = next(iter(self._waiting))
            if self._is_wanted(key):
                return
            del self._waiting[key]

    def _take(self) -> bool:
        self._fill()
        if self._tokens >= 1:
            self._tokens -= 1
        elif self._reserve >= 1:
            self._reserve -= 1
        else:
            return False
        return True

    def _wait(self) -> float:
        return max(0.001, min((1 - self._tokens) / RATE, (1 - self._reserve) / FLOOR))

    def _fill(self) -> None:
        now = asyncio.get_running_loop().time()
        passed = now - self._filled_at if self._filled_at is not None else 0.0
        self._filled_at = now
        self._tokens = min(BURST, self._tokens + passed * RATE)
        self._reserve = min(1.0, self._reserve + passed * FLOOR)
