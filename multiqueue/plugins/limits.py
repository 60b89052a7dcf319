"""Why a queue can never hold a gang: a proof from upper bounds that ignores current usage."""

from __future__ import annotations

from dataclasses import dataclass

from multiqueue.model.resources import format_amount
from multiqueue.plugins.alternatives import list_ways, suit
from multiqueue.plugins.hardware import describe_constraint
from multiqueue.plugins.suitability import Suitability
from multiqueue.plugins.view import PodSetView, QueueView, WorkloadView

NO_FLAVOR = "has no flavor for"
"""How the reason begins why a cluster without suitable hardware never holds a Workload."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """A resource of which a queue can never have enough.

    Attributes:
        resource: Name of the resource.
        asked: The amount that was asked for.
        most: The most that the queue can have.
    """

    resource: str
    asked: int
    most: int

    def __str__(self) -> str:
        most, asked = (format_amount(self.resource, n) for n in (self.most, self.asked))
        return f"has at most {most} {self.resource}, {asked} asked"


def find_impossibility(workload: WorkloadView, queue: QueueView) -> Limit | str:
    """Return why a queue can never hold a gang in any way; empty if it could."""
    found = [why_never(suit(way, queue)) for way in list_ways(workload, queue)]
    if not all(found):
        return ""
    limits = (reason for reason in found if isinstance(reason, Limit))
    return min(limits, key=lambda limit: limit.asked, default=found[0])


def why_never(suited: Suitability) -> Limit | str:
    """Return why a queue can never hold a gang in this one way; empty if it could."""
    queue, totals = suited.queue, suited.totals
    for resource, asked in totals.items():
        if _is_absent(resource, queue):
            return Limit(resource=resource, asked=asked, most=0)
    for need in suited.needs:
        pod_set = need.pod_set
        if not need.candidates:
            return f"{NO_FLAVOR} {describe_constraint(pod_set) or 'these pods'}"
        for resource in need.group.resources:
            most = max(
                [most_of(queue, candidate.flavor, resource) for candidate in need.candidates]
            )
            if _least_total(pod_set, resource) > most:
                return Limit(resource=resource, asked=totals.get(resource, 0), most=most)
    if len(suited.workload.pod_sets) < 2:  # one pod set: its sum was compared above
        return ""
    for resource, asked in totals.items():
        flavors = suited.flavors_for(resource)
        most = sum(most_of(queue, flavor, resource) for flavor in flavors)
        least = sum(_least_total(pod_set, resource) for pod_set in suited.workload.pod_sets)
        if flavors and least > most:
            return Limit(resource=resource, asked=asked, most=most)
    return ""


def most_of(queue: QueueView, flavor: str, resource: str) -> int:
    """Return the largest amount of a flavor's resource that a queue could ever hold."""
    quota = queue.quotas.get((flavor, resource))
    return quota.most if quota is not None else 0


def _least_total(pod_set: PodSetView, resource: str) -> int:
    count = pod_set.count if pod_set.min_count is None else min(pod_set.min_count, pod_set.count)
    return pod_set.requests.get(resource, 0) * count


def _is_absent(resource: str, queue: QueueView) -> bool:
    """Whether a queue lacks a device. A worker may be configured not to count cpu or memory."""
    return "/" in resource and queue.group_of(resource) is None
