"""Lets a queue use its own quota before others borrow it (E-28).

Deviates: in upstream a head borrows what the other heads of its cycle leave. If one of these heads
was admitted without borrowing, and the next Workload of its queue reclaims, the borrower is evicted
a moment after it was admitted. Here that Workload is decided on first; the borrower is tried again
in the next cycle, which follows at once. With fair sharing the shares decide who keeps quota.
"""

from __future__ import annotations

from typing import NamedTuple

from multiqueue.engine.flavors.assignment import Mode
from multiqueue.engine.nomination import Nominated
from multiqueue.engine.plan import Admit, HeadDecision
from multiqueue.engine.world import EngineParts, Head
from multiqueue.model.cluster_queue import PreemptionPolicy


class Reclaimer(NamedTuple):
    """Who follows an admitted workload in its queue; ``rank`` is its negated priority."""

    policy: PreemptionPolicy
    rank: int

    def may_reclaim_from(self, borrower: Head) -> bool:
        """Whether it may preempt this head once that one borrows."""
        return self.policy is PreemptionPolicy.ANY or self.rank < borrower.entry.rank[0]


def find_reclaimer(world: EngineParts, head: Head, decision: HeadDecision) -> Reclaimer | None:
    """Return who follows a head that was admitted without borrowing, if it may reclaim."""
    policy = head.queue.spec.preemption.reclaim_within_cohort
    follower = head.pending.best
    is_own = isinstance(decision, Admit) and not decision.borrowing
    if not is_own or follower is None or policy is PreemptionPolicy.NEVER:
        return None
    return None if world.options.fair_sharing else Reclaimer(policy, follower.rank[0])


def is_put_off(head: Head, reclaimers: list[Reclaimer]) -> bool:
    """Whether a head would borrow what one of these would take back."""
    verdict = head.verdict
    if not reclaimers or not isinstance(verdict, Nominated):
        return False
    would_borrow = verdict.assignment.mode is Mode.FIT and verdict.assignment.borrowing > 0
    return would_borrow and any(one.may_reclaim_from(head) for one in reclaimers)
