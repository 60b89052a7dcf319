"""What the controllers of ClusterQueues and of LocalQueues share.

One reconciler judges a queue at each change, the other writes changed statuses when writes of that
class have their turn. An event of our own write of a status causes no reconcile.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from functools import partial
from typing import Any, ClassVar, Generic, TypeVar

from multiqueue.api.names import GROUP
from multiqueue.api.v1beta2 import ClusterQueue, LocalQueue
from multiqueue.engine.engine import Engine
from multiqueue.jobs.context import ManagerContext
from multiqueue.jobs.framework.reconciler import wait_settled
from multiqueue.kube.informer import Informer
from multiqueue.kube.reconciler import Reconciler, Result
from multiqueue.kube.status_writes import write_status
from multiqueue.kube.write_budget import WriteClass

CONCURRENCY = 4
Q = TypeVar("Q", ClusterQueue, LocalQueue)


class QueueController(ABC, Generic[Q]):
    """Reconciles the queues of one kind.

    Args:
        context: The manager's context.
        engine: Knows the states of the queues.
        informer: Follows the kind.
    """

    name: ClassVar[str]

    def __init__(self, context: ManagerContext, engine: Engine, informer: Informer[Q]) -> None:
        self._context = context
        self._engine = engine
        self._informer: Informer[Q] = informer
        self._echo: dict[str, str] = {}
        kind = informer.resource.kind
        workers = context.config.controller.workers_for(kind, GROUP, CONCURRENCY)
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
        await wait_settled(self._informer, informers.cluster_queues, informers.workloads)
        self._informer.add_handler(self._on_event)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._reconciler.run(), name=self.name)
            tasks.create_task(self._statuses.run(), name=f"{self.name}-status")

    def enqueue(self, key: str) -> None:
        """Schedule the reconcile of a queue."""
        self._reconciler.queue.add(key)

    @abstractmethod
    async def reconcile(self, key: str) -> Result:
        """Judge one queue; pass a changed status on."""

    @abstractmethod
    async def write_status(self, key: str) -> Result:
        """Write the status of one queue, if it changed."""

    async def _write(self, queue: Q, patch: dict[str, Any]) -> bool:
        """Write a status; return whether the queue still exists."""
        answer = await write_status(
            self._context.client,
            self._informer,
            queue,
            patch,
            over_any=True,
            on_answer=self._note_own,
        )
        return answer is not None

    def _note_own(self, answer: Q) -> None:
        self._echo[answer.metadata.key] = answer.metadata.resource_version

    def _on_event(self, old: Q | None, new: Q | None) -> None:
        queue = new or old
        assert queue is not None
        key, version = queue.metadata.key, queue.metadata.resource_version
        # Our own status write needs no reconcile; changes made meanwhile wait for their batch.
        if new is None or self._echo.get(key) != version:
            self._reconciler.queue.add(key)
