"""Status and finalizer of ClusterQueues."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from math import inf

from multiqueue.api.config import Gate
from multiqueue.api.names import GROUP
from multiqueue.api.serde import decode
from multiqueue.api.v1beta2 import ClusterQueue
from multiqueue.controllers.finalizer import sync_finalizer
from multiqueue.controllers.gpu_figures import measure_queue
from multiqueue.controllers.queue_status import cluster_queue_patch, natural, waiting_by_status
from multiqueue.engine.engine import Engine
from multiqueue.engine.state import ClusterQueueState
from multiqueue.jobs.context import ManagerContext
from multiqueue.jobs.framework.reconciler import wait_settled
from multiqueue.kube.errors import NotFound
from multiqueue.kube.reconciler import DONE, Reconciler, Result
from multiqueue.kube.resources import CLUSTER_QUEUES
from multiqueue.kube.write_budget import WriteClass

STATUSES = ("pending", "active", "terminating")
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
        self._places: dict[str, tuple[str, str]] = {}
        workers = context.config.controller.workers_for("ClusterQueue", GROUP, CONCURRENCY)
        self._reconciler: Reconciler[str] = Reconciler(
            self.name, self.reconcile, concurrency=workers, metrics=context.metrics
        )
        self._statuses: Reconciler[str] = Reconciler(
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
            self._places.pop(name, None)
            self._context.metrics.forget(cluster_queue=name)
            return DONE
        state = self._engine.cluster_queue_state(name)
        if state is None:
            # The engine could not take the object; the cache feed logged why.
            return DONE
        if self._active.get(name) != state.active:
            self._active[name] = state.active
            self._on_activity(name)
        self._measure(queue, state)
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
        try:
            answer = await self._context.client.patch(
                CLUSTER_QUEUES,
                queue.metadata.name,
                {"status": patch},
                subresource="status",
                decode=lambda data: decode(ClusterQueue, data),
            )
        except NotFound:
            return DONE
        self._echo[answer.metadata.name] = answer.metadata.resource_version
        self._context.informers.cluster_queues.observe(answer)
        return DONE

    def _measure(self, queue: ClusterQueue, state: ClusterQueueState) -> None:
        metrics, name = self._context.metrics, queue.metadata.name
        terminating = bool(queue.metadata.deletion_timestamp)
        current = "terminating" if terminating else "active" if state.active else "pending"
        for status in STATUSES:
            metrics.cluster_queue_status.child(name, status).set(status == current)
        for status, count in waiting_by_status(state).items():
            metrics.pending_workloads.child(name, status).set(count)
        metrics.reserving_active_workloads.child(name).set(state.reserving)
        metrics.admitted_active_workloads.child(name).set(state.admitted)
        if state.weighted_share is not None:
            metrics.cluster_queue_weighted_share.child(name, queue.spec.cohort_name).set(
                state.weighted_share.measured
            )
        hashes = metrics.pending_scheduling_hashes
        hashes.child(name, "active").set(state.active_classes)
        hashes.child(name, "inadmissible").set(state.classes - state.active_classes)
        measure_queue(metrics, state)
        self._measure_place(queue, state)
        if not self._context.config.metrics.enable_cluster_queue_resources:
            return
        self._measure_resources(queue, state)

    def _measure_place(self, queue: ClusterQueue, state: ClusterQueueState) -> None:
        """Name the cohorts that the queue is below; a queue without one has no such series."""
        place = (queue.spec.cohort_name, state.root)
        name = queue.metadata.name
        if self._places.get(name) == place:
            return
        self._places[name] = place
        info = self._context.metrics.cluster_queue_info
        info.forget(cluster_queue=name)
        if self._context.config.gates.enabled(Gate.METRICS_FOR_COHORTS) and place[0]:
            info.child(name, *place).set(1)

    def _measure_resources(self, queue: ClusterQueue, state: ClusterQueueState) -> None:
        metrics, cohort, name = self._context.metrics, queue.spec.cohort_name, queue.metadata.name
        for family, usage in (
            (metrics.cluster_queue_resource_reservation, state.reservation),
            (metrics.cluster_queue_resource_usage, state.usage),
        ):
            for flavor, resources in usage.items():
                for resource, used in resources.items():
                    family.child(cohort, name, flavor, resource).set(natural(resource, used.total))
        for flavor, quotas in state.nominal.items():
            for resource, nominal in quotas.items():
                own = (cohort, name, flavor, resource)
                metrics.cluster_queue_nominal_quota.child(*own).set(natural(resource, nominal))
                for family, limits in (
                    (metrics.cluster_queue_borrowing_limit, state.borrowing_limit),
                    (metrics.cluster_queue_lending_limit, state.lending_limit),
                ):
                    limit = limits[flavor][resource]
                    family.child(*own).set(inf if limit is None else natural(resource, limit))
        covered = {resource for quotas in state.nominal.values() for resource in quotas}
        for resource in covered | state.pending_requests.keys():
            metrics.cluster_queue_resource_pending.child(name, resource).set(
                natural(resource, state.pending_requests.get(resource, 0))
            )

    def _on_event(self, old: ClusterQueue | None, new: ClusterQueue | None) -> None:
        queue = new or old
        assert queue is not None
        name, version = queue.metadata.name, queue.metadata.resource_version
        # Our own status write needs no reconcile; changes made meanwhile wait for their batch.
        if new is None or self._echo.get(name) != version:
            self._reconciler.queue.add(name)
