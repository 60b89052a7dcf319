"""Status and finalizer of ClusterQueues."""

from __future__ import annotations

from collections.abc import Callable

from multiqueue.api.v1beta2 import ClusterQueue
from multiqueue.controllers.finalizer import sync_finalizer
from multiqueue.controllers.metrics.cluster_queue import ClusterQueueGauges
from multiqueue.controllers.queue_controller import QueueController
from multiqueue.controllers.queue_status import cluster_queue_patch
from multiqueue.engine.engine import Engine
from multiqueue.jobs.context import ManagerContext
from multiqueue.kube.reconciler import DONE, Result
from multiqueue.kube.resources import CLUSTER_QUEUES


class ClusterQueueController(QueueController[ClusterQueue]):
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
        super().__init__(context, engine, context.informers.cluster_queues)
        self._on_activity = on_activity
        self._active: dict[str, bool] = {}
        self._gauges = ClusterQueueGauges(context)

    async def reconcile(self, key: str) -> Result:
        """Write the finalizer of one ClusterQueue; pass a changed status on."""
        queue = self._informer.store.get(key)
        if queue is None:
            self._active.pop(key, None)
            self._echo.pop(key, None)
            self._gauges.forget(key)
            return DONE
        state = self._engine.cluster_queue_state(key)
        if state is None:
            # The engine could not take the object; the cache feed logged why.
            return DONE
        if self._active.get(key) != state.active:
            self._active[key] = state.active
            self._on_activity(key)
        self._gauges.measure(queue, state)
        if await sync_finalizer(
            self._context.client, CLUSTER_QUEUES, queue, in_use=state.reserving > 0
        ):
            # The write comes back as an event, which causes the next reconcile.
            return DONE
        if cluster_queue_patch(queue, state, self._context.clock.now()):
            self._statuses.queue.add(key)
        return DONE

    async def write_status(self, key: str) -> Result:
        """Write the status of one ClusterQueue, if it changed."""
        queue = self._informer.store.get(key)
        state = self._engine.cluster_queue_state(key)
        if queue is None or state is None:
            return DONE
        patch = cluster_queue_patch(queue, state, self._context.clock.now())
        if patch:
            await self._write(queue, patch)
        return DONE
