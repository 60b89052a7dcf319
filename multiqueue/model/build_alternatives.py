"""The number of pods that a Workload needs on each hardware; called by `build`."""

from __future__ import annotations

from collections.abc import Mapping

from multiqueue.api import names
from multiqueue.api import v1beta2 as api
from multiqueue.api.alternatives import OTHERWISE, find_alternatives, resolve_alternatives
from multiqueue.api.slices import is_elastic

ByHardware = tuple[tuple[str, int], ...]
"""Pods by hardware; `OTHERWISE` stands for hardware that is not named."""


def read_alternatives(
    obj: api.Workload, counts: Mapping[str, int], *, elastic: bool = False
) -> tuple[Mapping[str, ByHardware], list[str]]:
    """Return the pod counts that a Workload declares by hardware, and the problems of reading them.

    Args:
        obj: The Workload.
        counts: Pods that still need quota, by name of the pod set.
        elastic: Whether Workloads may be slices of elastic jobs.

    Returns:
        The counts by name of the pod set, for pod sets that declare any; and the problems.
    """
    text = find_alternatives(obj.metadata.annotations)
    if not text:
        return {}, []
    path = f"metadata.annotations[{names.ALTERNATIVES}]"
    if elastic and is_elastic(obj):
        return {}, [f"{path}: an elastic job has no alternatives; remove one of the two"]
    try:
        found = resolve_alternatives(text, {ps.name: ps.count for ps in obj.spec.pod_sets})
    except ValueError as error:
        return {}, [f"{path}: {error}"]
    return {
        name: tuple(sorted({**pods, OTHERWISE: counts[name]}.items()))
        for name, pods in found.items()
    }, []
