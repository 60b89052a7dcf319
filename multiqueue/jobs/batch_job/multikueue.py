"""batch/v1 Job on a worker: the copy to create there, and how its status is copied back. Pure.

Parity: M-132, M-133, M-140, M-148.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from multiqueue.api import names
from multiqueue.api.slices import counts_of
from multiqueue.api.v1beta2.meta import format_time
from multiqueue.jobs.batch_job.integration import MANAGED_LABELS, BatchJob
from multiqueue.jobs.batch_job.sizes import completions_of, parallelism_of, sizes_of
from multiqueue.jobs.framework.copy_adapter import (
    GONE_REASON,
    copy_object,
    refuse_other_manager,
    slice_patch,
)
from multiqueue.jobs.framework.gvk import GroupVersionKind
from multiqueue.jobs.framework.integration import Finished, Job
from multiqueue.jobs.framework.multikueue import NO_PODS, AdapterDefaults, StatusSync
from multiqueue.jobs.workload_wire import diff
from multiqueue.kube.resources import JOBS, Resource

DROPPED_SPEC = ("managedBy", "manualSelector", "selector", "ttlSecondsAfterFinished")
"""Fields that the copy must not have: the worker's own controller runs it (M-132), it gets its own
selector, and it must still exist when its end is read (M-148)."""
ADAPTER_REASON = "MultiKueueAdapter"
_ENDED_COUNTS = ("active", "ready", "terminating")


class BatchJobAdapter(AdapterDefaults):
    """The MultiKueue adapter of ``batch/job``."""

    gvk: Final = GroupVersionKind.of_resource(JOBS)
    resource: Final[Resource] = JOBS

    def __init__(self) -> None:
        self._integration = BatchJob()

    def refusal(self, job: Job) -> str | None:
        """Refuse a Job unless its ``spec.managedBy`` names MultiKueue (M-137)."""
        return refuse_other_manager(job, self.gvk.kind, ("spec", "managedBy"))

    def remote_job(
        self, local: Job, *, workload_name: str, origin: str, pods: Mapping[str, int] = NO_PODS
    ) -> Job:
        """Copy name, namespace, labels, annotations and spec; suspend the copy."""
        copy = copy_object(local, self.resource, workload_name=workload_name, origin=origin)
        spec = {key: value for key, value in copy["spec"].items() if key not in DROPPED_SPEC}
        spec["suspend"] = True
        if names.DEFAULT_PODSET in pods:
            spec.update(sizes_of(local, pods[names.DEFAULT_PODSET]))
        spec["template"] = _without_tracking_labels(spec.get("template") or {})
        return {**copy, "spec": spec}

    def status_patch(self, local: Job, remote: Job) -> StatusSync:
        """Copy the whole status, except to a suspended Job whose copy runs.

        Kubernetes refuses changes to the template of a Job that has a start time. The manager still
        has to change the template when it starts the Job; until then the status waits (M-140).
        Kubernetes also refuses lower counts, and another start time for a Job that is not suspended
        (as when its worker preempts it). Those fields keep their values.
        """
        theirs: Mapping[str, Any] = remote.get("status") or {}
        ours: Mapping[str, Any] = local.get("status") or {}
        copies = (
            not local["spec"].get("suspend")
            or remote["spec"].get("suspend")
            or self._integration.finished(remote) is not None
        )
        if copies:
            kept = {
                name: ours[name] for name in _kept(local) if ours.get(name, 0) > theirs.get(name, 0)
            }
            if not local["spec"].get("suspend") and "startTime" in ours:
                kept["startTime"] = ours["startTime"]
            change = diff(ours, {**theirs, **kept})
            return StatusSync(patch={"status": change} if change else None)
        return StatusSync(patch=_suspended_patch(ours, remote), deferred=True)

    def resize_patch(
        self, local: Job, remote: Job, *, workload_name: str, pods: Mapping[str, int]
    ) -> dict[str, Any] | None:
        """Patch name and parallelism, and completions if both change together (Indexed Jobs)."""
        patch = slice_patch(remote, workload_name)
        if counts_of(self._integration.pod_sets(local)) == pods:
            here, there = local["spec"], remote["spec"]
            sizes = {
                key: here[key]
                for key in ("parallelism", "completions")
                if key in here and here[key] != there.get(key)
            }
            if sizes:
                patch["spec"] = sizes
        return patch or None

    def stopped_patch(self, local: Job) -> dict[str, Any] | None:
        """Set the counts of pods to zero."""
        status = local.get("status") or {}
        change = {name: 0 for name in _ENDED_COUNTS if status.get(name)}
        return {"status": change} if change else None

    def final_patch(self, local: Job, end: Finished, now: datetime) -> dict[str, Any] | None:
        """Make the Job Complete or Failed, with all fields that Kubernetes demands of it."""
        if self._integration.finished(local) is not None:
            return None
        status = local.get("status") or {}
        moment = format_time(now)
        before, after = (
            ("SuccessCriteriaMet", "Complete") if end.success else ("FailureTarget", "Failed")
        )
        change: dict[str, Any] = {
            "startTime": status.get("startTime") or moment,
            "uncountedTerminatedPods": None,
            "conditions": [
                *(c for c in status.get("conditions") or () if c["type"] not in {before, after}),
                *(
                    {
                        "type": type_,
                        "status": "True",
                        "reason": GONE_REASON,
                        "message": end.message,
                        "lastProbeTime": moment,
                        "lastTransitionTime": moment,
                    }
                    for type_ in (before, after)
                ),
            ],
            **{name: 0 for name in _ENDED_COUNTS if status.get(name)},
        }
        if end.success:
            change["completionTime"] = moment
        return {"status": change}


def _kept(local: Job) -> tuple[str, ...]:
    """Return the counts that nobody may lower: a job on its second worker begins at zero again.

    If a job has as many pods as ranks, it may shrink, and then the count of finished ones may too.
    """
    is_indexed = local["spec"].get("completionMode") == "Indexed"
    if is_indexed and parallelism_of(local) == completions_of(local):
        return ("failed",)
    return ("succeeded", "failed")


def _without_tracking_labels(template: Mapping[str, Any]) -> dict[str, Any]:
    """Drop the labels that tie pods to one Job; the worker's API server sets its own."""
    metadata = dict(template.get("metadata") or {})
    metadata.pop("creationTimestamp", None)
    labels = {
        k: v for k, v in (metadata.pop("labels", None) or {}).items() if k not in MANAGED_LABELS
    }
    if labels:
        metadata["labels"] = labels
    return {**template, "metadata": metadata}


def _suspended_patch(status: Mapping[str, Any], remote: Job) -> dict[str, Any] | None:
    """Add the condition Suspended, which Kubernetes 1.36 demands of a suspended Job of ours."""
    conditions = status.get("conditions") or []
    if any(c["type"] == "Suspended" and c["status"] == "True" for c in conditions):
        return None
    moment = (remote.get("status") or {}).get("startTime") or remote["metadata"].get(
        "creationTimestamp"
    )
    condition = {
        "type": "Suspended",
        "status": "True",
        "reason": ADAPTER_REASON,
        "message": "The Job runs on a worker, but is not yet admitted here",
        "lastProbeTime": moment,
        "lastTransitionTime": moment,
    }
    return {
        "status": {"conditions": [*(c for c in conditions if c["type"] != "Suspended"), condition]}
    }
