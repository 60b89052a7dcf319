"""What a slice of an elastic job already holds through the slice it replaces (E-167)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from multiqueue.engine.cache.quota_node import FlavorResource
from multiqueue.engine.pending_reasons import OtherFlavorThanBefore, PlacedSlice, Refusal
from multiqueue.engine.queues.entry import Entry
from multiqueue.engine.value import Value
from multiqueue.lib.amount import Amount
from multiqueue.model.resource_flavor import ResourceFlavor
from multiqueue.model.workload import PodSet, PodSetAssignment


class ReplacedSlice(Value, frozen=True, kw_only=True, gc=False):
    """A holder of quota that leaves in the moment in which the other slice gets its own.

    So that only the difference is asked for, of the same flavors: its pods run on.

    Shape: ``usage`` by flavor-resource, ``pod_sets`` by name.
    """

    key: str
    usage: Mapping[FlavorResource, Amount]
    pod_sets: Mapping[str, PodSetAssignment]

    def difference(self, pod_set: str, requests: Mapping[str, Amount]) -> Mapping[str, Amount]:
        """Return the additional need of a pod set; negative if it needs less than it holds."""
        held = self.pod_sets.get(pod_set)
        if held is None:
            return requests
        return {name: amount - held.usage.get(name, 0) for name, amount in requests.items()}

    def flavor_of(self, pod_set: str, resource: str) -> str:
        """Return the flavor of a resource of a pod set; "" if it has none."""
        held = self.pod_sets.get(pod_set)
        return held.flavors.get(resource, "") if held is not None else ""


def refuse_beside(
    replaced: ReplacedSlice,
    flavor: ResourceFlavor,
    pod_sets: Sequence[PodSet],
    resources: Iterable[str],
) -> Refusal | None:
    """Refuse a flavor that the pods that run on do not have, or in which they were placed.

    Deviates: upstream admits elastic jobs beyond their first size in topologies, and their pods
    are never told where to go (E-152).
    """
    for resource in resources:
        for pod_set in pod_sets:
            original = replaced.flavor_of(pod_set.name, resource)
            if original not in {"", flavor.name}:
                return OtherFlavorThanBefore(flavor=flavor.name, original=original)
    return PlacedSlice(flavor=flavor.name) if flavor.topology_name else None


def replaced_slice(entry: Entry) -> ReplacedSlice:
    """Return what a holder holds, for the slice that replaces it."""
    reservation = entry.workload.reservation
    assert reservation is not None, "only what is seen to hold quota can be replaced"
    return ReplacedSlice(
        key=entry.key,
        usage=entry.usage,
        pod_sets={pod_set.name: pod_set for pod_set in reservation.admission.pod_sets},
    )
