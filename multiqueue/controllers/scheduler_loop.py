"""Runs the engine's cycles and passes their plans to the writers.

The next decision does not wait for a write: the engine works on assumed state. After every call of
`run_cycle` the loop lets other tasks run, for as long as that call took if it took long. Each call
ends by itself before it takes too long.

If a cycle of a cohort tree raises, the engine undoes what that tree assumed, and goes on. If
anything else raises, decisions may be lost that the engine has already assumed: quota is held that
no write will use, or victims wait for an eviction that nobody writes. Then the loop raises
`UnrecoverableError`, and a new process reads everything from the API.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime

import structlog

from multiqueue.controllers.evictions import EvictionWriter
from multiqueue.controllers.plan_applier import PlanApplier
from multiqueue.engine.engine import Engine
from multiqueue.engine.plan import Admit, CyclePlan, Skip
from multiqueue.jobs.context import ManagerContext, UnrecoverableError
from multiqueue.jobs.framework.reconciler import wait_settled

FIRST_PAUSE = 0.001
LAST_PAUSE = 0.010
"""Seconds between cycles that admit nothing, doubling from the first to the last (E-29)."""


SPARE_TURNS = 16
"""Cycles that an idle loop runs for single events in one turn of the event loop."""
SPARE_SECONDS = 0.01
"""How long all of these may take: meanwhile nothing else runs, and every answer is late."""
log = structlog.get_logger("multiqueue.scheduler")


class SchedulerLoop:
    """The one place that calls `Engine.run_cycle`.

    Args:
        context: The manager's context.
        engine: The engine that decides.
        applier: Writes admissions.
        evictions: Writes evictions.
        report: Called with each plan, once its decisions are with the writers.
        until_fed: Each waits for input of the engine that is not in the context's informers.
    """

    name = "scheduler"

    def __init__(
        self,
        context: ManagerContext,
        engine: Engine,
        applier: PlanApplier,
        evictions: EvictionWriter,
        *,
        report: Callable[[CyclePlan], None] = lambda _: None,
        until_fed: Sequence[Callable[[], Awaitable[None]]] = (),
    ) -> None:
        self._context = context
        self._engine = engine
        self._applier = applier
        self._evictions = evictions
        self._report_plan = report
        self._until_fed = until_fed
        self._woken = asyncio.Event()
        self._spare_turns = 0
        self._spare_seconds = 0.0
        self._pause = FIRST_PAUSE
        self._event_at: float | None = None  # the first one that no cycle has seen
        self._causes: dict[str, str] = {}
        self._broken: Exception | None = None

    def wake(self) -> None:
        """Schedule a cycle: something changed.

        While few Workloads arrive at a time, each one is decided before the next one is seen. So
        the first to come is first, even if two come in the same second, the unit of creation times.
        """
        loop = asyncio.get_running_loop()
        begun = loop.time()
        if self._event_at is None:
            self._event_at = begun
        if self._spare_turns > 0 and self._spare_seconds > 0:
            self._spare_turns -= 1
            try:
                self._run_cycle()
            except Exception as error:  # noqa: BLE001 - `run` raises it
                self.fail(error)
            self._spare_seconds -= loop.time() - begun
        self._woken.set()

    def fail(self, error: Exception) -> None:
        """Note that the engine's state is no longer reliable; `run` then raises."""
        self._broken = self._broken or error
        self._spare_turns = 0
        self._woken.set()

    async def run(self) -> None:
        """Schedule until cancelled, once all needed informers are synced."""
        informers = self._context.informers
        await wait_settled(
            informers.workloads,
            informers.cluster_queues,
            informers.local_queues,
            informers.cohorts,
            informers.resource_flavors,
            informers.admission_checks,
            informers.topologies,
            informers.disruption_policies,
            informers.namespaces,
            informers.limit_ranges,
            informers.runtime_classes,
        )
        for until_fed in self._until_fed:
            await until_fed()
        event_loop = asyncio.get_running_loop()
        while True:
            self._woken.clear()
            self._check_state()
            begun = event_loop.time()
            try:
                plan = self._run_cycle()
            except Exception as error:  # noqa: BLE001 - raised in the next line
                self.fail(error)
            self._check_state()
            taken = event_loop.time() - begun
            if taken > SPARE_SECONDS:
                await asyncio.sleep(taken)  # half of the time is for requests, which take turns
            await self._rest(plan)

    def _check_state(self) -> None:
        if self._broken is not None:
            cause = f"{type(self._broken).__name__}: {self._broken}"
            raise UnrecoverableError(
                f"the scheduler's state is not reliable any more ({cause}); the process ends, and "
                "a new one reads all state from the API"
            ) from self._broken

    def _run_cycle(self) -> CyclePlan:
        began = asyncio.get_running_loop().time()
        event_at, self._event_at = self._event_at, None
        plan = self._engine.run_cycle(self._context.clock.now())
        self._applier.apply(plan, since=event_at if event_at is not None else began)
        self._evictions.apply(plan)
        try:
            self._measure(plan, event_at, began)
            self._report_failures(plan)
            self._report_plan(plan)
        except Exception:  # all decisions are already with the writers
            log.exception("scheduling cycle not reported")
        return plan

    def _report_failures(self, plan: CyclePlan) -> None:
        """Log failed trees, once per cause; the engine tries them again by itself."""
        for failure in plan.failures:
            cause = repr(failure.error)
            if self._causes.get(failure.tree) != cause:
                self._causes[failure.tree] = cause
                log.error(
                    "scheduling of a cohort tree failed, trying again",
                    tree=failure.tree,
                    exc_info=failure.error,
                )

    async def _rest(self, plan: CyclePlan) -> None:
        now = self._context.clock.now()
        next_at = self._engine.next_cycle_at(now)
        if next_at is not None and next_at <= now:
            await asyncio.sleep(self._next_pause(plan))
            return
        self._pause = FIRST_PAUSE
        await self._sleep(now, next_at)

    def _next_pause(self, plan: CyclePlan) -> float:
        if plan.exhausted or any(isinstance(decision, Admit) for decision in plan.decisions):
            self._pause = FIRST_PAUSE
            return 0
        pause, self._pause = self._pause, min(self._pause * 2, LAST_PAUSE)
        return pause

    async def _sleep(self, now: datetime, next_at: datetime | None) -> None:
        seconds = (next_at - now).total_seconds() if next_at is not None else None
        self._spare_turns, self._spare_seconds = SPARE_TURNS, SPARE_SECONDS
        try:
            async with asyncio.timeout(seconds):
                await self._woken.wait()
        except TimeoutError:
            return
        finally:
            self._spare_turns = 0

    def _measure(self, plan: CyclePlan, event_at: float | None, began: float) -> None:
        self._measure_preemptions(plan)
        if not plan.decisions:
            return
        seconds = asyncio.get_running_loop().time() - began
        admitted = any(isinstance(decision, Admit) for decision in plan.decisions)
        result = "success" if admitted else "inadmissible"
        metrics = self._context.metrics
        if admitted:
            metrics.admission_stage_seconds.child("cycle").observe(seconds)
            if event_at is not None:
                metrics.admission_stage_seconds.child("event").observe(began - event_at)
        metrics.admission_attempts_total.child(result).inc()
        metrics.admission_attempt_duration_seconds.child(result).observe(seconds)

    def _measure_preemptions(self, plan: CyclePlan) -> None:
        metrics = self._context.metrics
        skips = Counter(
            decision.cluster_queue
            for decision in plan.decisions
            if isinstance(decision, Skip) and decision.preempts
        )
        for name in {decision.cluster_queue for decision in plan.decisions}:
            metrics.admission_cycle_preemption_skips.child(name).set(skips[name])
        for name, found in plan.recomputed:
            result = "success" if found else "failure"
            metrics.preemption_target_recomputations_total.child(name, result).inc()
