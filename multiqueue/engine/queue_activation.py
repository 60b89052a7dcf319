"""Queue activation: which queues take workloads in, as queues come, stop, move and go (E-19).

The facade calls it for every change of a queue. `WorkloadChanges` decides where each workload
belongs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from multiqueue.engine.local_queue import LocalQueueRecord
from multiqueue.engine.queues.entry import Entry, QueuePlace
from multiqueue.engine.queues.pending_queue import PendingQueue
from multiqueue.engine.quota_usage import QuotaUsage
from multiqueue.engine.waiting import Waiting
from multiqueue.model.cluster_queue import ClusterQueue, LocalQueue


class QueueActivation:
    """Opens and closes queues. Mutable; owned by the engine.

    Shape: ``entries`` are those of `WorkloadChanges`. ``begun`` says whether there was a cycle. A
    queue that is seen before the first cycle existed before the restart, so it does not end
    backoffs.
    """

    def __init__(
        self,
        pending: dict[str, PendingQueue],
        quota_usage: QuotaUsage,
        waiting: Waiting,
        entries: Mapping[str, Entry],
    ) -> None:
        self._pending = pending
        self._quota_usage = quota_usage
        self._waiting = waiting
        self._entries = entries
        self.begun = False
        self._local_queues: dict[str, set[str]] = {}  # by ClusterQueue

    def upsert_local_queue(self, spec: LocalQueue) -> None:
        """Open, close or move a LocalQueue; an opened one queues its workloads (E-19)."""
        record = self._quota_usage.local_queue(spec.key)
        old = record.spec
        if old == spec:
            return
        if old is not None and old.cluster_queue != spec.cluster_queue:
            self._detach(old)
            self._close(record)
        record.spec = spec
        self._local_queues.setdefault(spec.cluster_queue, set()).add(spec.key)
        self._quota_usage.changed_local_queues.add(spec.key)
        if record.is_open:
            self._open(record)
        else:
            self._close(record)

    def delete_local_queue(self, key: str) -> None:
        """Close a LocalQueue that was deleted."""
        record = self._quota_usage.local_queues.get(key)
        if record is None or record.spec is None:
            return
        self._detach(record.spec)
        self._close(record)
        record.spec = None
        self._quota_usage.changed_local_queues.add(key)
        self._quota_usage.drop_if_unused(key)

    def upsert_cluster_queue(self, spec: ClusterQueue) -> None:
        """Take over a ClusterQueue that is in the cache already; a new one queues its workloads."""
        pending = self._pending.get(spec.name)
        if pending is not None:
            pending.strategy = spec.strategy
            return
        self._pending[spec.name] = PendingQueue(spec.name, spec.strategy)
        for key in sorted(self._quota_usage.holders.get(spec.name, ())):
            self._quota_usage.count(self._entries[key])
        for key in sorted(self._local_queues.get(spec.name, ())):
            self._open(self._quota_usage.local_queue(key))

    def delete_cluster_queue(self, name: str) -> None:
        """Take the workloads of a ClusterQueue out of the queue; the cache still knows it."""
        pending = self._pending.get(name)
        if pending is not None:
            for entry in list(pending.members.values()):
                self._waiting.leave(entry)
            del self._pending[name]
            self._quota_usage.changed_cluster_queues.add(name)

    def touch_local_queues(self, cluster_queues: Iterable[str]) -> None:
        """Note that the state of the LocalQueues of these ClusterQueues may have changed."""
        for name in cluster_queues:
            self._quota_usage.changed_local_queues.update(self._local_queues.get(name, ()))

    def _open(self, record: LocalQueueRecord) -> None:
        for key in sorted(record.entries):
            entry = record.entries[key]
            if entry.place is QueuePlace.NOWHERE and entry.workload.reservation is None:
                self._waiting.enter(entry, self._waiting.now, anyway=self.begun)

    def _close(self, record: LocalQueueRecord) -> None:
        for key in sorted(record.entries):
            if record.entries[key].queue:
                self._waiting.leave(record.entries[key])

    def _detach(self, spec: LocalQueue) -> None:
        siblings = self._local_queues[spec.cluster_queue]
        siblings.discard(spec.key)
        if not siblings:
            del self._local_queues[spec.cluster_queue]
