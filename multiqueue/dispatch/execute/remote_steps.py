"""The steps of a plan that are done on workers.

Each request is given to the worker's session and waited for only briefly. A request that takes
longer goes on there in the background, and its end causes the next reconcile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from datetime import timedelta
from enum import Enum
from functools import partial
from typing import Any, TypeVar

import structlog

from multiqueue.api import names
from multiqueue.api import v1beta2 as api
from multiqueue.api.config.gates import Gate
from multiqueue.api.names import split_key
from multiqueue.dispatch.decide.copy import clone_workload, stamp_job
from multiqueue.dispatch.decide.plan import ConfirmCopyGone, OpenGate, Removal, UpdatePriority
from multiqueue.dispatch.decide.view import Opening
from multiqueue.dispatch.execute.manager_writes import EVENT_REASON
from multiqueue.dispatch.execute.outcome import AGAIN, DONE, WAITING, Outcome, stuck
from multiqueue.dispatch.execute.stage_clock import StageClock
from multiqueue.dispatch.execute.worker_writes import Busy, Foreign, RemoteWriter
from multiqueue.dispatch.observe.fitting import Fitting
from multiqueue.dispatch.observe.memory import GroupMemory
from multiqueue.dispatch.observe.observe import Observation
from multiqueue.dispatch.worker_metrics import Rejection
from multiqueue.jobs.context import ManagerContext
from multiqueue.jobs.framework.multikueue import MultiKueueAdapter
from multiqueue.jobs.references import workload_reference
from multiqueue.kube.errors import Conflict, KubeError
from multiqueue.workers.connections.fleet import Fleet
from multiqueue.workers.connections.session import CREATE_JOB, REMOVE

T = TypeVar("T")
Json = dict[str, Any]

PATIENCE_SECONDS = 1.0
"""How long one Workload waits for one worker. Answers come in milliseconds; a slower worker must
not slow down the others."""
STALLED_PATIENCE_SECONDS = 0.1
"""The same, if a request to the worker was late since its last answer."""
REFUSAL_FOR = timedelta(minutes=1)
"""How long a cluster's refusal of a Workload is believed; then the cluster is tried again."""
BUSY_SECONDS = 1.0
FAILED_SECONDS = 5.0

log = structlog.get_logger("multiqueue.dispatch")


class Late(Enum):
    """The worker did not answer in time, or is not connected."""

    LATE = "Late"


LATE = Late.LATE


class RemoteSteps:
    """Carries out the steps of a plan on workers.

    Args:
        context: The manager's context.
        fleet: The workers.
        fitting: Adapts copies and jobs to the queues of their worker.
        wake: Called with the key of a Workload whose request to a worker ended late.
    """

    def __init__(
        self,
        context: ManagerContext,
        fleet: Fleet,
        fitting: Fitting,
        *,
        wake: Callable[[str], None],
    ) -> None:
        self._context = context
        self._fleet = fleet
        self._wake = wake
        self._fitting = fitting
        self._stages = StageClock(context)

    async def remove(self, removals: Sequence[Removal], key: str) -> Outcome:
        """Remove our objects on some clusters, side by side."""
        if not removals:
            return DONE
        got = await _side_by_side(self._remove(removal, key) for removal in removals)
        failed = any(isinstance(result, KubeError) for result in got)
        return Outcome(after=FAILED_SECONDS) if failed else DONE

    async def _remove(self, removal: Removal, key: str) -> KubeError | Late | None:
        adapters = {adapter.gvk: adapter for adapter in self._fleet.adapters}
        got = await self.call(
            REMOVE, removal.cluster, key, lambda writer: writer.remove(key, adapters)
        )
        about = {"worker": removal.cluster, "workload": key}
        if isinstance(got, KubeError):
            log.warning("removal failed", error=str(got), **about)
        elif got is None:
            log.info("removed from worker", reason=removal.why, **about)
        return got

    async def create_workloads(
        self, clusters: Iterable[str], seen: Observation, memory: GroupMemory
    ) -> Outcome:
        """Create copies on some clusters, side by side; skip clusters that are known to refuse."""
        workload, adapter, job = seen.workload, seen.adapter, seen.job
        now = self._context.clock.now()
        names = [name for name in clusters if not memory.refusal(name, now)]
        if not names or workload is None or adapter is None or job is None:
            return WAITING
        body = clone_workload(
            workload,
            owner=self._fleet.owner,
            now=now,
            gated=self._context.config.gates.enabled(Gate.MULTIKUEUE_ORCHESTRATED_PREEMPTION),
        )
        job_name = job["metadata"]["name"]
        fit = self._fitting.fit(body, workload)
        got = await _side_by_side(
            self.call(
                "copy",
                name,
                seen.view.key,
                partial(
                    _create_copy,
                    body=fit(name),
                    adapter=adapter,
                    job_name=job_name,
                    earlier=[split_key(earlier)[1] for earlier in seen.view.earlier],
                ),
            )
            for name in names
        )
        for name, result in zip(names, got, strict=True):
            if isinstance(result, api.Workload):
                self._count_dispatch(workload, name)
        outcomes = [self.judge(r, n, seen, memory) for n, r in zip(names, got, strict=True)]
        return min(outcomes, key=lambda outcome: (not outcome.again, outcome.goes_on))

    async def create_job(
        self,
        cluster: str,
        seen: Observation,
        memory: GroupMemory,
        objects: Sequence[Json] = (),
    ) -> Outcome:
        """Create the remote job: all its objects, or those."""
        workload, adapter, job = seen.workload, seen.adapter, seen.job
        if workload is None or adapter is None or job is None:
            return WAITING
        name = workload.metadata.name
        pods = self._fitting.find_pods(cluster, workload)
        if pods is None:
            return AGAIN
        # Recorded before the request, which may succeed without our knowing.
        memory.suspects.add(cluster)
        origin = self._fleet.owner.origin
        for each in objects or [local for local, _ in adapter.pair(job, {})]:
            remote = adapter.remote_job(each, workload_name=name, origin=origin, pods=pods)
            body = stamp_job(remote, workload, owner=self._fleet.owner)
            got = await self.call(
                CREATE_JOB,
                cluster,
                seen.view.key,
                partial(_create_job, body=body, adapter=adapter, workload_name=name),
            )
            outcome = self.judge(got, cluster, seen, memory)
            if outcome != DONE:
                return outcome
        return DONE

    async def patch_job(
        self, cluster: str, remote: Json, patch: Json, seen: Observation, memory: GroupMemory
    ) -> Outcome:
        """Change the remote job, if it still is in the state that was seen."""
        adapter = seen.adapter
        if adapter is None:
            return WAITING
        got = await self.call(
            "change job",
            cluster,
            seen.view.key,
            lambda writer: writer.patch_job(adapter, remote, patch),
        )
        return self.judge(got, cluster, seen, memory)

    async def update_priority(
        self, step: UpdatePriority, seen: Observation, memory: GroupMemory
    ) -> Outcome:
        """Bring the priority of a copy up to date."""
        workload, key = seen.workload, seen.view.key
        if workload is None:
            return WAITING
        got = await self.call(
            "priority",
            step.cluster,
            key,
            lambda writer: writer.update_priority(key, workload, with_class=step.with_class),
        )
        # The rest of the plan does not depend on it.
        outcome = self.judge(got, step.cluster, seen, memory)
        return Outcome(after=outcome.after)

    async def deactivate(self, cluster: str, seen: Observation, memory: GroupMemory) -> Outcome:
        """Ask the worker to stop the job."""
        key, now = seen.view.key, self._context.clock.now()
        got = await self.call(
            "deactivate", cluster, key, lambda writer: writer.deactivate(key, now)
        )
        return self.judge(got, cluster, seen, memory)

    async def open_gate(self, step: OpenGate, seen: Observation, memory: GroupMemory) -> Outcome:
        """Let a copy preempt (M-181)."""
        key = seen.view.key
        # Recorded before the request, which may succeed without our knowing.
        memory.opening = Opening(cluster=step.cluster, at=step.at)
        got = await self.call(
            "gate",
            step.cluster,
            key,
            lambda writer: writer.open_gate(key, names.MULTIKUEUE_GATE, step.at),
        )
        # The rest of the plan does not depend on it.
        outcome = self.judge(got, step.cluster, seen, memory)
        return Outcome(after=outcome.after)

    async def confirm_copy_gone(
        self, step: ConfirmCopyGone, seen: Observation, memory: GroupMemory
    ) -> Outcome:
        """Go on only if the copy is really gone."""
        cluster, key = step.cluster, step.key or seen.view.key
        got = await self.call("look", cluster, key, lambda writer: writer.find_workload(key))
        if isinstance(got, api.Workload) and not got.metadata.deletion_timestamp:
            return AGAIN
        return self.judge(got, cluster, seen, memory)

    async def confirm_job_gone(
        self, cluster: str, seen: Observation, memory: GroupMemory
    ) -> Outcome:
        """Go on only if the job is really gone."""
        got = await self.read_job(cluster, seen)
        return AGAIN if isinstance(got, dict) else self.judge(got, cluster, seen, memory)

    async def read_job(self, cluster: str, seen: Observation) -> Json | KubeError | Late | None:
        """Read our job past the informer; None if it is gone."""
        adapter, job, key = seen.adapter, seen.job, seen.view.key
        if adapter is None or job is None:
            return LATE
        namespace, _ = split_key(key)
        name = job["metadata"]["name"]
        return await self.call(
            "look job", cluster, key, lambda writer: writer.find_job(adapter, namespace, name)
        )

    def judge(self, got: object, cluster: str, seen: Observation, memory: GroupMemory) -> Outcome:
        """Turn the answer of a worker into what to do next."""
        health = self._fleet.find_health(cluster)
        if health is not None and not isinstance(got, Late | KubeError):
            health.note_dispatch(seen.view.key, taken=not isinstance(got, Foreign))
        about = {"worker": cluster, "workload": seen.view.key}
        match got:
            case Foreign(why=why):
                until = self._context.clock.now() + REFUSAL_FOR
                if memory.refuse(cluster, why, until) and seen.workload is not None:
                    admission = seen.workload.status.admission
                    queue = admission.cluster_queue if admission is not None else ""
                    rejections = self._context.metrics.worker_rejections_total
                    rejections.child(queue, cluster, Rejection.REFUSED).inc()
                    regarding, message = workload_reference(seen.workload), f"{cluster} {why}"
                    self._context.recorder.event(regarding, "Warning", EVENT_REASON, message)
                log.warning("worker cannot take workload", reason=why, **about)
                local = seen.view.local
                is_bound = local is not None and local.cluster_name == cluster
                # There is no other cluster to decide for.
                return stuck(REFUSAL_FOR.total_seconds()) if is_bound else AGAIN
            case Busy(why=why):
                log.debug("worker is busy with workload", reason=why, **about)
                return stuck(BUSY_SECONDS)
            case Conflict():
                log.debug("worker changed it meanwhile", error=str(got), **about)
                return stuck(BUSY_SECONDS)
            case KubeError():
                log.warning("worker failed", error=str(got), **about)
                return stuck(FAILED_SECONDS)
            case Late():
                return WAITING
        return DONE

    async def call(
        self,
        what: str,
        cluster: str,
        key: str,
        work: Callable[[RemoteWriter], Awaitable[T]],
    ) -> T | KubeError | Late:
        """Run a request on a worker; returns `LATE` if the worker is away or too slow.

        Args:
            what: Names the request; each kind of request runs only once at a time for a Workload.
            cluster: The worker.
            key: The key of the Workload.
            work: Sends the request.
        """
        session = self._fleet.find_session(cluster)
        if session is None:
            return LATE
        writer = RemoteWriter(session)
        future = session.submit(what, key, lambda: work(writer))
        health = self._fleet.find_health(cluster)
        stalled = health is not None and health.is_stalled
        patience = STALLED_PATIENCE_SECONDS if stalled else PATIENCE_SECONDS
        await asyncio.wait({future}, timeout=patience)
        if not future.done():
            if health is not None:
                health.note_late(patience)
            log.info("worker is slow", worker=cluster, workload=key, doing=what)
            future.add_done_callback(lambda _: self._wake(key))
            return LATE
        if future.cancelled():
            # The loss of a worker causes a reconcile itself; a session that was replaced does not.
            if self._fleet.find_session(cluster) not in {None, session}:
                self._wake(key)
            return LATE
        return future.result()

    def _count_dispatch(self, workload: api.Workload, cluster: str) -> None:
        admission = workload.status.admission
        queue = admission.cluster_queue if admission is not None else ""
        self._context.metrics.multikueue_workloads_dispatched_total.child(queue, cluster).inc()
        self._stages.note_copy(workload.metadata.key)


async def _create_copy(
    writer: RemoteWriter,
    *,
    body: Json,
    adapter: MultiKueueAdapter,
    job_name: str,
    earlier: Sequence[str],
) -> api.Workload | Foreign | Busy:
    return await writer.create_workload(body, adapter, job_name, earlier=earlier)


async def _create_job(
    writer: RemoteWriter, *, body: Json, adapter: MultiKueueAdapter, workload_name: str
) -> Json | Foreign | Busy:
    return await writer.create_job(adapter, body, workload_name)


async def _side_by_side(calls: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    async with asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(call) for call in calls]
    return [task.result() for task in running]
