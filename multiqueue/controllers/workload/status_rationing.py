"""Limits the writes that only explain why a Workload waits; admissions come first.

Each explanation costs one status write and one Event. With thousands of waiting Workloads, they
would be most of the API server's load while others could be admitted. So both share one allowance:
admissions use it and never wait, explanations wait in the order of their requests. A Workload that
was admitted meanwhile needs none. People who ask still get an answer at once: `multiqueue why` and
the visibility API do not read the status.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

RATE = 30.0
"""Admissions and explanations per second together before explanations begin to wait. A queue with
that many admissions is busy; in a quiet one, ten thousand explanations take six minutes."""
FLOOR = 5.0
"""Explanations per second that are always allowed: in a busy queue they add at most a sixth to the
writes of admissions."""
BURST = 200.0
"""Explanations written at once after a quiet time, so that users see theirs immediately."""
DEBT = 50.0
"""Limit of the debt that admissions leave: explanations wait one second at most after a burst."""


class Words:
    """Rations the writes that only explain. Times are those of the event loop, in seconds.

    Args:
        on_turn: Called with a key when its explanation may be written.
        is_wanted: Whether a key still needs an explanation; called when its turn comes.
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
        """Return how many keys wait for their turn."""
        return len(self._waiting)

    def may(self, key: str) -> bool:
        """Whether the explanation of a key may be written now; if not, it waits for its turn."""
        if key in self._allowed:
            self._allowed.remove(key)
            return True
        if not self._waiting and self._take():
            return True
        self._waiting[key] = None
        self._asked.set()
        return False

    def admitted(self) -> None:
        """Note that an admission was written, and reduce the allowance of explanations."""
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
