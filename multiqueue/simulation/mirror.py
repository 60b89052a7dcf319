"""The manager's replica of a worker, fed directly instead of by watch events."""

from __future__ import annotations

from datetime import datetime

from multiqueue.forecast.curve import scale
from multiqueue.forecast.estimates import Budget
from multiqueue.forecast.replica import Replica
from multiqueue.model.cluster_queue import ClusterQueue, LocalQueue
from multiqueue.model.resource_flavor import ResourceFlavor
from multiqueue.model.workload import Workload
from multiqueue.plugins import Forecast, WorkloadView
from multiqueue.plugins.forecast import Runtime
from multiqueue.simulation.fleet import GPU, HARDWARE_LABEL, Cluster
from multiqueue.simulation.knowledge import Knowledge
from multiqueue.simulation.queues import LOCAL_QUEUE
from multiqueue.simulation.traces.trace import TraceJob


class Mirror:
    """Forecasts what a worker would do.

    Args:
        cluster: The worker.
        queues: Its ClusterQueues.
        knowledge: What is known of runtimes.
    """

    def __init__(
        self, cluster: Cluster, queues: tuple[ClusterQueue, ...], knowledge: Knowledge
    ) -> None:
        self._replica = Replica()
        self._knowledge = knowledge
        self._first_flavor = next(iter(cluster.gpus))
        for flavor in cluster.gpus:
            self._replica.upsert_flavor(
                ResourceFlavor(name=flavor, node_labels={HARDWARE_LABEL: flavor})
            )
        for queue in queues:
            self._replica.upsert_cluster_queue(queue)
            self._replica.upsert_local_queue(
                LocalQueue(key=f"{queue.name}/{LOCAL_QUEUE}", cluster_queue=queue.name)
            )

    def upsert(self, workload: Workload, job: TraceJob, now: datetime) -> None:
        """Update the replica with the state of a copy."""
        if workload.finished or not workload.active:
            self._replica.delete_workload(workload.key, now)
            return
        self._replica.upsert_workload(workload, now, runtime=self._runtime(workload, job))

    def delete(self, key: str, now: datetime) -> None:
        """Remove a copy from the replica."""
        self._replica.delete_workload(key, now)

    def assume(self, workload: WorkloadView, now: datetime) -> None:
        """Count a Workload that is about to be sent there."""
        self._replica.assume(workload, now)

    def forget(self, key: str, now: datetime) -> None:
        """Stop counting a Workload that was sent elsewhere."""
        self._replica.forget(key, now)

    def forecast(self, workload: WorkloadView, now: datetime, budget: Budget) -> Forecast | None:
        """Return the forecast of a Workload on the worker."""
        return self._replica.forecast(workload, now, budget=budget)

    def _runtime(self, workload: Workload, job: TraceJob) -> Runtime:
        known = self._knowledge.find(job)
        held = workload.reservation
        flavor = held.admission.pod_sets[0].flavors[GPU] if held else self._first_flavor
        return scale(known, round(1000 * job.speed_on(flavor)))
