"""The gauges of single LocalQueues (localQueueMetrics), for the selected ones."""

from __future__ import annotations

from multiqueue.api.config import Gate
from multiqueue.api.names import key_of, split_key
from multiqueue.api.serde import encode
from multiqueue.api.v1beta2 import LocalQueue, Workload
from multiqueue.controllers.queue_status import natural, waiting_by_status
from multiqueue.engine.state import LocalQueueState
from multiqueue.jobs.context import ManagerContext
from multiqueue.lib.selectors import label_selector_from

STATUSES = ("True", "False", "Unknown")


class LocalQueueGauges:
    """Sets the gauges of LocalQueues, and says which LocalQueues have metrics of their own."""

    def __init__(self, context: ManagerContext) -> None:
        self._metrics = context.metrics
        self._queues = context.informers.local_queues.store
        section = context.config.metrics.local_queue_metrics
        selector = section.local_queue_selector
        self._enabled = section.enable and context.config.gates.enabled(Gate.LOCAL_QUEUE_METRICS)
        self._selector = label_selector_from(encode(selector) if selector is not None else {})

    def covers(self, queue: LocalQueue | None) -> bool:
        """Whether this LocalQueue has metrics of its own."""
        return self._enabled and queue is not None and self._selector.matches(queue.metadata.labels)

    def labels_of(self, workload: Workload) -> tuple[str, str] | None:
        """Return name and namespace of a Workload's LocalQueue; None if it has no metrics."""
        namespace, name = workload.metadata.namespace, workload.spec.queue_name
        covered = self.covers(self._queues.get(key_of(namespace, name)))
        return (name, namespace) if covered else None

    def measure(self, queue: LocalQueue, state: LocalQueueState) -> None:
        """Set the metrics of a LocalQueue, if it is selected."""
        if not self.covers(queue):
            return
        metrics, own = self._metrics, (queue.metadata.name, queue.metadata.namespace)
        for waits, count in waiting_by_status(state).items():
            metrics.local_queue_pending_workloads.child(*own, waits).set(count)
        for status in STATUSES:
            metrics.local_queue_status.child(*own, status).set(status == str(state.active))
        metrics.local_queue_reserving_active_workloads.child(*own).set(state.reserving)
        metrics.local_queue_admitted_active_workloads.child(*own).set(state.admitted)
        for family, usage in (
            (metrics.local_queue_resource_reservation, state.reservation),
            (metrics.local_queue_resource_usage, state.usage),
        ):
            for flavor, resources in usage.items():
                for resource, used in resources.items():
                    family.child(*own, flavor, resource).set(natural(resource, used.total))

    def measure_past_usage(self, queue: LocalQueue, used: float) -> None:
        """Set the past usage of a LocalQueue, divided by its weight, if it is selected."""
        if self.covers(queue):
            gauge, meta = self._metrics.local_queue_admission_fair_sharing_usage, queue.metadata
            gauge.child(meta.name, meta.namespace, queue.spec.cluster_queue).set(used)

    def forget(self, key: str) -> None:
        """Drop the series of a LocalQueue that was deleted or is no longer selected."""
        namespace, name = split_key(key)
        self._metrics.forget(name=name, namespace=namespace)
