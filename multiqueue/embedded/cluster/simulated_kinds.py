"""The job kinds that this cluster simulates: an example of each, and its statuses. Pure.

A row says how the kind's own controller writes its status; everything else follows from the kind's
integration. Statuses have the fields that the integration reads, and a few that people look at.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

Json = dict[str, Any]
MOMENT = "2026-01-01T00:00:00Z"


class JobPhase(StrEnum):
    """What a job's own controller makes of it."""

    SUSPENDED = "Suspended"
    RUNNING = "Running"
    READY = "Ready"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedKind:
    """How one kind is simulated.

    Attributes:
        framework: The kind's name in ``integrations.frameworks``.
        spec: Returns the spec of a small example: two pod sets where the kind has several, each
            with one pod that requests one CPU.
        status: Returns the status in a phase, for a job with this spec.
        ends: Whether a job of the kind ends by itself.
    """

    framework: str
    spec: Callable[[], Json]
    status: Callable[[Mapping[str, Any], JobPhase], Json]
    ends: bool = True


def pod_template(**more: Any) -> Json:
    """Return a pod template of one container that requests one CPU."""
    container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "1"}}}
    return {"spec": {"containers": [container], "restartPolicy": "Never", **more}}


def condition(type_: str, *, status: bool = True) -> Json:
    """Return a condition."""
    return {
        "type": type_,
        "status": str(status),
        "reason": type_,
        "message": f"simulated: {type_}",
        "lastTransitionTime": MOMENT,
    }


def _jobset_spec() -> Json:
    def group(name: str) -> Json:
        job = {"parallelism": 1, "completions": 1, "template": pod_template()}
        return {"name": name, "replicas": 1, "template": {"spec": job}}

    return {"replicatedJobs": [group("leader"), group("workers")]}


def _jobset_status(spec: Mapping[str, Any], phase: JobPhase) -> Json:
    def count(each: Mapping[str, Any], *phases: JobPhase) -> int:
        return int(each.get("replicas", 1)) if phase in phases else 0

    ends = {JobPhase.SUCCEEDED: "Completed", JobPhase.FAILED: "Failed"}
    return {
        "replicatedJobsStatus": [
            {
                "name": each["name"],
                "active": count(each, JobPhase.RUNNING, JobPhase.READY),
                "ready": count(each, JobPhase.READY),
                "succeeded": count(each, JobPhase.SUCCEEDED),
                "failed": count(each, JobPhase.FAILED),
                "suspended": count(each, JobPhase.SUSPENDED),
            }
            for each in spec["replicatedJobs"]
        ],
        "conditions": [condition(ends[phase])] if phase in ends else [],
    }


def _pod_spec() -> Json:
    spec: Json = pod_template()["spec"]
    return spec


def _pod_status(spec: Mapping[str, Any], phase: JobPhase) -> Json:
    _ = spec
    phases = {JobPhase.SUSPENDED: "Pending", JobPhase.READY: "Running"}
    ready = condition("Ready", status=phase is JobPhase.READY)
    return {"phase": phases.get(phase, phase.value), "conditions": [ready]}


SIMULATED_KINDS = (
    SimulatedKind(framework="pod", spec=_pod_spec, status=_pod_status),
    SimulatedKind(framework="jobset.x-k8s.io/jobset", spec=_jobset_spec, status=_jobset_status),
)
