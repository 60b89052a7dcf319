"""Waiting workloads of one ClusterQueue: heap, parking, waking (E-14 to E-18, E-23 to E-27, E-30).

A heap of equivalence classes, each a heap of workloads: finding the head, parking all its equals
and waking them cost O(log n) whatever the depth of the queue. Where LocalQueues take turns by past
usage, a class is divided between them (E-20, see `lanes`). A head stays in the heap while it is
looked at: a cycle is one step, and most heads stay. Written by `WorkloadChanges` and by the requeue
phase of a cycle; knows nothing of quotas.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime

from multiqueue.engine.pending_reasons import Explanation
from multiqueue.engine.queues.entry import (
    Entry,
    EquivalenceClass,
    FindRun,
    QueuePlace,
    Rank,
    count,
    find_declared_run,
    is_backoff_over,
)
from multiqueue.engine.queues.lanes import Lanes, UsageOf
from multiqueue.lib.amount import Amount
from multiqueue.lib.heap import KeyedHeap
from multiqueue.model.cluster_queue import QueueingStrategy
from multiqueue.model.workload import Shape, Workload

NamespaceMatches = Callable[[str], bool]


class PendingQueue:
    """Mutable.

    Shape: ``members`` are all workloads that wait here, by key. ``cycle`` counts the heads looked
    at; `ResumeState` refers to it. ``sticky`` is the one for which others were last told to leave.
    ``active`` of the members are in the heap, ``active_of`` by LocalQueue; the others wait for a
    wake or a backoff. ``restated`` are the LocalQueues of which that changed, until it is cleared.
    ``requested`` is what all members ask for, by resource. ``passing`` is the percentage of its
    device time for which later workloads may pass one; 0 for never (P-67). ``find_run`` says
    how long one is expected to run.
    ``revision`` is replaced with every change of who waits, or in which order.
    """

    __slots__ = (
        "_classes_by_shape",
        "_parked_alone",
        "_parked_classes",
        "_shapes",
        "active",
        "active_of",
        "classes",
        "cycle",
        "find_run",
        "members",
        "name",
        "passing",
        "requested",
        "restated",
        "revision",
        "sticky",
        "strategy",
    )

    def __init__(self, name: str, strategy: QueueingStrategy) -> None:
        self.name = name
        self.strategy = strategy
        self.passing = 0
        self.find_run: FindRun = find_declared_run
        self.cycle = 0
        self.revision = object()
        self.sticky: Entry | None = None
        self.members: dict[str, Entry] = {}
        self.active = 0
        self.active_of: dict[str, int] = {}
        self.restated: set[str] = set()
        self.requested: dict[str, Amount] = {}
        self._shapes: dict[Shape, int] = {}
        self._classes_by_shape: dict[Shape, dict[str, EquivalenceClass]] = {}
        self.classes: KeyedHeap[EquivalenceClass] | Lanes = KeyedHeap()
        self._parked_classes: dict[EquivalenceClass, None] = {}
        self._parked_alone: dict[str, dict[str, Entry]] = {}

    # ---------------------------------------------------------------- entering

    def push(self, entry: Entry, now: datetime) -> None:
        """Queue a workload after an event of its own; it may have to wait (E-17)."""
        self._enter(entry)
        if not is_backoff_over(entry.workload, now):
            entry.place = QueuePlace.HELD
            return
        equals = self._class_of(entry, entry.workload.shape)
        if equals.verdict is not None and self.strategy is QueueingStrategy.BEST_EFFORT_FIFO:
            self._park_with_equals(entry, equals)
        else:
            self._activate(entry, equals)

    def push_anyway(self, entry: Entry, now: datetime) -> None:
        """Queue a workload because its queue came back; its backoff is ignored (E-19).

        A workload that is still backing off gets its own class, so that it neither parks nor wakes
        with its equals.
        """
        self._enter(entry)
        shape = entry.workload.shape
        if not is_backoff_over(entry.workload, now):
            shape = (*shape, entry.key)
        self._activate(entry, self._class_of(entry, shape))

    def push_held(self, entry: Entry) -> None:
        """Queue a workload that has to wait, whatever its own backoff says."""
        self._enter(entry)
        entry.place = QueuePlace.HELD

    def keep(self, entry: Entry, now: datetime) -> None:
        """Leave a head in place after its cycle, unless its backoff says otherwise (E-24)."""
        if not is_backoff_over(entry.workload, now):
            self._hold(entry)

    def park(self, entry: Entry, now: datetime) -> None:
        """Park a head alone until a wake."""
        self._hold(entry)
        if is_backoff_over(entry.workload, now):
            entry.place = QueuePlace.PARKED
            self._parked_alone.setdefault(entry.workload.namespace, {})[entry.key] = entry

    def park_equals(self, entry: Entry, now: datetime, verdict: Explanation) -> None:
        """Park a head together with its equals, which would get the same verdict (E-25)."""
        if not is_backoff_over(entry.workload, now):
            self._hold(entry)
            return
        equals = entry.equals
        assert equals is not None, "a head is in a class"
        for peer in self._classes_by_shape[equals.shape].values():
            peer.verdict = verdict
            self._count(peer.park(), -1)
            self.classes.remove(peer)
            self._parked_classes[peer] = None

    def _enter(self, entry: Entry) -> None:
        if self.passing:
            entry.let_pass(self.passing, self.find_run)
        entry.queue = self.name
        self.members[entry.key] = entry
        entry.counted_as = entry.workload
        self._count_requests(entry.workload, 1)
        self.revision = object()

    def _count_requests(self, workload: Workload, sign: int) -> None:
        count(self._shapes, workload.shape, sign)
        for pod_set in workload.pod_sets:
            for resource, amount in pod_set.requests.items():
                if total := amount * pod_set.count:
                    count(self.requested, resource, sign * total)

    def _activate(self, entry: Entry, equals: EquivalenceClass) -> None:
        entry.place = QueuePlace.QUEUED
        entry.equals = equals
        equals.activate(entry)
        self._count({entry.workload.queue: 1}, 1)
        self._rank_class(equals)

    def _hold(self, entry: Entry) -> None:
        self._leave_class(entry)
        entry.place = QueuePlace.HELD

    def _park_with_equals(self, entry: Entry, equals: EquivalenceClass) -> None:
        entry.place = QueuePlace.QUEUED
        entry.equals = equals
        equals.hold(entry)

    # ---------------------------------------------------------------- leaving

    @property
    def best(self) -> Entry | None:
        """The active workload of the best rank; None if none is active."""
        equals = self.classes.peek()
        return None if equals is None else equals.active.peek()

    def head(self) -> Entry | None:
        """Return the workload to try in this cycle; it stays in place until it is decided.

        In BestEffortFIFO the sticky one is first, whatever its rank (E-15).
        """
        self.cycle += 1
        return self.first()

    def first(self) -> Entry | None:
        """Return the workload that the next cycle tries, without trying it."""
        equals = self.classes.peek()
        if equals is None:
            return None
        if self.sticky is not None and self._is_first(self.sticky, equals):
            return self.sticky
        return equals.active.peek()

    def rank_of(self, workload: Workload) -> Rank:
        """Return the rank of a workload that waits here, or that of another if it came here now."""
        entry = self.members.get(workload.key)
        if entry is None:
            entry = Entry(workload)
            if self.passing:
                entry.let_pass(self.passing, self.find_run)
        return entry.rank

    def _is_first(self, sticky: Entry, first: EquivalenceClass) -> bool:
        equals = sticky.equals
        if self.strategy is QueueingStrategy.STRICT_FIFO or equals is None:
            return False
        if sticky not in equals.active:
            return False
        classes = self.classes
        return not isinstance(classes, Lanes) or classes.are_level(equals.lane, first.lane)

    def stick(self, entry: Entry) -> None:
        """Remember the head for which others leave, so that no other head gets the room (E-15)."""
        self.sticky = entry
        self.revision = object()

    def remove(self, entry: Entry) -> None:
        """Remove a workload, wherever it is in this queue."""
        if entry.place is QueuePlace.PARKED:
            self._unpark(entry)
        self._leave_class(entry)
        if self.sticky is entry:
            self.sticky = None
        del self.members[entry.key]
        if entry.counted_as is not None:
            self._count_requests(entry.counted_as, -1)
            entry.counted_as = None
        self.revision = object()
        entry.queue = ""
        entry.place = QueuePlace.NOWHERE
        if entry.head_start:
            entry.let_pass(0, self.find_run)

    def _leave_class(self, entry: Entry) -> None:
        equals = entry.equals
        if equals is None:
            return
        entry.equals = None
        if equals.remove(entry):
            self._count({entry.workload.queue: 1}, -1)
        self._rank_class(equals)
        if not equals and equals.verdict is None:
            self._drop_class(equals)

    # ---------------------------------------------------------------- waking

    def wake(self, namespace_matches: NamespaceMatches) -> None:
        """Activate every parked workload that could be admitted now (E-27)."""
        for equals in self._parked_classes:
            equals.verdict = None
            self._count(equals.wake(), 1)
            self._rank_class(equals)
            if not equals:
                self._drop_class(equals)
        self._parked_classes = {}
        for namespace in [ns for ns in self._parked_alone if namespace_matches(ns)]:
            for entry in self._parked_alone.pop(namespace).values():
                self._activate(entry, self._class_of(entry, entry.workload.shape))

    def release(self, entry: Entry) -> None:
        """Activate a held workload: its backoff is over."""
        self._activate(entry, self._class_of(entry, entry.workload.shape))

    def look_again(self, entry: Entry) -> None:
        """Activate one parked workload; its equals stay parked."""
        if entry.place is QueuePlace.PARKED:
            self._unpark(entry)
        self._leave_class(entry)
        self.release(entry)

    def _unpark(self, entry: Entry) -> None:
        namespace = entry.workload.namespace
        neighbours = self._parked_alone[namespace]
        del neighbours[entry.key]
        if not neighbours:
            del self._parked_alone[namespace]

    def _count(self, moved: Mapping[str, int], sign: int) -> None:
        for local_queue, number in moved.items():
            self.active += sign * number
            count(self.active_of, local_queue, sign * number)
            self.restated.add(local_queue)

    # ---------------------------------------------------------------- classes

    @property
    def number_of_classes(self) -> int:
        """How many workloads wait of which no two are equal to the scheduler."""
        return len(self._shapes)

    @property
    def number_of_active_classes(self) -> int:
        """How many of these are in the heap."""
        return min(len(self.classes), len(self._shapes))

    @property
    def is_by_usage(self) -> bool:
        """Whether the LocalQueues take turns by past usage."""
        return isinstance(self.classes, Lanes)

    @property
    def usage_of(self) -> UsageOf | None:
        """The past usage by which LocalQueues take turns; None if they do not."""
        return self.classes.usage_of if isinstance(self.classes, Lanes) else None

    def order_by_usage(self, usage_of: UsageOf | None) -> None:
        """Let the LocalQueues take turns by past usage, or no longer: all classes begin anew."""
        queued = [(e, e.equals.shape) for e in self.members.values() if e.equals is not None]
        self.classes = KeyedHeap() if usage_of is None else Lanes(usage_of)
        self._classes_by_shape = {}
        self._parked_classes = {}
        self._count(dict(self.active_of), -1)
        self.revision = object()
        for entry, shape in queued:
            self._activate(entry, self._class_of(entry, shape))

    def let_pass(self, percent: int, find_run: FindRun) -> None:
        """Let workloads pass others for this percentage of their device time (P-67)."""
        self.passing, self.find_run = percent, find_run
        self.revision = object()
        for entry in self.members.values():
            entry.let_pass(percent, find_run)
            if entry.equals is not None:
                entry.equals.move(entry)
                self._rank_class(entry.equals)

    def reorder(self, local_queue: str) -> bool:
        """Follow a change of a LocalQueue's past usage; return whether the head may change."""
        if not isinstance(self.classes, Lanes):
            return False
        self.revision = object()
        before = self.classes.peek()
        self.classes.reorder(local_queue)
        return self.classes.peek() is not before

    def _class_of(self, entry: Entry, shape: Shape) -> EquivalenceClass:
        lane = entry.workload.queue if isinstance(self.classes, Lanes) else ""
        lanes = self._classes_by_shape.get(shape)
        if lanes is None:
            lanes = self._classes_by_shape[shape] = {}
        equals = lanes.get(lane)
        if equals is None:
            peer = next(iter(lanes.values()), None)
            equals = lanes[lane] = EquivalenceClass(shape, lane)
            if peer is not None and peer.verdict is not None:
                equals.verdict = peer.verdict
                self._parked_classes[equals] = None
        return equals

    def _drop_class(self, equals: EquivalenceClass) -> None:
        lanes = self._classes_by_shape[equals.shape]
        del lanes[equals.lane]
        if not lanes:
            del self._classes_by_shape[equals.shape]

    def _rank_class(self, equals: EquivalenceClass) -> None:
        head = equals.active.peek()
        if head is None:
            self.classes.remove(equals)
        else:
            self.classes.push(equals, head.rank)
