"""One scheduling cycle of one cohort tree; upstream runs one cycle over all trees.

Phases, in order:
  0. place pods of workloads that already hold quota      second_pass.py  E-151
  1. take the head of every active ClusterQueue                           E-28
  2. judge each at the usage the cycle begins with        nominate.py     E-40 to E-62
  3. sort them                                            order.py        E-63 to E-65
  4. decide on one after another                          decide_head.py  E-69 to E-84
  5. give back those that were not admitted               requeue.py      E-22 to E-25, E-85
Pure but for the given tree and queues; usage of admissions stays, reservations do not.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from multiqueue.engine.cache.cached_queue import CachedQueue
from multiqueue.engine.cache.tree import Tree
from multiqueue.engine.cycle_schedule import Fingerprint, TreeSchedule
from multiqueue.engine.decide_head import process, reconsider
from multiqueue.engine.giving_notice import note_decision
from multiqueue.engine.head_order import take_turns
from multiqueue.engine.keeping_room import settle_claim
from multiqueue.engine.nominate import is_resume_outdated, judge
from multiqueue.engine.nomination import Memo, Nominated
from multiqueue.engine.plan import Admit, Decision, Evict, HeadDecision, Preempt
from multiqueue.engine.preemption_limit import limit_preemption
from multiqueue.engine.queues.entry import Entry
from multiqueue.engine.queues.pending_queue import PendingQueue
from multiqueue.engine.reclaims import Reclaimer, find_reclaimer, is_put_off
from multiqueue.engine.requeue import give_back
from multiqueue.engine.world import Course, EngineParts, Head


@dataclass(slots=True, kw_only=True)
class CycleResult:
    """What a cycle did. It is filled in as the cycle runs, so it is usable after an error.

    Shape: ``heads`` in the order in which they were taken; ``decisions`` in order; ``has_moved``
    says whether anything changed its place; if not, ``fingerprint`` identifies the cycle's state.
    ``error`` is the exception that ended the cycle. ``recomputed`` and ``explained`` as in
    `CyclePlan`.
    """

    heads: list[Entry] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)
    has_moved: bool = False
    fingerprint: Fingerprint = ()
    error: Exception | None = None
    recomputed: list[tuple[str, bool]] = field(default_factory=list)
    explained: list[str] = field(default_factory=list)


def run_cycle(
    world: EngineParts, tree: Tree, schedule: TreeSchedule, now: datetime, result: CycleResult
) -> None:
    """Run one cycle of one tree; after an exception no reservation is left behind."""
    result.decisions += world.second_pass.run(tree, now)
    heads = [nominate(world, *taken) for taken in take_heads(world, tree, schedule)]
    result.heads = [head.entry for head in heads]
    course = Course(tree)
    reclaimers: list[Reclaimer] = []
    try:
        for nominated in take_turns(world, course, heads):
            if is_put_off(nominated, reclaimers):
                continue  # an admission made it wait, so another cycle follows
            head = reconsider(world, course, nominated)
            if head is not nominated and _has_targets(nominated):
                result.recomputed.append((head.queue.name, _has_targets(head)))
            decision = process(world, course, head, now)
            settle_claim(world, tree, head, decision)
            note_decision(world, tree, head, decision)
            is_news = head.is_new or _is_news(head.entry, decision)
            if not isinstance(decision, Admit | Evict):
                if head.entry.explanation != decision.explanation:
                    result.explained.append(head.entry.key)
                give_back(world, tree, head, decision, schedule=schedule, now=now)
            if isinstance(decision, Admit) or head.entry.is_parked:
                result.has_moved = True
            if is_news:
                result.decisions.append(decision)
                _issue(world, head, decision)
            if (reclaimer := find_reclaimer(world, head, decision)) is not None:
                reclaimers.append(reclaimer)
    finally:
        course.reservations.undo()
    if not result.has_moved:
        result.fingerprint = tuple((head.entry.key, _resume_point(head.entry)) for head in heads)


def take_heads(
    world: EngineParts, tree: Tree, schedule: TreeSchedule
) -> Iterable[tuple[Tree, Entry, CachedQueue, PendingQueue]]:
    """Yield the head of each active ClusterQueue that has one, by queue name (E-84)."""
    taken = []
    for name in sorted(schedule.heads):
        queue, pending = tree.queues.get(name), world.pending.get(name)
        if queue is not None and pending is not None and queue.is_active:
            entry = pending.head()
            if entry is not None:
                taken.append((tree, entry, queue, pending))
                continue
        schedule.heads.discard(name)
    return taken


def nominate(
    world: EngineParts, tree: Tree, entry: Entry, queue: CachedQueue, pending: PendingQueue
) -> Head:
    """Judge a head, or reuse its remembered verdict if nothing changed since."""
    resume, workload = entry.resume, entry.workload
    if resume is not None and is_resume_outdated(
        resume, workload, queue, pending.cycle, world.options
    ):
        resume = None
    start = None if resume is None else resume.point
    replaced_slice = (
        world.quota_usage.replaced_slice(workload, queue.name) if workload.replaces else None
    )
    memo = entry.memo if isinstance(entry.memo, Memo) else None
    is_new = (
        memo is None
        or memo.tree is not tree
        or memo.version != tree.version
        or memo.workload is not workload
        or memo.start != start
        or memo.replaced_slice != replaced_slice
        or (memo.expires_at is not None and memo.expires_at <= world.disruption.now)
    )
    if memo is None or is_new:
        verdict = judge(world, workload, queue, resume)
        expires_at, wakes_at = world.disruption.refusals.find_ends()
        memo = entry.memo = Memo(
            tree=tree,
            version=tree.version,
            workload=workload,
            start=start,
            replaced_slice=replaced_slice,
            verdict=limit_preemption(verdict, entry, tree),
            again={},
            expires_at=expires_at,
            wakes_at=wakes_at,
        )
    if memo.wakes_at is not None:  # a tree knows its next wake only: the last may have been another
        world.schedule.wake_at(tree.key, memo.wakes_at)
    return Head(
        entry=entry,
        queue=queue,
        pending=pending,
        verdict=memo.verdict,
        is_new=is_new,
        again=memo.again,
    )


def _has_targets(head: Head) -> bool:
    """Whether others would have to leave for it."""
    return isinstance(head.verdict, Nominated) and bool(head.verdict.targets)


def _is_news(entry: Entry, decision: HeadDecision) -> bool:
    """Whether a decision from a remembered verdict differs from the head's last decision."""
    if isinstance(decision, Admit | Evict):
        return True
    if isinstance(decision, Preempt) and any(victim.is_new for victim in decision.victims):
        return True
    return entry.explanation != decision.explanation


def _issue(world: EngineParts, head: Head, decision: Decision) -> None:
    """Mark the victims as leaving, now that the plan tells the shell to preempt them (E-80)."""
    if isinstance(decision, Preempt) and isinstance(head.verdict, Nominated):
        for target in head.verdict.targets:
            target.entry.preempted = target.entry.preempted or not target.entry.was_told
        for target, victim in zip(head.verdict.targets, decision.victims, strict=True):
            if victim.stop is not None:
                world.disruption.book.tell(target.entry.workload, victim.stop)


def _resume_point(entry: Entry) -> object:
    return None if entry.resume is None else entry.resume.point
