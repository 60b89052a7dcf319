"""Whether pods may run on the nodes of a flavor: taints, labels, topology (E-47, E-62).

Only labels that the flavor itself has are compared; other node labels are unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from multiqueue.api.v1beta2.meta import LabelSelectorRequirement, Taint, Toleration
from multiqueue.api.v1beta2.workload import PodSetTopologyRequest
from multiqueue.engine.pending_reasons import (
    AffinityMismatch,
    InvalidPlacement,
    Refusal,
    TopologyLevelMissing,
    TopologyMismatch,
    UntoleratedTaint,
)
from multiqueue.engine.tas.request import asked_levels
from multiqueue.model.placement import NodeSelectorTerm, Placement
from multiqueue.model.resource_flavor import ResourceFlavor, Topology
from multiqueue.model.workload import PodSet

_BLOCKING_EFFECTS = frozenset({"NoSchedule", "NoExecute"})


class PlacementError(ValueError):
    """A node selector term that cannot be understood."""


def refuse_placement(flavor: ResourceFlavor, placement: Placement) -> Refusal | None:
    """Return why pods with that placement cannot use the flavor; None if they can."""
    taint = find_untolerated(flavor.node_taints, (*placement.tolerations, *flavor.tolerations))
    if taint is not None:
        return UntoleratedTaint(flavor=flavor.name, taint=taint)
    try:
        matches = _matches_labels(placement, flavor.node_labels)
    except PlacementError as error:
        return InvalidPlacement(flavor=flavor.name, detail=str(error))
    return None if matches else AffinityMismatch(flavor=flavor.name)


def refuse_topology(
    flavor: ResourceFlavor, pod_set: PodSet, covered_resources: Sequence[str]
) -> Refusal | None:
    """Return why the topology request does not fit the flavor (E-62); None if it does.

    A group that has no resource requested by the pods is for quota only: no topology is checked.
    """
    wanted = wants_topology(pod_set)
    if wanted == (flavor.topology_name is not None):
        return None
    if wanted and not any(name in pod_set.requests for name in covered_resources):
        return None
    return TopologyMismatch(flavor=flavor.name, wanted=wanted)


def refuse_levels(
    flavor: ResourceFlavor, request: PodSetTopologyRequest, topologies: Mapping[str, Topology]
) -> Refusal | None:
    """Return a refusal if the flavor's topology lacks a requested level (E-62)."""
    topology = topologies.get(flavor.topology_name or "")
    if topology is not None and asked_levels(request) <= set(topology.levels):
        return None
    return TopologyLevelMissing(flavor=flavor.name)


def wants_topology(pod_set: PodSet) -> bool:
    """Whether the pod set asks for a topology explicitly."""
    return pod_set.topology_request is not None and pod_set.topology_request.asks_for_place


def find_untolerated(taints: Iterable[Taint], tolerations: tuple[Toleration, ...]) -> Taint | None:
    """Return the first taint that keeps the pods away; PreferNoSchedule never does."""
    for taint in taints:
        if taint.effect in _BLOCKING_EFFECTS and not any(_tolerates(t, taint) for t in tolerations):
            return taint
    return None


def _tolerates(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    match toleration.operator:
        case "" | "Equal":
            return bool(toleration.key) and toleration.value == taint.value
        case "Exists":
            return True
        case "Gt" | "Lt" as operator:
            return bool(toleration.key) and _compare(operator, taint.value, toleration.value)
    return False


def _matches_labels(placement: Placement, labels: Mapping[str, str]) -> bool:
    if any(key in labels and labels[key] != value for key, value in placement.node_selector):
        return False
    terms: list[NodeSelectorTerm] = []
    for term in placement.affinity_terms or ():
        known = tuple(requirement for requirement in term if requirement.key in labels)
        if not known:
            return True  # this term does not concern the flavor, and terms are alternatives
        terms.append(known)
    matches = [all(meets(requirement, labels) for requirement in term) for term in terms]
    return any(matches) or not terms


def meets(requirement: LabelSelectorRequirement, labels: Mapping[str, str]) -> bool:
    """Whether labels meet a requirement of a node selector term.

    Raises:
        PlacementError: the requirement cannot be understood.
    """
    value, values = labels.get(requirement.key), requirement.values
    match requirement.operator:
        case "In" | "NotIn" as operator:
            if not values:
                raise PlacementError(f"operator {operator} of key {requirement.key} needs values")
            return (value in values) == (operator == "In")
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt" as operator:
            if len(values) != 1 or _integer(values[0]) is None:
                raise PlacementError(
                    f"operator {operator} of key {requirement.key} needs one integer"
                )
            return value is not None and _compare(operator, value, values[0])
    raise PlacementError(f'"{requirement.operator}" is not a valid node selector operator')


def _compare(operator: str, left: str, right: str) -> bool:
    low, high = _integer(left), _integer(right)
    if low is None or high is None:
        return False
    return low > high if operator == "Gt" else low < high


def _integer(text: str) -> int | None:
    try:
        return int(text)
    except ValueError:
        return None
