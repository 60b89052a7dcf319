"""The input of a cycle: all parts of the engine, and one head in its cycle."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from multiqueue.engine.cache.cache import Cache
from multiqueue.engine.cache.cached_queue import CachedQueue
from multiqueue.engine.cache.quota_node import FlavorResource
from multiqueue.engine.cache.tree import Tree
from multiqueue.engine.cycle_schedule import CycleSchedule
from multiqueue.engine.disruption.disruption import Disruption
from multiqueue.engine.fairness.past_usage import PastUsageRecords
from multiqueue.engine.flavors.assignment import Assignment
from multiqueue.engine.flavors.oracle import Oracle
from multiqueue.engine.nomination import Nominated, Verdict
from multiqueue.engine.options import EngineOptions
from multiqueue.engine.preemption.context import SearchContext
from multiqueue.engine.preemption.simulation import LeavingUsage, without
from multiqueue.engine.preemption.target import Target
from multiqueue.engine.queues.entry import Entry, Rank, TimeRank
from multiqueue.engine.queues.pending_queue import PendingQueue
from multiqueue.engine.quota_usage import QuotaUsage
from multiqueue.engine.remote import FleetQuestions
from multiqueue.engine.reservations import Reservations
from multiqueue.engine.second_pass import SecondPass
from multiqueue.engine.value import Value


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineParts:
    """All parts of the engine.

    Shape: ``pending`` is by name of the ClusterQueue, and ``entries`` has every Workload by key.
    ``context`` and ``oracle`` search for victims at the real usage; a search without some workloads
    has its own. ``blocked`` are the keys of the
    trees in which a head waits for other workloads' pods to be ready (E-81). ``usage`` is None if
    past usage does not count. ``disruption`` has the DisruptionPolicies. ``fleet`` knows what other
    clusters can hold.
    """

    cache: Cache
    pending: Mapping[str, PendingQueue]
    entries: Mapping[str, Entry]
    quota_usage: QuotaUsage
    schedule: CycleSchedule
    context: SearchContext
    oracle: Oracle
    options: EngineOptions
    blocked: set[str] = field(default_factory=set)
    usage: PastUsageRecords | None = None
    second_pass: SecondPass
    disruption: Disruption
    fleet: FleetQuestions = field(default_factory=FleetQuestions)


class Head(Value, frozen=True, kw_only=True, gc=False):
    """A workload in its cycle.

    Shape: ``is_new`` means that it was judged in this cycle, not remembered from an equal state.
    ``again`` is the one of its memo.
    """

    entry: Entry
    queue: CachedQueue
    pending: PendingQueue
    verdict: Verdict
    is_new: bool
    again: dict[Hashable, Nominated] = {}  # noqa: RUF012 - a struct copies it

    @property
    def is_preemptor(self) -> bool:
        """Whether workloads were told to leave for this one, the latest in its queue (E-15)."""
        return self.pending.sticky is self.entry

    def rank(self, *, by_priority: bool) -> Rank | TimeRank:
        """Return its rank among heads that are equal otherwise (E-63, E-65)."""
        rank = self.entry.rank
        return rank if by_priority else rank[1:]


class Course:
    """What earlier heads changed for the rest of a cycle.

    Shape: ``preempted`` are the victims of this cycle by key; they still hold their quota.
    ``served`` are the heads that got quota, or for which it is kept, with what they use.
    """

    __slots__ = ("_leaving", "preempted", "reservations", "served", "tree")

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.reservations = Reservations(tree.forest)
        self.preempted: dict[str, Entry] = {}
        self.served: list[tuple[Head, Assignment]] = []
        self._leaving = LeavingUsage(tree)

    def state(self) -> Hashable:
        """Return a value that is equal if earlier heads did the same to an equal tree."""
        return (self.tree.version, tuple(self.preempted), self.reservations.kept())

    def preempt(self, targets: tuple[Target, ...]) -> None:
        """Reserve the room of these workloads; no other head of this cycle uses it (E-78)."""
        for target in targets:
            entry = target.entry
            if entry.key not in self.preempted:
                self.preempted[entry.key] = entry
                self._leaving.add(entry)

    @contextmanager
    def without_victims(self, targets: tuple[Target, ...]) -> Iterator[None]:
        """Have the victims of this cycle and these targets taken out of the tree inside."""
        others = [each.entry for each in targets if each.entry.key not in self.preempted]
        with self._leaving.taken_out(), without(self.tree, others):
            yield

    def served_before(self, head: Head, assignment: Assignment) -> tuple[str, ...]:
        """Return the keys of earlier heads that use something that this one needs."""
        wanted = _pairs(head.queue, assignment)
        return tuple(
            other.entry.key
            for other, taken in self.served
            if not wanted.isdisjoint(_pairs(other.queue, taken))
        )


def _pairs(queue: CachedQueue, assignment: Assignment) -> frozenset[FlavorResource]:
    """Return what an assignment uses, by name: each queue numbers its slots differently."""
    slots = queue.node.slot_by_flavor_resource
    return frozenset(pair for pair, slot in slots.items() if slot in assignment.usage)
