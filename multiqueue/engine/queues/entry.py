"""Workloads inside the engine, and classes of equivalent ones.

An entry has the newest object, its place in the queues and its last verdict. If one entry of a
class cannot be admitted, none can: the whole class parks, and wakes, in O(1) (E-25, E-26).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import NamedTuple, Protocol, TypeAlias, TypeVar

from multiqueue.api.notices import Notice
from multiqueue.engine.cache.quota_node import FlavorResource
from multiqueue.engine.cache.tree import Tree
from multiqueue.engine.pending_reasons import Explanation
from multiqueue.engine.queues.resume import ResumeState
from multiqueue.lib.amount import Amount
from multiqueue.lib.heap import KeyedHeap
from multiqueue.model.turn import SOME_TIME, count_devices, find_head_start
from multiqueue.model.workload import Shape, Workload

Rank: TypeAlias = tuple[int, int, str, str]
"""(priority, descending; queue-order time; uid; key): the order inside a ClusterQueue (E-14)."""
TimeRank: TypeAlias = tuple[int, str, str]
"""A rank without the priority."""

K = TypeVar("K", bound=Hashable)
FindRun = Callable[[Workload], int]
"""Returns for how many seconds a workload is expected to run; 0 if nothing is known."""

_EPOCH = datetime.fromtimestamp(0, UTC)
_SECOND = 1_000_000
_DAY = 86_400 * _SECOND


class QueuePlace(Enum):
    """Where a workload is (E-16). It is in exactly one place."""

    NOWHERE = "no queue takes it"
    QUEUED = "with its equals, in the heap or waiting for a wake"
    PARKED = "waiting for a wake, alone"
    HELD = "waiting for its backoff"
    HOLDING = "holds quota"


class Victims(NamedTuple):
    """The workloads that a workload preempted in one epoch of its tree, and how often."""

    tree: Tree
    epoch: int
    counts: Mapping[Entry, int]


class RememberedVerdict(Protocol):
    """The last verdict on an entry, and the state that it holds for; defined by nomination."""

    @property
    def replaced_slice(self) -> object:
        """What is known of the slice that it replaces; None if it replaces none."""
        ...


class Entry:
    """A workload inside the engine. Mutable; owned by the engine.

    Shape: ``queue`` is the ClusterQueue whose pending queue it is in, ``charged`` the one whose
    quota it holds, with ``usage`` by flavor-resource; ``took_from`` is the key of the slice that it
    took quota over from, whatever its object says by now, "" for none. ``assumed`` means that this
    is known here only, until the write is confirmed. ``equals`` is its class while QUEUED.
    ``counted_as`` is the object that its pending queue counts requests of.
    ``reserved_at`` is when it got its quota, in whole seconds since the epoch as the API keeps it;
    0 without one.
    ``preempted`` means that its preemption, or a notice of it, was decided and is not visible yet
    (E-80); ``spared`` is the notice that was rescinded, which may still be visible;
    ``displaced`` are those that leave, or left, for this one while it waits; ``victims`` all that
    it displaced since something from outside changed its tree. ``head_start`` is for how many
    microseconds later ones may pass it in its queue; 0 while it is in none (P-67).
    """

    __slots__ = (
        "admitted",
        "assumed",
        "charged",
        "counted_as",
        "displaced",
        "equals",
        "explanation",
        "head_start",
        "key",
        "memo",
        "place",
        "preempted",
        "queue",
        "rank",
        "reserved_at",
        "resume",
        "spared",
        "took_from",
        "usage",
        "victims",
        "workload",
    )

    def __init__(self, workload: Workload) -> None:
        self.key = workload.key
        self.workload = workload
        self.head_start = 0
        self.rank = rank_of(workload)
        self.place = QueuePlace.NOWHERE
        self.queue = ""
        self.counted_as: Workload | None = None
        self.equals: EquivalenceClass | None = None
        self.charged = ""
        self.usage: Mapping[FlavorResource, Amount] = {}
        self.took_from = ""
        self.admitted = False
        self.assumed = False
        self.reserved_at = 0
        self.preempted = False
        self.spared: Notice | None = None
        self.displaced: frozenset[Entry] = frozenset()
        self.victims: Victims | None = None
        self.resume: ResumeState | None = None
        self.explanation: Explanation | None = None
        self.memo: RememberedVerdict | None = None

    @property
    def is_parked(self) -> bool:
        """Whether only a wake or an event of its own returns it to the heap."""
        if self.equals is not None:
            return self in self.equals.parked
        return self.place in {QueuePlace.PARKED, QueuePlace.HELD}

    @property
    def is_leaving(self) -> bool:
        """Whether it was told to release its quota, or is being told."""
        is_told = self.preempted or self.was_told
        return self.place is QueuePlace.HOLDING and is_told

    @property
    def notice(self) -> Notice | None:
        """The notice in force: it leaves, and may save its work before."""
        found = self.workload.notice
        return None if found is None or found == self.spared else found

    @property
    def was_told(self) -> bool:
        """Whether its object says that it leaves, with an eviction or a notice."""
        return is_evicted(self.workload) or self.notice is not None

    @property
    def awaits_wake(self) -> bool:
        """Whether it is parked until others release quota, not for a backoff of its own."""
        return self.is_parked and self.place is not QueuePlace.HELD

    def replace(self, workload: Workload) -> None:
        """Take over a newer object."""
        self.workload = workload
        self.rank = rank_of(workload, self.head_start)

    def let_pass(self, percent: int, find_run: FindRun) -> None:
        """Let others pass for this percentage of its device time; 0 for nobody (P-67)."""
        self.head_start = _find_head_start(self.workload, percent, find_run) if percent else 0
        self.rank = rank_of(self.workload, self.head_start)

    def forget_others(self) -> None:
        """Drop references to other workloads, so that they cannot form endless chains."""
        self.memo = self.victims = None
        self.displaced = frozenset()


class EquivalenceClass:
    """Entries of one shape; the active ones and the parked ones, each in queue order.

    Shape: ``verdict`` is set from the moment the class parked until the next wake; workloads of the
    shape that arrive meanwhile park at once. ``lane`` is the LocalQueue where those take turns by
    past usage, else "": the classes of one shape then differ in it alone, and share the verdict.
    ``active_of`` and ``parked_of`` count the entries by LocalQueue.
    """

    __slots__ = ("active", "active_of", "lane", "parked", "parked_of", "shape", "verdict")

    def __init__(self, shape: Shape, lane: str = "") -> None:
        self.shape = shape
        self.lane = lane
        self.active: KeyedHeap[Entry] = KeyedHeap()
        self.parked: KeyedHeap[Entry] = KeyedHeap()
        self.active_of: dict[str, int] = {}
        self.parked_of: dict[str, int] = {}
        self.verdict: Explanation | None = None

    def __len__(self) -> int:
        return len(self.active) + len(self.parked)

    def activate(self, entry: Entry) -> None:
        """Take in an entry, or move it to its new rank."""
        if entry not in self.active:
            count(self.active_of, entry.workload.queue, 1)
        self.active.push(entry, entry.rank)

    def move(self, entry: Entry) -> None:
        """Follow a change of an entry's rank."""
        heap = self.active if entry in self.active else self.parked
        heap.push(entry, entry.rank)

    def hold(self, entry: Entry) -> None:
        """Add an entry that waits for a wake."""
        count(self.parked_of, entry.workload.queue, 1)
        self.parked.push(entry, entry.rank)

    def remove(self, entry: Entry) -> bool:
        """Remove an entry; return whether it was active."""
        was_active = self.active.remove(entry)
        if was_active or self.parked.remove(entry):
            count(self.active_of if was_active else self.parked_of, entry.workload.queue, -1)
        return was_active

    def park(self) -> Mapping[str, int]:
        """Park all entries; return how many of each LocalQueue were active."""
        moved = self.active_of
        self.parked.absorb(self.active)
        self.active_of, self.parked_of = {}, _merged(self.parked_of, moved)
        return moved

    def wake(self) -> Mapping[str, int]:
        """Activate all entries; return how many of each LocalQueue were parked."""
        moved = self.parked_of
        self.active.absorb(self.parked)
        self.parked_of, self.active_of = {}, _merged(self.active_of, moved)
        return moved


def rank_of(workload: Workload, head_start: int = 0) -> Rank:
    """Return the rank of the workload among those of its ClusterQueue.

    Others may pass it for ``head_start`` microseconds.

    Variants of one job come in the order of their flavors, so that the best one that fits is first.
    """
    uid = f"{workload.family}/{workload.variant_order:02}" if workload.family else workload.uid
    return (-workload.priority, micros(workload.queue_order_at) + head_start, uid, workload.key)


def find_declared_run(workload: Workload) -> int:
    """Return for how many seconds a workload says that it runs or may run; 0 for neither."""
    return workload.expected_run or workload.run_limit


def _find_head_start(workload: Workload, percent: int, find_run: FindRun) -> int:
    """Return for how many microseconds others may pass; nobody passes a successor slice."""
    if workload.replaces:
        return 0
    amounts = (
        (resource, amount * pod_set.count)
        for pod_set in workload.pod_sets
        for resource, amount in pod_set.requests.items()
    )
    seconds = find_run(workload)
    runtime = timedelta(seconds=seconds) if seconds else SOME_TIME
    found = find_head_start(count_devices(amounts), runtime, percent)
    return found // timedelta(microseconds=1)


def micros(moment: datetime) -> int:
    """Return whole microseconds since the epoch; exact, unlike a float timestamp."""
    passed = moment - _EPOCH
    return passed.days * _DAY + passed.seconds * _SECOND + passed.microseconds


def is_evicted(workload: Workload) -> bool:
    """Whether the workload has to stop; it holds its quota until it has (E-104)."""
    return workload.evicted is not None and workload.evicted.status == "True"


def as_admitted(workload: Workload) -> Workload:
    """Return the workload without the eviction that the write of its admission ends (E-83)."""
    return replace(workload, evicted=None) if is_evicted(workload) else workload


def is_queueable(workload: Workload) -> bool:
    """Whether the workload may enter a queue at all (E-9); held quota is checked elsewhere."""
    return (
        workload.active
        and not workload.terminating
        and not workload.is_broken
        and not workload.finished
        and not workload.on_hold
        and not workload.gated_by
        and not workload.awaits_replacement_pods
        and not workload.stands_aside
    )


def is_backoff_over(workload: Workload, now: datetime) -> bool:
    """Whether the workload may be tried (E-18); Requeued=False alone holds it back."""
    if workload.requeued is not None and workload.requeued.status == "False":
        return False
    return workload.requeue_at is None or now >= workload.requeue_at


def wakes_itself(old: Workload, new: Workload) -> bool:
    """Whether an update is a reason to try a parked workload again (E-17)."""
    return (
        old.generation != new.generation
        or old.evicted != new.evicted
        or old.requeued != new.requeued
        or old.shape != new.shape
        or bool(old.closed_gates) != bool(new.closed_gates)
        or old.queue_order_at != new.queue_order_at
    )


def count(counts: dict[K, int], key: K, change: int) -> None:
    """Change a count; a missing one counts as zero."""
    number = counts.get(key, 0) + change
    if number:
        counts[key] = number
    else:
        del counts[key]


def _merged(counts: dict[str, int], more: dict[str, int]) -> dict[str, int]:
    if not counts:
        return more
    for local_queue, number in more.items():
        count(counts, local_queue, number)
    return counts
