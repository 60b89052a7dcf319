"""Measures how late the event loop is: what every request, timer and decision waits in addition."""

from __future__ import annotations

import asyncio
from typing import NoReturn

from multiqueue.observability.fleet_metrics import FleetMetrics

SAMPLE_SECONDS = 0.1


class LoopLag:
    """Sleeps for a tenth of a second, again and again, and measures by how much it oversleeps.

    Args:
        metrics: Where it is counted.
    """

    name = "loop-lag"

    def __init__(self, metrics: FleetMetrics) -> None:
        self._lag = metrics.event_loop_lag_seconds.child()

    async def run(self) -> NoReturn:
        """Measure until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + SAMPLE_SECONDS
            await asyncio.sleep(SAMPLE_SECONDS)
            self._lag.observe(max(0.0, loop.time() - due))
