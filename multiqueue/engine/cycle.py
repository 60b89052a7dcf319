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
from multiqueue.engine.explain import Explanation, reason_of
from multiqueue.engine.flavors.assignment import Assignment, Mode, ResumeState
from multiqueue.engine.flavors.oracle import Oracle
from multiqueue.engine.ledger import Ledger
from multiqueue.engine.nominate import is_resume_outdated, judge
from multiqueue.engine.nomination import Memo, Nominated, Rejected, Verdict
from multiqueue.engine.options import EngineOptions
from multiqueue.engine.plan import Admit, Decision, Requeue, RequeueReason, Skip, SkipReason
from multiqueue.engine.queues.entry import Entry, Place
from multiqueue.engine.queues.pending_queue import PendingQueue
from multiqueue.lib.amount import Amount, add, subtract
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


@dataclass(slots=True, kw_only=True)
class Head:
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
    """Decisions in order; whether anything moved; and what the cycle looked like if nothing did."""

    decisions: list[Decision] = field(default_factory=list)
    has_moved: bool = False
    fingerprint: Fingerprint = ()


def run_cycle(world: World, tree: Tree, agenda: TreeAgenda, now: datetime) -> CycleResult:
    """Run one cycle of one tree."""
    result = CycleResult()
    heads = [nominate(world, tree, *taken) for taken in take_heads(world, tree, agenda)]
    reserved: list[tuple[CachedQueue, int, Amount]] = []
    for head in sort_heads(heads):
        decision = process(world, head, reserved)
        requeue(world, head, decision, agenda, now)
        if isinstance(decision, Admit) or head.entry.is_parked:
            result.has_moved = True
        if head.is_new or isinstance(decision, Admit):
            result.decisions.append(decision)
    for queue, slot, amount in reversed(reserved):
        queue.node.remove_usage(slot, amount)
    if not result.has_moved:
        result.fingerprint = tuple((head.entry.key, _resume_point(head.entry)) for head in heads)
    return result


# -------------------------------------------------------------------- 1. heads


def take_heads(
    world: World, tree: Tree, agenda: TreeAgenda
) -> Iterable[tuple[Entry, CachedQueue, PendingQueue]]:
    """Find one workload per active ClusterQueue that has any, in the order of their names."""
    taken = []
    for name in sorted(agenda.heads):
        queue, pending = tree.queues.get(name), world.pending.get(name)
        if queue is None or pending is None or not queue.is_active or not pending.has_head:
            agenda.heads.discard(name)
            continue
        entry = pending.head()
        taken.append((entry, queue, pending))
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


def process(world: World, head: Head, reserved: list[tuple[CachedQueue, int, Amount]]) -> Decision:
    """Decide on one head at the usage that the heads before it left."""
    verdict = head.verdict
    if isinstance(verdict, Rejected):
        return _requeue(head, verdict.requeue_reason, reason=verdict.reason, note=verdict.note)
    assignment = verdict.assignment
    if assignment.mode is Mode.NO_FIT:
        return _requeue(head, RequeueReason.NO_FIT, reason=reason_of(assignment.explanations()))
    if assignment.mode is Mode.PREEMPT:
        if head.queue.spec.preemption.reclaim_within_cohort is not PreemptionPolicy.ANY:
            reserve(head.queue, assignment, reserved)
        return _requeue(
            head, RequeueReason.PREEMPTION_NO_CANDIDATES, reason=Reason.WAITING_FOR_QUOTA
        )
    if not fits(head.queue, assignment.usage):
        return _skip(head)
    return admit(world, head, assignment)


def fits(queue: CachedQueue, usage: Mapping[int, Amount]) -> bool:
    """Whether the usage is still free, own quota and borrowed (E-69)."""
    return all(amount <= max(0, queue.node.available(slot)) for slot, amount in usage.items())


def reserve(
    queue: CachedQueue,
    assignment: Assignment,
    reserved: list[tuple[CachedQueue, int, Amount]],
) -> None:
    """Keep capacity from lower-ranked heads of other queues, for this cycle only (E-73)."""
    node = queue.node
    for slot, amount in assignment.usage.items():
        limit = node.borrowing_limit[slot]
        if assignment.borrowing == 0:
            ceiling = node.nominal[slot]
        elif limit is not None:
            ceiling = add(node.nominal[slot], limit)
        else:
            ceiling = add(node.usage[slot], amount)
        kept = max(0, min(amount, subtract(ceiling, node.usage[slot])))
        node.add_usage(slot, kept)
        reserved.append((queue, slot, kept))


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
    head: Head, requeue_reason: RequeueReason, *, reason: Reason, note: str = ""
) -> Requeue:
    explanation = _explain(head, reason, note)
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


def _explain(head: Head, reason: Reason, note: str) -> Explanation:
    verdict = head.verdict
    pod_sets = verdict.assignment.explanations() if isinstance(verdict, Nominated) else ()
    return Explanation(
        workload=head.entry.key,
        cluster_queue=head.queue.name,
        reason=reason,
        note=note,
        pod_sets=pod_sets,
    )


# -------------------------------------------------------------------- 5. requeueing


def requeue(
    world: World, head: Head, decision: Decision, agenda: TreeAgenda, now: datetime
) -> None:
    """Give back a head that was not admitted."""
    if isinstance(decision, Admit):
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
    """Return where the next search for flavors goes on (E-53)."""
    if isinstance(head.verdict, Rejected):
        return head.entry.resume
    return ResumeState(
        shape=head.entry.workload.shape,
        cycle=head.pending.cycle,
        generation=head.queue.generation,
        tried=head.verdict.assignment.tried(),
    )


def _returns_at_once(head: Head, requeue_reason: RequeueReason) -> bool:
    """Whether a head that was refused stays in the heap (E-23, E-24)."""
    if head.queue.spec.strategy is QueueingStrategy.STRICT_FIFO:
        return requeue_reason is not RequeueReason.NAMESPACE_MISMATCH
    state = head.entry.resume
    return state is not None and state.has_pending_flavors


def _resume_point(entry: Entry) -> object:
    return None if entry.resume is None else entry.resume.point
