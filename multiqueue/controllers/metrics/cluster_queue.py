"""The gauges of ClusterQueues: waiting and admitted Workloads, quota and usage.

`ClusterQueueController` sets them at each reconcile. Their figures are `ClusterQueueState`, which
`engine/queue_states.py` counts; `kueue_pending_workloads` is the length of the pending queue, by
status.
"""

from __future__ import annotations

from math import inf

from multiqueue.api.config import Gate
from multiqueue.api.v1beta2 import ClusterQueue
from multiqueue.controllers.metrics.gpus import measure_queue
from multiqueue.controllers.queue_status import natural, waiting_by_status
from multiqueue.engine.state import ClusterQueueState
from multiqueue.jobs.context import ManagerContext

STATUSES = ("pending", "active", "terminating")


class ClusterQueueGauges:
    """Sets the gauges of ClusterQueues.

    Args:
        context: The manager's context.
    """

    def __init__(self, context: ManagerContext) -> None:
        self._metrics = context.metrics
        self._shows_resources = context.config.metrics.enable_cluster_queue_resources
        self._shows_cohorts = context.config.gates.enabled(Gate.METRICS_FOR_COHORTS)
        self._places: dict[str, tuple[str, str]] = {}

    def measure(self, queue: ClusterQueue, state: ClusterQueueState) -> None:
        """Set the gauges of a ClusterQueue."""
        metrics, name = self._metrics, queue.metadata.name
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
        if self._shows_resources:
            self._measure_resources(queue, state)

    def _measure_place(self, queue: ClusterQueue, state: ClusterQueueState) -> None:
        """Name the cohorts that the queue is below; a queue without one has no such series."""
        place = (queue.spec.cohort_name, state.root)
        name = queue.metadata.name
        if self._places.get(name) == place:
            return
        self._places[name] = place
        info = self._metrics.cluster_queue_info
        info.forget(cluster_queue=name)
        if self._shows_cohorts and place[0]:
            info.child(name, *place).set(1)

    def _measure_resources(self, queue: ClusterQueue, state: ClusterQueueState) -> None:
        metrics, cohort, name = self._metrics, queue.spec.cohort_name, queue.metadata.name
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

    def forget(self, name: str) -> None:
        """Drop the series of a ClusterQueue that was deleted."""
        self._places.pop(name, None)
        self._metrics.forget(cluster_queue=name)
