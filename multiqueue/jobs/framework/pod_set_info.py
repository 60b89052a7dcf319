"""The fields that admission adds to a pod template: adding them and removing them. Pure.

Parity: E-184, J-115 to J-119 (injection at start), E-153 (contradicting values make the start fail
for good).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
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

_DNS_LABEL = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?")
MAX_LABEL = 63
"""Longest value of a label; a longer name of a queue is left out."""


_BAD_UPDATE = "invalid admission check PodSetUpdate"
_NO_QUOTA = "the admission has no quota for pod set {}; delete the Workload to queue the job again"


@dataclass(frozen=True, slots=True, kw_only=True)
class InfoOptions:
    """Which labels and annotations pods get at the start.

    Attributes:
        name_queues: Gate AssignQueueLabelsForPods: labels name their queues.
        name_workload: Gate TopologyAwareScheduling: an annotation names their Workload.
        chargeback_keys: Labels of the Workload that its pods get, too.
    """

    name_queues: bool = True
    name_workload: bool = True
    chargeback_keys: tuple[str, ...] = ()


class FlavorNotFoundError(Exception):
    """An assigned flavor does not exist; the start is tried again when it is back."""


class StartConflictError(Exception):
    """The fields to add contradict each other or the template; the job can never start."""


def build_infos(
    workload: Workload,
    find_flavor: Callable[[str], ResourceFlavor | None],
    options: InfoOptions | None = None,
) -> tuple[PodSetInfo, ...]:
    """Return what the admission of this Workload adds, one entry per pod set.

    Args:
        workload: The admitted Workload.
        find_flavor: Finds a flavor by its name.
        options: Which labels and annotations the pods get.

    Raises:
        FlavorNotFoundError: an assigned flavor does not exist.
        StartConflictError: two admission checks contradict each other, or a pod set has no quota.
    """
    admission = workload.status.admission
    assert admission is not None, "only an admitted Workload starts"
    options = options or InfoOptions()
    updates = merge_pod_set_updates(workload.status)
    if isinstance(updates, str):
        raise StartConflictError(f"{_BAD_UPDATE}: {updates}")
    assignments = {assignment.name: assignment for assignment in admission.pod_set_assignments}
    without = [each.name for each in workload.spec.pod_sets if each.name not in assignments]
    if without:
        raise StartConflictError(_NO_QUOTA.format(", ".join(f'"{name}"' for name in without)))
    labels, annotations = _shared_labels(workload, options), _shared_annotations(workload, options)
    overrides = {key for key in options.chargeback_keys if key in labels}
    if is_elastic(workload):
        # Pods of an elastic job outlive the slice that started them (E-169).
        overrides |= {names.WORKLOAD, names.WORKLOAD_SLICE_NAME}
    runs = find_ran_on(workload).pods
    infos: list[PodSetInfo] = []
    for pod_set in workload.spec.pod_sets:
        info = flavor_info(assignments[pod_set.name], pod_set.count, find_flavor)
        count = min(info.count, runs.get(pod_set.name, info.count))
        info = replace(
            info,
            count=count,
            labels={**labels, names.PODSET: pod_set.name},
            annotations=annotations,
            overrides=frozenset(overrides),
        )
        if assignments[pod_set.name].topology_assignment is not None:
            info = _gated(info, pod_set)
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
    for field, added in (("labels", info.labels), ("annotations", info.annotations)):
        present = {
            k: v
            for k, v in (metadata.get(field) or {}).items()
            if k not in added.keys() & info.overrides
        }
        metadata[field] = _merge(present, added, field)
    spec["nodeSelector"] = _merge(spec.get("nodeSelector"), info.node_selector, "nodeSelector")
    tolerations = list(spec.get("tolerations") or ())
    spec["tolerations"] = tolerations + [
        wire for t in info.tolerations if (wire := encode(t)) not in tolerations
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


def _shared_labels(workload: Workload, options: InfoOptions) -> dict[str, str]:
    """Return the labels that the pods of all pod sets get (J-116)."""
    present, admission = workload.metadata.labels, workload.status.admission
    assert admission is not None
    labels = {key: present[key] for key in options.chargeback_keys if key in present}
    if options.name_queues:
        labels |= _queue_labels(workload.spec.queue_name, admission.cluster_queue)
    if names.MULTIKUEUE_ORIGIN in present:
        # Tells pods of a copy from another cluster from those that were submitted here (M-26).
        labels[names.MULTIKUEUE_WORKER_WORKLOAD_POD] = "true"
    return labels


def _shared_annotations(workload: Workload, options: InfoOptions) -> dict[str, str]:
    """Return the annotations that the pods of all pod sets get (J-117)."""
    annotations = {names.WORKLOAD: workload.metadata.name} if options.name_workload else {}
    if is_elastic(workload):
        annotations[names.WORKLOAD_SLICE_NAME] = slice_name(workload)
    return annotations


def _gated(info: PodSetInfo, pod_set: PodSet) -> PodSetInfo:
    """Add the fields for the topology ungater: each pod waits for its domain (E-147)."""
    annotations, request = dict(info.annotations), pod_set.topology_request
    if request is None or not (
        request.required or request.preferred or request.unconstrained is not None
    ):
        # The queue implies the topology, no user asked for it: an annotation says so (E-184).
        annotations[names.PODSET_UNCONSTRAINED_TOPOLOGY] = "true"
    return replace(info, annotations=annotations, scheduling_gates=(names.TOPOLOGY_GATE,))


def _with_update(info: PodSetInfo, update: PodSetUpdate) -> PodSetInfo:
    return replace(
        info,
        labels=_merge(info.labels, update.labels, "labels"),
        annotations=_merge(info.annotations, update.annotations, "annotations"),
        node_selector=_merge(info.node_selector, update.node_selector, "nodeSelector"),
        tolerations=(
            *info.tolerations,
            *(t for t in update.tolerations if t not in info.tolerations),
        ),
    )


def _queue_labels(local_queue: str, cluster_queue: str) -> dict[str, str]:
    labels = {names.LOCAL_QUEUE_NAME: local_queue} if len(local_queue) <= MAX_LABEL else {}
    if _DNS_LABEL.fullmatch(cluster_queue):
        labels[names.CLUSTER_QUEUE_NAME] = cluster_queue
    return labels


def _merge(
    present: Mapping[str, str] | None, added: Mapping[str, str], what: str
) -> dict[str, str]:
    merged = dict(present or {})
    for key in sorted(added):
        if merged.setdefault(key, added[key]) != added[key]:
            raise StartConflictError(
                f"{_BAD_UPDATE}: conflict for {what}: "
                f"conflict for key={key}, value1={merged[key]}, value2={added[key]}"
            )
    return merged


def _drop_empty(mapping: dict[str, Any], *keys: str) -> None:
    for key in keys:
        if not mapping[key]:
            del mapping[key]
