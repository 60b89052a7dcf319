"""Where cycles ask whether a head waits for others to end, instead of stopping them (P-58).

A queue whose DisruptionPolicy has no patience is answered by one look-up.
"""

from __future__ import annotations

from multiqueue.engine.cache.tree import Tree
from multiqueue.engine.disruption.claims import Claim
from multiqueue.engine.disruption.cost import count_devices
from multiqueue.engine.disruption.patience import (
    STOPPING,
    PatientWait,
    describe_wait,
    find_stop,
    is_worth_it,
)
from multiqueue.engine.keeping_room import usage_by_name
from multiqueue.engine.nomination import Nominated
from multiqueue.engine.plan import Requeue, RequeueReason
from multiqueue.engine.requeue import hold_back
from multiqueue.engine.variants import is_migration
from multiqueue.engine.world import Course, EngineParts, Head


def wait_instead(
    world: EngineParts, course: Course, head: Head, verdict: Nominated
) -> Requeue | None:
    """Let a head wait that would stop others which end soon enough; None if it stops them.

    Room is kept for it meanwhile. It is asked about once: at the end of its wait, or if others are
    going to end later than was expected, it preempts.
    """
    governed = world.disruption.governance.of_tree(course.tree)
    if governed is None or not verdict.targets or not governed[head.queue.name].rules.patience:
        return None
    claim = _claim(world, course.tree, head, verdict)
    if claim is None:
        return None
    now, patience = world.disruption.now, world.disruption.patience
    with course.reservations.lifted():
        self_at = world.disruption.claims.find_start(course.tree, claim, now)
    wait = patience.of(head.entry)
    if wait is None:
        wait = _weigh(world, head, verdict, claim, self_at)
        if wait is None:
            return None
        patience.begin(head.entry, wait)
    if wait.is_over or self_at is None or max(now, self_at) >= wait.until:
        patience.end(head.entry)
        return None
    world.disruption.claims.promise(course.tree, claim)
    world.schedule.wake_at(course.tree.key, wait.until)
    return hold_back(head, wait.words, RequeueReason.WAITING_INSTEAD)


def _claim(world: EngineParts, tree: Tree, head: Head, verdict: Nominated) -> Claim | None:
    """Return the room that a head would wait for; None if it may not wait.

    That is the case if it is exempt, if somebody leaves for it already, if it changes its flavor or
    its size, or if its nodes count and not only its quota.
    """
    workload, governance = head.entry.workload, world.disruption.governance
    if workload.replaces or is_migration(verdict):
        return None
    for target in verdict.targets:
        rules = governance.of_queue(target.entry.charged).rules
        if target.entry.is_leaving or rules.exempts(workload.priority):
            return None
    usage = usage_by_name(head.queue, verdict.assignment)
    if any(tree.forest.tree(flavor) for flavor, _ in usage):
        return None
    rule = governance.of_queue(head.queue.name).rules.waiting
    is_own = not verdict.assignment.borrowing
    return Claim(head.entry, head.queue.name, usage, rule, is_own=is_own)


def _weigh(
    world: EngineParts, head: Head, verdict: Nominated, claim: Claim, self_at: int | None
) -> PatientWait | None:
    """Return until when a head waits; None if it stops others at once."""
    disruption = world.disruption
    losses = [
        disruption.losses.of(t.entry, disruption.governance.of_queue(t.entry.charged).rules.cost)
        for t in verdict.targets
    ]
    cost = sum(loss.cost for loss in losses)
    ends = [disruption.notice_end(target, head.entry.workload) for target in verdict.targets]
    is_worth = is_worth_it(
        devices=count_devices(claim.usage),
        cost=cost,
        patience=disruption.governance.of_queue(head.queue.name).rules.patience,
        stop_at=find_stop(disruption.now, ends),
        self_at=self_at,
    )
    if not is_worth or self_at is None:
        return None
    return PatientWait(self_at + STOPPING, describe_wait(self_at, len(losses), cost))
