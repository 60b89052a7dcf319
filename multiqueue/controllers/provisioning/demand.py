"""Which pod sets need capacity for a check, and which of them share one request entry.

Pure. Parity: E-154 (needed), E-157 (pod sets, counts, merging).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from multiqueue.api.v1beta2 import PodSet, PodSetAssignment
from multiqueue.controllers.provisioning.view import ProvisioningCheck, ProvisioningView
from multiqueue.lib.quantity import QuantityError, parse_quantity

Template = Mapping[str, Any]

IDENTICAL_TEMPLATES = "IdenticalPodTemplates"
IDENTICAL_REQUIREMENTS = "IdenticalWorkloadSchedulingRequirements"


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """Equal pods; ``pod_set`` is the first of the merged pod sets, ``count`` is of all of them."""

    pod_set: PodSet
    assignment: PodSetAssignment
    count: int


def is_needed(view: ProvisioningView, check: ProvisioningCheck) -> bool:
    """Whether any pod of the Workload needs capacity of this check; false if it is inactive.

    Raises:
        InconsistentAssignmentError: the admission lacks a pod set.
    """
    return bool(_pod_sets(view, check))


def list_demands(view: ProvisioningView, check: ProvisioningCheck) -> list[Demand]:
    """Return the capacity to request, merged as configured, in the order of the pod sets.

    Deviates: pod sets on different flavors are never merged; the template of one of them would
    request nodes of the wrong flavor.

    Raises:
        InconsistentAssignmentError: the admission lacks a pod set.
    """
    policy = check.config.pod_set_merge_policy if check.config else None
    merged: list[Demand] = []
    for demand in _pod_sets(view, check):
        for index, earlier in enumerate(merged):
            if _may_merge(earlier, demand, policy):
                merged[index] = replace(earlier, count=earlier.count + demand.count)
                break
        else:
            merged.append(demand)
    return merged


def _pod_sets(view: ProvisioningView, check: ProvisioningCheck) -> list[Demand]:
    if check.config is None:
        return []
    demands = []
    for pod_set in view.workload.spec.pod_sets:
        if pod_set.count <= 0 or not _uses(pod_set.template, check.config.managed_resources):
            continue
        assignment = view.assignment_of(pod_set)
        count = pod_set.count if assignment.count is None else assignment.count
        if count > 0:
            demands.append(Demand(pod_set=pod_set, assignment=assignment, count=count))
    return demands


def _uses(template: Template, managed: Sequence[str]) -> bool:
    if not managed:
        return True
    for container in _containers(template):
        resources = container.get("resources") or {}
        named = {*(resources.get("requests") or ()), *(resources.get("limits") or ())}
        if not named.isdisjoint(managed):
            return True
    return False


def _may_merge(first: Demand, second: Demand, policy: str | None) -> bool:
    if set(first.assignment.flavors.values()) != set(second.assignment.flavors.values()):
        return False
    if policy == IDENTICAL_TEMPLATES:
        return bool(first.pod_set.template == second.pod_set.template)
    if policy == IDENTICAL_REQUIREMENTS:
        return _requirements(first.pod_set.template) == _requirements(second.pod_set.template)
    return False


def _requirements(template: Template) -> dict[str, Any]:
    """Return the fields of a template that decide on which nodes a pod fits."""
    spec = template.get("spec") or {}
    return {
        "containers": [_requests(c) for c in spec.get("containers") or ()],
        "initContainers": [_requests(c) for c in spec.get("initContainers") or ()],
        "resources": _amounts(spec.get("resources") or {}),
        "nodeSelector": spec.get("nodeSelector") or {},
        "tolerations": spec.get("tolerations") or [],
        "affinity": spec.get("affinity") or {},
        "resourceClaims": spec.get("resourceClaims") or [],
    }


def _requests(container: Mapping[str, Any]) -> Any:
    return _amounts(container.get("resources") or {}).get("requests", {})


def _amounts(resources: Mapping[str, Any]) -> dict[str, Any]:
    """Requests and limits as numbers, a missing request from its limit: 1 and 1000m are equal."""
    limits = {name: _amount(text) for name, text in (resources.get("limits") or {}).items()}
    requests = {name: _amount(text) for name, text in (resources.get("requests") or {}).items()}
    return {"requests": {**limits, **requests}, "limits": limits}


def _amount(text: str | float) -> Any:
    try:
        return parse_quantity(text).nano
    except QuantityError:
        return text


def _containers(template: Template) -> list[Mapping[str, Any]]:
    spec = template.get("spec") or {}
    return [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
