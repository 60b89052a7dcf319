"""Rules about quotas of ClusterQueues and Cohorts."""

from __future__ import annotations

from collections.abc import Iterator

from multiqueue.api.validation.access import Object, mapping, quantity
from multiqueue.lint.finding import Severity
from multiqueue.lint.nodes import allocatable, matching_nodes, needs_nodes
from multiqueue.lint.quotas import ZERO, cohort_of, preemption_of, quotas_of
from multiqueue.lint.rule import Hit, lint_rule
from multiqueue.lint.world import LintInput, Lookup, Sight, name_of, root_of


@lint_rule(
    "limit-without-cohort",
    kinds=("ClusterQueue", "Cohort"),
    severity=Severity.WARNING,
    title="a borrowing limit without a cohort",
    why="Borrowing happens between the members of a cohort; without one the limit does nothing, "
    "and upstream Kueue refuses the manifest.",
    at_admission=False,
)
def limit_without_cohort(queue: Object, _: Lookup) -> Iterator[Hit]:
    if cohort_of(queue):
        return
    parent = "parentName" if queue["kind"] == "Cohort" else "cohortName"
    for quota in quotas_of(queue):
        if quota.borrowing is not None:
            yield Hit(
                f"{quota.path}.borrowingLimit",
                f"may borrow {quota.borrowing} {quota.resource}, but there is no cohort to borrow "
                "from",
                f"set spec.{parent}, or remove the limit",
            )


@lint_rule(
    "reclaim-without-cohort",
    kinds=("ClusterQueue",),
    severity=Severity.WARNING,
    title="preemption within a cohort, without one",
    why="Without a cohort nothing is lent or reclaimed; only withinClusterQueue has an effect.",
)
def policy_without_cohort(queue: Object, _: Lookup) -> Iterator[Hit]:
    if cohort_of(queue) or preemption_of(queue, "reclaimWithinCohort") == "Never":
        return
    yield Hit(
        "spec.preemption.reclaimWithinCohort",
        f"is {preemption_of(queue, 'reclaimWithinCohort')}, but the queue is in no cohort",
        "set spec.cohortName, or remove the policy",
    )


@lint_rule(
    "lent-and-never-reclaimed",
    kinds=("ClusterQueue",),
    severity=Severity.WARNING,
    title="quota that is lent without limit and never reclaimed",
    why="reclaimWithinCohort is Never by default: jobs of this queue wait until the borrowing jobs "
    "are done, however long that takes.",
)
def never_reclaimed(queue: Object, _: Lookup) -> Iterator[Hit]:
    if not cohort_of(queue) or preemption_of(queue, "reclaimWithinCohort") != "Never":
        return
    lent = [q for q in quotas_of(queue) if q.nominal > ZERO and q.lending != ZERO]
    unlimited = [q for q in lent if q.lending is None]
    if not lent:
        return
    how_much = "all of its quota" if unlimited else "quota"
    yield Hit(
        "spec.preemption.reclaimWithinCohort",
        f"lends {how_much} to its cohort and never takes any back",
        'set it to "LowerPriority" or "Any", or set lendingLimit',
        Severity.WARNING if unlimited else Severity.INFO,
    )


@lint_rule(
    "cohort-of-one",
    kinds=("ClusterQueue",),
    severity=Severity.WARNING,
    title="a cohort with one member where borrowing is expected",
    why="There is no queue to borrow from or to lend to; a misspelt cohort name makes a new "
    "cohort.",
)
def cohort_of_one(queue: Object, world: LintInput) -> Iterator[Hit]:
    cohort = cohort_of(queue)
    if not cohort:
        return
    root = root_of(cohort, world)
    if len(world.queues_by_root.get(root, ())) != 1 or _has_quota(root, world):
        return
    hopes = [q for q in quotas_of(queue) if q.nominal == ZERO or (q.borrowing or ZERO) > ZERO]
    if not hopes and preemption_of(queue, "reclaimWithinCohort") == "Never":
        return
    yield Hit(
        "spec.cohortName",
        f'no other ClusterQueue is in cohort "{cohort}"',
        "check the spelling of the name in the other queues, or add them",
        Severity.WARNING if world.sight("ClusterQueue") is Sight.ALL else Severity.INFO,
    )


def _has_quota(root: str, world: LintInput) -> bool:
    return any(
        root_of(name_of(cohort), world) == root and any(True for _ in quotas_of(cohort))
        for cohort in world.all("Cohort")
    )


@lint_rule(
    "queue-without-quota",
    kinds=("ClusterQueue",),
    severity=Severity.WARNING,
    title="a ClusterQueue without flavors, or with no quota at all",
    why="Nothing that requests anything is ever admitted.",
)
def without_quota(queue: Object, _: Lookup) -> Iterator[Hit]:
    quotas = list(quotas_of(queue))
    if not quotas:
        yield Hit(
            "spec.resourceGroups",
            "has no flavor with a quota",
            "add a resource group with a flavor and a nominalQuota",
        )
    elif all(q.nominal == ZERO and (not cohort_of(queue) or q.borrowing == ZERO) for q in quotas):
        yield Hit(
            "spec.resourceGroups",
            "every nominalQuota is 0, and nothing can be borrowed",
            "raise nominalQuota, or let the queue borrow from a cohort",
        )


@lint_rule(
    "quota-exceeds-nodes",
    kinds=("ResourceFlavor",),
    severity=Severity.WARNING,
    title="quota larger than what its nodes have",
    why="Jobs are admitted whose pods find no node: they hold quota and wait for each other.",
)
def more_than_nodes(flavor: Object, world: LintInput) -> Iterator[Hit]:
    name = name_of(flavor)
    if not needs_nodes(name, world) or not (nodes := matching_nodes(flavor, world)):
        return
    holders = [*world.all("ClusterQueue"), *world.all("Cohort")]
    quotas = [q for holder in holders for q in quotas_of(holder) if q.flavor == name]
    for resource in sorted({q.resource for q in quotas}):
        promised = sum(q.nominal.nano for q in quotas if q.resource == resource)
        there = allocatable(nodes, resource)
        if promised > there.nano:
            total = type(there)(promised, there.format)
            yield Hit(
                "",
                f"quotas promise {total} {resource}, {len(nodes)} nodes have {there}",
                "lower nominalQuota, or add nodes",
            )


@lint_rule(
    "fair-sharing-weight",
    kinds=("ClusterQueue", "Cohort"),
    severity=Severity.WARNING,
    title="a fair sharing weight that is 0, or has no effect",
    why="With weight 0 the share is infinite: the queue comes last and is preempted first.",
)
def weight_zero(queue: Object, lookup: Lookup) -> Iterator[Hit]:
    weight = mapping(queue, "spec", "fairSharing").get("weight")
    if weight is None:
        return
    if lookup.config is not None and lookup.config.fair_sharing is None:
        yield Hit(
            "spec.fairSharing.weight",
            "fair sharing is not configured, so the weight does nothing",
            "set fairSharing in the manager's configuration, or remove the weight",
            Severity.INFO,
        )
    elif quantity(weight) == ZERO and cohort_of(queue):
        yield Hit(
            "spec.fairSharing.weight",
            "is 0: whatever it borrows makes its share infinite",
            "use a small weight such as 0.1, if it shall borrow at all",
        )


@lint_rule(
    "owner-with-several-shares",
    kinds=("ClusterQueue",),
    severity=Severity.WARNING,
    title="an owner with several ClusterQueues in one Cohort under fair sharing",
    why="Each ClusterQueue has a share of its own, so the owner gets several.",
)
def several_shares(queue: Object, world: LintInput) -> Iterator[Hit]:
    """See P-121."""
    cohort, name = cohort_of(queue), name_of(queue)
    if not cohort or world.config is None or world.config.fair_sharing is None:
        return
    own = world.owners_by_queue.get(name, set())
    for other in map(name_of, world.all("ClusterQueue")):
        if other == name:
            return  # the first of two is not reported
        both = own & world.owners_by_queue.get(other, set())
        if both and cohort_of(world.get("ClusterQueue", other) or {}) == cohort:
            yield Hit(
                "spec.cohortName",
                f'owner "{min(both)}" has ClusterQueue "{other}" in Cohort "{cohort}", too, so it '
                "has two shares there",
                f'make a Cohort of the owner below "{cohort}", and put its ClusterQueues there',
            )
            return


LOCAL = (limit_without_cohort, policy_without_cohort, never_reclaimed, without_quota, weight_zero)
WORLD = (cohort_of_one, more_than_nodes, several_shares)
