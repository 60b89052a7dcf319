"""The accelerators of each worker as metrics, from its ClusterQueues as they change.

A changed queue moves the sums of its worker; nothing is walked. Workers that are out of reach have
no series, because nobody knows what is free there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import partial

from multiqueue.api.cluster_orders import read_orders
from multiqueue.api.v1beta2 import ClusterQueue, MultiKueueCluster
from multiqueue.jobs.context import ManagerContext
from multiqueue.views.workers import count_accelerators
from multiqueue.workers.connections.fleet import Fleet, FleetListener
from multiqueue.workers.connections.session import WorkerSession

TOTAL, USED, FREE, IS_CORDONED = "total", "used", "free", "cordoned"


class WorkerGpus:
    """Keeps the gauges; sessions exist only while this manager leads.

    Args:
        context: The manager's context.
        fleet: The workers.
    """

    def __init__(self, context: ManagerContext, fleet: Fleet) -> None:
        self._family = context.metrics.worker_gpus
        self._clusters = context.informers.multikueue_clusters
        self._find_session = fleet.find_session
        self._sums: dict[str, tuple[WorkerSession, Counter[tuple[str, str]]]] = {}
        fleet.add_session_hook(self._follow)
        fleet.add_listener(
            FleetListener(
                on_remote=lambda _: None, on_connection=self._publish, on_room=lambda: None
            )
        )
        self._clusters.add_handler(self._on_cluster)

    def _follow(self, cluster: str, session: WorkerSession) -> None:
        sums: Counter[tuple[str, str]] = Counter()
        self._sums[cluster] = (session, sums)
        session.informers.cluster_queues.add_handler(partial(self._on_queue, cluster, sums))

    def _on_queue(
        self,
        cluster: str,
        sums: Counter[tuple[str, str]],
        old: ClusterQueue | None,
        new: ClusterQueue | None,
    ) -> None:
        for queue, sign in ((old, -1), (new, 1)):
            for row in count_accelerators([queue]) if queue is not None else ():
                sums[row["flavor"], TOTAL] += sign * row["total"]
                sums[row["flavor"], USED] += sign * row["used"]
        self._publish(cluster)

    def _on_cluster(self, old: MultiKueueCluster | None, new: MultiKueueCluster | None) -> None:
        known = new or old
        assert known is not None
        if new is None:
            self._sums.pop(known.metadata.name, None)
        self._publish(known.metadata.name)

    def _publish(self, cluster: str) -> None:
        session, sums = self._sums.get(cluster, (None, Counter[tuple[str, str]]()))
        if session is None or self._find_session(cluster) is not session:
            self._family.forget(cluster=cluster)
            return
        for flavor in {flavor for flavor, _ in sums}:
            for kind, amount in self._split(cluster, flavor, sums).items():
                self._family.child(cluster, flavor, kind).set(amount)

    def _split(
        self, cluster: str, flavor: str, sums: Counter[tuple[str, str]]
    ) -> Mapping[str, int]:
        total, used = sums[flavor, TOTAL], sums[flavor, USED]
        free = max(0, total - used)
        found = self._clusters.store.get(cluster)
        cordoned = found is not None and read_orders(found.metadata.annotations).cordoned
        return {
            TOTAL: total,
            USED: used,
            FREE: 0 if cordoned else free,
            IS_CORDONED: free if cordoned else 0,
        }
