"""When the scheduler loop runs a cycle, and when it rests; on a virtual clock."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from multiqueue.controllers.scheduler_loop import SPARE_SECONDS, SPARE_TURNS, SchedulerLoop
from multiqueue.controllers.status_ticker import StatusTicker
from multiqueue.engine.plan import Admit, CyclePlan, Requeue, RequeueReason, TreeFailure
from multiqueue.engine.state import Changed
from multiqueue.jobs.context import UnrecoverableError
from multiqueue.model.workload import Admission
from multiqueue.observability.metrics import ManagerMetrics
from tests.unit.controllers.workload_views import because
from tests.virtual_time import LoopClock, VirtualTimeLoop, virtual_time

NOTHING = CyclePlan()
ADMITTED = CyclePlan(
    decisions=(
        Admit(
            workload="team-a/wl",
            cluster_queue="cq",
            admission=Admission(cluster_queue="cq", pod_sets=()),
        ),
    )
)
REFUSED = CyclePlan(
    decisions=(
        Requeue(
            workload="team-a/wl",
            cluster_queue="cq",
            requeue_reason=RequeueReason.NO_FIT,
            parked=False,
            explanation=because("WaitingForQuota"),  # type: ignore[arg-type]
        ),
    )
)


class FakeEngine:
    """Says when it wants to run next, and notes when it did."""

    def __init__(self, *results: Any, next_at: Callable[[datetime], datetime | None]) -> None:
        self.results = list(results)
        self.next_at = next_at
        self.ran_at: list[float] = []

    def run_cycle(self, now: datetime) -> CyclePlan:
        self.ran_at.append(asyncio.get_running_loop().time() - 1000.0)
        result = self.results.pop(0) if self.results else NOTHING
        if isinstance(result, Exception):
            raise result
        return cast("CyclePlan", result)

    def next_cycle_at(self, now: datetime) -> datetime | None:
        return self.next_at(now) if self.results else None

    def changed_since_last_call(self) -> Changed:
        return Changed(cluster_queues=("cq",), local_queues=("team-a/lq",))


class SlowEngine(FakeEngine):
    """Takes so many seconds for a cycle."""

    def __init__(self, seconds: float, *results: Any, next_at: Any) -> None:
        super().__init__(*results, next_at=next_at)
        self.seconds = seconds

    def run_cycle(self, now: datetime) -> CyclePlan:
        plan = super().run_cycle(now)
        event_loop = asyncio.get_running_loop()
        assert isinstance(event_loop, VirtualTimeLoop)
        event_loop.now += self.seconds
        return plan


class FakeApplier:
    def __init__(self) -> None:
        self.applied: list[CyclePlan] = []

    def apply(self, plan: CyclePlan, *, since: float | None = None) -> None:
        self.applied.append(plan)


class Settled:
    """Informers that know everything already."""

    def __getattr__(self, name: str) -> Any:
        settled = asyncio.Event()
        settled.set()
        return SimpleNamespace(settled=settled)


@asynccontextmanager
async def running(
    engine: FakeEngine, applier: FakeApplier, metrics: ManagerMetrics | None = None
) -> AsyncIterator[SchedulerLoop]:
    context: Any = SimpleNamespace(
        informers=Settled(), clock=LoopClock(), metrics=metrics or ManagerMetrics()
    )
    nobody: Any = SimpleNamespace(apply=lambda plan, **_: None)
    loop = SchedulerLoop(context, engine, applier, nobody)  # type: ignore[arg-type]
    task = asyncio.create_task(loop.run())
    try:
        yield loop
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@virtual_time
async def test_it_rests_until_something_changes() -> None:
    engine = FakeEngine(next_at=lambda now: None)
    async with running(engine, FakeApplier()) as loop:
        await asyncio.sleep(60)
        assert engine.ran_at == [0]
        loop.wake()
        await asyncio.sleep(1)
        assert engine.ran_at == [0, 60, 60], "for the event, and before it rests again"


@virtual_time
async def test_each_of_a_few_events_is_decided_on_before_the_next_is_heard_of() -> None:
    engine = FakeEngine(next_at=lambda now: None)
    async with running(engine, FakeApplier()) as loop:
        await asyncio.sleep(60)
        for count in range(1, 4):
            loop.wake()
            assert len(engine.ran_at) == 1 + count
        for _ in range(1_000):
            loop.wake()
        assert len(engine.ran_at) == 1 + SPARE_TURNS, "a burst is decided on together"


@virtual_time
async def test_events_whose_cycles_take_long_are_decided_on_together() -> None:
    """All else would wait meanwhile, and answers of the API server would seem late."""

    engine = SlowEngine(SPARE_SECONDS / 2, next_at=lambda now: None)
    async with running(engine, FakeApplier()) as loop:
        await asyncio.sleep(60)
        for _ in range(1_000):
            loop.wake()
        assert len(engine.ran_at) == 1 + 2


@virtual_time
async def test_it_measures_how_long_an_event_waits_for_the_cycle_that_admits() -> None:
    engine, metrics = FakeEngine(next_at=lambda now: None), ManagerMetrics()
    async with running(engine, FakeApplier(), metrics) as loop:
        await asyncio.sleep(60)
        engine.results = [*[REFUSED] * SPARE_TURNS, ADMITTED]
        for _ in range(SPARE_TURNS + 1):
            loop.wake()
        await asyncio.sleep(1)
    seconds = "multiqueue_admission_stage_seconds_count"
    labels = {"stage": "event", "replica_role": metrics.role}
    assert metrics.registry.get_sample_value(seconds, labels) == 1


@virtual_time
async def test_an_event_whose_cycle_fails_harms_nobody_and_ends_the_loop() -> None:
    engine = FakeEngine(next_at=lambda now: None)
    async with running(engine, FakeApplier()) as loop:
        await asyncio.sleep(60)
        engine.results = [RuntimeError("a bug"), REFUSED]
        loop.wake()
        with pytest.raises(UnrecoverableError, match=r"not reliable any more.*RuntimeError: a bug"):
            await asyncio.wait_for(loop.run(), 1)


@virtual_time
async def test_it_wakes_for_what_is_due() -> None:
    engine = FakeEngine(NOTHING, NOTHING, next_at=lambda now: now + timedelta(seconds=5))
    async with running(engine, FakeApplier()):
        await asyncio.sleep(60)
    assert engine.ran_at == [0, 5]


@virtual_time
async def test_cycles_that_admit_nothing_slow_down() -> None:
    """E-29."""
    engine = FakeEngine(*[REFUSED] * 8, next_at=lambda now: now)
    async with running(engine, FakeApplier()):
        await asyncio.sleep(60)
    milliseconds = [round(at * 1000) for at in engine.ran_at]
    assert milliseconds == [0, 1, 3, 7, 15, 25, 35, 45]


@virtual_time
async def test_requests_get_as_much_time_as_long_cycles() -> None:
    engine = SlowEngine(0.5, *[ADMITTED] * 3, next_at=lambda now: now)
    async with running(engine, FakeApplier()):
        await asyncio.sleep(60)
    assert engine.ran_at == [0, 1, 2]


@virtual_time
async def test_a_cycle_that_fails_ends_the_loop_as_its_decisions_are_lost() -> None:
    engine = FakeEngine(RuntimeError("a bug"), REFUSED, next_at=lambda now: now)
    applier = FakeApplier()
    async with running(engine, applier) as loop:
        with pytest.raises(UnrecoverableError, match="a new one reads all state from the API"):
            await asyncio.wait_for(loop.run(), 60)
    assert (engine.ran_at, applier.applied) == ([0], [])


@virtual_time
async def test_what_the_cache_feed_cannot_undo_ends_the_loop() -> None:
    engine = FakeEngine(next_at=lambda now: None)
    async with running(engine, FakeApplier()) as loop:
        await asyncio.sleep(60)
        loop.fail(KeyError("cq"))
        with pytest.raises(UnrecoverableError, match="KeyError"):
            await asyncio.wait_for(loop.run(), 1)


@virtual_time
async def test_a_tree_that_fails_is_told_once_per_cause_and_the_rest_is_applied() -> None:
    def failed(error: Exception) -> CyclePlan:
        failures = (TreeFailure(tree="cohort", error=error),)
        return CyclePlan(decisions=REFUSED.decisions, failures=failures)

    plans = [failed(RuntimeError("a bug")), failed(RuntimeError("a bug")), failed(KeyError("x"))]
    engine = FakeEngine(*plans, next_at=lambda now: now + timedelta(seconds=5))
    applier = FakeApplier()
    with capture_logs() as logs:
        async with running(engine, applier):
            await asyncio.sleep(60)
    assert engine.ran_at == [0, 5, 10]
    assert applier.applied == plans
    assert [repr(entry["exc_info"]) for entry in logs] == ["RuntimeError('a bug')", "KeyError('x')"]


@virtual_time
async def test_statuses_are_passed_on_once_a_second_and_only_after_a_change() -> None:
    """E-193."""
    told: list[tuple[float, str]] = []

    def tell(name: str) -> None:
        told.append((asyncio.get_running_loop().time() - 1000.0, name))

    engine: Any = FakeEngine(next_at=lambda now: None)
    ticker = StatusTicker(engine, on_cluster_queue=tell, on_local_queue=tell, on_cohort=tell)
    task = asyncio.create_task(ticker.run())
    await asyncio.sleep(10)
    assert told == []
    for _ in range(5):
        ticker.touch()
        await asyncio.sleep(0.1)
    await asyncio.sleep(10)
    assert told == [(11, "cq"), (11, "team-a/lq")]
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
