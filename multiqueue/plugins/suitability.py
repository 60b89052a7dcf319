"""Which flavors of a queue suit which pods of a gang; computed once per judgement."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from multiqueue.plugins.hardware import (
    Grade,
    grade_against,
    list_declared_labels,
    preference_of,
)
from multiqueue.plugins.view import PodSetView, QueueView, ResourceGroupView, WorkloadView

FlavorResource = tuple[str, str]
"""Names of a flavor and a resource."""


@dataclass(frozen=True, slots=True)
class SuitableFlavor:
    """A flavor that suits a pod set.

    Attributes:
        grade: How well it suits; never a mismatch.
        preference: Sum of the weights of the preferred affinity terms that it meets.
        flavor: Name of the flavor.
    """

    grade: Grade
    preference: int
    flavor: str


@dataclass(frozen=True, slots=True)
class Need:
    """What one pod set needs from one resource group.

    Attributes:
        pod_set: The pod set.
        group: The resource group.
        candidates: Suitable flavors, the best first, then in the order of the queue.
    """

    pod_set: PodSetView
    group: ResourceGroupView
    candidates: Sequence[SuitableFlavor]

    def amounts(self, flavor: str) -> dict[FlavorResource, int]:
        """Return the amounts that all pods together would take from a flavor."""
        return {
            (flavor, resource): self.pod_set.total(resource)
            for resource in self.group.resources
            if self.pod_set.requests.get(resource, 0) > 0
        }


class Suitability:
    """Matches a gang with the flavors of a queue.

    Args:
        workload: The gang.
        queue: The queue.
        only: Flavors that pods with alternatives may take from their resource group; empty means
            any.

    ``totals`` are the requests of all pod sets, by resource. ``scarce`` is the scarce resource.
    ``needs`` has one entry for each pod set and each resource group from which it requests.
    """

    __slots__ = ("needs", "queue", "scarce", "totals", "workload")

    def __init__(
        self, workload: WorkloadView, queue: QueueView, *, only: Sequence[str] = ()
    ) -> None:
        self.workload = workload
        self.queue = queue
        self.totals = workload.totals()
        self.scarce = _find_scarce(self.totals)
        self.needs = [
            Need(pod_set, group, _find_candidates(pod_set, queue, group, only))
            for pod_set in workload.pod_sets
            for group in queue.groups
            if any(pod_set.requests.get(resource, 0) > 0 for resource in group.resources)
        ]

    def flavors_for(self, resource: str) -> list[str]:
        """Return the flavors from which some pods could take a resource, in the queue's order."""
        group = self.queue.group_of(resource)
        if group is None:
            return []
        suited = {
            candidate.flavor
            for need in self.needs
            if need.group is group and need.pod_set.requests.get(resource, 0) > 0
            for candidate in need.candidates
        }
        return [name for name in group.flavors if name in suited]

    def best(self) -> tuple[Grade, int]:
        """Return the worst grade among the best flavors, and the sum of their preferences."""
        best = [need.candidates[0] for need in self.needs if need.candidates]
        grade = min((candidate.grade for candidate in best), default=Grade.SILENT)
        return grade, sum(candidate.preference for candidate in best)


def scarce_resource(workload: WorkloadView) -> str:
    """Return the scarce resource: the most requested device, or else the first name."""
    return _find_scarce(workload.totals())


def _find_scarce(totals: dict[str, int]) -> str:
    devices = {name: total for name, total in totals.items() if "/" in name}
    if devices:
        return max(sorted(devices), key=devices.__getitem__)
    return next(iter(totals), "")


def _find_candidates(
    pod_set: PodSetView, queue: QueueView, group: ResourceGroupView, only: Sequence[str]
) -> list[SuitableFlavor]:
    candidates = []
    declared = list_declared_labels(queue, group)
    is_bound = bool(pod_set.alternatives) and any(name in group.flavors for name in only)
    for name in only if is_bound else group.flavors:
        flavor = queue.flavors.get(name)
        if flavor is None:
            continue
        grade = grade_against(pod_set, group, declared, flavor)
        if grade is not Grade.MISMATCH:
            candidates.append(SuitableFlavor(grade, preference_of(pod_set, flavor), name))
    return sorted(candidates, key=lambda candidate: (-candidate.grade, -candidate.preference))
