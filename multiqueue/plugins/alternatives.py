"""Gangs that need fewer pods on some hardware ("8 x A100 or 4 x H100"), beside a queue.

Each flavor of the resource group that tells the hardware is one way to hold such a gang.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from multiqueue.api.alternatives import name_hardware
from multiqueue.plugins.view import PodSetView, QueueView, ResourceGroupView, WorkloadView


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """A gang as it would be on some hardware.

    Attributes:
        workload: It, with the pods that it needs there.
        flavor: The one that pods with alternatives take; empty for whichever they like.
        pods: Where these are fewer than the gang asks for, by pod set.
    """

    workload: WorkloadView
    flavor: str = ""
    pods: Mapping[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        counts = ", ".join(map(str, self.pods.values()))
        return f"{counts} pods on {self.flavor}" if self.pods else ""


def list_ways(workload: WorkloadView, queue: QueueView) -> Sequence[Way]:
    """Return the ways to hold a gang, in the order of the queue; never none."""
    if not any(pod_set.alternatives for pod_set in workload.pod_sets):
        return (Way(workload=workload),)
    group = find_group(workload, queue)
    if group is None:
        return (Way(workload=workload),)
    return [_way(workload, queue, group, name) for name in group.flavors]


def find_group(workload: WorkloadView, queue: QueueView) -> ResourceGroupView | None:
    """Return the resource group whose flavors decide how many pods there are; None: none does."""
    return next(
        (
            group
            for group in queue.groups
            for pod_set in workload.pod_sets
            if any(pod_set.requests.get(resource) for resource in group.resources)
            and any(pods_on(pod_set, queue, group, n) < pod_set.count for n in group.flavors)
        ),
        None,
    )


def pods_on(pod_set: PodSetView, queue: QueueView, group: ResourceGroupView, name: str) -> int:
    """Return how many pods are needed where this flavor is asked for.

    By its node labels: another flavor with all of them may be taken as well, so the one that needs
    most counts.
    """
    labels = _labels(queue, name)
    alike = (other for other in group.flavors if labels.items() <= _labels(queue, other).items())
    return max(_needed(pod_set, queue, other) for other in alike)


def _needed(pod_set: PodSetView, queue: QueueView, name: str) -> int:
    if not pod_set.alternatives:
        return pod_set.count
    hardware = name_hardware(name, _labels(queue, name), pod_set.alternatives)
    return min(pod_set.count, pod_set.alternatives.get(hardware, pod_set.count))


def _labels(queue: QueueView, name: str) -> Mapping[str, str]:
    flavor = queue.flavors.get(name)
    return flavor.node_labels if flavor is not None else {}


def _way(workload: WorkloadView, queue: QueueView, group: ResourceGroupView, name: str) -> Way:
    counts = {ps.name: pods_on(ps, queue, group, name) for ps in workload.pod_sets}
    fewer = {ps.name: counts[ps.name] for ps in workload.pod_sets if counts[ps.name] < ps.count}
    pod_sets = tuple(
        replace(pod_set, count=fewer[pod_set.name], min_count=None)
        if pod_set.name in fewer
        else pod_set
        for pod_set in workload.pod_sets
    )
    return Way(workload=replace(workload, pod_sets=pod_sets), flavor=name, pods=fewer)
