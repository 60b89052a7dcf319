"""Whom to preempt for a workload that does not fit (E-86).

Asked by the cycle for the flavors it chose, and by the oracle for one flavor-resource at a time.
Pure; the tree is left as it was, also by an error.
"""

from __future__ import annotations

from multiqueue.engine.cache.cached_queue import CachedQueue
from multiqueue.engine.preemption.classical import find_classical_targets
from multiqueue.engine.preemption.context import SearchContext
from multiqueue.engine.preemption.fair import find_fair_targets
from multiqueue.engine.preemption.target import PreemptionRequest, Target
from multiqueue.model.cluster_queue import PreemptionPolicy


def find_targets(request: PreemptionRequest, context: SearchContext) -> list[Target]:
    """Find the workloads to preempt, in the order of the reference; none if they cannot help."""
    if not may_preempt(request.queue):
        return []
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
