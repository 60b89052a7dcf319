"""A Workload's topology request, in a sentence for each pod set. Pure."""

from __future__ import annotations

from multiqueue.api.v1beta2 import PodSet, Workload
from multiqueue.api.v1beta2.workload import PodSetTopologyRequest


def explain_topology(workload: Workload) -> str:
    """Return where the pods may go; empty if there is no topology request."""
    return "; ".join(
        f"{pod_set.count} pod(s) of {pod_set.name} {where}"
        for pod_set in workload.spec.pod_sets
        if (where := _where(pod_set))
    )


def _where(pod_set: PodSet) -> str:
    request = pod_set.topology_request
    if request is None or not request.asks_for_place:
        return ""
    parts = [_domain(request)]
    if request.pod_set_slice_required_topology is not None:
        size, level = request.pod_set_slice_size, request.pod_set_slice_required_topology
        parts.append(f"every {size} of them in one domain of level {level}")
    if request.pod_set_group_name is not None:
        parts.append(f"together with the other pod sets of group {request.pod_set_group_name}")
    return ", ".join(filter(None, parts))


def _domain(request: PodSetTopologyRequest) -> str:
    if request.required is not None:
        return f"in one domain of level {request.required}"
    if request.preferred is not None:
        return f"in one domain of level {request.preferred} if possible"
    return "on any nodes of the topology" if request.unconstrained else ""
