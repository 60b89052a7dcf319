"""Whom to preempt for a workload that does not fit (E-86).

Asked by the cycle for the flavors it chose, and by the oracle for one flavor-resource at a time.
Pure; the tree is left as it was, also by an error.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from multiqueue.engine.cache.cached_queue import CachedQueue
from multiqueue.engine.disruption.protection import HoldOff
from multiqueue.engine.disruption.search_rules import SearchRules
from multiqueue.engine.preemption.classical import find_classical_targets
from multiqueue.engine.preemption.context import SearchContext
from multiqueue.engine.preemption.fair import find_fair_targets
from multiqueue.engine.preemption.target import PreemptionRequest, Target
from multiqueue.model.cluster_queue import PreemptionPolicy


def find_targets(request: PreemptionRequest, context: SearchContext) -> list[Target]:
    """Find the workloads to preempt, in the order of the reference; none if they cannot help."""
    if not may_preempt(request.queue):
        return []
    attempts = None if context.disruption is None else context.disruption.attempts(request)
    if attempts is None:
        return _search(request, context)
    return _search_under_rules(request, context, attempts)


def _search_under_rules(
    request: PreemptionRequest, context: SearchContext, attempts: Iterator[SearchRules]
) -> list[Target]:
    """Search until few enough would leave; note why, if too many would in every search."""
    excess: HoldOff | None = None
    for rules in attempts:
        targets = _search(request, replace(context, rules=rules))
        if not targets:
            break
        found = rules.find_excess(targets)
        if found is None:
            return targets
        excess = excess or found
    if excess is not None and context.disruption is not None:
        context.disruption.refusals.refuse_plan(excess)
    return []


def _search(request: PreemptionRequest, context: SearchContext) -> list[Target]:
    if context.options.fair_sharing is not None:
        return find_fair_targets(request, context)
    return find_classical_targets(request, context)


def may_preempt(queue: CachedQueue) -> bool:
    """Whether workloads of a queue preempt anybody at all."""
    preemption = queue.spec.preemption
    return (
        preemption.within_cluster_queue is not PreemptionPolicy.NEVER
        or preemption.reclaim_within_cohort is not PreemptionPolicy.NEVER
    )
