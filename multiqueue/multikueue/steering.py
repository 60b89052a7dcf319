"""Asks a worker for the hardware that the manager reserved. Pure.

A worker chooses flavors by the node selectors of the pod sets. So a copy asks for the node labels
of the reserved flavor, as far as the worker's flavors have such labels: H100 quota runs on H100.
The job is left as its user wrote it; a worker compares containers, not selectors, and gives the
pods the labels of the flavor that it chose.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from multiqueue.api import v1beta2 as api
from multiqueue.lib.quantity import QuantityError
from multiqueue.model.resources import parse_request
from multiqueue.multikueue.workload_view import list_accepted
from multiqueue.plugins import QueueView, ResourceGroupView

FindFlavor = Callable[[str], api.ResourceFlavor | None]
Json = dict[str, Any]
Labels = Mapping[str, str]


def steer(body: Json, workload: api.Workload, find_flavor: FindFlavor, queue: QueueView) -> Json:
    """Return a copy's body whose pod sets ask for the hardware that the manager reserved.

    Args:
        body: The copy.
        workload: On the manager, with its reservation.
        find_flavor: Finds the manager's flavors.
        queue: The worker's, as if nothing were in use.
    """
    admission = workload.status.admission
    wishes = {
        assignment.name: _wish(assignment, find_flavor, queue)
        for assignment in (admission.pod_set_assignments if admission is not None else ())
    }
    if not any(wishes.values()):
        return body
    pod_sets = [_with_selector(ps, wishes.get(ps["name"], {})) for ps in body["spec"]["podSets"]]
    return {**body, "spec": {**body["spec"], "podSets": pod_sets}}


def _wish(
    assignment: api.PodSetAssignment, find_flavor: FindFlavor, queue: QueueView
) -> dict[str, str]:
    wish: dict[str, str] = {}
    for resource, name in sorted(assignment.flavors.items()):
        group = queue.group_of(resource)
        if group is None:
            continue
        amount = _amount(resource, assignment.resource_usage.get(resource))
        accepted = list_accepted(name, find_flavor)
        for key, value in choose_labels(queue, group, resource, accepted, amount).items():
            wish.setdefault(key, value)
    return wish


def choose_labels(
    queue: QueueView,
    group: ResourceGroupView,
    resource: str,
    accepted: Iterable[Labels],
    amount: int,
) -> Labels:
    """Return the labels to ask a worker for: of the first hardware that it could hold so much on.

    Args:
        queue: The worker's.
        group: Of the resource there.
        resource: What is reserved.
        accepted: Node labels that would do, the preferred first.
        amount: How much is reserved.
    """
    declared = {
        label
        for name in group.flavors
        if name in queue.flavors
        for label in queue.flavors[name].node_labels
    }
    known = [
        {key: value for key, value in labels.items() if key in declared} for labels in accepted
    ]
    offered = [
        labels for labels in known if labels and _holds(queue, group, resource, labels, amount)
    ]
    return (offered or known or [{}])[0]


def _holds(
    queue: QueueView, group: ResourceGroupView, resource: str, labels: Labels, amount: int
) -> bool:
    """Whether some flavor with these labels could ever hold so much."""
    return any(
        (quota := queue.quotas.get((name, resource))) is not None and quota.most >= amount
        for name in group.flavors
        if (flavor := queue.flavors.get(name)) is not None
        and all(flavor.node_labels.get(key) == value for key, value in labels.items())
    )


def _amount(resource: str, raw: str | float | None) -> int:
    try:
        return parse_request(resource, raw or 0)
    except QuantityError:
        return 0


def _with_selector(pod_set: Json, wish: Labels) -> Json:
    if not wish:
        return pod_set
    template = pod_set["template"]
    spec = template.get("spec") or {}
    selector = {**wish, **(spec.get("nodeSelector") or {})}
    return {**pod_set, "template": {**template, "spec": {**spec, "nodeSelector": selector}}}
