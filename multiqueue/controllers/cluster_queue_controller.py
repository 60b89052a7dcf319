"""Status and finalizer of ClusterQueues."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from multiqueue.api.names import GROUP
from multiqueue.api.v1beta2 import ClusterQueue
from multiqueue.controllers.finalizer import sync_finalizer
from multiqueue.controllers.metrics.cluster_queue import ClusterQueueGauges
from multiqueue.controllers.queue_status import cluster_queue_patch
from multiqueue.engine.engine import Engine
from multiqueue.jobs.context import ManagerContext
from multiqueue.jobs.framework.reconciler import wait_settled
from multiqueue.kube.reconciler import DONE, Reconciler, Result
from multiqueue.kube.resources import CLUSTER_QUEUES
from multiqueue.kube.status_writes import write_status
from multiqueue.kube.write_budget import WriteClass

CONCURRENCY = 4


class ClusterQueueController:
    """Reconciles ClusterQueues.

    Args:
        context: The manager's context.
        engine: Knows usage and activity.
        on_activity: Called with the name of each queue that became active or inactive.
    """

    name = "cluster-queue"

    def __init__(
        self, context: ManagerContext, engine: Engine, *, on_activity: Callable[[str], None]
    ) -> None:
        self._context = context
        self._engine = engine
        self._on_activity = on_activity
        self._active: dict[str, bool] = {}
        self._echo: dict[str, str] = {}
        self._gauges = ClusterQueueGauges(context)
        workers = context.config.controller.workers_for("ClusterQueue", GROUP, CONCURRENCY)
        self._reconciler = Reconciler(
            self.name, self.reconcile, concurrency=workers, metrics=context.metrics
        )
        self._statuses = Reconciler(
            f"{self.name}-status",
            self.write_status,
            concurrency=workers,
            turn=partial(context.client.limiter.spare, WriteClass.QUEUE_STATUS),
            metrics=context.metrics,
        )

    async def run(self) -> None:
        """Reconcile until cancelled."""
        informers = self._context.informers
        await wait_settled(informers.cluster_queues, informers.workloads)
        informers.cluster_queues.add_handler(self._on_event)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._reconciler.run(), name=self.name)
            tasks.create_task(self._statuses.run(), name=f"{self.name}-status")

    def enqueue(self, name: str) -> None:
        """Schedule the reconcile of a ClusterQueue."""
        self._reconciler.queue.add(name)

    async def reconcile(self, name: str) -> Result:
        """Write the finalizer of one ClusterQueue; pass a changed status on."""
        queue = self._context.informers.cluster_queues.store.get(name)
        if queue is None:
            self._active.pop(name, None)
            self._echo.pop(name, None)
            self._gauges.forget(name)
            return DONE
        state = self._engine.cluster_queue_state(name)
        if state is None:
            # The engine could not take the object; the cache feed logged why.
            return DONE
        if self._active.get(name) != state.active:
            self._active[name] = state.active
            self._on_activity(name)
        self._gauges.measure(queue, state)
        if await sync_finalizer(
            self._context.client, CLUSTER_QUEUES, queue, in_use=state.reserving > 0
        ):
            # The write comes back as an event, which causes the next reconcile.
            return DONE
        if cluster_queue_patch(queue, state, self._context.clock.now()):
            self._statuses.queue.add(name)
        return DONE

    async def write_status(self, name: str) -> Result:
        """Write the status of one ClusterQueue, if it changed."""
        queue = self._context.informers.cluster_queues.store.get(name)
        state = self._engine.cluster_queue_state(name)
        if queue is None or state is None:
            return DONE
        patch = cluster_queue_patch(queue, state, self._context.clock.now())
        if not patch:
            return DONE
        await write_status(
            self._context.client,
            self._context.informers.cluster_queues,
            queue,
            patch,
            over_any=True,
            on_answer=self._note_own,
        )
        return DONE

    def _note_own(self, answer: ClusterQueue) -> None:
        self._echo[answer.metadata.name] = answer.metadata.resource_version

    def _on_event(self, old: ClusterQueue | None, new: ClusterQueue | None) -> None:
        queue = new or old
        assert queue is not None
        name, version = queue.metadata.name, queue.metadata.resource_version
        # Our own status write needs no reconcile; changes made meanwhile wait for their batch.
        if new is None or self._echo.get(name) != version:
            self._reconciler.queue.add(name)
