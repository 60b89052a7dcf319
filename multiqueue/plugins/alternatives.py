"""Find how a queue can hold a gang that needs fewer pods on some hardware.

Example: a gang that declares "8 x A100 or 4 x H100". One resource group of the queue distinguishes
the hardware. Its flavors, grouped by the number of pods needed, are the ways to hold the gang.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from multiqueue.api.alternatives import name_hardware
from multiqueue.plugins.suitability import Suitability
from multiqueue.plugins.view import PodSetView, QueueView, ResourceGroupView, WorkloadView

Counts = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GangAlternative:
    """A gang as it would run on some hardware.

    Attributes:
        workload: The Workload, with the pod counts that it needs on this hardware.
        flavors: Flavors that pods with alternatives may take from their resource group; empty means
            any.
        labels: Node labels that all these flavors share; a selector on them requests the flavors.
        pods: Pod counts by pod set, for pod sets that need fewer pods than the gang asks for.
    """

    workload: WorkloadView
    flavors: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    pods: Mapping[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        counts = ", ".join(map(str, self.pods.values())) or "all"
        return f"{counts} pods on {' or '.join(self.flavors)}"


def list_ways(workload: WorkloadView, queue: QueueView) -> Sequence[GangAlternative]:
    """Return the ways to hold a gang, in the order of the queue; at least one."""
    group = _find_group(workload, queue)
    if group is None:
        return (GangAlternative(workload=workload),)
    flavors: dict[Counts, list[str]] = {}
    for name in group.flavors:
        counts = tuple(_needed(pod_set, queue, name) for pod_set in workload.pod_sets)
        flavors.setdefault(counts, []).append(name)
    ways: list[GangAlternative] = []
    for counts, names in flavors.items():
        way = _way(workload, queue, group, tuple(names))
        if tuple(pod_set.count for pod_set in way.workload.pod_sets) == counts:
            ways.append(way)
        else:  # no label selects exactly these flavors: use one way for each
            ways += (_way(workload, queue, group, (name,)) for name in names)
    return ways


def suit(way: GangAlternative, queue: QueueView) -> Suitability:
    """Return which flavors of a queue suit a gang that is held in this way."""
    return Suitability(way.workload, queue, only=way.flavors)


def pods_on(pod_set: PodSetView, queue: QueueView, flavors: Iterable[str]) -> int:
    """Return how many pods are needed on these flavors (one of each resource group)."""
    return min((_needed(pod_set, queue, name) for name in flavors), default=pod_set.count)


def _find_group(workload: WorkloadView, queue: QueueView) -> ResourceGroupView | None:
    """Return the resource group whose flavors decide the number of pods; None if none does."""
    return next(
        (
            group
            for pod_set in workload.pod_sets
            if pod_set.alternatives
            for group in queue.groups
            if any(pod_set.requests.get(resource) for resource in group.resources)
            and any(_needed(pod_set, queue, name) < pod_set.count for name in group.flavors)
        ),
        None,
    )


def _needed(pod_set: PodSetView, queue: QueueView, name: str) -> int:
    if not pod_set.alternatives:
        return pod_set.count
    hardware = name_hardware(name, _labels(queue, name), pod_set.alternatives)
    return min(pod_set.count, pod_set.alternatives.get(hardware, pod_set.count))


def _labels(queue: QueueView, name: str) -> Mapping[str, str]:
    flavor = queue.flavors.get(name)
    return flavor.node_labels if flavor is not None else {}


def _way(
    workload: WorkloadView, queue: QueueView, group: ResourceGroupView, names: tuple[str, ...]
) -> GangAlternative:
    """Return the way to hold a gang on flavors that need the same number of pods.

    A request by node labels may also get other flavors that have these labels. So the pod count is
    the largest that any such flavor needs.
    """
    first, *others = (_labels(queue, name).items() for name in names)
    labels = dict(item for item in first if all(item in other for other in others))
    alike = [n for n in group.flavors if labels.items() <= _labels(queue, n).items()]
    pod_sets = []
    fewer: dict[str, int] = {}
    for pod_set in workload.pod_sets:
        count = max(_needed(pod_set, queue, name) for name in alike)
        if count < pod_set.count:
            fewer[pod_set.name] = count
        pod_sets.append(replace(pod_set, count=count))
    resized = replace(workload, pod_sets=tuple(pod_sets))
    return GangAlternative(workload=resized, flavors=names, labels=labels, pods=fewer)
