"""Reads the slice data of Workloads of elastic jobs (E-165 to E-168, M-85). Pure.

A slice holds the quota of an elastic job at one size. A larger slice replaces it. Slices that
replace each other are a chain, and all slices of a chain share the name of the first one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from multiqueue.api import names
from multiqueue.api.conditions import Reason, WorkloadCondition, find_condition
from multiqueue.api.v1beta2 import PodSet, Workload, WorkloadStatus

Counts = Mapping[str, int]
"""Numbers of pods by name of the pod set."""
Find = Callable[[str], Workload | None]
"""Finds a Workload by its key."""


def is_elastic(workload: Workload) -> bool:
    """Whether a slice of the same job may replace the Workload."""
    return workload.metadata.annotations.get(names.ELASTIC_JOB) == "true"


def replaced_key(workload: Workload) -> str:
    """Return the key of the slice whose quota this one takes over; "" if it replaces none.

    An annotation that names another namespace, or the Workload itself, is ignored.
    """
    key = workload.metadata.annotations.get(names.WORKLOAD_SLICE_REPLACEMENT_FOR, "")
    namespace, _, name = key.partition("/")
    is_other = name not in {"", workload.metadata.name}
    return key if is_other and namespace == workload.metadata.namespace else ""


def list_earlier(workload: Workload, find: Find) -> Iterator[str]:
    """Yield the keys of the slices before this one, newest first; deleted ones too."""
    seen = {workload.metadata.key}
    key = replaced_key(workload)
    while key and key not in seen:
        seen.add(key)
        yield key
        earlier = find(key)
        key = replaced_key(earlier) if earlier is not None else ""


def slice_name(workload: Workload) -> str:
    """Return the name of the chain's first slice, which is on all pods of the job."""
    known = workload.metadata.annotations.get(names.WORKLOAD_SLICE_NAME)
    return known or workload.metadata.name


def is_replaced(status: WorkloadStatus) -> bool:
    """Whether a successor slice took over; the job runs on."""
    finished = find_condition(status.conditions, WorkloadCondition.FINISHED)
    return (
        finished is not None
        and finished.status == "True"
        and finished.reason == Reason.WORKLOAD_SLICE_REPLACED
    )


def replaced_message(by: Workload) -> str:
    """Return the message of a slice that ends because a successor slice took over."""
    metadata = by.metadata
    return (
        f"Replaced to accommodate a workload (UID: {metadata.uid}, JobUID:"
        f" {metadata.labels.get(names.JOB_UID, '')}) due to workload slice aggregation"
    )


def counts_of(pod_sets: tuple[PodSet, ...]) -> Counts:
    """Numbers of pods by name of the pod set."""
    return {pod_set.name: pod_set.count for pod_set in pod_sets}


def is_scale_down(old: Counts, new: Counts) -> bool:
    """Whether some count is lower and none is higher, with equal pod sets (E-166)."""
    return (
        old.keys() == new.keys()
        and old != new
        and all(new[name] <= count for name, count in old.items())
    )
