"""Where cycles ask about claims: who gets one, whom one holds back, and when one is over.

A tree without a DisruptionPolicy that has claims is answered by one look-up.
"""

from __future__ import annotations

from collections.abc import Mapping

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
from multiqueue.engine.disruption.held_back import first_of
from multiqueue.engine.flavors.assignment import Assignment, Mode
from multiqueue.engine.nominate import judge_again
from multiqueue.engine.nomination import Nominated
from multiqueue.engine.pending_reasons import HeldBack
from multiqueue.engine.plan import Admit, Evict, HeadDecision, Preempt, Requeue, RequeueReason, Skip
from multiqueue.engine.requeue import hold_back
from multiqueue.engine.world import Course, EngineParts, Head
from multiqueue.lib.amount import Amount
from multiqueue.model.disruption_policy import NO_RULES, ClaimRule, OwnQuotaRule

_ALL_FLAVORS = Assignment()


def make_claim(
    world: EngineParts,
    course: Course,
    head: Head,
    assignment: Assignment,
    held_back: HeldBack | None,
) -> HeldBack | None:
    """Make or renew the claim of a head that waits for others to end, and say so (P-69)."""
    entry, tree, now = head.entry, course.tree, world.disruption.now
    rule = _waiting_rule(world, tree, head.queue.name)
    if not rule.claims or entry.workload.replaces:
        return held_back
    due = int(entry.workload.created_at.timestamp()) + rule.after
    if now < due:
        world.schedule.wake_at(tree.key, due)
        return held_back
    with course.reservations.lifted():
        usage = _find_usage(world, tree, head, assignment)
        claim = Claim(entry, head.queue.name, usage, rule)
        start = world.disruption.claims.make(tree, claim, now) if usage else None
    if start is None:
        return held_back
    world.schedule.wake_at(tree.key, start)
    words = describe_claim(start)
    return HeldBack(words if held_back is None else f"{held_back}; {words}", start)


def _waiting_rule(world: EngineParts, tree: Tree, cluster_queue: str) -> ClaimRule:
    """Return what the policy of a ClusterQueue says about waiting."""
    governed = world.disruption.governance.of_tree(tree)
    return NO_RULES.waiting if governed is None else governed[cluster_queue].rules.waiting


def _find_usage(
    world: EngineParts, tree: Tree, head: Head, assignment: Assignment
) -> Mapping[FlavorResource, Amount]:
    """Return what a head waits for; empty if it cannot have a claim.

    Who has to borrow is told that no flavor fits. Its flavors are those that it would get if all
    who say when they end had left. A gang with alternatives has none: its size depends on them.
    """
    workload = head.entry.workload
    if assignment.mode is Mode.NO_FIT:
        if workload.has_alternatives:
            return {}
        ending = world.disruption.claims.list_ending(tree, world.disruption.now)
        anew = Nominated(assignment=_ALL_FLAVORS)
        found = judge_again(world, workload, head.queue, anew, ending)
        if found.assignment.mode is not Mode.DEFERRED_FIT:
            return {}
        assignment = found.assignment
    usage = usage_by_name(head.queue, assignment)
    return {} if any(tree.forest.tree(flavor) for flavor, _ in usage) else usage


def keep_claim(
    world: EngineParts, course: Course, head: Head, verdict: Nominated
) -> Requeue | None:
    """Refuse a head that would make the start of a claim later; None if it may start (P-74)."""
    tree, queue, now = course.tree, head.queue, world.disruption.now
    known = world.disruption.claims
    claims = [each for each in known.all_of(tree) if _binds(world, tree, each, head, verdict)]
    if not claims:
        return None
    victims = tuple(target.entry for target in verdict.targets)
    usage = usage_by_name(queue, verdict.assignment)
    passer = ClaimPasser(head.entry, queue.name, usage, victims)
    with course.reservations.lifted():
        starts = [known.would_delay(tree, each, passer, now) for each in claims]
    start = first_of(starts)
    if start is None:
        return None
    world.schedule.wake_at(tree.key, min(max(start, now + 1), now + LOOK_AGAIN))
    return hold_back(head, describe_delay(head.entry.workload, start))


def _binds(world: EngineParts, tree: Tree, claim: Claim, head: Head, verdict: Nominated) -> bool:
    """Whether a head has to respect a claim: owners of quota need not respect a borrower's."""
    return (
        head.queue.name == claim.cluster_queue
        or claim.is_own
        or verdict.assignment.borrowing > 0
        or _waiting_rule(world, tree, head.queue.name).own_quota is not OwnQuotaRule.PASSES
    )


def settle_claim(world: EngineParts, tree: Tree, head: Head, decision: HeadDecision) -> None:
    """End the claim of a head that got its quota, or that more than quota keeps waiting."""
    if isinstance(decision, Preempt | Skip | Evict):
        return
    if isinstance(decision, Admit):
        world.disruption.patience.forget(head.entry)
    elif decision.requeue_reason in _STILL_WAITING:
        return
    if world.disruption.claims.end(tree, head.entry):
        world.schedule.notify(tree.key)


_STILL_WAITING = frozenset(
    {
        RequeueReason.NO_FIT,
        RequeueReason.PREEMPTION_NO_CANDIDATES,
        RequeueReason.PENDING_PREEMPTION,
        RequeueReason.WAITING_INSTEAD,
    }
)


def usage_by_name(queue: CachedQueue, assignment: Assignment) -> Mapping[FlavorResource, Amount]:
    """Return what an assignment uses by name: each queue numbers its slots differently."""
    slots, usage = queue.node.slot_by_flavor_resource, assignment.usage
    return {pair: usage[slot] for pair, slot in slots.items() if slot in usage}
