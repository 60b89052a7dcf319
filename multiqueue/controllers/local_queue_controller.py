"""Status of LocalQueues, with the past usage for admission fair sharing.

At every sampling interval, the usage up to now is written first and counted afterwards (E-122). So
a new manager begins with the values that the last one used. An inactive queue is not sampled: the
first one admitted after a stop is charged for the whole time, as recordings of the reference show.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from multiqueue.api.conditions import ACTIVE, find_condition
from multiqueue.api.v1beta2 import LocalQueue
from multiqueue.controllers.metrics.local_queue import LocalQueueGauges
from multiqueue.controllers.queue_controller import QueueController
from multiqueue.controllers.queue_status import local_queue_patch
from multiqueue.engine.engine import Engine
from multiqueue.engine.fairness.past_usage import PastUsageRecords
from multiqueue.jobs.context import ManagerContext
from multiqueue.jobs.informers import BY_CLUSTER_QUEUE
from multiqueue.kube.reconciler import DONE, Result

AT_ONCE = Result(requeue_after=0)


class LocalQueueController(QueueController[LocalQueue]):
    """Reconciles LocalQueues.

    context: The manager's context.
    engine: Holds the state of the LocalQueues.
    on_sampled: Called after past usage was sampled, which may change the head.
    """

    name = "local-queue"

    def __init__(
        self, context: ManagerContext, engine: Engine, *, on_sampled: Callable[[], None]
    ) -> None:
        super().__init__(context, engine, context.informers.local_queues)
        self._on_sampled = on_sampled
        self._local_gauges = LocalQueueGauges(context)

    def enqueue_cluster_queue(self, name: str) -> None:
        """Schedule the reconcile of every LocalQueue that leads to a ClusterQueue."""
        store = self._informer.store
        for queue in store.by_index(BY_CLUSTER_QUEUE, name):
            self._reconciler.queue.add(queue.metadata.key)

    async def reconcile(self, key: str) -> Result:
        """Sample the past usage of one LocalQueue if that is due; pass a changed status on."""
        queue = self._informer.store.get(key)
        if queue is None:
            self._echo.pop(key, None)
            self._local_gauges.forget(key)
            return DONE
        state = self._engine.local_queue_state(key)
        if state is None:
            return DONE
        self._local_gauges.measure(queue, state)
        now = self._context.clock.now()
        usage = self._engine.usage if state.active else None
        if usage is not None and _was_stopped(queue):
            # Admissions of this moment have to settle before the first sample.
            is_there = await self._write(queue, local_queue_patch(queue, state, now))
            return AT_ONCE if is_there else DONE
        is_due = usage is not None and usage.next_sample_at(key, now) <= now
        consumed = usage.announce(key, now) if usage is not None and is_due else None
        patch = local_queue_patch(queue, state, now, consumed)
        if is_due and patch and not await self._write(queue, patch):
            return DONE
        if patch and not is_due:
            self._statuses.queue.add(key)
        if usage is None:
            return DONE
        if is_due:
            self._sample(queue, usage, now)
            # Not computed again: a waiting penalty would make every other event due (E-122).
            return Result(requeue_after=usage.sampling_interval.total_seconds())
        return Result(requeue_after=(usage.next_sample_at(key, now) - now).total_seconds())

    async def write_status(self, key: str) -> Result:
        """Write the status of one LocalQueue, if it changed."""
        queue = self._informer.store.get(key)
        state = self._engine.local_queue_state(key)
        if queue is not None and state is not None:
            patch = local_queue_patch(queue, state, self._context.clock.now())
            if patch:
                await self._write(queue, patch)
        return DONE

    def _sample(self, queue: LocalQueue, usage: PastUsageRecords, now: datetime) -> None:
        key = queue.metadata.key
        usage.sample(key, now)
        self._on_sampled()
        self._local_gauges.measure_past_usage(queue, usage.usage_of(key))

    def _on_event(self, old: LocalQueue | None, new: LocalQueue | None) -> None:
        queue = new or old
        assert queue is not None
        if self._local_gauges.covers(old) and not self._local_gauges.covers(queue):
            self._local_gauges.forget(queue.metadata.key)
        super()._on_event(old, new)


def _was_stopped(queue: LocalQueue) -> bool:
    """Whether the last status says that nothing was admitted."""
    condition = find_condition(queue.status.conditions, ACTIVE)
    return condition is not None and condition.status != "True"
