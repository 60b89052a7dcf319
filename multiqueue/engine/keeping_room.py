"""Where cycles ask about claims: who gets one, whom one holds back, and when one is over.

A tree without a DisruptionPolicy that has claims is answered by one look-up.
"""

from __future__ import annotations

from collections.abc import Mapping

from multiqueue.api.conditions import Reason
from multiqueue.engine.cache.cached_queue import CachedQueue
from multiqueue.engine.cache.quota_node import FlavorResource
from multiqueue.engine.cache.tree import Tree
from multiqueue.engine.disruption.claims import (
    LOOK_AGAIN,
    Claim,
    ClaimPasser,
    describe_claim,
    describe_delay,
)
from multiqueue.engine.flavors.assignment import Assignment
from multiqueue.engine.nomination import Nominated
from multiqueue.engine.pending_reasons import Explanation, HeldBack
from multiqueue.engine.plan import Admit, Evict, HeadDecision, Preempt, Requeue, RequeueReason, Skip
from multiqueue.engine.world import Course, EngineParts, Head
from multiqueue.lib.amount import Amount
from multiqueue.model.cluster_queue import QueueingStrategy


def make_claim(
    world: EngineParts,
    course: Course,
    head: Head,
    assignment: Assignment,
    held_back: HeldBack | None,
) -> HeldBack | None:
    """Make or renew the claim of a head that waits for others to end, and say so (P-69)."""
    governed = world.disruption.governance.of_tree(course.tree)
    if governed is None or not governed[head.queue.name].rules.waiting.claims:
        return held_back
    entry, tree, now = head.entry, course.tree, world.disruption.now
    rule = governed[head.queue.name].rules.waiting
    usage = _by_name(head.queue, assignment)
    if entry.workload.replaces or any(tree.forest.tree(flavor) for flavor, _ in usage):
        return held_back
    due = int(entry.workload.created_at.timestamp()) + rule.after
    if now < due:
        world.agenda.wake_at(tree.key, due)
        return held_back
    claims = world.disruption.claims
    with course.reservations.lifted():
        start = claims.make(tree, Claim(entry, head.queue.name, usage, rule), now)
    if start is None:
        return held_back
    world.agenda.wake_at(tree.key, start)
    words = describe_claim(start)
    return HeldBack(words if held_back is None else f"{held_back}; {words}")


def keep_claim(
    world: EngineParts, course: Course, head: Head, verdict: Nominated
) -> Requeue | None:
    """Refuse a head that would make the start of a claim later; None if it may start (P-74)."""
    claims = world.disruption.claims
    claim = claims.of(course.tree)
    if claim is None:
        return None
    if head.queue.name != claim.cluster_queue and verdict.assignment.borrowing == 0:
        return None  # own quota first: a claim does not hold up who does not borrow
    tree, queue, now = course.tree, head.queue, world.disruption.now
    victims = tuple(target.entry for target in verdict.targets)
    usage = _by_name(queue, verdict.assignment)
    with course.reservations.lifted():
        start = claims.would_delay(tree, ClaimPasser(head.entry, queue.name, usage, victims), now)
    if start is None:
        return None
    world.agenda.wake_at(tree.key, min(max(start, now + 1), now + LOOK_AGAIN))
    head.entry.resume = None
    return Requeue(
        workload=head.entry.key,
        cluster_queue=queue.name,
        requeue_reason=RequeueReason.GENERIC,
        parked=queue.spec.strategy is not QueueingStrategy.STRICT_FIFO,
        explanation=Explanation(
            workload=head.entry.key,
            cluster_queue=queue.name,
            cause=Reason.WAITING_FOR_QUOTA,
            note=describe_delay(head.entry.workload, start),
        ),
    )


def settle_claim(world: EngineParts, tree: Tree, head: Head, decision: HeadDecision) -> None:
    """End the claim of a head that got its quota, or that more than quota keeps waiting."""
    if isinstance(decision, Preempt | Skip | Evict):
        return
    if not isinstance(decision, Admit) and decision.requeue_reason in _STILL_WAITING:
        return
    if world.disruption.claims.end(tree, head.entry):
        world.agenda.notify(tree.key)


_STILL_WAITING = frozenset(
    {RequeueReason.PREEMPTION_NO_CANDIDATES, RequeueReason.PENDING_PREEMPTION}
)


def _by_name(queue: CachedQueue, assignment: Assignment) -> Mapping[FlavorResource, Amount]:
    """Return what an assignment uses by name: each queue numbers its slots differently."""
    slots, usage = queue.node.slot_by_flavor_resource, assignment.usage
    return {pair: usage[slot] for pair, slot in slots.items() if slot in usage}
