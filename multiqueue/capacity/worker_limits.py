"""The most that the queues of one worker could ever hold, by quotas and hardware.

Unlike free quota, this changes rarely; listeners are called only if it may have changed.
"""

from __future__ import annotations

from collections.abc import Callable

from multiqueue.api import v1beta2 as api
from multiqueue.api.names import key_of
from multiqueue.capacity import quota_view
from multiqueue.capacity.quota_view import QueueObject
from multiqueue.capacity.worker_state import QueueInformers
from multiqueue.model.cluster_queue import ClusterQueue, Cohort
from multiqueue.plugins import QueueView


class WorkerLimits:
    """The limits of one worker.

    Args:
        informers: The worker's informers.
        on_change: Called when a limit may have changed.
    """

    def __init__(self, informers: QueueInformers, *, on_change: Callable[[], None]) -> None:
        self._informers = informers
        self._on_change = on_change
        self._members: dict[str, QueueObject | None] = {}
        self._cohorts: dict[str, Cohort] = {}
        self._views: dict[str, QueueView | None] = {}
        informers.local_queues.add_handler(self._on_local_queue)
        informers.cluster_queues.add_handler(self._on_cluster_queue)
        informers.cohorts.add_handler(self._on_cohort)
        informers.flavors.add_handler(self._on_flavor)

    def find(self, namespace: str, local_queue: str) -> QueueView | str | None:
        """Return the queue behind a LocalQueue, as if no quota were in use; or why there is none.

        None: its quotas cannot be read.
        """
        found = self._informers.local_queues.store.get(key_of(namespace, local_queue))
        if found is None:
            return f'has no LocalQueue "{local_queue}" in namespace "{namespace}"'
        name = found.spec.cluster_queue
        if name not in self._members:
            return f'has no ClusterQueue "{name}", which its LocalQueue "{local_queue}" names'
        if name not in self._views:
            self._views[name] = self._build(self._members[name])
        return self._views[name]

    def find_for(self, workload: api.Workload) -> QueueView | None:
        """Return the queue that a Workload would go to; None if it is unknown or absent."""
        found = self.find(workload.metadata.namespace, workload.spec.queue_name)
        return found if isinstance(found, QueueView) else None

    def find_target(self, namespace: str, local_queue: str) -> str | None:
        """Return the name of the ClusterQueue behind a LocalQueue; None: no such queue."""
        found = self._informers.local_queues.store.get(key_of(namespace, local_queue))
        name = found.spec.cluster_queue if found is not None else None
        return name if name in self._members else None

    def find_cluster_queue(self, name: str) -> ClusterQueue | None:
        """Return a ClusterQueue; None if it is absent or its quotas cannot be read."""
        member = self._members.get(name)
        return member.queue if member is not None else None

    def _build(self, member: QueueObject | None) -> QueueView | None:
        if member is None:
            return None
        readable = (other for other in self._members.values() if other is not None)
        pools = quota_view.pools_of(member, readable, self._cohorts)
        flavors = {obj.metadata.name: obj for obj in self._informers.flavors.store.list()}
        return quota_view.build_queue_view(member, flavors, pools)

    # ------------------------------------------------------------ events

    def _on_local_queue(self, old: api.LocalQueue | None, new: api.LocalQueue | None) -> None:
        before = old.spec.cluster_queue if old is not None else None
        after = new.spec.cluster_queue if new is not None else None
        if before != after:
            self._on_change()

    def _on_cluster_queue(self, old: api.ClusterQueue | None, new: api.ClusterQueue | None) -> None:
        if old is not None and new is not None and old.spec == new.spec:
            return
        known = new or old
        assert known is not None
        if new is None:
            self._members.pop(known.metadata.name, None)
        else:
            self._members[known.metadata.name] = quota_view.read_queue(new)
        self._forget_views()

    def _on_cohort(self, old: api.Cohort | None, new: api.Cohort | None) -> None:
        if old is not None and new is not None and old.spec == new.spec:
            return
        known = new or old
        assert known is not None
        cohort = quota_view.read_cohort(new) if new is not None else None
        if cohort is None:
            self._cohorts.pop(known.metadata.name, None)
        else:
            self._cohorts[known.metadata.name] = cohort
        self._forget_views()

    def _on_flavor(self, old: api.ResourceFlavor | None, new: api.ResourceFlavor | None) -> None:
        if old is None or new is None or old.spec != new.spec:
            self._forget_views()

    def _forget_views(self) -> None:
        self._views.clear()
        self._on_change()
