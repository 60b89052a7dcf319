"""How late the event loop is."""

from __future__ import annotations

import asyncio
import time

from multiqueue.observability.loop_lag import LoopLag
from multiqueue.observability.metrics import ManagerMetrics


async def test_a_step_that_blocks_the_loop_is_seen() -> None:
    metrics = ManagerMetrics()
    task = asyncio.create_task(LoopLag(metrics).run())
    await asyncio.sleep(0)
    time.sleep(0.15)  # noqa: ASYNC251 - what is measured
    await asyncio.sleep(0.01)
    task.cancel()
    total = metrics.registry.get_sample_value("multiqueue_event_loop_lag_seconds_sum")
    assert total is not None
    assert total >= 0.04
