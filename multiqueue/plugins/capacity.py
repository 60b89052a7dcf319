"""Judge whether a queue can hold a gang now, later or never.

The core uses `judge` too: a gang that no worker can ever hold is refused, whichever dispatcher is
chosen. The numbers come from the worker's last status, so `Outlook.FITS` is an expectation; the
worker decides. `Outlook.NEVER` is a proof from upper bounds: everything that the queue could borrow
counts, and pod sets are checked one by one and in sum.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from multiqueue.model.resources import format_amount
from multiqueue.plugins.alternatives import GangAlternative, list_ways, suit
from multiqueue.plugins.hardware import Grade
from multiqueue.plugins.limits import Limit, most_of, why_never
from multiqueue.plugins.suitability import FlavorResource, Suitability
from multiqueue.plugins.view import ClusterView, QueueView, QuotaView, WorkloadView

NO_QUOTA = QuotaView()


class Outlook(StrEnum):
    """When a cluster could run a Workload."""

    FITS = "Fits"
    """The gang fits now."""
    UNKNOWN = "Unknown"
    """The cluster's queues cannot be read."""
    WAITS = "Waits"
    """The queue can hold the gang, but not now."""
    UNAVAILABLE = "Unavailable"
    """Something must be repaired first: the connection, the queue or the namespace."""
    NEVER = "Never"
    """The gang is larger than the queue can ever hold, or asks for other hardware."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GangPlacement:
    """The flavors that the pod sets of a gang would take.

    Attributes:
        taken: Amounts by flavor and resource.
        grade: The worst grade among the pod sets' flavors; never a mismatch.
        preference: Sum of the weights of the preferred affinity terms that are met.
    """

    taken: Mapping[FlavorResource, int] = field(default_factory=dict)
    grade: Grade = Grade.SILENT
    preference: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """The judgement of a cluster for a Workload.

    Attributes:
        outlook: When the cluster could run the Workload.
        reason: The reason, in words and with numbers.
        grade: How well the cluster's hardware suits the Workload.
        preference: How much of the preferred affinity the cluster meets.
        taken: With `Outlook.FITS`: what the Workload would get, by flavor and resource.
        spare: With `Outlook.FITS`: how much of the scarce resource stays free in the flavors used.
            Smaller values mean less fragmentation.
        load_permille: With `Outlook.WAITS`: demand for the scarce resource, this gang included, in
            thousandths of what the queue could hold.
        limit: With `Outlook.NEVER`: the resource that is too small, if that is the reason.
        pods: Pod counts by pod set, if fewer pods than requested are enough on that hardware.
    """

    outlook: Outlook
    reason: str
    grade: Grade = Grade.SILENT
    preference: int = 0
    taken: Mapping[FlavorResource, int] = field(default_factory=dict)
    spare: int = 0
    load_permille: int = 0
    limit: Limit | None = None
    pods: Mapping[str, int] = field(default_factory=dict)


_BEST_FIRST = list(Outlook)


def judge(workload: WorkloadView, cluster: ClusterView) -> Fit:
    """Return when a cluster could run a Workload, with the reason."""
    if cluster.unusable:
        return Fit(outlook=Outlook.UNAVAILABLE, reason=cluster.unusable)
    if not cluster.queue_known:
        return Fit(outlook=Outlook.UNKNOWN, reason="its queues cannot be read")
    queue = cluster.queue
    if queue is None:
        return Fit(
            outlook=Outlook.UNAVAILABLE,
            reason=f'has no LocalQueue "{workload.queue}" in namespace "{workload.namespace}"',
        )
    fits = [_judge(way, queue) for way in list_ways(workload, queue)]
    return fits[0] if len(fits) == 1 else min(fits, key=_rank)


def _rank(fit: Fit) -> tuple[int, bool, int]:
    """Return a sort key: the best way first; among ways that are too large, the smallest."""
    limit = fit.limit
    return _BEST_FIRST.index(fit.outlook), limit is None, limit.asked if limit is not None else 0


def _judge(way: GangAlternative, queue: QueueView) -> Fit:
    suited = suit(way, queue)
    if impossible := why_never(suited):
        limit = impossible if isinstance(impossible, Limit) else None
        return Fit(outlook=Outlook.NEVER, reason=str(impossible), limit=limit)
    if not queue.active:
        words = queue.inactive_reason or "it says no reason"
        return Fit(
            outlook=Outlook.UNAVAILABLE, reason=f'ClusterQueue "{queue.name}" is inactive: {words}'
        )
    if uncovered := _uncovered(suited):
        return Fit(
            outlook=Outlook.UNKNOWN, reason=f'ClusterQueue "{queue.name}" covers no {uncovered}'
        )
    fit = _compare_room(suited)
    return replace(fit, reason=f"{fit.reason}, {way}", pods=way.pods) if way.pods else fit


def place(workload: WorkloadView, queue: QueueView) -> GangPlacement | None:
    """Find free flavors for all pod sets, the best suited first; None if there are none.

    Cost: pod sets times flavors.
    """
    found = (_place(suit(way, queue)) for way in list_ways(workload, queue))
    return next((assignment for assignment in found if assignment is not None), None)


def find_room(workload: WorkloadView, queue: QueueView) -> GangAlternative | None:
    """Return the first way to hold a gang that fits now; None if no way does."""
    ways = list_ways(workload, queue)
    return next((way for way in ways if _place(suit(way, queue)) is not None), None)


def choose_way(workload: WorkloadView, queue: QueueView) -> GangAlternative:
    """Return the first way to hold a gang that fits now; else the first that could ever fit."""
    ways = list_ways(workload, queue)
    possible = (way for way in ways if not why_never(suit(way, queue)))
    return find_room(workload, queue) or next(possible, ways[0])


def find_refusal(workload: WorkloadView, fits: Mapping[str, Fit]) -> str:
    """Return why no cluster can ever run a Workload, with numbers; empty if one might.

    If at least one cluster is unknown or unavailable, the Workload waits.
    """
    if not fits or any(fit.outlook is not Outlook.NEVER for fit in fits.values()):
        return ""
    limits = {name: fit.limit for name, fit in sorted(fits.items())}
    resources = {limit.resource if limit else None for limit in limits.values()}
    if len(resources) == 1 and (resource := resources.pop()) is not None:
        least = min(limit.asked for limit in limits.values() if limit is not None)
        asked = format_amount(resource, min(least, workload.total(resource)))
        mosts = [
            f"{name}{' has' if index == 0 else ''} at most {format_amount(resource, limit.most)}"
            for index, (name, limit) in enumerate(limits.items())
            if limit is not None
        ]
        return f"no worker can hold {asked} x {resource}: {', '.join(mosts)}"
    reasons = [f"{name} {fit.reason}" for name, fit in sorted(fits.items())]
    return f"no worker can run this workload: {'; '.join(reasons)}"


def _place(suited: Suitability) -> GangPlacement | None:
    quotas = suited.queue.quotas
    taken: dict[FlavorResource, int] = {}
    grades: list[Grade] = []
    preference = 0
    for need in suited.needs:
        for candidate in need.candidates:
            amounts = need.amounts(candidate.flavor)
            short = [
                pair
                for pair, amount in amounts.items()
                if taken.get(pair, 0) + amount > quotas.get(pair, NO_QUOTA).free
            ]
            if not short:
                for pair, amount in amounts.items():
                    taken[pair] = taken.get(pair, 0) + amount
                grades.append(candidate.grade)
                preference += candidate.preference
                break
        else:
            return None
    return GangPlacement(
        taken=taken, grade=min(grades, default=Grade.SILENT), preference=preference
    )


def _compare_room(suited: Suitability) -> Fit:
    queue, scarce = suited.queue, suited.scarce
    asked = suited.totals.get(scarce, 0)
    assignment = _place(suited)
    if assignment is not None:
        used = {flavor for flavor, resource in assignment.taken if resource == scarce}
        left = sum(queue.quotas.get((name, scarce), NO_QUOTA).free for name in used) - asked
        return Fit(
            outlook=Outlook.FITS,
            reason=_describe_fit(scarce, asked, _free(suited, scarce)),
            grade=assignment.grade,
            preference=assignment.preference,
            taken=assignment.taken,
            spare=max(0, left),
        )
    flavors = suited.flavors_for(scarce)
    grade, preference = suited.best()
    most = sum(most_of(queue, name, scarce) for name in flavors)
    busy = sum(
        quota.used + quota.in_flight
        for name in flavors
        if (quota := queue.quotas.get((name, scarce))) is not None
    )
    demand = busy + queue.backlog.get(scarce, 0) + asked
    return Fit(
        outlook=Outlook.WAITS,
        reason=_describe_wait(suited),
        grade=grade,
        preference=preference,
        load_permille=demand * 1000 // max(1, most),
    )


def _describe_fit(scarce: str, asked: int, free: int) -> str:
    if not scarce:
        return "fits"
    wanted, left = (format_amount(scarce, amount) for amount in (asked, free))
    return f"fits: {wanted} of {left} free {scarce}"


def _describe_wait(suited: Suitability) -> str:
    """Describe the first resource that is short; if each one alone would fit, the scarce one."""
    asked, free = suited.totals.get(suited.scarce, 0), _free(suited, suited.scarce)
    resource = suited.scarce
    for name, total in suited.totals.items():
        if suited.queue.group_of(name) is not None and (left := _free(suited, name)) < total:
            resource, asked, free = name, total, left
            break
    wanted, have = (format_amount(resource, amount) for amount in (asked, free))
    return f"waits: {wanted} {resource} asked, {have} free"


def _free(suited: Suitability, resource: str) -> int:
    quotas = suited.queue.quotas
    return sum(quotas.get((name, resource), NO_QUOTA).free for name in suited.flavors_for(resource))


def _uncovered(suited: Suitability) -> str:
    return ", ".join(name for name in suited.totals if suited.queue.group_of(name) is None)
