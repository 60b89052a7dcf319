"""One scheduling cycle of one tree, as upstream runs it over everything.

Phases, in order; each is a function below:
  1. take the head of every active ClusterQueue                           E-28
  2. judge each at the usage the cycle begins with                        E-40 to E-62
  3. sort them                                                            E-63
  4. admit what still fits, one after another; reserve for those blocked  E-69 to E-84
  5. give the others back: to the heap, or parked until a wake            E-22 to E-25, E-85
Pure but for the tree and the queues it is given; usage of admissions stays, reservations do not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from multiqueue.api.conditions import CheckState, Reason
from multiqueue.engine.agenda import Agenda, Fingerprint, TreeAgenda
from multiqueue.engine.cache.cache import Cache
from multiqueue.engine.cache.cached_queue import CachedQueue
from multiqueue.engine.cache.tree import Tree
from multiqueue.engine.explain import Explanation
from multiqueue.engine.flavors.assignment import Assignment, Mode, ResumeState
from multiqueue.engine.flavors.oracle import Oracle
from multiqueue.engine.ledger import Ledger
from multiqueue.engine.nominate import is_resume_outdated, judge
from multiqueue.engine.nomination import Memo, Nominated, Rejected, Verdict
from multiqueue.engine.options import EngineOptions
from multiqueue.engine.plan import (
    Admit,
    Decision,
    Evict,
    Preempt,
    Requeue,
    RequeueReason,
    Skip,
    SkipReason,
)
from multiqueue.engine.queues.entry import Entry, Place
from multiqueue.engine.queues.pending_queue import PendingQueue
from multiqueue.engine.reservations import Reservations
from multiqueue.engine.value import Value
from multiqueue.lib.amount import Amount
from multiqueue.model.cluster_queue import PreemptionPolicy, QueueingStrategy

_PARKING = frozenset({RequeueReason.NO_FIT, RequeueReason.PREEMPTION_NO_CANDIDATES})
"""Verdicts that hold for every equal workload too (E-25)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """What a cycle works on."""

    cache: Cache
    pending: Mapping[str, PendingQueue]
    ledger: Ledger
    agenda: Agenda
    oracle: Oracle
    options: EngineOptions


class Head(Value, frozen=True, kw_only=True, gc=False):
    """A workload in its cycle.

    Shape: ``is_new`` means that it was judged in this cycle, not remembered from an equal state.
    """

    entry: Entry
    queue: CachedQueue
    pending: PendingQueue
    verdict: Verdict
    is_new: bool


@dataclass(slots=True, kw_only=True)
class CycleResult:
    """What a cycle did, filled in as it goes: after an error it has what was done until then.

    Shape: ``heads`` as they were taken; ``decisions`` in order; ``has_moved`` says whether anything
    moved, ``fingerprint`` what the cycle looked like if nothing did. ``error`` is what ended it.
    """

    heads: list[Entry] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)
    has_moved: bool = False
    fingerprint: Fingerprint = ()
    error: Exception | None = None


def run_cycle(
    world: World, tree: Tree, agenda: TreeAgenda, now: datetime, result: CycleResult
) -> None:
    """Run one cycle of one tree; what it raises leaves no reservation behind."""
    heads = [nominate(world, tree, *taken) for taken in take_heads(world, tree, agenda)]
    result.heads = [head.entry for head in heads]
    reservations = Reservations()
    try:
        for head in sort_heads(heads):
            decision = process(world, head, reservations)
            requeue(world, head, decision, agenda, now)
            admitted = isinstance(decision, Admit)
            if admitted or head.entry.is_parked:
                result.has_moved = True
            if admitted or head.is_new:
                result.decisions.append(decision)
    finally:
        reservations.undo()
    if not result.has_moved:
        result.fingerprint = tuple((head.entry.key, _resume_point(head.entry)) for head in heads)


# -------------------------------------------------------------------- 1. heads


def take_heads(
    world: World, tree: Tree, agenda: TreeAgenda
) -> Iterable[tuple[Entry, CachedQueue, PendingQueue]]:
    """Find one workload per active ClusterQueue that has any, in the order of their names."""
    taken = []
    for name in sorted(agenda.heads):
        queue, pending = tree.queues.get(name), world.pending.get(name)
        if queue is not None and pending is not None and queue.is_active:
            entry = pending.head()
            if entry is not None:
                taken.append((entry, queue, pending))
                continue
        agenda.heads.discard(name)
    return taken


# -------------------------------------------------------------------- 2. nomination


def nominate(
    world: World, tree: Tree, entry: Entry, queue: CachedQueue, pending: PendingQueue
) -> Head:
    """Judge a head, or remember the verdict where nothing changed since."""
    resume = entry.resume
    if resume is not None and is_resume_outdated(resume, entry.workload, queue, pending.cycle):
        resume = None
    start = None if resume is None else resume.point
    memo = entry.memo
    is_new = (
        memo is None
        or memo.tree is not tree
        or memo.version != tree.version
        or memo.workload is not entry.workload
        or memo.start != start
    )
    if memo is None or is_new:
        verdict = judge(
            entry.workload,
            queue,
            resume,
            cache=world.cache,
            oracle=world.oracle,
            options=world.options,
        )
        memo = entry.memo = Memo(
            tree=tree,
            version=tree.version,
            workload=entry.workload,
            start=start,
            verdict=verdict,
        )
    return Head(entry=entry, queue=queue, pending=pending, verdict=memo.verdict, is_new=is_new)


# -------------------------------------------------------------------- 3. order


def sort_heads(heads: Iterable[Head]) -> list[Head]:
    """Sort by less borrowing, higher priority, earlier time; then uid and key."""
    return sorted(heads, key=lambda head: (_borrowing(head), head.entry.rank))


def _borrowing(head: Head) -> int:
    return head.verdict.assignment.borrowing if isinstance(head.verdict, Nominated) else 0


# -------------------------------------------------------------------- 4. decisions


def process(world: World, head: Head, reservations: Reservations) -> Decision:
    """Decide on one head at the usage that the heads before it left."""
    verdict = head.verdict
    if isinstance(verdict, Rejected):
        return _requeue(head, verdict.requeue_reason, cause=verdict.reason, note=verdict.note)
    assignment = verdict.assignment
    if assignment.mode is Mode.NO_FIT:
        return _requeue(head, RequeueReason.NO_FIT, cause=None)
    if assignment.mode is Mode.PREEMPT:
        if head.queue.spec.preemption.reclaim_within_cohort is not PreemptionPolicy.ANY:
            reservations.ask(head.queue, assignment)
        cause = Reason.WAITING_FOR_QUOTA
        return _requeue(head, RequeueReason.PREEMPTION_NO_CANDIDATES, cause=cause)
    reservations.make()
    if not fits(head.queue, assignment.usage):
        return _skip(head)
    return admit(world, head, assignment)


def fits(queue: CachedQueue, usage: Mapping[int, Amount]) -> bool:
    """Whether the usage is still free, own quota and borrowed (E-69)."""
    return all(amount <= max(0, queue.node.available(slot)) for slot, amount in usage.items())


def admit(world: World, head: Head, assignment: Assignment) -> Admit:
    """Reserve the quota at once; the status follows (E-83)."""
    entry, queue = head.entry, head.queue
    admission = assignment.admission(queue.name)
    flavors = {name for ps in admission.pod_sets for name in ps.flavors.values()}
    checks = queue.checks_for(flavors) if queue.spec.checks else ()
    states = entry.workload.checks
    admitted = all(states.get(name) is CheckState.READY for name in checks)
    world.ledger.leave_queue(entry, head.pending)
    world.ledger.charge(entry, admission, admitted=admitted)
    entry.assumed = True
    entry.resume = entry.memo = entry.explanation = None
    return Admit(
        workload=entry.key,
        cluster_queue=queue.name,
        admission=admission,
        checks=checks,
        admitted=admitted,
        borrowing=assignment.borrowing,
    )


def _requeue(
    head: Head, requeue_reason: RequeueReason, *, cause: Reason | None, note: str = ""
) -> Requeue:
    explanation = _explain(head, cause, note)
    head.entry.resume = resume_state(head)
    return Requeue(
        workload=head.entry.key,
        cluster_queue=head.queue.name,
        requeue_reason=requeue_reason,
        parked=not _returns_at_once(head, requeue_reason),
        explanation=explanation,
    )


def _skip(head: Head) -> Skip:
    head.entry.resume = resume_state(head)
    return Skip(
        workload=head.entry.key,
        cluster_queue=head.queue.name,
        skip_reason=SkipReason.NO_LONGER_FITS,
        explanation=_explain(head, Reason.WAITING_FOR_QUOTA, SkipReason.NO_LONGER_FITS),
    )


def _explain(head: Head, cause: Reason | None, note: str) -> Explanation:
    verdict = head.verdict
    pod_sets = verdict.assignment.explanations() if isinstance(verdict, Nominated) else ()
    return Explanation(
        workload=head.entry.key,
        cluster_queue=head.queue.name,
        cause=cause,
        note=note,
        pod_sets=pod_sets,
    )


# -------------------------------------------------------------------- 5. requeueing


def requeue(
    world: World, head: Head, decision: Decision, agenda: TreeAgenda, now: datetime
) -> None:
    """Give back a head that was not admitted."""
    if isinstance(decision, Admit | Preempt | Evict):
        return
    entry, pending = head.entry, head.pending
    entry.explanation = decision.explanation
    if isinstance(decision, Skip) or not decision.parked:
        pending.keep(entry, now)
    elif decision.requeue_reason in _PARKING:
        pending.park_equals(entry, now, decision.explanation)
    else:
        pending.park(entry, now)
    if entry.place is Place.HELD:
        world.agenda.hold(entry)
    if entry.is_parked:
        agenda.parked.add(head.queue.name)


def resume_state(head: Head) -> ResumeState | None:
    """Return where the next search for flavors goes on; None where it begins anew (E-53)."""
    if isinstance(head.verdict, Rejected):
        return head.entry.resume
    tried = head.verdict.assignment.tried()
    if tried is None:
        return None
    return ResumeState(
        shape=head.entry.workload.shape,
        cycle=head.pending.cycle,
        generation=head.queue.generation,
        tried=tried,
    )


def _returns_at_once(head: Head, requeue_reason: RequeueReason) -> bool:
    """Whether a head that was refused stays in the heap (E-23, E-24).

    A state to resume from means that some flavor has not been looked at yet.
    """
    if head.queue.spec.strategy is QueueingStrategy.STRICT_FIFO:
        return requeue_reason is not RequeueReason.NAMESPACE_MISMATCH
    return head.entry.resume is not None


def _resume_point(entry: Entry) -> object:
    return None if entry.resume is None else entry.resume.point
