"""What an admission puts on nodes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from multiqueue.engine.tas.placement import requests_of
from multiqueue.engine.tas.usage import PlacedPods
from multiqueue.model.resource_flavor import ResourceFlavor
from multiqueue.model.workload import Admission, Workload


def placed_pods(
    workload: Workload, admission: Admission, flavors: Mapping[str, ResourceFlavor]
) -> tuple[PlacedPods, ...]:
    """Return the pods of an admission that a topology placed.

    Args:
        workload: its pod sets say what a pod takes of a node (E-7).
        admission: where the pods are.
        flavors: all that are known; one that is not yet counts as if it had no topology.
    """
    found: list[PlacedPods] = []
    for assignment in admission.pod_sets:
        if assignment.topology is None:
            continue
        names = topology_flavors(assignment.flavors.values(), flavors)
        for pod_set in workload.pod_sets:
            if pod_set.name == assignment.name:
                flavor = names[0] if names else min(assignment.flavors.values(), default="")
                requests = requests_of(pod_set.node_requests)
                found.append(PlacedPods(flavor, requests, assignment.topology))
    return tuple(found)


def topology_flavors(names: Iterable[str], flavors: Mapping[str, ResourceFlavor]) -> list[str]:
    """Return those of the flavors that have a topology, sorted."""
    return sorted(
        {
            name
            for name in names
            if (flavor := flavors.get(name)) is not None and flavor.topology_name is not None
        }
    )
