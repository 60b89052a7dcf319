"""What a waiting successor slice of an elastic job requests. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from multiqueue.api.slices import replaced_key
from multiqueue.api.v1beta2 import Workload
from multiqueue.api.workload_state import has_quota, is_finished


def explain_slice(workload: Workload, workloads: Mapping[str, Workload]) -> str:
    """Return the requested and the running number of pods; empty if it replaces no slice."""
    replaced = _find_replaced(workload, workloads)
    if replaced is None:
        return ""
    had = {pod_set.name: pod_set.count for pod_set in replaced.spec.pod_sets}
    sizes = ", ".join(
        f"{pod_set.count} pod(s) of {pod_set.name} in place of {had.get(pod_set.name, 0)}"
        for pod_set in workload.spec.pod_sets
    )
    return (
        f"{sizes}, which run on as {replaced.metadata.name} until then; "
        "only the difference needs quota"
    )


def _find_replaced(workload: Workload, workloads: Mapping[str, Workload]) -> Workload | None:
    replaced = workloads.get(replaced_key(workload))
    if replaced is None or is_finished(replaced.status) or not has_quota(replaced.status):
        return None
    return replaced
