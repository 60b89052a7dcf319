"""How many pods a gang with alternatives runs with, and why, by pod set. Pure."""

from __future__ import annotations

from multiqueue.api.alternatives import Pods, find_alternatives, resolve_alternatives
from multiqueue.api.ran_on import find_ran_on
from multiqueue.api.v1beta2 import Workload
from multiqueue.api.workload_state import is_admitted


def explain_width(workload: Workload) -> str:
    """Return how many pods run, or would run; empty if that does not depend on hardware."""
    counts = {pod_set.name: pod_set.count for pod_set in workload.spec.pod_sets}
    try:
        found = resolve_alternatives(find_alternatives(workload.metadata.annotations), counts)
    except ValueError:
        return ""  # there are no alternatives, or conditions describe their problems
    runs = _find_running(workload)
    fewer = {
        name: {hardware: count for hardware, count in pods.items() if count < counts[name]}
        for name, pods in sorted(found.items())
    }
    told = {name: _tell(counts[name], runs.get(name), pods) for name, pods in fewer.items() if pods}
    if len(counts) == 1:
        return "; ".join(told.values())
    return "; ".join(f"{name}: {words}" for name, words in told.items())


def _find_running(workload: Workload) -> dict[str, int]:
    """Return the pods of each pod set; empty before the place where they run is certain."""
    admission = workload.status.admission
    if admission is None or not is_admitted(workload.status):
        return {}
    fewer = find_ran_on(workload).pods
    return {
        assignment.name: fewer.get(assignment.name, assignment.count)
        for assignment in admission.pod_set_assignments
        if assignment.count is not None
    }


def _tell(asked: int, runs: int | None, pods: Pods) -> str:
    others = ", ".join(f"{count} on {name}" for name, count in sorted(pods.items()))
    if runs is None:
        return f"{asked}, or {others}"
    if runs < asked:
        hardware = " or ".join(sorted(name for name, count in pods.items() if count == runs))
        return f"{runs} of {asked}" + (f", because it got {hardware}" if hardware else "")
    return f"all {asked}, because it got none of the hardware that needs fewer ({others})"
