"""The pod templates of slices that replace another one. Pure.

Upstream makes such a slice from the running job, whose templates have the labels and annotations of
its start; its users see them in the slice. Here the slice shows them, too. A stop leaves them out,
so that the job can start again in another queue.

Deviates: nodeSelector, tolerations, and labels of admission checks stay out of the slice. With
upstream, a preempted elastic job stays bound to the nodes of its earlier flavor.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from multiqueue.api import names
from multiqueue.api.slices import replaced_key
from multiqueue.api.v1beta2 import PodSet, Workload

_OF_A_START: Mapping[str, tuple[str, ...]] = {
    "labels": (names.PODSET, names.LOCAL_QUEUE_NAME, names.CLUSTER_QUEUE_NAME),
    "annotations": (names.WORKLOAD, names.WORKLOAD_SLICE_NAME),
}


def show_start(pod_set: PodSet, running: PodSet) -> PodSet:
    """Return a pod set of a slice with the labels and annotations of the running job."""
    metadata = running.template.get("metadata") or {}
    added = {
        field: {key: values[key] for key in keys if key in values}
        for field, keys in _OF_A_START.items()
        if (values := metadata.get(field) or {})
    }
    return _with_metadata(pod_set, added)


def original_pod_sets(workload: Workload) -> tuple[PodSet, ...]:
    """Return the pod sets as the job's user wrote them."""
    if not replaced_key(workload):
        return workload.spec.pod_sets
    return tuple(_with_metadata(pod_set, {}) for pod_set in workload.spec.pod_sets)


def _with_metadata(pod_set: PodSet, added: Mapping[str, Mapping[str, str]]) -> PodSet:
    metadata: dict[str, Any] = dict(pod_set.template.get("metadata") or {})
    for field, keys in _OF_A_START.items():
        kept = {key: value for key, value in (metadata.get(field) or {}).items() if key not in keys}
        metadata[field] = {**kept, **added.get(field, {})}
        if not metadata[field]:
            del metadata[field]
    return msgspec.structs.replace(pod_set, template={**pod_set.template, "metadata": metadata})
