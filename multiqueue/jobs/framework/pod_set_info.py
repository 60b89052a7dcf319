"""The fields that admission adds to a pod template: adding them and removing them. Pure.

Parity: E-184 (injection at start), E-153 (contradicting values make the start fail for good).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from multiqueue.api import names
from multiqueue.api.ran_on import find_ran_on
from multiqueue.api.serde import encode
from multiqueue.api.slices import is_elastic, slice_name
from multiqueue.api.v1beta2 import (
    PodSet,
    PodSetAssignment,
    PodSetUpdate,
    ResourceFlavor,
    Toleration,
    Workload,
)
from multiqueue.api.workload_checks import merge_pod_set_updates
from multiqueue.jobs.framework.integration import PodSetInfo
from multiqueue.jobs.workload_wire import diff

Template = Mapping[str, Any]

_LABEL_VALUE = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?")
"""Queue names that are DNS labels also fit a label; longer ones are left out."""


class FlavorNotFoundError(Exception):
    """An assigned flavor does not exist; the start is tried again when it is back."""


class StartConflictError(Exception):
    """The fields to add contradict each other or the template; the job can never start."""


def build_infos(
    workload: Workload,
    find_flavor: Callable[[str], ResourceFlavor | None],
    *,
    name_queues: bool = True,
) -> tuple[PodSetInfo, ...]:
    """Return what the admission of this Workload adds, one entry per pod set.

    Args:
        workload: The admitted Workload.
        find_flavor: Finds a flavor by its name.
        name_queues: Gate AssignQueueLabelsForPods: pods get labels that name their queues.

    Raises:
        FlavorNotFoundError: an assigned flavor does not exist.
        StartConflictError: two admission checks contradict each other.
    """
    admission = workload.status.admission
    assert admission is not None, "only an admitted Workload starts"
    updates = merge_pod_set_updates(workload.status)
    if isinstance(updates, str):
        raise StartConflictError(updates)
    assignments = {assignment.name: assignment for assignment in admission.pod_set_assignments}
    queue_labels: Mapping[str, str] = {}
    if name_queues:
        queue_labels = _queue_labels(workload.spec.queue_name, admission.cluster_queue)
    # Tells pods of a copy from another cluster from those that were submitted here (M-26).
    is_copy = names.MULTIKUEUE_ORIGIN in workload.metadata.labels
    origin_labels = {names.MULTIKUEUE_WORKER_WORKLOAD_POD: "true"} if is_copy else {}
    # Pods of an elastic job outlive the slice that started them (E-169).
    chain = {names.WORKLOAD_SLICE_NAME: slice_name(workload)} if is_elastic(workload) else {}
    runs = find_ran_on(workload).pods
    infos: list[PodSetInfo] = []
    for pod_set in workload.spec.pod_sets:
        assignment = assignments.get(pod_set.name) or PodSetAssignment(name=pod_set.name)
        info = flavor_info(assignment, pod_set.count, find_flavor)
        labels = {**queue_labels, **origin_labels, names.PODSET: pod_set.name}
        count = min(info.count, runs.get(pod_set.name, info.count))
        info = replace(info, count=count, labels=labels, annotations=chain)
        if assignment.topology_assignment is not None:
            info = _gated(info, workload, pod_set)
        update = updates.get(pod_set.name)
        infos.append(_with_update(info, update) if update else info)
    return tuple(infos)


def apply_info(template: Template, info: PodSetInfo) -> dict[str, Any]:
    """Return the template with everything added; unknown fields are kept.

    Raises:
        StartConflictError: a label, annotation or node selector already has another value.
    """
    metadata = dict(template.get("metadata") or {})
    spec = dict(template.get("spec") or {})
    metadata["labels"] = _merge(metadata.get("labels"), info.labels, "label")
    metadata["annotations"] = _merge(metadata.get("annotations"), info.annotations, "annotation")
    spec["nodeSelector"] = _merge(spec.get("nodeSelector"), info.node_selector, "node selector")
    present = list(spec.get("tolerations") or ())
    spec["tolerations"] = present + [
        wire for t in info.tolerations if (wire := encode(t)) not in present
    ]
    gates = list(spec.get("schedulingGates") or ())
    spec["schedulingGates"] = gates + [
        {"name": name} for name in info.scheduling_gates if {"name": name} not in gates
    ]
    _drop_empty(metadata, "labels", "annotations")
    _drop_empty(spec, "nodeSelector", "tolerations", "schedulingGates")
    return {**template, "metadata": metadata, "spec": spec}


def injection_patch(template: Template, info: PodSetInfo) -> dict[str, Any]:
    """Return the merge patch with the effect of `apply_info`; empty if nothing changes.

    Raises:
        StartConflictError: see `apply_info`.
    """
    return diff(_injectable(template), _injectable(apply_info(template, info)))


def restore_patch(
    current: Template, original: Template, *, keep_labels: Iterable[str] = ()
) -> dict[str, Any]:
    """Return the merge patch that undoes what `apply_info` may have changed (9.1).

    ``keep_labels`` are written by the cluster itself and are kept.
    """
    wanted = _injectable(original)
    present = _injectable(current)
    present_labels = present["metadata"]["labels"]
    kept = {key: present_labels[key] for key in keep_labels if key in present_labels}
    wanted["metadata"]["labels"] = {**wanted["metadata"]["labels"], **kept}
    return diff(present, wanted)


def restore_template(current: Template, original: Template) -> dict[str, Any]:
    """Return a template with the original fields where `apply_info` may have changed them (J-126).

    Other fields are left as they are.
    """
    wanted = _injectable(original)
    restored = dict(current)
    for part, fields in wanted.items():
        kept = {key: value for key, value in (current.get(part) or {}).items() if key not in fields}
        restored[part] = {**kept, **{key: value for key, value in fields.items() if value}}
    if not restored["metadata"]:
        del restored["metadata"]
    return restored


def _injectable(template: Template) -> dict[str, Any]:
    metadata = template.get("metadata") or {}
    spec = template.get("spec") or {}
    return {
        "metadata": {
            "labels": dict(metadata.get("labels") or {}),
            "annotations": dict(metadata.get("annotations") or {}),
        },
        "spec": {
            "nodeSelector": dict(spec.get("nodeSelector") or {}),
            "tolerations": list(spec.get("tolerations") or ()),
            "schedulingGates": list(spec.get("schedulingGates") or ()),
        },
    }


def flavor_info(
    assignment: PodSetAssignment,
    count: int,
    find_flavor: Callable[[str], ResourceFlavor | None],
) -> PodSetInfo:
    """Return the fields that the assigned flavors add to a pod set of that many pods.

    Raises:
        FlavorNotFoundError: an assigned flavor does not exist.
    """
    node_selector: dict[str, str] = {}
    tolerations: list[Toleration] = []
    for name in sorted(set(assignment.flavors.values())):
        flavor = find_flavor(name)
        if flavor is None:
            raise FlavorNotFoundError(
                f'ResourceFlavor "{name}" of pod set "{assignment.name}" does not exist'
            )
        node_selector.update(flavor.spec.node_labels)
        tolerations += [t for t in flavor.spec.tolerations if t not in tolerations]
    return PodSetInfo(
        name=assignment.name,
        count=count if assignment.count is None else assignment.count,
        node_selector=node_selector,
        tolerations=tuple(tolerations),
    )


def _gated(info: PodSetInfo, workload: Workload, pod_set: PodSet) -> PodSetInfo:
    """Add the fields for the topology ungater: each pod waits for its domain (E-147)."""
    annotations = {**info.annotations, names.WORKLOAD: workload.metadata.name}
    if pod_set.topology_request is None:
        # The queue implies the topology, no user asked for it: an annotation says so (E-184).
        annotations[names.PODSET_UNCONSTRAINED_TOPOLOGY] = "true"
    return replace(info, annotations=annotations, scheduling_gates=(names.TOPOLOGY_GATE,))


def _with_update(info: PodSetInfo, update: PodSetUpdate) -> PodSetInfo:
    return replace(
        info,
        labels=_merge(info.labels, update.labels, "label"),
        annotations=_merge(info.annotations, update.annotations, "annotation"),
        node_selector=_merge(info.node_selector, update.node_selector, "node selector"),
        tolerations=(
            *info.tolerations,
            *(t for t in update.tolerations if t not in info.tolerations),
        ),
    )


def _queue_labels(local_queue: str, cluster_queue: str) -> dict[str, str]:
    labels = {
        names.LOCAL_QUEUE_NAME: local_queue,
        names.CLUSTER_QUEUE_NAME: cluster_queue,
    }
    return {key: value for key, value in labels.items() if _LABEL_VALUE.fullmatch(value)}


def _merge(
    present: Mapping[str, str] | None, added: Mapping[str, str], what: str
) -> dict[str, str]:
    merged = dict(present or {})
    for key in sorted(added):
        if merged.setdefault(key, added[key]) != added[key]:
            raise StartConflictError(
                f'conflict for {what} "{key}": "{merged[key]}" and "{added[key]}"'
            )
    return merged


def _drop_empty(mapping: dict[str, Any], *keys: str) -> None:
    for key in keys:
        if not mapping[key]:
            del mapping[key]
