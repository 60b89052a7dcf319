"""Builds the Workload of a job, in wire format. Pure.

Parity: E-180 (name), E-12 (priority), E-188 (admission gates).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import msgspec

from multiqueue.api import names
from multiqueue.api.serde import encode
from multiqueue.api.slices import slice_name
from multiqueue.api.v1beta2 import PodSet, PodSetTopologyRequest, Workload
from multiqueue.jobs.framework.gvk import GroupVersionKind
from multiqueue.jobs.framework.integration import InvalidJobError, Job
from multiqueue.jobs.framework.priority import JobPriority
from multiqueue.jobs.framework.slice_templates import show_start
from multiqueue.lib.digits import is_number

HASH_LENGTH = 5
MAX_NAME = 253
SHORT_NAME = 63
"""Name limit with the gate ShortWorkloadNames, so that a name fits a label."""
_COPIED = frozenset(
    {
        names.ADMISSION_GATED_BY,
        names.ALTERNATIVES,
        names.CHECKPOINT_HOOK,
        names.CHECKPOINT_INTERVAL,
        names.CHECKPOINT_ON,
        names.CHECKPOINT_SECONDS,
        names.NON_PREEMPTIBLE,
        names.RESTART,
        names.RUNTIME,
        names.SPEEDS,
        names.JOB_CLASS,
    }
)
"""Annotations that are copied from a job to its Workload, beside those of ProvisioningRequests."""
MAX_LABEL = 63
MAX_POD_SETS = 18
MAX_INT32 = 2**31 - 1


def workload_name(
    gvk: GroupVersionKind, name: str, uid: str, *, extra: str = "", limit: int = MAX_NAME
) -> str:
    """Return the name of the job's Workload; it is always the same for the same job (E-180)."""
    digest = workload_digest(gvk, name, uid, extra=extra)
    prefix = f"{gvk.kind.lower()}-{name}"[: limit - HASH_LENGTH - 1]
    return f"{prefix}-{digest}"


def workload_digest(gvk: GroupVersionKind, name: str, uid: str, *, extra: str = "") -> str:
    """Return the end of a Workload's name, which tells owners of alike names apart."""
    text = "\n".join([gvk.kind, gvk.group, name, uid, *([extra] if extra else [])])
    return hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()[:HASH_LENGTH]


def queue_name(job: Job) -> str:
    """Return the name of the LocalQueue that the job requests, or an empty string."""
    return str((job["metadata"].get("labels") or {}).get(names.QUEUE_NAME) or "")


def workload_class(job: Job) -> str:
    """Return the name of the WorkloadPriorityClass that the job requests, or an empty string."""
    return str((job["metadata"].get("labels") or {}).get(names.PRIORITY_CLASS) or "")


def max_execution_seconds(job: Job) -> int | None:
    """Return how long the job may run; a label that is no number of seconds is ignored (J-57)."""
    text = (job["metadata"].get("labels") or {}).get(names.MAX_EXEC_TIME_SECONDS)
    if not isinstance(text, str) or not is_number(text):
        return None
    return int(text) if 0 < int(text) <= MAX_INT32 else None


def owner_reference(job: Job, gvk: GroupVersionKind) -> dict[str, Any]:
    """Return the controller reference to a job."""
    return {
        "apiVersion": gvk.api_version,
        "kind": gvk.kind,
        "name": job["metadata"]["name"],
        "uid": job["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def compose_workload(
    job: Job,
    gvk: GroupVersionKind,
    pod_sets: Sequence[PodSet],
    priority: JobPriority,
    *,
    label_keys: Sequence[str] = (),
    more_labels: Mapping[str, str] = MappingProxyType({}),
    name_limit: int = MAX_NAME,
) -> dict[str, Any]:
    """Return the Workload to create for a job, complete for a single write.

    Args:
        job: The job.
        gvk: The kind of the job.
        pod_sets: The pod sets that the job requests.
        priority: The priority of the job.
        label_keys: Labels to copy from the job.
        more_labels: Further labels.
        name_limit: The longest allowed name.

    Raises:
        InvalidJobError: the job has too many pod sets or a malformed label.
    """
    if len(pod_sets) > MAX_POD_SETS:
        raise InvalidJobError(f"{len(pod_sets)} pod sets; a Workload has at most {MAX_POD_SETS}")
    metadata = job["metadata"]
    return {
        "apiVersion": names.V1BETA2,
        "kind": "Workload",
        "metadata": {
            "name": workload_name(gvk, metadata["name"], metadata["uid"], limit=name_limit),
            "namespace": metadata["namespace"],
            "labels": {**_labels(job, label_keys), **more_labels},
            "annotations": _annotations(job),
            "ownerReferences": [owner_reference(job, gvk)],
            "finalizers": [names.RESOURCE_IN_USE],
        },
        "spec": build_spec(job, pod_sets, priority),
    }


def compose_slice(
    job: Job,
    gvk: GroupVersionKind,
    pod_sets: Sequence[PodSet],
    priority: JobPriority,
    *,
    label_keys: Sequence[str] = (),
    more_labels: Mapping[str, str] = MappingProxyType({}),
    name_limit: int = MAX_NAME,
    taken: frozenset[str] = frozenset(),
    replaced: Workload | None = None,
) -> dict[str, Any]:
    """Return the slice to create for an elastic job (E-165).

    Args:
        job: The elastic job.
        gvk: The kind of the job.
        pod_sets: The pod sets that the job requests.
        priority: The priority of the job.
        label_keys: Labels to copy from the job.
        more_labels: Further labels.
        name_limit: The longest allowed name.
        taken: Names of earlier slices.
        replaced: The slice to replace. Its templates are the original ones; the templates of a
            running job also have the fields that its start added (see `slice_templates`).

    Raises:
        InvalidJobError: the job has too many pod sets or a malformed label.
    """
    if replaced is not None:
        running = {pod_set.name: pod_set for pod_set in pod_sets}
        pod_sets = [
            msgspec.structs.replace(
                show_start(known, running[known.name]), count=running[known.name].count
            )
            for known in replaced.spec.pod_sets
        ]
    body = compose_workload(
        job,
        gvk,
        pod_sets,
        priority,
        label_keys=label_keys,
        more_labels=more_labels,
        name_limit=name_limit,
    )
    metadata, annotations = body["metadata"], body["metadata"]["annotations"]
    metadata["name"] = _slice_name(job, gvk, name_limit, taken)
    annotations[names.ELASTIC_JOB] = "true"
    annotations[names.WORKLOAD_SLICE_NAME] = metadata["name"]
    if replaced is not None:
        annotations[names.WORKLOAD_SLICE_NAME] = slice_name(replaced)
        annotations[names.WORKLOAD_SLICE_REPLACEMENT_FOR] = replaced.metadata.key
    return body


def _slice_name(job: Job, gvk: GroupVersionKind, limit: int, taken: frozenset[str]) -> str:
    """Name a slice after the generation of the job; count on if that name was used before."""
    generation = str(job["metadata"].get("generation") or 0)
    tries = (generation, *(f"{generation}.{n}" for n in range(1, len(taken) + 1)))
    uid, name = job["metadata"]["uid"], job["metadata"]["name"]
    made = [workload_name(gvk, name, uid, extra=extra, limit=limit) for extra in tries]
    return next(name for name in made if name not in taken)


def build_spec(job: Job, pod_sets: Sequence[PodSet], priority: JobPriority) -> dict[str, Any]:
    """Return the spec of a job's Workload.

    Raises:
        InvalidJobError: a label is malformed.
    """
    spec: dict[str, Any] = {
        "queueName": queue_name(job),
        "podSets": [build_pod_set(pod_set) for pod_set in pod_sets],
        **build_priority(priority),
    }
    seconds = max_execution_seconds(job)
    if seconds is not None:
        spec["maximumExecutionTimeSeconds"] = seconds
    return spec


def without_repeated_variables(template: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a pod template in which each container has each environment variable once (J-90).

    The last value counts, at the place of the first; the API server keeps lists by name like that.
    """
    spec = template.get("spec") or {}
    changed = {
        field: [_with_variables_once(container) for container in spec[field]]
        for field in ("initContainers", "containers")
        if any(_repeats_variables(container) for container in spec.get(field) or ())
    }
    return {**template, "spec": {**spec, **changed}} if changed else template


def _repeats_variables(container: Mapping[str, Any]) -> bool:
    variables = container.get("env") or ()
    return len({variable.get("name") for variable in variables}) < len(variables)


def _with_variables_once(container: Mapping[str, Any]) -> Mapping[str, Any]:
    by_name = {variable.get("name"): variable for variable in container.get("env") or ()}
    return {**container, "env": list(by_name.values())} if by_name else container


def build_priority(priority: JobPriority) -> dict[str, Any]:
    """Return the fields of spec that hold a priority."""
    fields: dict[str, Any] = {"priority": priority.value}
    if priority.reference is not None:
        fields["priorityClassRef"] = encode(priority.reference)
    return fields


def build_pod_set(pod_set: PodSet) -> dict[str, Any]:
    """Return a pod set as it is written."""
    wire: dict[str, Any] = {
        "name": pod_set.name,
        "count": pod_set.count,
        "template": pod_set.template,
    }
    if pod_set.min_count is not None:
        wire["minCount"] = pod_set.min_count
    if pod_set.topology_request is not None:
        wire["topologyRequest"] = _topology_request(pod_set.topology_request)
    return wire


def _topology_request(request: PodSetTopologyRequest) -> dict[str, Any]:
    return encode(request)


def _labels(job: Job, label_keys: Sequence[str]) -> dict[str, str]:
    present: Mapping[str, str] = job["metadata"].get("labels") or {}
    labels = {key: present[key] for key in label_keys if key in present}
    uid = job["metadata"]["uid"]
    if len(uid) <= MAX_LABEL:
        labels[names.JOB_UID] = uid
    return labels


def _annotations(job: Job) -> dict[str, str]:
    present: Mapping[str, str] = job["metadata"].get("annotations") or {}
    return {
        key: value
        for key, value in present.items()
        if key.startswith(names.PROVREQ_PREFIX) or (key in _COPIED and value)
    }
