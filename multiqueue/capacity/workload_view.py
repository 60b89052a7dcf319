"""A Workload as a dispatcher sees it. Pure."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Any

from multiqueue.api import v1beta2 as api
from multiqueue.api.alternatives import OTHERWISE, name_hardware
from multiqueue.api.names import EQUIVALENT_FLAVORS, split_key
from multiqueue.api.ran_on import find_ran_on
from multiqueue.api.v1beta2.meta import LabelSelectorRequirement
from multiqueue.lib.quantity import QuantityError
from multiqueue.model.build_workload import BuildOptions, build_pod_sets, effective_priority
from multiqueue.model.placement import NodeSelectorTerm
from multiqueue.model.resources import PODS, parse_request
from multiqueue.model.workload import PodSet, Workload
from multiqueue.plugins import PodSetView, ReservedFlavor, WeightedTerm, WorkloadView

FindFlavor = Callable[[str], api.ResourceFlavor | None]
FlavorResource = tuple[str, str]


def build_workload_view(
    workload: api.Workload, *, kind: str, find_flavor: FindFlavor, options: BuildOptions
) -> WorkloadView:
    """Return the view of a Workload for dispatchers.

    Args:
        workload: The Workload on the manager, with its reservation.
        kind: Kind of its job, as ``Kind.version.group``.
        find_flavor: Returns the manager's flavor of a name.
        options: How the resource requests are read.
    """
    pod_sets, _ = build_pod_sets(workload, options)
    admission = workload.status.admission
    assigned = {a.name: a for a in admission.pod_set_assignments} if admission else {}
    return WorkloadView(
        key=workload.metadata.key,
        uid=workload.metadata.uid,
        queue=workload.spec.queue_name,
        kind=kind,
        priority=effective_priority(workload, options),
        created_at=workload.metadata.created_at,
        labels=workload.metadata.labels,
        annotations=workload.metadata.annotations,
        pod_sets=tuple(
            _view_of(pod_set, spec, assigned.get(spec.name), find_flavor)
            for pod_set, spec in zip(pod_sets, workload.spec.pod_sets, strict=True)
        ),
    )


def build_asked_view(
    workload: Workload, flavors: Mapping[str, Mapping[str, str]], find_flavor: FindFlavor
) -> WorkloadView:
    """Return the part of a Workload that decides which queues could ever hold it.

    Args:
        workload: The Workload as the engine sees it.
        flavors: The flavors that it would get, by pod set and resource.
        find_flavor: Returns the manager's flavor of a name.
    """
    return WorkloadView(
        key=workload.key,
        queue=split_key(workload.queue)[1],
        created_at=workload.created_at,
        pod_sets=tuple(
            PodSetView(
                name=pod_set.name,
                count=pod_set.count,
                min_count=pod_set.min_count,
                requests=pod_set.requests,
                placement=pod_set.placement,
                reserved=_reserved(
                    flavors.get(pod_set.name, {}), pod_set, pod_set.count, find_flavor
                ),
                alternatives=_alternatives(pod_set, pod_set.count),
            )
            for pod_set in workload.pod_sets
        ),
    )


def usage_of(workload: api.Workload) -> dict[FlavorResource, int]:
    """Return a Workload's usage by flavor and resource: reserved, or ran on instead."""
    usage: dict[FlavorResource, int] = {}
    admission = workload.status.admission
    ran_on = find_ran_on(workload)
    for assignment in admission.pod_set_assignments if admission else ():
        pods = assignment.count or 1
        runs = min(pods, ran_on.pods.get(assignment.name, pods))
        for resource, reserved in assignment.flavors.items():
            try:
                amount = parse_request(resource, assignment.resource_usage.get(resource, 0))
            except QuantityError:
                continue
            flavor = ran_on.flavors.get((assignment.name, resource), reserved)
            amount = amount // pods * runs if runs < pods else amount
            usage[flavor, resource] = usage.get((flavor, resource), 0) + amount
    return usage


def _view_of(
    pod_set: PodSet,
    spec: api.PodSet,
    assignment: api.PodSetAssignment | None,
    find_flavor: FindFlavor,
) -> PodSetView:
    count = _pods_of(pod_set, spec.count, assignment)
    flavors = assignment.flavors if assignment is not None else {}
    return PodSetView(
        name=pod_set.name,
        count=count,
        min_count=pod_set.min_count,
        requests={**_devices(pod_set, assignment), **pod_set.requests},
        placement=pod_set.placement,
        preferred=_preferred(spec.template),
        reserved=_reserved(flavors, pod_set, count, find_flavor),
        topology=pod_set.topology_request,
        alternatives=_alternatives(pod_set, count),
    )


def _devices(pod_set: PodSet, assignment: api.PodSetAssignment | None) -> dict[str, int]:
    """Return what a pod was charged for that its template does not name: devices (M-192)."""
    devices: dict[str, int] = {}
    if assignment is None or not assignment.count:
        return devices
    for resource in sorted(assignment.resource_usage.keys() - pod_set.requests.keys() - {PODS}):
        with contextlib.suppress(QuantityError):
            total = parse_request(resource, assignment.resource_usage[resource])
            devices[resource] = total // assignment.count
    return devices


def _pods_of(pod_set: PodSet, asked: int, assignment: api.PodSetAssignment | None) -> int:
    """Return the number of pods: as requested, or with alternatives as reserved."""
    if not pod_set.alternatives or assignment is None or assignment.count is None:
        return asked
    return assignment.count


def _alternatives(pod_set: PodSet, count: int) -> dict[str, int]:
    """Return the hardware on which fewer than ``count`` pods do."""
    return {name: pods for name, pods in pod_set.alternatives if name and pods < count}


def _reserved(
    flavors: Mapping[str, str], pod_set: PodSet, count: int, find_flavor: FindFlavor
) -> dict[str, ReservedFlavor]:
    """Return the manager's flavors by resource, without equivalents that need more pods."""
    found = {}
    for resource, name in flavors.items():
        flavor, *others = _list_accepted(name, find_flavor) or (None,)
        found[resource] = ReservedFlavor(
            name=name,
            node_labels=flavor.spec.node_labels if flavor is not None else {},
            equivalents=tuple(
                other.spec.node_labels
                for other in others
                if other is not None and _needed(pod_set, other) <= count
            ),
        )
    return found


def _list_accepted(name: str, find_flavor: FindFlavor) -> list[api.ResourceFlavor]:
    """Return a manager's flavor and its declared equivalents that exist."""
    flavor = find_flavor(name)
    if flavor is None:
        return []
    listed = flavor.metadata.annotations.get(EQUIVALENT_FLAVORS, "").split(",")
    others = (find_flavor(other) for other in dict.fromkeys(n.strip() for n in listed) if other)
    return [flavor, *(other for other in others if other is not None)]


def _needed(pod_set: PodSet, flavor: api.ResourceFlavor) -> int:
    pods = dict(pod_set.alternatives) or {OTHERWISE: 0}
    return pods[name_hardware(flavor.metadata.name, flavor.spec.node_labels, pods)]


def _preferred(template: Mapping[str, Any]) -> tuple[WeightedTerm, ...]:
    affinity = ((template.get("spec") or {}).get("affinity") or {}).get("nodeAffinity") or {}
    return tuple(
        WeightedTerm(weight=int(entry.get("weight") or 0), term=_term(entry.get("preference")))
        for entry in affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
    )


def _term(preference: Mapping[str, Any] | None) -> NodeSelectorTerm:
    return tuple(
        LabelSelectorRequirement(
            key=item.get("key", ""),
            operator=item.get("operator", ""),
            values=tuple(item.get("values") or ()),
        )
        for item in (preference or {}).get("matchExpressions") or ()
    )
