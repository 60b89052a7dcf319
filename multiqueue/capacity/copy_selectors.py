"""Adapts the copy of a Workload to a worker: requested hardware and pod count. Pure.

A worker chooses flavors by the node selectors of the pod sets. So a copy requests the node labels
of the reserved flavor, as far as the worker's flavors have such labels: H100 quota runs on H100.
If the pod count depends on the hardware, the copy requests the hardware that the count is for.
The job stays as its user wrote it: a worker compares containers, not selectors, and gives the pods
the labels of the flavor that it chose.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from multiqueue.plugins import PodSetView, QueueView, ResourceGroupView, WorkloadView
from multiqueue.plugins.alternatives import GangAlternative
from multiqueue.plugins.capacity import choose_way

Json = dict[str, Any]
Labels = Mapping[str, str]


def add_copy_selectors(body: Json, workload: WorkloadView, queue: QueueView | None) -> Json:
    """Return a copy's body for one worker.

    The copy sets the pod count, so the worker cannot choose other hardware later.

    Args:
        body: The copy.
        workload: The Workload, with the manager's reservation.
        queue: The worker's queue; None: it is not known.
    """
    constraints: dict[str, Labels] = {}
    if queue is not None:
        way = choose_way(workload, queue)
        workload = way.workload
        constraints = {
            ps.name: {**find_selectors(ps, queue), **_bind(ps, way)} for ps in workload.pod_sets
        }
    before = body["spec"]["podSets"]
    after = [
        _resize(_with_selector(pod_set, constraints.get(pod_set["name"], {})), shown.count)
        for pod_set, shown in zip(before, workload.pod_sets, strict=True)
    ]
    return body if after == before else {**body, "spec": {**body["spec"], "podSets": after}}


def _bind(pod_set: PodSetView, way: GangAlternative) -> Labels:
    """Return the labels of the hardware that the number of pods is for."""
    return way.labels if pod_set.alternatives else {}


def find_selectors(pod_set: PodSetView, queue: QueueView) -> dict[str, str]:
    """Return those node labels of the reserved flavor that the worker also has."""
    wanted: dict[str, str] = {}
    for resource, reserved in sorted(pod_set.reserved.items()):
        group = queue.group_of(resource)
        if group is not None:
            accepted = (reserved.node_labels, *reserved.equivalents)
            amount = pod_set.total(resource)
            for key, value in _choose_labels(queue, group, resource, accepted, amount).items():
                wanted.setdefault(key, value)
    return wanted


def _choose_labels(
    queue: QueueView,
    group: ResourceGroupView,
    resource: str,
    accepted: Iterable[Labels],
    amount: int,
) -> Labels:
    """Return the labels to request: those of the first hardware that could hold the amount.

    Args:
        queue: The worker's queue.
        group: The worker's resource group with the resource.
        resource: The reserved resource.
        accepted: Node labels of acceptable hardware, the preferred first.
        amount: The requested amount.
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
    """Whether some flavor with these labels could ever hold the amount."""
    return any(
        (quota := queue.quotas.get((name, resource))) is not None and quota.most >= amount
        for name in group.flavors
        if (flavor := queue.flavors.get(name)) is not None
        and all(flavor.node_labels.get(key) == value for key, value in labels.items())
    )


def _with_selector(pod_set: Json, wanted: Labels) -> Json:
    if not wanted:
        return pod_set
    template = pod_set["template"]
    spec = template.get("spec") or {}
    selector = {**wanted, **(spec.get("nodeSelector") or {})}
    return {**pod_set, "template": {**template, "spec": {**spec, "nodeSelector": selector}}}


def _resize(pod_set: Json, count: int) -> Json:
    if pod_set["count"] <= count:
        return pod_set
    return {**{key: value for key, value in pod_set.items() if key != "minCount"}, "count": count}
