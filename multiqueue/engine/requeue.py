"""Give back the heads that were not admitted: to the heap, or parked until a wake (E-22 to E-25).

Upstream also keeps a head in the heap if a wake came while it was judged. Here no wake comes during
a cycle, so there is no such clause. Where evicted Workloads stand in their queue is decided by
`model/queue_order.py`.
"""

from __future__ import annotations

from datetime import datetime

from multiqueue.api.conditions import Reason
from multiqueue.engine.cache.tree import Tree
from multiqueue.engine.cycle_schedule import TreeSchedule
from multiqueue.engine.nomination import Rejected
from multiqueue.engine.pending_reasons import Explanation, NoClusterHolds
from multiqueue.engine.plan import Preempt, Requeue, RequeueReason, Skip
from multiqueue.engine.preemption_limit import remember_victims
from multiqueue.engine.queues.entry import QueuePlace
from multiqueue.engine.queues.resume import ResumeState
from multiqueue.engine.world import EngineParts, Head
from multiqueue.model.cluster_queue import QueueingStrategy

_PARKING = frozenset({RequeueReason.NO_FIT, RequeueReason.PREEMPTION_NO_CANDIDATES})
"""Reasons that hold for every equivalent workload too (E-25)."""
_NOT_IN_THE_WAY = frozenset({RequeueReason.NAMESPACE_MISMATCH, RequeueReason.NO_CLUSTER})
"""Reasons for which a head of a StrictFIFO queue lets other workloads pass."""


def give_back(
    world: EngineParts,
    tree: Tree,
    head: Head,
    decision: Requeue | Skip | Preempt,
    *,
    schedule: TreeSchedule,
    now: datetime,
) -> None:
    """Put a head where its decision wants it to wait."""
    entry, pending = head.entry, head.pending
    entry.explanation = decision.explanation
    if waits_for_victims(decision):
        pending.stick(entry)
    remember_victims(head, tree, is_waiting=waits_for_victims(decision))
    if not isinstance(decision, Requeue) or not decision.parked:
        pending.keep(entry, now)
    elif (
        decision.requeue_reason in _PARKING
        and world.options.park_equals
        and not _depends_on_clusters(head, decision)
    ):
        pending.park_equals(entry, now, decision.explanation)
    else:
        pending.park(entry, now)
    if entry.place is QueuePlace.HELD:
        world.schedule.hold(entry)
    if entry.is_parked:
        schedule.park(entry)
        world.quota_usage.changed_cluster_queues.add(head.queue.name)


def hold_back(head: Head, words: str, reason: RequeueReason = RequeueReason.GENERIC) -> Requeue:
    """Let a head wait that a DisruptionPolicy holds back although there is room for it."""
    head.entry.resume = None
    return Requeue(
        workload=head.entry.key,
        cluster_queue=head.queue.name,
        requeue_reason=reason,
        parked=head.queue.spec.strategy is not QueueingStrategy.STRICT_FIFO,
        explanation=Explanation(
            workload=head.entry.key,
            cluster_queue=head.queue.name,
            cause=Reason.WAITING_FOR_QUOTA,
            note=words,
        ),
    )


def _depends_on_clusters(head: Head, decision: Requeue) -> bool:
    """Whether equivalent workloads of LocalQueues with other clusters may get another answer."""
    return bool(head.queue.remote_check) and any(
        isinstance(refusal, NoClusterHolds)
        for pod_set in decision.explanation.pod_sets
        for refusal in pod_set.refusals
    )


def waits_for_victims(decision: Requeue | Skip | Preempt) -> bool:
    """Whether the head fits as soon as workloads that were told to leave have left (E-15)."""
    if isinstance(decision, Requeue):
        return decision.requeue_reason is RequeueReason.PENDING_PREEMPTION
    return isinstance(decision, Preempt)


def resume_state(head: Head) -> ResumeState | None:
    """Return where the next search for flavors resumes; None if it starts over (E-53)."""
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


def returns_at_once(head: Head, requeue_reason: RequeueReason) -> bool:
    """Whether a refused head stays in the heap (E-23, E-24).

    A state to resume from means that some flavor has not been tried yet.
    """
    if head.queue.spec.strategy is QueueingStrategy.STRICT_FIFO:
        return requeue_reason not in _NOT_IN_THE_WAY
    return head.entry.resume is not None
