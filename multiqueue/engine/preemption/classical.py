"""Preemption without fair sharing: take victims one by one, then spare those not needed.

Candidates and their classes are in `hierarchy`; here are the attempts, with and without borrowing,
and what is checked again after each victim (E-89, E-92 to E-95).
"""

from __future__ import annotations

from multiqueue.api.conditions import Reason
from multiqueue.engine.cache.quota_node import FlavorResource, QuotaNode
from multiqueue.engine.disruption.choice import Ends
from multiqueue.engine.preemption.candidates import is_within_nominal
from multiqueue.engine.preemption.context import SearchContext
from multiqueue.engine.preemption.hierarchy import CandidateClaim, Candidates
from multiqueue.engine.preemption.room import can_make_room, fill_back, fits, simulate
from multiqueue.engine.preemption.simulation import Simulation
from multiqueue.engine.preemption.target import PreemptionRequest, Target
from multiqueue.engine.queues.entry import Entry
from multiqueue.model.cluster_queue import PreemptionPolicy


def find_classical_targets(request: PreemptionRequest, context: SearchContext) -> list[Target]:
    """Find workloads after whose preemption the request fits; none if that is impossible.

    No single one of them could stay. The tree is left as it was.
    """
    needed = request.needed()
    candidates = Candidates(request, context, needed)
    for may_borrow in _attempts(request, candidates, needed):
        if can_make_room(request, needed, candidates.totals(may_borrow=may_borrow)):
            targets = _try(request, context, candidates, needed, may_borrow=may_borrow)
            if targets:
                return targets
    return []


def _attempts(
    request: PreemptionRequest, candidates: Candidates, needed: frozenset[FlavorResource]
) -> tuple[bool, ...]:
    """Return whether to allow borrowing, attempt by attempt (E-92)."""
    if not candidates.could_stop_borrowing:
        return (True,)
    if not candidates.by_right and not candidates.by_priority:
        return (True,)
    if request.queue.spec.preemption.borrow_within_cohort is PreemptionPolicy.NEVER:
        node = request.queue.node
        slots = [node.slot_by_flavor_resource[flavor_resource] for flavor_resource in needed]
        if any(node.usage[slot] >= node.nominal[slot] for slot in slots):
            return (True,)
        if not candidates.by_right:
            return (False, True)
    return (True, False)


def _try(
    request: PreemptionRequest,
    context: SearchContext,
    candidates: Candidates,
    needed: frozenset[FlavorResource],
    *,
    may_borrow: bool,
) -> list[Target]:
    rules = context.rules
    if rules is not None:
        rules.begin()
    # Past usage is an order of its own, so nobody replaces anybody under it.
    ends = None if rules is None or context.past_usage is not None else rules.begin_ends()
    simulation = simulate(request)
    targets: list[Target] = []
    try:
        for candidate, claim in candidates.in_order(may_borrow=may_borrow):
            entry = candidate.entry
            reason, peers = _reason(request, claim, entry), (claim, *candidate.order[:2])
            if claim is not CandidateClaim.OWN:
                common = candidates.lowest_common[entry.charged]
                needs_own_quota = may_borrow and _is_without_borrowing(claim, reason)
                if needs_own_quota or not _still_borrows(request, entry, common, needed):
                    continue
            if ends is not None and ends.is_over(peers):
                break
            if rules is not None and not rules.takes(entry):
                continue
            simulation.remove(entry)
            targets.append(Target(entry, reason))
            if fits(request, may_borrow=may_borrow):
                if rules is None or ends is None:
                    return fill_back(request, simulation, targets, may_borrow=may_borrow)
                ends.note(targets, rules.cost_of(targets), peers)
                simulation.put_back(entry)
                rules.give_back(entry)
                targets.pop()
        return _take_cheapest(request, ends, simulation, may_borrow=may_borrow)
    finally:
        simulation.restore()


def _take_cheapest(
    request: PreemptionRequest, ends: Ends | None, simulation: Simulation, *, may_borrow: bool
) -> list[Target]:
    """Return the cheapest of the sets that make room; none without one."""
    if ends is None or not ends.cheapest:
        return []
    simulation.restore()
    targets = list(ends.cheapest)
    for target in targets:
        simulation.remove(target.entry)
    return fill_back(request, simulation, targets, may_borrow=may_borrow)


def _reason(request: PreemptionRequest, claim: CandidateClaim, entry: Entry) -> Reason:
    """Return the reason of the preemption (E-89, E-95)."""
    if claim is CandidateClaim.OWN:
        return Reason.IN_CLUSTER_QUEUE
    preemption = request.queue.spec.preemption
    if (
        claim is CandidateClaim.BY_RIGHT
        or preemption.borrow_within_cohort is PreemptionPolicy.NEVER
    ):
        return Reason.IN_COHORT_RECLAMATION
    priority, threshold = entry.workload.priority, preemption.borrow_max_priority_threshold
    if priority >= request.workload.priority or (threshold is not None and priority > threshold):
        return Reason.IN_COHORT_RECLAMATION
    return Reason.IN_COHORT_RECLAIM_WHILE_BORROWING


def _is_without_borrowing(claim: CandidateClaim, reason: Reason) -> bool:
    """Whether a candidate leaves only for a preemptor that does not borrow itself."""
    return claim is CandidateClaim.BY_PRIORITY and reason is Reason.IN_COHORT_RECLAMATION


def _still_borrows(
    request: PreemptionRequest,
    entry: Entry,
    common: QuotaNode,
    needed: frozenset[FlavorResource],
) -> bool:
    """Whether the queue, and all above it below the common cohort, borrow after who left by now."""
    node: QuotaNode | None = request.tree.queues[entry.charged].node
    while node is not None and node is not common:
        if is_within_nominal(node, needed):
            return False
        node = node.parent
    return True
