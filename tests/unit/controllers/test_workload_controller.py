"""How often the workload controller writes; on a virtual clock, with a writer that only notes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from multiqueue.api.conditions import Reason, WorkloadCondition
from multiqueue.api.config import Configuration
from multiqueue.api.v1beta2 import Workload, WorkloadStatus
from multiqueue.api.workload_state import find
from multiqueue.controllers.workload.controller import WorkloadController
from multiqueue.engine.pending_reasons import Explanation
from multiqueue.kube.limiter import RateLimiter
from multiqueue.observability.metrics import ManagerMetrics
from tests.builders.workloads import make_workload, with_status
from tests.unit.controllers.workload_views import because, make_cluster_queue, make_local_queue
from tests.virtual_time import LoopClock, virtual_time

KEY = "team-a/wl"


class ControllerFixture:
    """One waiting Workload, what the engine says about it, and what was written."""

    def __init__(self) -> None:
        self.workload = make_workload()
        self.explanation: Explanation = because(Reason.WAITING_FOR_QUOTA, "1 more needed")
        self.messages: list[str] = []
        self.limiter = RateLimiter()
        context: Any = SimpleNamespace(
            informers=SimpleNamespace(
                workloads=store_of({KEY: lambda: self.workload}),
                local_queues=store_of({"team-a/lq": make_local_queue}),
                cluster_queues=store_of({"cq": make_cluster_queue}),
                priority_classes=store_of({}),
            ),
            writer=self,
            client=SimpleNamespace(limiter=self.limiter),
            clock=LoopClock(),
            config=Configuration(),
            metrics=ManagerMetrics(),
        )
        engine: Any = SimpleNamespace(
            workload_reason=lambda _: self.explanation, find_workload=lambda _: None
        )
        self.controller = WorkloadController(context, engine, is_admitting=lambda _: False)

    async def update_status(
        self, key: str, change: Callable[[Workload], WorkloadStatus]
    ) -> Workload:
        self.workload = with_status(self.workload, change(self.workload))
        condition = find(self.workload.status, WorkloadCondition.QUOTA_RESERVED)
        self.messages.append(condition.message if condition else "")
        return self.workload

    async def told(self, message: str, reason: Reason = Reason.WAITING_FOR_QUOTA) -> float | None:
        """The engine says something; when to come again."""
        self.explanation = because(reason, message)
        result = await self.controller.reconcile(KEY)
        queue = self.controller.reasons.queue
        if len(queue):
            await self.controller.explain(await queue.get())
            queue.done(KEY)
        return result.requeue_after


def store_of(objects: dict[str, Callable[[], Any]]) -> Any:
    def get(key: str) -> Any:
        return objects[key]() if key in objects else None

    return SimpleNamespace(store=SimpleNamespace(get=get))


@virtual_time
async def test_figures_are_rewritten_every_five_seconds_at_most() -> None:
    world = ControllerFixture()
    await world.told("1 more needed")
    assert await world.told("2 more needed") is None
    assert await world.told("3 more needed") == 5
    await asyncio.sleep(3)
    assert await world.told("4 more needed") == 2
    await asyncio.sleep(2)
    assert await world.told("5 more needed") is None
    assert world.messages == ["1 more needed", "2 more needed", "5 more needed"]


@virtual_time
async def test_news_is_written_at_once() -> None:
    world = ControllerFixture()
    await world.told("1 more needed")
    await world.told("2 more needed")
    await world.told("no such flavor", Reason.NO_MATCHING_FLAVOR)
    assert world.messages == ["1 more needed", "2 more needed", "no such flavor"]


@virtual_time
async def test_what_is_written_already_is_not_written_again() -> None:
    world = ControllerFixture()
    for _ in range(3):
        assert await world.told("1 more needed") is None
    assert world.messages == ["1 more needed"]


@virtual_time
async def test_a_busy_slow_server_gets_no_new_figures() -> None:
    world = ControllerFixture()
    await world.told("1 more needed")
    await world.limiter.acquire(write=True)
    await world.limiter.acquire(write=True)
    world.limiter.release(seconds=1.0, write=True)
    assert await world.told("2 more needed") == 5
    world.limiter.release(write=True)
    await asyncio.sleep(1)
    assert await world.told("3 more needed") is None
    assert world.messages == ["1 more needed", "3 more needed"]
