"""Simulated time: durations pass ``speed`` times faster than the event loop's clock.

Timestamps written to objects stay wall-clock times, because the controllers that read them use
wall-clock time.
"""

from __future__ import annotations

import asyncio
from datetime import datetime

from multiqueue.kube.clock import Clock, SystemClock


class SimClock:
    """Tells wall time for timestamps and simulated seconds for durations.

    Units: `seconds` and the argument of `real_seconds` are simulated seconds; only the latter's
    result is real time, for timers of the event loop.
    """

    def __init__(self, *, speed: float = 1.0, wall: Clock | None = None) -> None:
        if speed <= 0:
            raise ValueError(f"speed must be positive, not {speed}")
        self.speed = speed
        self._wall = wall or SystemClock()

    def now(self) -> datetime:
        """Return wall time, aware, in UTC."""
        return self._wall.now()

    def seconds(self) -> float:
        """Return simulated seconds since an arbitrary moment; never jumps."""
        return asyncio.get_running_loop().time() * self.speed

    def real_seconds(self, simulated: float) -> float:
        """Return the real seconds that this many simulated seconds take."""
        return max(0.0, simulated) / self.speed
