"""Whether a queue holds a gang now, later or never: arithmetic that most dispatchers want.

The core uses `judge` too: a gang that no worker can ever hold is refused whichever dispatcher is
chosen. The figures are those of the worker's last status, so `Outlook.FITS` is an expectation; the
worker decides. `Outlook.NEVER` is a proof from upper bounds: everything that the queue could borrow
counts, pod sets are looked at one by one and in sum.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from multiqueue.model.resources import format_amount
from multiqueue.plugins.hardware import Grade, describe_wish, grade_flavor, preference_of
from multiqueue.plugins.view import (
    ClusterView,
    PodSetView,
    QueueView,
    QuotaView,
    ResourceGroupView,
    WorkloadView,
)

FlavorResource = tuple[str, str]
"""Flavor and resource."""

NO_QUOTA = QuotaView()


class Outlook(StrEnum):
    """When a cluster could run a Workload."""

    FITS = "Fits"
    """There is room now."""
    UNKNOWN = "Unknown"
    """Its queues cannot be read."""
    WAITS = "Waits"
    """It can hold the gang, but not now."""
    UNAVAILABLE = "Unavailable"
    """Something must be mended first: connection, queue, namespace."""
    NEVER = "Never"
    """The gang is larger than everything it has, or asks for other hardware."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """Where the pod sets of a gang would go.

    Attributes:
        taken: By flavor and resource.
        grade: The worst grade among the pod sets' flavors, mismatches excluded.
        preference: Weights of the preferred affinity terms met.
    """

    taken: Mapping[FlavorResource, int] = field(default_factory=dict)
    grade: Grade = Grade.SILENT
    preference: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """What a queue has of a resource at most, and what was asked."""

    resource: str
    asked: int
    most: int

    def __str__(self) -> str:
        most, asked = (format_amount(self.resource, n) for n in (self.most, self.asked))
        return f"has at most {most} {self.resource}, {asked} asked"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """What a cluster offers a Workload.

    Attributes:
        outlook: When.
        reason: In words, with numbers.
        grade: How well its hardware suits.
        preference: How much of the preferred affinity it meets.
        spare: With `Outlook.FITS`: what stays free of the scarce resource in the flavors used. The
            smaller, the less is cut to pieces.
        load_permille: With `Outlook.WAITS`: demand for the scarce resource, this gang included, in
            thousandths of what the queue could hold.
        limit: With `Outlook.NEVER`: which resource is too small, where it is that.
    """

    outlook: Outlook
    reason: str
    grade: Grade = Grade.SILENT
    preference: int = 0
    spare: int = 0
    load_permille: int = 0
    limit: Limit | None = None


def judge(workload: WorkloadView, cluster: ClusterView) -> Fit:
    """Say when a cluster could run a Workload, and why not now."""
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
    if impossible := find_impossibility(workload, queue):
        limit = impossible if isinstance(impossible, Limit) else None
        return Fit(outlook=Outlook.NEVER, reason=str(impossible), limit=limit)
    if not queue.active:
        words = queue.inactive_reason or "it says no reason"
        return Fit(
            outlook=Outlook.UNAVAILABLE, reason=f'ClusterQueue "{queue.name}" is inactive: {words}'
        )
    if uncovered := _uncovered(workload, queue):
        return Fit(
            outlook=Outlook.UNKNOWN, reason=f'ClusterQueue "{queue.name}" covers no {uncovered}'
        )
    return _compare_room(workload, queue)


def place(workload: WorkloadView, queue: QueueView) -> Assignment | None:
    """Find flavors with room now for all pod sets, the best suited first; None where there is none.

    Cost: pod sets times flavors.
    """
    taken: dict[FlavorResource, int] = {}
    grades: list[Grade] = []
    preference = 0
    for pod_set in workload.pod_sets:
        for group in _groups_of(pod_set, queue):
            for grade, weight, flavor in _candidates(pod_set, queue, group):
                need = _need(pod_set, group, flavor)
                if all(
                    taken.get(pair, 0) + amount <= queue.quotas.get(pair, NO_QUOTA).free
                    for pair, amount in need.items()
                ):
                    for pair, amount in need.items():
                        taken[pair] = taken.get(pair, 0) + amount
                    grades.append(grade)
                    preference += weight
                    break
            else:
                return None
    return Assignment(taken=taken, grade=min(grades, default=Grade.SILENT), preference=preference)


def find_refusal(workload: WorkloadView, fits: Mapping[str, Fit]) -> str:
    """Say why no cluster can ever run a Workload, with the numbers; empty where one might.

    One cluster that is unknown or unavailable is reason enough to wait.
    """
    if not fits or any(fit.outlook is not Outlook.NEVER for fit in fits.values()):
        return ""
    limits = {name: fit.limit for name, fit in sorted(fits.items())}
    resources = {limit.resource if limit else None for limit in limits.values()}
    if len(resources) == 1 and (resource := resources.pop()) is not None:
        asked = format_amount(resource, workload.total(resource))
        mosts = [
            f"{name}{' has' if index == 0 else ''} at most {format_amount(resource, limit.most)}"
            for index, (name, limit) in enumerate(limits.items())
            if limit is not None
        ]
        return f"no worker can hold {asked} x {resource}: {', '.join(mosts)}"
    reasons = [f"{name} {fit.reason}" for name, fit in sorted(fits.items())]
    return f"no worker can run this workload: {'; '.join(reasons)}"


def find_impossibility(workload: WorkloadView, queue: QueueView) -> Limit | str:
    """Say why a queue can never hold a gang; empty where it could."""
    for pod_set in workload.pod_sets:
        for resource in sorted(pod_set.requests):
            if pod_set.requests[resource] > 0 and _is_absent(resource, queue):
                return Limit(resource=resource, asked=workload.total(resource), most=0)
        for group in _groups_of(pod_set, queue):
            suited = _candidates(pod_set, queue, group)
            if not suited:
                return f"has no flavor for {describe_wish(pod_set) or 'these pods'}"
            for resource in group.resources:
                most = max(_most(queue, flavor, resource) for _, _, flavor in suited)
                if _least_total(pod_set, resource) > most:
                    return Limit(resource=resource, asked=workload.total(resource), most=most)
    for resource, asked in sorted(_least_totals(workload).items()):
        flavors = _flavors_for(workload, queue, resource)
        most = sum(_most(queue, flavor, resource) for flavor in flavors)
        if flavors and asked > most:
            return Limit(resource=resource, asked=workload.total(resource), most=most)
    return ""


def scarce_resource(workload: WorkloadView) -> str:
    """Return the resource that matters: the device asked for most, or else the first by name."""
    totals = workload.totals()
    devices = {name: total for name, total in totals.items() if "/" in name}
    if devices:
        return max(sorted(devices), key=devices.__getitem__)
    return next(iter(totals), "")


def _compare_room(workload: WorkloadView, queue: QueueView) -> Fit:
    scarce = scarce_resource(workload)
    flavors = _flavors_for(workload, queue, scarce)
    free = sum(queue.quotas.get((name, scarce), NO_QUOTA).free for name in flavors)
    asked = workload.total(scarce)
    assignment = place(workload, queue)
    if assignment is not None:
        used = {flavor for flavor, resource in assignment.taken if resource == scarce}
        left = sum(queue.quotas.get((name, scarce), NO_QUOTA).free for name in used) - asked
        return Fit(
            outlook=Outlook.FITS,
            reason=_describe_fit(scarce, asked, free),
            grade=assignment.grade,
            preference=assignment.preference,
            spare=max(0, left),
        )
    grade, preference = _best_suited(workload, queue)
    most = sum(_most(queue, name, scarce) for name in flavors)
    busy = sum(
        quota.used + quota.in_flight
        for name in flavors
        if (quota := queue.quotas.get((name, scarce))) is not None
    )
    demand = busy + queue.backlog.get(scarce, 0) + asked
    return Fit(
        outlook=Outlook.WAITS,
        reason=_describe_wait(workload, queue, scarce),
        grade=grade,
        preference=preference,
        load_permille=demand * 1000 // max(1, most),
    )


def _describe_fit(scarce: str, asked: int, free: int) -> str:
    if not scarce:
        return "fits"
    wanted, left = (format_amount(scarce, amount) for amount in (asked, free))
    return f"fits: {wanted} of {left} free {scarce}"


def _describe_wait(workload: WorkloadView, queue: QueueView, scarce: str) -> str:
    """Name the first resource that is short; where each alone would do, the scarce one."""
    short = [
        (resource, asked, free)
        for resource, asked in workload.totals().items()
        if (free := _free(workload, queue, resource)) < asked
        and queue.group_of(resource) is not None
    ]
    resource, asked, free = short[0] if short else (scarce, workload.total(scarce), 0)
    if not short:
        free = _free(workload, queue, scarce)
    wanted, left = (format_amount(resource, amount) for amount in (asked, free))
    return f"waits: {wanted} {resource} asked, {left} free"


def _free(workload: WorkloadView, queue: QueueView, resource: str) -> int:
    flavors = _flavors_for(workload, queue, resource)
    return sum(queue.quotas.get((name, resource), NO_QUOTA).free for name in flavors)


def _groups_of(pod_set: PodSetView, queue: QueueView) -> list[ResourceGroupView]:
    return [
        group
        for group in queue.groups
        if any(pod_set.requests.get(resource, 0) > 0 for resource in group.resources)
    ]


def _candidates(
    pod_set: PodSetView, queue: QueueView, group: ResourceGroupView
) -> list[tuple[Grade, int, str]]:
    """Return (grade, preference, flavor) of the suitable flavors, the best first."""
    graded = [
        (grade_flavor(pod_set, queue, group, flavor), preference_of(pod_set, flavor), name)
        for name in group.flavors
        if (flavor := queue.flavors.get(name)) is not None
    ]
    suited = [entry for entry in graded if entry[0] is not Grade.MISMATCH]
    return sorted(suited, key=lambda entry: (-entry[0], -entry[1]))


def _best_suited(workload: WorkloadView, queue: QueueView) -> tuple[Grade, int]:
    best = [
        _candidates(pod_set, queue, group)[0]
        for pod_set in workload.pod_sets
        for group in _groups_of(pod_set, queue)
    ]
    grade = min((entry[0] for entry in best), default=Grade.SILENT)
    return grade, sum(entry[1] for entry in best)


def _flavors_for(workload: WorkloadView, queue: QueueView, resource: str) -> list[str]:
    """Return the flavors that some pod set could take this resource from, in the queue's order."""
    group = queue.group_of(resource)
    if group is None:
        return []
    suited = {
        flavor
        for pod_set in workload.pod_sets
        if pod_set.requests.get(resource, 0) > 0
        for _, _, flavor in _candidates(pod_set, queue, group)
    }
    return [name for name in group.flavors if name in suited]


def _need(pod_set: PodSetView, group: ResourceGroupView, flavor: str) -> dict[FlavorResource, int]:
    return {
        (flavor, resource): pod_set.total(resource)
        for resource in group.resources
        if pod_set.requests.get(resource, 0) > 0
    }


def _most(queue: QueueView, flavor: str, resource: str) -> int:
    return queue.quotas.get((flavor, resource), NO_QUOTA).most


def _least_total(pod_set: PodSetView, resource: str) -> int:
    count = pod_set.count if pod_set.min_count is None else min(pod_set.min_count, pod_set.count)
    return pod_set.requests.get(resource, 0) * count


def _least_totals(workload: WorkloadView) -> dict[str, int]:
    return {
        resource: sum(_least_total(pod_set, resource) for pod_set in workload.pod_sets)
        for resource in workload.totals()
    }


def _is_absent(resource: str, queue: QueueView) -> bool:
    """Whether a queue has none of a device. A worker may be told not to count cpu or memory."""
    return "/" in resource and queue.group_of(resource) is None


def _uncovered(workload: WorkloadView, queue: QueueView) -> str:
    return ", ".join(resource for resource in workload.totals() if queue.group_of(resource) is None)
