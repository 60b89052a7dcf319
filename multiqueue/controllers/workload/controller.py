"""The workload controller: the steps of every Workload that do not depend on the kind of its job.

Level-based like the job reconciler: observe, let the first matching rule decide, write, repeat.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial

import structlog

from multiqueue.api.names import GROUP, key_of
from multiqueue.api.slices import replaced_key
from multiqueue.api.v1beta2 import (
    ClusterQueue,
    LocalQueue,
    PodSetRequest,
    Workload,
    WorkloadPriorityClass,
)
from multiqueue.api.workload_state import has_quota
from multiqueue.controllers.slice_handover import find_successor
from multiqueue.controllers.workload.decide import decide
from multiqueue.controllers.workload.lifecycle import backoff_left
from multiqueue.controllers.workload.plan import (
    Delete,
    NothingToDo,
    PatchSpec,
    ReleaseFinalizer,
    WorkloadPlan,
    WriteStatus,
)
from multiqueue.controllers.workload.reserved import HOLD_AND_DRAIN
from multiqueue.controllers.workload.view import WorkloadOptions, WorkloadSituation
from multiqueue.engine.engine import Engine
from multiqueue.jobs.context import ManagerContext
from multiqueue.jobs.framework.reconciler import wait_settled
from multiqueue.jobs.informers import (
    BY_CLUSTER_QUEUE,
    BY_PRIORITY_CLASS,
    BY_QUEUE,
    BY_REPLACED,
)
from multiqueue.jobs.references import workload_reference
from multiqueue.kube.errors import NotFound
from multiqueue.kube.reconciler import DONE, Reconciler, Result
from multiqueue.kube.write_budget import WriteClass
from multiqueue.model import workload as model
from multiqueue.model.resources import format_amount

CONCURRENCY = 16
EXPLAINERS = 8
"""Reasons that are written at a time, at most."""
MAX_STEPS = 8
QUEUE_CHANGE_SECONDS = 1.0
"""Delay between a queue's change and the reconcile of its Workloads. The scheduler runs first, so
that after a restart waiting Workloads come before drained ones (E-105). Several edits of a queue
in quick succession cause only one write for each Workload."""
DRAIN_SECONDS = 0.1
"""The same for Workloads that are to leave a queue: nobody waits for their place before."""
MINOR_SECONDS = 5.0
"""Minimum interval between rewrites of a message in which only numbers changed."""

log = structlog.get_logger("multiqueue.workload")


class WorkloadController:
    """Reconciles Workloads.

    Args:
        context: The manager's context.
        engine: Asked why a Workload waits.
        is_admitting: Whether the admission of a Workload is being written.

    Attributes:
        reasons: The Workloads that need a new reason; each is written when the server has capacity.
    """

    name = "workload"

    def __init__(
        self, context: ManagerContext, engine: Engine, *, is_admitting: Callable[[str], bool]
    ) -> None:
        self._context = context
        self._engine = engine
        self._is_admitting = is_admitting
        self._options = WorkloadOptions.from_config(context.config)
        workers = context.config.controller.workers_for("Workload", GROUP, CONCURRENCY)
        self._reconciler = Reconciler(
            self.name, self.reconcile, concurrency=workers, metrics=context.metrics
        )
        self._limiter = context.client.limiter
        self.reasons = Reconciler(
            f"{self.name}-reasons",
            self.explain,
            concurrency=EXPLAINERS,
            turn=partial(self._limiter.spare, WriteClass.EXPLANATION),
            metrics=context.metrics,
        )
        self._refined_at: dict[str, float] = {}

    async def run(self) -> None:
        """Reconcile until cancelled, once all needed informers are synced."""
        informers = self._context.informers
        await wait_settled(
            informers.workloads,
            informers.local_queues,
            informers.cluster_queues,
            informers.priority_classes,
        )
        informers.workloads.add_handler(self._on_workload)
        informers.local_queues.add_handler(self._on_local_queue)
        informers.cluster_queues.add_handler(self._on_cluster_queue)
        informers.priority_classes.add_handler(self._on_priority_class)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._reconciler.run(), name=self.name)
            tasks.create_task(self.reasons.run(), name=f"{self.name}-reasons")

    def enqueue(self, key: str, *, after: float = 0) -> None:
        """Schedule the reconcile of a Workload, now or after that many seconds."""
        self._reconciler.queue.add_after(key, after)

    def enqueue_cluster_queue(self, name: str) -> None:
        """Reconcile every Workload that waits for a ClusterQueue or holds quota of it."""
        informers = self._context.informers
        for queue in informers.local_queues.store.by_index(BY_CLUSTER_QUEUE, name):
            self._enqueue_all(informers.workloads.store.by_index(BY_QUEUE, queue.metadata.key))
        self._enqueue_all(informers.workloads.store.by_index(BY_CLUSTER_QUEUE, name))

    async def reconcile(self, key: str) -> Result:
        """Carry out the next steps for one Workload."""
        for _ in range(MAX_STEPS):
            self._reconciler.queue.note_reconcile(key)
            view = self.observe(key)
            if view is None:
                self._refined_at.pop(key, None)
                return DONE
            plan = decide(view)
            if isinstance(plan, NothingToDo):
                return Result(requeue_after=plan.requeue_after)
            if isinstance(plan, WriteStatus) and plan.minor:
                busy = self._limiter.is_saturated
                wait = MINOR_SECONDS if busy else self._patience(key)
                if wait > 0:
                    return Result(requeue_after=wait)
            if isinstance(plan, WriteStatus) and plan.explains:
                self.reasons.queue.add(key)
                return Result(requeue_after=backoff_left(view))
            try:
                await self._execute(plan, view)
            except NotFound:
                return DONE
            if isinstance(plan, Delete | ReleaseFinalizer):
                return DONE
        log.warning("workload does not come to rest", workload=key, steps=MAX_STEPS)
        return Result(requeue_after=1.0)

    async def explain(self, key: str) -> Result:
        """Write why a Workload waits; called when the server has capacity for that.

        A Workload that was admitted meanwhile needs no reason.
        """
        view = self.observe(key)
        plan = decide(view) if view is not None else None
        if view is not None and isinstance(plan, WriteStatus) and plan.explains:
            try:
                await self._execute(plan, view)
            except NotFound:
                return DONE
        return DONE

    def observe(self, key: str) -> WorkloadSituation | None:
        """Return what is known about a Workload; None if it is gone."""
        informers = self._context.informers
        workload = informers.workloads.store.get(key)
        if workload is None:
            return None
        waits = not has_quota(workload.status)
        local_queue = informers.local_queues.store.get(
            key_of(workload.metadata.namespace, workload.spec.queue_name)
        )
        cluster_queue = (
            informers.cluster_queues.store.get(local_queue.spec.cluster_queue)
            if local_queue
            else None
        )
        admission, reference = workload.status.admission, workload.spec.priority_class_ref
        return WorkloadSituation(
            workload=workload,
            local_queue=local_queue,
            cluster_queue=cluster_queue,
            holding=informers.cluster_queues.store.get(admission.cluster_queue)
            if admission
            else None,
            priority_class=informers.priority_classes.store.get(reference.name)
            if reference and reference.kind == "WorkloadPriorityClass"
            else None,
            explanation=self._engine.workload_reason(key) if waits else None,
            requests=find_requests(self._engine.find_workload(key)) if waits else (),
            successor=self._find_successor(workload),
            admitting=self._is_admitting(key),
            options=self._options,
            now=self._context.clock.now(),
        )

    def _find_successor(self, workload: Workload) -> Workload | None:
        if not self._options.elastic or not has_quota(workload.status):
            return None
        store = self._context.informers.workloads.store
        return find_successor(workload, store.get, partial(store.by_index, BY_REPLACED))

    async def _execute(self, plan: WorkloadPlan, view: WorkloadSituation) -> None:
        writer, workload = self._context.writer, view.workload
        match plan:
            case WriteStatus():
                written = await writer.update_status(
                    workload.metadata.key,
                    lambda newest: plan.change(replace(view, workload=newest)),
                )
                if plan.warn is not None:
                    self._record(written, "Warning", plan.warn.reason, plan.warn.message)
            case PatchSpec():
                await writer.patch_spec(workload, {"spec": plan.patch})
            case Delete():
                released = await writer.remove_finalizer(workload)
                await writer.delete(released)
                self._record(workload, "Normal", "Deleted", plan.message)
            case ReleaseFinalizer():
                await writer.remove_finalizer(workload)

    def _patience(self, key: str) -> float:
        """Return the seconds until a minor change may be written; count one that may be now."""
        now = asyncio.get_running_loop().time()
        wait = self._refined_at.get(key, float("-inf")) + MINOR_SECONDS - now
        if wait <= 0:
            self._refined_at[key] = now
        return wait

    def _record(self, workload: Workload, kind: str, reason: str, message: str) -> None:
        self._context.recorder.event(workload_reference(workload), kind, reason, message)

    def _on_workload(self, old: Workload | None, new: Workload | None) -> None:
        seen = new or old
        assert seen is not None
        if new is None or has_quota(new.status):
            self._refined_at.pop(seen.metadata.key, None)
        if new is not None:
            self._reconciler.queue.add(new.metadata.key)
            if has_quota(new.status) and (replaced := replaced_key(new)):
                self._reconciler.queue.add(replaced)

    def _on_local_queue(self, old: LocalQueue | None, new: LocalQueue | None) -> None:
        if old is None or new is None or _stance(old) != _stance(new):
            queue = new or old
            assert queue is not None
            store = self._context.informers.workloads.store
            self._enqueue_all(store.by_index(BY_QUEUE, queue.metadata.key))
            if queue.spec.stop_policy == HOLD_AND_DRAIN:
                self._enqueue_all(store.by_index(BY_QUEUE, queue.metadata.key), after=DRAIN_SECONDS)

    def _on_cluster_queue(self, old: ClusterQueue | None, new: ClusterQueue | None) -> None:
        if old is None or new is None or _queue_stance(old) != _queue_stance(new):
            queue = new or old
            assert queue is not None
            self.enqueue_cluster_queue(queue.metadata.name)
            if queue.spec.stop_policy == HOLD_AND_DRAIN:
                store = self._context.informers.workloads.store
                self._enqueue_all(
                    store.by_index(BY_CLUSTER_QUEUE, queue.metadata.name), after=DRAIN_SECONDS
                )

    def _on_priority_class(
        self, old: WorkloadPriorityClass | None, new: WorkloadPriorityClass | None
    ) -> None:
        if new is not None and (old is None or old.value != new.value):
            store = self._context.informers.workloads.store
            self._enqueue_all(store.by_index(BY_PRIORITY_CLASS, new.metadata.name))

    def _enqueue_all(
        self, workloads: Iterable[Workload], *, after: float = QUEUE_CHANGE_SECONDS
    ) -> None:
        for workload in workloads:
            self._reconciler.queue.add_after(workload.metadata.key, after)


def find_requests(workload: model.Workload | None) -> tuple[PodSetRequest, ...]:
    """Return the total request of each pod set, after every adjustment."""
    return tuple(
        PodSetRequest(
            name=pod_set.name,
            resources={name: format_amount(name, pod_set.total(name)) for name in pod_set.requests},
        )
        for pod_set in (workload.pod_sets if workload is not None else ())
    )


def _stance(queue: LocalQueue) -> tuple[str, str, str]:
    spec = queue.spec
    return (spec.cluster_queue, spec.stop_policy, queue.metadata.deletion_timestamp)


def _queue_stance(queue: ClusterQueue) -> tuple[object, ...]:
    spec = queue.spec
    return (
        spec.stop_policy,
        spec.admission_checks_strategy,
        spec.resource_groups,
        queue.metadata.deletion_timestamp,
    )
