"""Which workload holds how much: usage of workloads, ClusterQueues, trees and LocalQueues.

`QuotaUsage.charge` adds a workload's usage, `QuotaUsage.release` gives it back: once the workload
is finished, deleted or evicted (`workload_changes.py`), or its admission could not be written.
Only this code changes usage permanently. The engine calls it for observed reservations and the
cycle for assumed ones, so both count the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime

from multiqueue.engine.cache.cache import Cache
from multiqueue.engine.cache.cached_queue import add_to
from multiqueue.engine.cache.quota_node import FlavorResource
from multiqueue.engine.local_queue import LocalQueueRecord
from multiqueue.engine.queues.entry import Entry, QueuePlace
from multiqueue.engine.queues.pending_queue import PendingQueue
from multiqueue.engine.state import Changed
from multiqueue.engine.tas.charges import placed_pods
from multiqueue.engine.value import Value
from multiqueue.lib.amount import Amount
from multiqueue.model.workload import Admission, Reservation, Workload


class SliceToReplace(Value, frozen=True, kw_only=True, gc=False):
    """What the replacing slice needs to know about a slice that holds quota (E-167).

    Shape: ``reservation`` is None until its admission is written. ``is_circular`` says that this
    slice took over from the very one that would replace it.
    """

    reservation: Reservation | None
    is_leaving: bool
    is_circular: bool


class QuotaUsage:
    """Which workload holds how much. Mutable; owned by the engine.

    Shape: ``holders`` are the workloads that hold quota of a ClusterQueue, by its name and their
    key. The queue may be unknown; then they count as soon as it appears. ``holders_version`` has
    the same keys and grows with every change of who would be preempted first. ``unready`` counts
    the holders whose pods are not known to be ready (E-81). ``freed`` are the keys of the trees
    for which room on nodes became free, until `take_freed`. ``placing`` are admissions with new
    node assignments that are decided and not written yet, by key of the workload.
    ``families`` are the variants by the uid of their parent and their key.
    ``successor_slices`` are the waiting slices, by the key of the slice that they replace and by
    their own. ``_successors`` counts the holders that replace a slice, by ClusterQueue and the
    key of that slice; ``_withheld`` is the usage that does not count for that slice, by its key.
    """

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._successors: dict[tuple[str, str], int] = {}
        self._withheld: dict[str, Mapping[FlavorResource, Amount]] = {}
        self.local_queues: dict[str, LocalQueueRecord] = {}
        self.families: dict[str, dict[str, Entry]] = {}
        self.holders: dict[str, dict[str, Entry]] = {}
        self.holders_version: dict[str, int] = {}
        self.unready = 0
        self.freed: set[str] = set()
        self.placing: dict[str, Admission] = {}
        self.successor_slices: dict[str, dict[str, Entry]] = {}
        self.changed_cluster_queues: set[str] = set()
        self.changed_local_queues: set[str] = set()

    def local_queue(self, key: str) -> LocalQueueRecord:
        """Return the record of a LocalQueue."""
        found = self.local_queues.get(key)
        if found is None:
            found = self.local_queues[key] = LocalQueueRecord()
        return found

    def add_entry(self, entry: Entry) -> None:
        """Note a new workload at its LocalQueue, and a variant at its family."""
        self.local_queue(entry.workload.queue).entries[entry.key] = entry
        if family := entry.workload.family:
            self.families.setdefault(family, {})[entry.key] = entry

    def remove_entry(self, entry: Entry) -> None:
        """Forget a workload that holds no quota."""
        del self.local_queue(entry.workload.queue).entries[entry.key]
        self.drop_if_unused(entry.workload.queue)
        if family := entry.workload.family:
            del self.families[family][entry.key]
            if not self.families[family]:
                del self.families[family]

    def drop_if_unused(self, key: str) -> None:
        """Drop the record of a LocalQueue that has neither an object nor workloads."""
        record = self.local_queues[key]
        if record.spec is None and not record.entries:
            del self.local_queues[key]

    def take_changed(self) -> Changed:
        """Return the queues whose state changed since the last call."""
        changed = Changed(
            cluster_queues=tuple(sorted(self.changed_cluster_queues)),
            local_queues=tuple(sorted(self.changed_local_queues)),
        )
        self.changed_cluster_queues.clear()
        self.changed_local_queues.clear()
        return changed

    def enter_queue(self, entry: Entry) -> None:
        """Count a workload that was put into a pending queue."""
        self.local_queue(entry.workload.queue).waiting += 1
        self.touch(entry)
        if replaced := entry.workload.replaces:
            self.successor_slices.setdefault(replaced, {})[entry.key] = entry

    def leave_queue(self, entry: Entry, pending: PendingQueue) -> None:
        """Take a workload out of its pending queue."""
        self.touch(entry)
        self.local_queue(entry.workload.queue).waiting -= 1
        pending.remove(entry)
        if replaced := entry.workload.replaces:
            del self.successor_slices[replaced][entry.key]
            if not self.successor_slices[replaced]:
                del self.successor_slices[replaced]

    def charge(self, entry: Entry, admission: Admission, *, at: datetime, admitted: bool) -> None:
        """Charge a workload for the quota of an admission that it got at this time."""
        entry.place = QueuePlace.HOLDING
        entry.reserved_at = int(at.timestamp())
        entry.displaced = frozenset()
        entry.charged = admission.cluster_queue
        entry.usage = admission.usage()
        entry.admitted = admitted
        self.holders.setdefault(entry.charged, {})[entry.key] = entry
        self.unready += not entry.workload.pods_ready
        self._change_holders(entry.charged)
        if entry.charged in self._cache.queues:
            self.count(entry)
        self.place(entry, admission)
        record = self.local_queue(entry.workload.queue)
        record.reserving += 1
        add_to(record.reserved_usage, entry.usage, 1)
        if admitted:
            record.admitted += 1
            add_to(record.admitted_usage, entry.usage, 1)
        self.touch(entry)
        entry.took_from = entry.workload.replaces
        self._count_successor(entry, 1)
        if entry.took_from or (entry.charged, entry.key) in self._successors:
            self._settle(entry.charged, entry.key)

    def release(self, entry: Entry) -> None:
        """Release the quota of a workload."""
        self._count_successor(entry, -1)
        self._withheld.pop(entry.key, None)
        self.touch(entry)
        holders = self.holders[entry.charged]
        del holders[entry.key]
        self.unready -= not entry.workload.pods_ready
        if not holders:
            del self.holders[entry.charged]
        self._change_holders(entry.charged)
        queue = self._cache.queues.get(entry.charged)
        if queue is not None:
            self._cache.tree_by_queue[queue.name].remove_usage(queue, entry.usage)
            queue.reserving -= 1
            if entry.admitted:
                queue.add_admitted(entry.usage, -1)
        self._free_places(entry)
        self._settle(entry.charged, entry.took_from)
        record = self.local_queue(entry.workload.queue)
        record.reserving -= 1
        add_to(record.reserved_usage, entry.usage, -1)
        if entry.admitted:
            record.admitted -= 1
            add_to(record.admitted_usage, entry.usage, -1)
        entry.place = QueuePlace.NOWHERE
        entry.charged = entry.took_from = ""
        entry.usage = {}
        entry.admitted = entry.assumed = entry.preempted = False
        entry.reserved_at = 0

    def find_replaced(self, workload: Workload, cluster_queue: str) -> Entry | None:
        """Return the slice whose quota a workload would take over in a ClusterQueue (E-167).

        That slice's own quota may still be assumed, or be about to be released.
        """
        if not workload.replaces:
            return None
        found = self.holders.get(cluster_queue, {}).get(workload.replaces)
        return None if found is None or self.is_replaced(found) else found

    def replaced_slice(self, workload: Workload, cluster_queue: str) -> SliceToReplace | None:
        """Return what a verdict depends on of the slice to replace; None if there is none."""
        found = self.find_replaced(workload, cluster_queue)
        if found is None:
            return None
        return SliceToReplace(
            reservation=found.workload.reservation,
            is_leaving=found.is_leaving,
            is_circular=self.is_circular(workload.key, workload.replaces, cluster_queue),
        )

    def is_replaced(self, entry: Entry) -> bool:
        """Whether a holder of the same ClusterQueue took over its quota, and counts instead of it.

        The replaced slice will be finished. Until that is seen it counts for nothing. If the
        successor's admission cannot be written, it counts in full again.
        """
        if (entry.charged, entry.key) not in self._successors:
            return False
        return not self.is_circular(entry.key, entry.took_from, entry.charged)

    def is_circular(self, key: str, replaces: str, cluster_queue: str) -> bool:
        """Whether the slice to replace took over from this very slice, directly or through others.

        That happens only by hand. Then no slice of the circle replaces another, so that all count.
        """
        return any(entry.took_from == key for entry in self._chain(cluster_queue, replaces))

    def _chain(self, cluster_queue: str, key: str) -> Iterator[Entry]:
        """Yield a holder and the slices that it took over from, as far as they still hold quota."""
        holders = self.holders.get(cluster_queue, {})
        seen: set[str] = set()
        while key in holders and key not in seen:
            seen.add(key)
            yield holders[key]
            key = holders[key].took_from

    def _count_successor(self, entry: Entry, change: int) -> None:
        """Note that a slice takes over the quota of another one, or returns it."""
        if not entry.took_from:
            return
        pair = (entry.charged, entry.took_from)
        count = self._successors.get(pair, 0) + change
        if count:
            self._successors[pair] = count
        else:
            del self._successors[pair]

    def _settle(self, cluster_queue: str, key: str) -> None:
        """Update which holders of a slice chain count, by who replaces them now."""
        for entry in tuple(self._chain(cluster_queue, key)):
            is_replaced = self.is_replaced(entry)
            if is_replaced and entry.key not in self._withheld:
                self._withheld[entry.key] = entry.usage
                self._weigh(entry, {})
            elif not is_replaced and entry.key in self._withheld:
                self._weigh(entry, self._withheld.pop(entry.key))

    def _weigh(self, entry: Entry, usage: Mapping[FlavorResource, Amount]) -> None:
        """Change the usage that counts for a holder."""
        queue = self._cache.queues.get(entry.charged)
        record = self.local_queue(entry.workload.queue)
        for part, sign in ((entry.usage, -1), (usage, 1)):
            if queue is not None:
                tree = self._cache.tree_by_queue[queue.name]
                (tree.add_usage if sign > 0 else tree.remove_usage)(queue, part)
            add_to(record.reserved_usage, part, sign)
            if entry.admitted:
                add_to(record.admitted_usage, part, sign)
                if queue is not None:
                    add_to(queue.admitted_usage, part, sign)
        entry.usage = usage
        self._change_holders(entry.charged)
        self.touch(entry)

    def place(self, entry: Entry, admission: Admission) -> None:
        """Count the pods of a holder on the nodes of its admission, and on no others."""
        forest = self._cache.forest
        admission = self.placing.get(entry.key, admission)
        before = forest.usage.of(entry.key)
        placed = placed_pods(entry.workload, admission, self._cache.flavors)
        if not placed and not before:
            return
        forest.charge(entry.key, placed)
        now = forest.usage.of(entry.key)
        if before != now:
            users = self._cache.touch_users(forest.flavors_with((*before, *now)))
            self.freed |= users if before else set()

    def _free_places(self, entry: Entry) -> None:
        forest = self._cache.forest
        self.placing.pop(entry.key, None)
        places = forest.release(entry.key)
        if places:
            self.freed |= self._cache.touch_users(forest.flavors_with(places))

    def take_freed(self) -> list[str]:
        """Return the keys of the trees that can use nodes with newly freed room; clear the list."""
        freed = sorted(self.freed & self._cache.trees.keys())
        self.freed.clear()
        return freed

    def replace_holder(self, entry: Entry, workload: Workload) -> None:
        """Replace the object of a workload that continues to hold the same quota.

        Verdicts of the tree are remembered until its version changes. They depend on the order of
        preemption (E-90), which most updates do not change.
        """
        self.unready += entry.workload.pods_ready - workload.pods_ready
        before = (entry.rank, entry.workload.evicted, entry.notice, entry.reserved_at)
        entry.replace(workload)
        if workload.reservation is not None:
            entry.reserved_at = int(workload.reservation.reserved_at.timestamp())
            self.place(entry, workload.reservation.admission)
        if before != (entry.rank, workload.evicted, entry.notice, entry.reserved_at):
            self.reorder(entry)

    def reorder(self, entry: Entry) -> None:
        """Note that a holder has another place in the order of preemption."""
        self._change_holders(entry.charged)
        tree = self._cache.tree_by_queue.get(entry.charged)
        if tree is not None:
            tree.version += 1

    def _change_holders(self, cluster_queue: str) -> None:
        self.holders_version[cluster_queue] = self.holders_version.get(cluster_queue, 0) + 1

    def count(self, entry: Entry) -> None:
        """Count a holder in its ClusterQueue."""
        queue = self._cache.queues[entry.charged]
        self._cache.tree_by_queue[queue.name].add_usage(queue, entry.usage)
        queue.reserving += 1
        if entry.admitted:
            queue.add_admitted(entry.usage, 1)

    def touch(self, entry: Entry) -> None:
        """Note that the state of a workload's queues changed."""
        self.changed_local_queues.add(entry.workload.queue)
        self.changed_cluster_queues.add(entry.charged or entry.queue)
