"""The copy of a Workload that a worker gets, and the marks that identify it. Pure."""

from __future__ import annotations

import hashlib
from datetime import datetime
from typing import Any

import msgspec

from multiqueue.api import names
from multiqueue.api.conditions import WorkloadCondition, find_condition
from multiqueue.api.serde import encode
from multiqueue.api.slices import is_elastic
from multiqueue.api.v1beta2 import PodSet, Workload
from multiqueue.kube.clock import format_micro_time
from multiqueue.kube.resources import WORKLOADS
from multiqueue.workers.owner import ManagerIdentity

DIGEST_LENGTH = 16
_OURS_ALONE = frozenset({names.ALTERNATIVES, names.RAN_ON})
"""Annotations that a copy must not have, because a worker with this program would act on them."""
Json = dict[str, Any]


def clone_workload(
    local: Workload, *, owner: ManagerIdentity, now: datetime, gated: bool = False
) -> Json:
    """Return the Workload to create on a worker (M-105).

    It has the name, namespace, labels, annotations and spec; never owners, finalizers or status. If
    the pod count depends on the hardware, `copy_selectors` sets it, and not the worker.

    Args:
        local: The Workload on the manager.
        owner: The identity of this manager.
        now: The time to stamp the copy with.
        gated: Whether it may preempt only after our gate was opened (M-180).
    """
    metadata = local.metadata
    labels = {key: value for key, value in metadata.labels.items() if key != names.JOB_UID}
    labels[names.MULTIKUEUE_ORIGIN] = owner.origin
    annotations = {k: v for k, v in metadata.annotations.items() if k not in _OURS_ALONE}
    return {
        "apiVersion": WORKLOADS.api_version,
        "kind": WORKLOADS.kind,
        "metadata": {
            "name": metadata.name,
            "namespace": metadata.namespace,
            "labels": labels,
            "annotations": {
                **_slice_mark(local),
                **annotations,
                **_stamp(local, owner),
                names.DISPATCH_DIGEST: digest_of(local),
                names.OFFERED_AT: format_micro_time(now),
            },
        },
        "spec": _spec(local, gated=gated),
    }


def _slice_mark(local: Workload) -> dict[str, str]:
    """Return the annotation with which the first slice of an elastic job replaces itself.

    A worker that runs upstream Kueue finishes a copy as OutOfSync if its job has another size,
    unless the copy replaces a slice. When a job shrinks, the job and the copy are written one after
    the other.
    """
    key = local.metadata.key
    return {names.WORKLOAD_SLICE_REPLACEMENT_FOR: key} if is_elastic(local) else {}


def stamp_job(job: Json, local: Workload, *, owner: ManagerIdentity) -> Json:
    """Mark a remote job with its manager and with the reservation that it is made for."""
    metadata = job["metadata"]
    annotations = {**(metadata.get("annotations") or {}), **_stamp(local, owner)}
    return {**job, "metadata": {**metadata, "annotations": annotations}}


def _stamp(local: Workload, owner: ManagerIdentity) -> dict[str, str]:
    stamp = {names.DISPATCH_EPOCH: epoch_of(local)}
    return {**stamp, names.MANAGER: owner.manager} if owner.manager else stamp


def epoch_of(local: Workload) -> str:
    """Name the reservation of a Workload by the time when it was made. Empty without one.

    An eviction in progress does not change it; the next reservation does.
    """
    reserved = find_condition(local.status.conditions, WorkloadCondition.QUOTA_RESERVED)
    if reserved is None or reserved.status != "True":
        return ""
    return reserved.last_transition_time


def digest_of(local: Workload) -> str:
    """Digest of what a copy must have in common with the Workload.

    It is compared with the digest of what the copy was made from, not with the copy's spec: the
    worker's API server fills in defaults and drops fields that it does not know.
    """
    text = local.spec.queue_name.encode() + b"\0" + encode_pod_sets(local.spec.pod_sets)
    return hashlib.sha256(text).hexdigest()[:DIGEST_LENGTH]


def encode_pod_sets(pod_sets: tuple[PodSet, ...]) -> bytes:
    """Return the pod sets as canonical JSON."""
    return msgspec.json.encode(pod_sets, order="deterministic")


def _spec(local: Workload, *, gated: bool) -> Json:
    spec = encode(local.spec)
    # The manager's own gates do not concern the worker (M-184).
    spec.pop("preemptionGates", None)
    if gated:
        spec["preemptionGates"] = [{"name": names.MULTIKUEUE_GATE}]
    spec["podSets"] = [encode_pod_set(pod_set) for pod_set in local.spec.pod_sets]
    return spec


def encode_pod_set(pod_set: PodSet) -> Json:
    """Encode with the fields that a list entry must have, even if they have the default value."""
    return {
        **encode(pod_set),
        "name": pod_set.name,
        "count": pod_set.count,
        "template": pod_set.template,
    }
