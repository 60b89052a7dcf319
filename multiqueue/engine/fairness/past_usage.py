"""The past usage of LocalQueues and how it changes (E-122 to E-126).

`engine/quota_usage.py` has the present usage.

Called by the cycle when it assumes, by `WorkloadChanges` when Workloads change and by the shell at
every sampling interval. Keeps the pending queues in the order of usage: a change moves one
LocalQueue.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from multiqueue.engine.cache.cache import Cache
from multiqueue.engine.cycle_schedule import CycleSchedule
from multiqueue.engine.fairness.owner_shares import OwnerShares
from multiqueue.engine.fairness.usage import (
    Nanos,
    PastUsage,
    add,
    decay_rate,
    nanos_in,
    nanos_of,
    quantities_of,
    scale,
    weigh,
)
from multiqueue.engine.options import AdmissionFairSharing, EngineOptions
from multiqueue.engine.queues.pending_queue import PendingQueue
from multiqueue.engine.quota_usage import QuotaUsage
from multiqueue.lib.quantity import NANO
from multiqueue.model.cluster_queue import AdmissionMode
from multiqueue.model.past_usage import ConsumedResources
from multiqueue.model.workload import Workload


class PastUsageRecords:
    """Mutable; owned by the engine.

    Args:
        options: half-life, interval and weights.
        cache: which ClusterQueues go by past usage.
        quota_usage: what LocalQueues use at present, and their weights.
        pending: whose order follows.
        schedule: Learns when another workload becomes the head.
        ignore_undeclared: whether resources without quota cost nothing (E-61).
    """

    def __init__(
        self,
        options: AdmissionFairSharing,
        *,
        cache: Cache,
        quota_usage: QuotaUsage,
        pending: Mapping[str, PendingQueue],
        schedule: CycleSchedule,
        ignore_undeclared: bool,
    ) -> None:
        self._options = options
        self._cache = cache
        self._quota_usage = quota_usage
        self._pending = pending
        self._schedule = schedule
        self._ignore_undeclared = ignore_undeclared
        self._shares = OwnerShares(cache, quota_usage, by_owner=options.by_owner)
        self._entry_rate = decay_rate(options.sampling_interval, options.half_life)
        self.records: dict[str, PastUsage] = {}
        self.sampling_interval = options.sampling_interval

    @classmethod
    def of(
        cls,
        options: EngineOptions,
        cache: Cache,
        quota_usage: QuotaUsage,
        pending: Mapping[str, PendingQueue],
        schedule: CycleSchedule,
    ) -> PastUsageRecords | None:
        """Return the past usage of an engine; None if it does not count."""
        if options.admission_fair_sharing is None:
            return None
        return cls(
            options.admission_fair_sharing,
            cache=cache,
            quota_usage=quota_usage,
            pending=pending,
            schedule=schedule,
            ignore_undeclared=options.ignore_undeclared,
        )

    # ---------------------------------------------------------------- reading

    def usage_of(self, local_queue: str) -> float:
        """Return the past usage of a LocalQueue, or of its owner, by weight (E-120, P-121)."""
        record = self.records.get(local_queue)
        return record.value if record is not None else self._find_value(local_queue)

    def counts_in(self, cluster_queue: str) -> bool:
        """Whether past usage decides anything in a ClusterQueue (E-20)."""
        queue = self._cache.queues.get(cluster_queue)
        return queue is not None and queue.spec.admission_mode is AdmissionMode.USAGE_BASED

    def past_usage(self, cluster_queue: str, local_queue: str) -> float | None:
        """Return the past usage if it counts among candidates for preemption (E-127)."""
        return self.usage_of(local_queue) if self.counts_in(cluster_queue) else None

    # ---------------------------------------------------------------- penalties

    def charge(self, workload: Workload, cluster_queue: str) -> None:
        """Record the entry penalty of a workload that just got its quota (E-123)."""
        if not self.counts_in(cluster_queue):
            return
        requests: dict[str, int] = {}
        declared = self._declared(cluster_queue)
        for pod_set in workload.pod_sets:
            for resource in pod_set.requests:
                if declared is None or resource in declared:
                    nanos = nanos_of(resource, pod_set.total(resource))
                    requests[resource] = requests.get(resource, 0) + nanos
        penalty = scale(requests, self._entry_rate)
        self._record(workload.queue).penalize(workload.key, penalty)
        self._changed(workload.queue)

    def drop(self, workload: Workload) -> None:
        """Drop the penalty of a workload whose admission failed (E-125)."""
        record = self.records.get(workload.queue)
        if record is not None and record.acquit(workload.key) is not None:
            self._changed(workload.queue)

    def observe(self, old: Workload | None, new: Workload, now: datetime) -> None:
        """Follow a change of a workload, after its quota was counted.

        Beyond E-125, a reservation that is seen before it is admitted has a penalty whoever made
        it, so that a restart between the two loses nothing.
        """
        reservation = new.reservation
        if old is not None and (old.uid, old.queue) != (new.uid, new.queue):
            self.drop(old)
            old = None
        if new.finished or (reservation is None and not new.active):
            self.drop(new)
            return
        if reservation is None:
            return
        if not new.active or not self.counts_in(reservation.admission.cluster_queue):
            return
        if not reservation.admitted:
            self._charge_reserved(new)
        elif old is not None and (old.reservation is None or not old.reservation.admitted):
            self._settle(self._record(new.queue), new, now)

    def _charge_reserved(self, workload: Workload) -> None:
        """Record the penalty of a reservation that is not admitted yet, once."""
        reservation = workload.reservation
        if reservation is None or reservation.admitted or not workload.active:
            return
        record = self.records.get(workload.queue)
        if record is None or workload.key not in record.penalties:
            self.charge(workload, reservation.admission.cluster_queue)

    def _settle(self, record: PastUsage, workload: Workload, now: datetime) -> None:
        """Make the penalty of an admitted workload part of the history (E-124)."""
        penalty = record.acquit(workload.key) or {}
        history = record.decay(self._current(workload.queue), now, self._options.half_life)
        record.advance(add(history, penalty), now)
        self._changed(workload.queue)

    # ---------------------------------------------------------------- sampling

    def next_sample_at(self, local_queue: str, now: datetime) -> datetime:
        """Return when to sample: at once if no status is known, or a penalty waits (E-122)."""
        record = self.records.get(local_queue)
        if record is None or record.updated_at is None or record.persisted_at is None:
            return now
        if record.has_pending:
            return now
        return record.updated_at + self.sampling_interval

    def announce(self, local_queue: str, now: datetime) -> ConsumedResources:
        """Return the value of a sample taken now, for the status that is written first.

        What is announced here is known when it comes back as the status of the LocalQueue.
        """
        record = self._record(local_queue)
        record.persisted_at = now
        consumed = self._sampled(record, local_queue, now)
        return ConsumedResources(by_resource=quantities_of(consumed), updated_at=now)

    def sample(self, local_queue: str, now: datetime) -> None:
        """Bring the history of a LocalQueue up to now; what settled meanwhile stays in it."""
        record = self._record(local_queue)
        record.advance(self._sampled(record, local_queue, now), now)
        self._changed(local_queue)

    def seed(self, local_queue: str, status: ConsumedResources | None, now: datetime) -> None:
        """Take over the status of a LocalQueue, unless this process wrote it.

        The first status is the history of earlier processes, added to what settled already (E-126);
        a newer one was written by another leader, which knew better.
        """
        record = self._record(local_queue)
        if status is None:
            record.updated_at = record.updated_at or now
            return
        consumed = nanos_in(status.by_resource)
        if record.persisted_at is None:
            consumed = add(record.consumed, consumed)
        elif status.updated_at <= record.persisted_at:
            return
        record.persisted_at = status.updated_at
        record.advance(consumed, now)
        self._changed(local_queue)

    def _sampled(self, record: PastUsage, local_queue: str, now: datetime) -> Nanos:
        if not self._options.half_life:
            return {}
        return record.decay(self._current(local_queue), now, self._options.half_life)

    # ---------------------------------------------------------------- queues

    def follow_local_queue(self, local_queue: str) -> None:
        """Follow a change of a LocalQueue's weight, ClusterQueue or owner."""
        for changed in self._shares.follow(local_queue):
            self._changed(changed)

    def forget_local_queue(self, local_queue: str) -> None:
        """Forget the history of a LocalQueue that is deleted."""
        self.records.pop(local_queue, None)
        for changed in self._shares.follow(local_queue)[1:]:
            self._changed(changed)

    def follow_namespace(self, namespace: str) -> None:
        """Follow a change of a namespace's owner."""
        for local_queue in self._shares.list_moved(namespace):
            self.follow_local_queue(local_queue)

    def follow_cluster_queue(self, cluster_queue: str) -> None:
        """Order the pending queue of a ClusterQueue as its spec says now.

        Reservations may be seen before their ClusterQueue is; they have their penalty all the same.
        """
        pending, counts = self._pending[cluster_queue], self.counts_in(cluster_queue)
        for _, entry in sorted(self._quota_usage.holders.get(cluster_queue, {}).items()):
            self._charge_reserved(entry.workload)
        if pending.is_by_usage != counts:
            pending.order_by_usage(self.usage_of if counts else None)

    # ---------------------------------------------------------------- helpers

    def _record(self, local_queue: str) -> PastUsage:
        record = self.records.get(local_queue)
        if record is None:
            record = self.records[local_queue] = PastUsage()
            record.value = self._find_value(local_queue)
        return record

    def weight_of(self, local_queue: str) -> float:
        """Return the weight of a LocalQueue; 1 if it has none."""
        known = self._quota_usage.local_queues.get(local_queue)
        return 1.0 if known is None or known.spec is None else known.spec.weight.nano / NANO

    def _current(self, local_queue: str) -> Nanos:
        """Return the current usage of the admitted workloads of a LocalQueue."""
        used: dict[str, int] = {}
        known = self._quota_usage.local_queues.get(local_queue)
        for (_, resource), amount in known.admitted_usage.items() if known is not None else ():
            used[resource] = used.get(resource, 0) + nanos_of(resource, amount)
        return used

    def _declared(self, cluster_queue: str) -> set[str] | None:
        """The resources with a weight; None for all."""
        if not self._ignore_undeclared:
            return None
        groups = self._cache.queues[cluster_queue].spec.resource_groups
        return {resource for group in groups for resource in group.covered_resources}

    def _find_value(self, local_queue: str) -> float:
        """Weigh the usage of all that count as one with a LocalQueue, by their largest weight."""
        peers = self._shares.peers(local_queue)
        total: Nanos = {}
        for record in filter(None, map(self.records.get, peers)):
            total = add(total, record.total)
        return weigh(total, self._options.resource_weights, max(map(self.weight_of, peers)))

    def _changed(self, local_queue: str) -> None:
        """Weigh a LocalQueue anew, and move it and what counts as one with it."""
        value = self._find_value(local_queue)
        for name in self._shares.peers(local_queue):
            record = self.records.get(name)
            if record is None:
                self._reorder(name)
            elif record.value != value:
                record.value = value
                self._reorder(name)

    def _reorder(self, local_queue: str) -> None:
        """Put a LocalQueue where its usage puts it now."""
        known = self._quota_usage.local_queues.get(local_queue)
        pending = self._pending.get(known.cluster_queue) if known is not None else None
        tree = self._cache.tree_by_queue.get(pending.name) if pending is not None else None
        if pending is None or tree is None or not self.counts_in(pending.name):
            return
        tree.version += 1  # whom to preempt depends on past usage too (E-90)
        if pending.reorder(local_queue):
            self._schedule.poke(tree.key, (pending.name,))
