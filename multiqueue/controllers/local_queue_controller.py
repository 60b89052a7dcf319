"""Status of LocalQueues."""

from __future__ import annotations

from multiqueue.api.names import split_key
from multiqueue.api.serde import decode
from multiqueue.api.v1beta2 import LocalQueue
from multiqueue.controllers.queue_status import local_queue_patch
from multiqueue.engine.engine import Engine
from multiqueue.jobs.context import ManagerContext
from multiqueue.jobs.framework.reconciler import wait_settled
from multiqueue.jobs.informers import BY_CLUSTER_QUEUE
from multiqueue.kube.errors import NotFound
from multiqueue.kube.reconciler import DONE, Reconciler, Result
from multiqueue.kube.resources import LOCAL_QUEUES

CONCURRENCY = 4


class LocalQueueController:
    """Reconciles LocalQueues."""

    name = "local-queue"

    def __init__(self, context: ManagerContext, engine: Engine) -> None:
        self._context = context
        self._engine = engine
        self._echo: dict[str, str] = {}
        self._reconciler: Reconciler[str] = Reconciler(
            self.name, self.reconcile, concurrency=CONCURRENCY
        )

    async def run(self) -> None:
        """Reconcile until cancelled."""
        informers = self._context.informers
        await wait_settled(informers.local_queues, informers.cluster_queues, informers.workloads)
        informers.local_queues.add_handler(self._on_event)
        await self._reconciler.run()

    def enqueue(self, key: str) -> None:
        """Look at a LocalQueue."""
        self._reconciler.queue.add(key)

    def enqueue_cluster_queue(self, name: str) -> None:
        """Look at every LocalQueue that leads to a ClusterQueue."""
        store = self._context.informers.local_queues.store
        for queue in store.by_index(BY_CLUSTER_QUEUE, name):
            self._reconciler.queue.add(queue.metadata.key)

    async def reconcile(self, key: str) -> Result:
        """Write what changed of one LocalQueue."""
        queue = self._context.informers.local_queues.store.get(key)
        if queue is None:
            self._echo.pop(key, None)
            return DONE
        state = self._engine.local_queue_state(key)
        if state is None:
            return DONE
        patch = local_queue_patch(queue, state, self._context.clock.now())
        if not patch:
            return DONE
        namespace, name = split_key(key)
        try:
            answer = await self._context.client.patch(
                LOCAL_QUEUES,
                name,
                {"status": patch},
                namespace=namespace,
                subresource="status",
                decode=lambda data: decode(LocalQueue, data),
            )
        except NotFound:
            return DONE
        self._echo[key] = answer.metadata.resource_version
        self._context.informers.local_queues.observe(answer)
        return DONE

    def _on_event(self, old: LocalQueue | None, new: LocalQueue | None) -> None:
        queue = new or old
        assert queue is not None
        key, version = queue.metadata.key, queue.metadata.resource_version
        # Our own status is no reason to write another; what changed meanwhile waits for its batch.
        if new is None or self._echo.get(key) != version:
            self._reconciler.queue.add(key)
