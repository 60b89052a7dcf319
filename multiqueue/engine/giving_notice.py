"""Where cycles give notice to victims, and where notices end (P-49 to P-56).

A tree without a DisruptionPolicy that gives notice is answered by one look-up.
"""

from __future__ import annotations

from datetime import UTC, datetime

from multiqueue.engine.cache.tree import Tree
from multiqueue.engine.disruption.claims import Claim
from multiqueue.engine.disruption.notices import NoticeOver
from multiqueue.engine.keeping_room import usage_by_name
from multiqueue.engine.nomination import Nominated
from multiqueue.engine.plan import EndNotice, Evict, HeadDecision, Preempt, RescindNotice, Skip
from multiqueue.engine.preemption.target import Target
from multiqueue.engine.world import EngineParts, Head


def note_decision(world: EngineParts, tree: Tree, head: Head, decision: HeadDecision) -> None:
    """Note whose room a head needs now, and keep it for the head (P-54)."""
    notices, entry = world.disruption.notices, head.entry
    if not notices.is_used and world.disruption.governance.of_tree(tree) is None:
        return
    if isinstance(decision, Skip | Evict):
        return  # it is judged again
    if not isinstance(decision, Preempt) or not isinstance(head.verdict, Nominated):
        notices.want(entry, ())
        return
    victims = [target.entry for target in head.verdict.targets]
    told = [t for t, victim in zip(victims, decision.victims, strict=True) if victim.notice]
    notices.want(entry, victims, told=told)
    if told or any(victim.notice is not None for victim in victims):
        assignment = head.verdict.assignment
        usage = usage_by_name(head.queue, assignment)
        if not any(tree.forest.tree(flavor) for flavor, _ in usage):
            rule = world.disruption.governance.of_queue(head.queue.name).rules.waiting
            claim = Claim(entry, head.queue.name, usage, rule, is_own=not assignment.borrowing)
            world.disruption.claims.promise(tree, claim)


def settle_notices(world: EngineParts) -> list[EndNotice | RescindNotice]:
    """End the notices that are over, and count those under way in the budgets (P-52, P-56)."""
    disruption = world.disruption
    decisions = [_settle(world, over) for over in disruption.notices.list_over(disruption.now)]
    for entry, notice in disruption.notices.in_force():
        if not disruption.book.is_told(entry.workload.uid):  # an earlier leader gave the notice
            recorded = disruption.stop_of(Target(entry, notice.reason), "")
            if recorded is not None:
                disruption.book.tell(entry.workload, recorded.stop)
    return decisions


def _settle(world: EngineParts, over: NoticeOver) -> EndNotice | RescindNotice:
    entry, notice, preemptor = over.entry, over.notice, over.preemptor
    workload = entry.workload
    if preemptor is None:
        entry.spared = notice
        world.disruption.book.take_back(workload.uid)
        world.quota_usage.reorder(entry)
        tree = world.cache.tree_by_queue.get(entry.charged)
        if tree is not None:
            world.schedule.poke(tree.key)
            world.schedule.notify(tree.key)
        return RescindNotice(
            workload=entry.key,
            uid=workload.uid,
            cluster_queue=entry.charged,
            notice=notice,
            message=f"goes on: {over.why}",
        )
    queue = preemptor.queue or preemptor.charged
    recorded = world.disruption.stop_of(Target(entry, notice.reason), queue, preemptor.key)
    entry.preempted = True
    if recorded is not None:
        world.disruption.book.tell(workload, recorded.stop)
    return EndNotice(
        workload=entry.key,
        uid=workload.uid,
        cluster_queue=queue,
        preemptor=preemptor.key,
        reason=notice.reason,
        message=notice.message if recorded is None else f"{notice.message}; {recorded}",
        stop=None if recorded is None else recorded.stop,
        end=over.end,
        seconds=max(0, world.disruption.now - notice.given_at),
    )


def next_notice_end(world: EngineParts) -> datetime | None:
    """Return when the first notice ends at the latest; None if there is none."""
    end = world.disruption.notices.next_end()
    return None if end is None else datetime.fromtimestamp(end, UTC)
