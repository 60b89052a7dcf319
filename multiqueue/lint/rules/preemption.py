"""Rules about priorities and preemption."""

from __future__ import annotations

from collections.abc import Iterator

from multiqueue.api.validation.access import Object, mapping, number
from multiqueue.lint.finding import Severity
from multiqueue.lint.quotas import cohort_of, preemption_of
from multiqueue.lint.rule import Hit, lint_rule
from multiqueue.lint.world import LintInput, name_of

_SYSTEM = 1_000_000_000
"""Priority classes with a greater value belong to Kubernetes itself."""


def _values(world: LintInput) -> dict[str, int]:
    """Return the priorities that jobs may have, by class.

    WorkloadPriorityClasses are used if there are any, because a cluster has PriorityClasses for
    other reasons, too.
    """
    for kind in ("WorkloadPriorityClass", "PriorityClass"):
        found = {name_of(c): number(c.get("value")) for c in world.all(kind)}
        usual = {name: value for name, value in found.items() if value <= _SYSTEM}
        if usual:
            return usual
    return {}


@lint_rule(
    "priority-never-preempts",
    kinds=("ClusterQueue",),
    severity=Severity.INFO,
    title="priority classes in a queue without preemption",
    why="Preemption is off by default: priorities then only order waiting jobs, and an urgent job "
    "waits for running ones.",
)
def never(queue: Object, world: LintInput) -> Iterator[Hit]:
    values = _values(world)
    reclaims = cohort_of(queue) and preemption_of(queue, "reclaimWithinCohort") != "Never"
    if len(set(values.values())) < 2 or reclaims:
        return
    if preemption_of(queue, "withinClusterQueue") == "Never":
        highest = max(values, key=lambda name: (values[name], name))
        yield Hit(
            "spec.preemption.withinClusterQueue",
            f'is Never, so class "{highest}" ({values[highest]}) preempts nothing here',
            'set it to "LowerPriority" if higher priorities shall not only queue first',
        )


@lint_rule(
    "threshold-below-all",
    kinds=("ClusterQueue",),
    severity=Severity.WARNING,
    title="a threshold for preemption while borrowing that is below all priorities",
    why="Only jobs up to the threshold may be preempted by one that borrows, and no priority "
    "class is that low.",
)
def threshold(queue: Object, world: LintInput) -> Iterator[Hit]:
    borrow = mapping(queue, "spec", "preemption", "borrowWithinCohort")
    threshold = borrow.get("maxPriorityThreshold")
    values = _values(world)
    if borrow.get("policy") != "LowerPriority" or not isinstance(threshold, int) or not values:
        return
    lowest = min(values, key=lambda name: (values[name], name))
    if threshold < values[lowest]:
        yield Hit(
            "spec.preemption.borrowWithinCohort.maxPriorityThreshold",
            f'is {threshold}, but the lowest class, "{lowest}", has {values[lowest]}',
            f"raise it to {values[lowest]} or more, or remove borrowWithinCohort",
        )


@lint_rule(
    "preemption-policy-of-class",
    kinds=("PriorityClass",),
    severity=Severity.INFO,
    title="a PriorityClass with a preemptionPolicy",
    why="Queues take the number of a PriorityClass and nothing else: a job of this class does "
    "preempt others if its ClusterQueue allows it.",
)
def ignored_policy(priority: Object, _: LintInput) -> Iterator[Hit]:
    if priority.get("preemptionPolicy") == "Never":
        yield Hit(
            "preemptionPolicy",
            "is Never, which holds for the pods of a job, not for its place in the queue",
            "let ClusterQueues say who preempts whom (spec.preemption)",
        )


WORLD = (never, threshold, ignored_policy)
