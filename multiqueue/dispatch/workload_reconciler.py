"""Keeps each MultiKueue Workload and its copies in step: observe, decide, execute.

A change of the Workload, its job or its configuration, of our objects on a worker, or of a worker's
connection causes a reconcile at once, without batching. A Workload that waits for a cluster is also
reconciled when room changes on a worker; `waiting` says which Workloads, and when.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import datetime

import structlog

from multiqueue.api.workload_state import has_quota
from multiqueue.capacity.fleet_capacity import FleetCapacity
from multiqueue.capacity.fleet_limits import FleetLimits
from multiqueue.dispatch.ask.decision_service import DecisionService
from multiqueue.dispatch.ask.dispatcher_view import DispatchViews
from multiqueue.dispatch.decide.cluster_state import GroupConfig
from multiqueue.dispatch.decide.decide import decide
from multiqueue.dispatch.decide.plan import GroupPlan
from multiqueue.dispatch.execute.execute import Executor
from multiqueue.dispatch.execute.outcome import AGAIN
from multiqueue.dispatch.gate import DispatchGate
from multiqueue.dispatch.observe.fitting import Fitting
from multiqueue.dispatch.observe.memory import GroupMemory
from multiqueue.dispatch.observe.observe import Observation, Observer
from multiqueue.dispatch.remote_notices import RemoteNotices
from multiqueue.dispatch.wake.global_queue import GlobalQueue
from multiqueue.dispatch.wake.waiting import Rank, WaitingLane
from multiqueue.dispatch.wake.wake import Wakes
from multiqueue.dispatcher_host.choice import DispatcherChoice
from multiqueue.engine.engine import Engine
from multiqueue.forecast.forecasts import Forecasts
from multiqueue.jobs.context import ManagerContext
from multiqueue.jobs.framework.reconciler import wait_settled
from multiqueue.kube.errors import NotFound
from multiqueue.kube.reconciler import DONE, Reconciler, Result
from multiqueue.model.build_workload import BuildOptions
from multiqueue.workers.connections.fleet import Fleet

CONCURRENCY = 32
"""Workloads that are reconciled side by side; mostly, each waits for one request."""
MAX_PASSES = 8
"""Passes over one Workload without a pause; the longest sequence, from nomination to admission,
takes four if its worker answers at once."""

log = structlog.get_logger("multiqueue.dispatch")


class WorkloadReconciler:
    """Reconciles Workloads.

    Args:
        context: The manager's context.
        fleet: The workers.
        limits: The most that the workers' queues could ever hold.
        capacity: What the workers could ever hold of a Workload.
        forecasts: Forecasts what the workers would do with Workloads.
        dispatchers: Chooses the dispatcher of a Workload.
        observer: Builds the view of a Workload.
        fitting: Adapts copies and jobs to the queues of their worker.
        options: How the resource requests of Workloads are read.

    Attributes:
        global_queue: The Workloads that wait for room, and their claims.
        gate: Answers the controllers about Workloads whose quota is about to be reserved.
    """

    name = "multikueue-workloads"

    def __init__(
        self,
        context: ManagerContext,
        fleet: Fleet,
        *,
        limits: FleetLimits,
        capacity: FleetCapacity,
        forecasts: Forecasts,
        dispatchers: DispatcherChoice,
        observer: Observer,
        fitting: Fitting,
        options: BuildOptions,
    ) -> None:
        self._context = context
        self._fleet = fleet
        self._dispatchers = dispatchers
        settings = context.config.multi_kueue
        self._config = GroupConfig(
            worker_lost_timeout=settings.worker_lost_timeout,
            preemption_timeout=settings.preemption_timeout,
        )
        self.global_queue = GlobalQueue(self._is_waiting)
        self._observer = observer
        self._views = DispatchViews(
            context, fleet, forecasts, options=options, global_queue=self.global_queue
        )
        self._reconciler: Reconciler[str] = Reconciler(
            self.name,
            self.reconcile,
            concurrency=CONCURRENCY,
            metrics=context.metrics,
        )
        self._executor = Executor(context, fleet, limits, fitting, wake=self.enqueue)
        self._memories: dict[str, GroupMemory] = {}
        self._is_running = False
        self._waiting = WaitingLane(self._list_waiting, self._look_for_room)
        self._wakes = Wakes(
            context.informers,
            fleet,
            self.global_queue,
            integrations=context.integrations,
            enqueue=self.enqueue,
            is_known=self._memories.__contains__,
            on_room=self._waiting.wake,
        )
        dispatchers.on_change = self._wakes.ask_all_again
        self.gate = DispatchGate(
            context,
            capacity,
            self._config,
            self._observer,
            ask=self._ask,
            recall=self._memory,
            forget=dispatchers.forget_workload,
            find_fleet_version=lambda: self._wakes.fleet_version if self._is_running else None,
            notices=RemoteNotices(context, fleet),
        )

    def open_decision_service(self, engine: Engine) -> DecisionService:
        """Return the service that answers questions about decisions."""
        return DecisionService(
            self._context,
            engine,
            self._observer,
            self._views,
            self._dispatchers,
            fleet=self._fleet,
        )

    # ------------------------------------------------------------ running

    async def run(self) -> None:
        """Reconcile Workloads until cancelled."""
        informers = self._context.informers
        await wait_settled(
            informers.workloads,
            informers.admission_checks,
            informers.multikueue_configs,
            informers.multikueue_clusters,
            *informers.jobs.values(),
        )
        self._is_running = True
        for key in self._wakes.keys:
            self.enqueue(key)
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._waiting.run(), name=f"{self.name}-waiting")
                tasks.create_task(self._reconciler.run(), name=self.name)
        finally:
            self._is_running = False

    def enqueue(self, key: str) -> None:
        """Reconcile a Workload soon."""
        if self._is_running:
            self._reconciler.queue.add(key)

    async def reconcile(self, key: str) -> Result:
        """Reconcile one Workload until nothing is left to do now."""
        try:
            return await self._reconcile(key)
        finally:
            self._waiting.answer(key, moved=False)

    async def _reconcile(self, key: str) -> Result:
        for _ in range(MAX_PASSES):
            self._reconciler.queue.note_reconcile(key)
            memory = self._memory(key)
            seen = self._observer.observe(key, memory, self._wakes.fleet_version)
            now = self._context.clock.now()
            plan = decide(seen.view, self._config, now)
            if plan.ask:
                seen = await self._ask(seen, memory)
                self._forget_if_released(seen)
                plan = decide(seen.view, self._config, now)
            if plan.removals and seen.workload is None and await self._exists(key):
                continue
            try:
                outcome = await self._executor.apply(plan, seen, memory)
            except BaseException:
                # The answer may not have been recorded, and nothing else would cause a question.
                memory.asked_at = None
                raise
            if outcome is AGAIN:
                memory.asked_at = None
            if not outcome.again:
                self._forget_if_gone(key, seen)
                return _result(outcome.after, plan, _until(memory.next_refusal_end(now), now))
        log.info("workload does not come to rest", workload=key, passes=MAX_PASSES)
        return Result(requeue_after=1.0)

    async def _ask(self, seen: Observation, memory: GroupMemory) -> Observation:
        """Ask the dispatcher, and return the view with its answer."""
        workload = seen.workload
        assert workload is not None
        fleet = (self._wakes.fleet_version, seen.clusters)
        answer = await self._dispatchers.ask(
            seen.reference,
            lambda: self._views.build(seen, workload, memory),
            lambda view, nomination: self._views.accept(view, nomination, memory, fleet),
        )
        if answer.nomination is None:
            self._views.postpone(memory, answer.retry_at, fleet)
        elif set(answer.nomination.clusters) != set(workload.status.nominated_cluster_names):
            # The next waiting Workload may be asked about before this one's writes are done.
            self._waiting.answer(workload.metadata.key, moved=True)
        view = replace(
            seen.view,
            nomination=answer.nomination,
            problem=answer.problem,
            ask_due=False,
            ask_again_at=memory.ask_again_at,
        )
        return replace(seen, view=view)

    def _forget_if_released(self, seen: Observation) -> None:
        """Tell the dispatchers if a Workload lost its quota while they were asked about it."""
        there = self._context.informers.workloads.store.get(seen.view.key)
        uid = seen.workload.metadata.uid if seen.workload is not None else ""
        if there is None or there.metadata.uid != uid or not has_quota(there.status):
            self._dispatchers.forget_workload(uid)

    async def _exists(self, key: str) -> bool:
        """Ask the API server itself before all objects of a Workload are deleted."""
        try:
            await self._context.writer.read(key)
        except NotFound:
            return False
        return True

    def _memory(self, key: str) -> GroupMemory:
        workload = self._context.informers.workloads.store.get(key)
        uid = workload.metadata.uid if workload is not None else ""
        memory = self._memories.get(key)
        if memory is None or (uid and memory.uid not in {"", uid}):
            memory = GroupMemory()
            self._memories[key] = memory
        memory.uid = uid or memory.uid
        return memory

    def _forget_if_gone(self, key: str, seen: Observation) -> None:
        if seen.workload is None and self._views.withdraw(key):
            # It went before its copy was there, so that no worker tells of its room.
            self._waiting.wake()
        if seen.workload is None and all(cluster.is_empty for cluster in seen.view.clusters):
            self._memories.pop(key, None)
            self.global_queue.leave(key)

    def _is_waiting(self, key: str) -> bool:
        return self._wakes.is_waiting(key)

    def _list_waiting(self) -> list[Rank]:
        return self._wakes.list_waiting()

    def _look_for_room(self, key: str) -> None:
        self._memory(key).room_changed = True
        self.enqueue(key)


def _until(moment: datetime | None, now: datetime) -> float | None:
    return max((moment - now).total_seconds(), 0.01) if moment is not None else None


def _result(after: float | None, plan: GroupPlan, hope: float | None) -> Result:
    waits = [seconds for seconds in (after, hope) if seconds is not None]
    if plan.wait is not None:
        waits.append(max(plan.wait.total_seconds(), 0.01))
    return Result(requeue_after=min(waits)) if waits else DONE
