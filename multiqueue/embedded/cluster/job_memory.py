"""The Job controller's memory of the pods of one Job, and their counts.

Pure, except that `observe_pods` and `observe_gone` fill `JobMemory`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from multiqueue.embedded.cluster.indexes import parse_indexes
from multiqueue.embedded.cluster.lifecycle import is_terminal
from multiqueue.lib.digits import is_number

INDEX_ANNOTATION = "batch.kubernetes.io/job-completion-index"

Pod = Mapping[str, Any]


@dataclass(slots=True, kw_only=True)
class JobMemory:
    """Pods of a Job that ended or were stopped on purpose, by uid. Filled by `observe_pods`."""

    succeeded: set[str] = field(default_factory=set)
    failed: set[str] = field(default_factory=set)
    stopped: set[str] = field(default_factory=set)
    """Pods that the controller deleted itself (suspend, scale-down); they are not failures."""
    base_succeeded: int = 0
    base_failed: int = 0
    """Pods that an earlier run of this process counted and that are gone."""
    failed_at: float | None = None
    """When the latest failure was seen, in simulated seconds."""
    is_loaded: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """The counts of a Job's pods."""

    active: list[Pod]
    terminating: int
    ready: int
    succeeded: int
    failed: int
    completed_indexes: set[int]


def observe_pods(
    job: Mapping[str, Any], pods: Iterable[Pod], memory: JobMemory, *, now: float
) -> None:
    """Update the memory from the pods that exist now."""
    pods = list(pods)
    is_suspended = bool(job["spec"].get("suspend"))
    for pod in pods:
        uid, phase = pod["metadata"]["uid"], (pod.get("status") or {}).get("phase")
        is_deleting = bool(pod["metadata"].get("deletionTimestamp"))
        if is_deleting and is_suspended and not is_terminal(pod):
            memory.stopped.add(uid)
        if phase == "Succeeded":
            memory.succeeded.add(uid)
        elif (
            (phase == "Failed" or is_deleting)
            and uid not in memory.stopped
            and uid not in memory.failed
        ):
            if is_deleting and phase != "Failed" and replaces_only_failed(job):
                continue
            memory.failed.add(uid)
            if memory.is_loaded:
                memory.failed_at = now
    if not memory.is_loaded:
        status = job.get("status") or {}
        memory.base_succeeded = max(0, (status.get("succeeded") or 0) - len(memory.succeeded))
        memory.base_failed = max(0, (status.get("failed") or 0) - len(memory.failed))
        memory.is_loaded = True


def observe_gone(pod: Pod, memory: JobMemory, *, now: float) -> None:
    """Remember a pod that vanished.

    A pod without a known end counts as failed, unless it was stopped on purpose.
    """
    uid = pod["metadata"]["uid"]
    if uid in memory.stopped:
        memory.stopped.discard(uid)
    elif uid not in memory.succeeded and uid not in memory.failed:
        if (pod.get("status") or {}).get("phase") == "Succeeded":
            memory.succeeded.add(uid)
        else:
            memory.failed.add(uid)
            memory.failed_at = now


def count_pods(job: Mapping[str, Any], pods: Sequence[Pod], memory: JobMemory) -> Counts:
    """Count the pods of a Job, including ended ones that no longer exist."""
    active = [
        pod for pod in pods if not is_terminal(pod) and not pod["metadata"].get("deletionTimestamp")
    ]
    terminating = sum(
        1 for pod in pods if pod["metadata"].get("deletionTimestamp") and not is_terminal(pod)
    )
    indexes: set[int] = set()
    if is_indexed(job["spec"]):
        indexes = parse_indexes((job.get("status") or {}).get("completedIndexes"))
        indexes.update(
            index
            for pod in pods
            if (pod.get("status") or {}).get("phase") == "Succeeded"
            and (index := completion_index(pod)) is not None
        )
        completions = int(job["spec"].get("completions") or 0)
        indexes = {index for index in indexes if index < completions}
    return Counts(
        active=active,
        terminating=terminating,
        ready=sum(1 for pod in active if is_pod_ready(pod)),
        succeeded=memory.base_succeeded + len(memory.succeeded),
        failed=memory.base_failed + len(memory.failed),
        completed_indexes=indexes,
    )


def replaces_only_failed(job: Mapping[str, Any]) -> bool:
    """Whether a pod is replaced only once it has failed for good."""
    return bool(job["spec"].get("podReplacementPolicy") == "Failed")


def is_indexed(spec: Mapping[str, Any]) -> bool:
    """Whether each pod has a completion index of its own."""
    return bool(spec.get("completionMode") == "Indexed")


def completion_index(pod: Pod) -> int | None:
    """Return the completion index of a pod, or None."""
    text = (pod["metadata"].get("annotations") or {}).get(INDEX_ANNOTATION, "")
    return int(text) if is_number(text) else None


def is_bound(pod: Pod) -> bool:
    """Whether a node runs the pod; others vanish at once when deleted."""
    return bool(pod["spec"].get("nodeName"))


def is_pod_ready(pod: Pod) -> bool:
    """Whether the pod's Ready condition is True."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
