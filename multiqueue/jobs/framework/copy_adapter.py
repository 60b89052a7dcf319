"""The base of MultiKueue adapters: copies the spec to the worker, and the whole status back. Pure.

Parity: M-132, M-133, J-142..J-148. Deviates: a time to live is not copied, so that the remote job
still exists when its end is read; the local job keeps it (J-148).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from multiqueue.api import names
from multiqueue.api.v1beta2.meta import format_time
from multiqueue.api.workload_state import CREATE_AGAIN
from multiqueue.jobs.framework.fields import FieldPath, describe_path, drop_field, get_field
from multiqueue.jobs.framework.integration import Finished, Job
from multiqueue.jobs.framework.job_source import prebuilt_name
from multiqueue.jobs.framework.multikueue import NO_PODS, AdapterDefaults, StatusSync
from multiqueue.jobs.framework.template_kind import TemplateKind
from multiqueue.jobs.workload_wire import diff
from multiqueue.kube.resources import Resource

MAX_LABEL_VALUE = 63
GONE_REASON = "RemoteJobGone"
LEFT_OUT = (names.STOPPING, names.ALTERNATIVES, names.RUNS_WITH)
"""Annotations that say something about the manager's object only."""


def copy_object(local: Job, resource: Resource, *, workload_name: str, origin: str) -> Job:
    """Return the object to create on a worker; it has no owners there (J-143, M-212)."""
    metadata = local["metadata"]
    annotations = dict(metadata.get("annotations") or {})
    for name in LEFT_OUT:
        annotations.pop(name, None)
    annotations[names.PREBUILT_WORKLOAD_NAME] = workload_name
    labels = {**(metadata.get("labels") or {}), names.MULTIKUEUE_ORIGIN: origin}
    if len(workload_name) <= MAX_LABEL_VALUE:
        # Readers that do not know the annotation use the label (M-25).
        labels[names.PREBUILT_WORKLOAD_NAME] = workload_name
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {
            "name": metadata["name"],
            "namespace": metadata.get("namespace", ""),
            "labels": labels,
            "annotations": annotations,
        },
        "spec": local.get("spec") or {},
    }


def refuse_other_manager(job: Job, kind: str, field: FieldPath) -> str | None:
    """Return why a job stays here unless the field of its controller names MultiKueue (M-137)."""
    manager = get_field(job, field)
    if manager == names.MULTIKUEUE_CONTROLLER:
        return None
    metadata = job["metadata"]
    key = names.key_of(metadata.get("namespace", ""), metadata["name"])
    found = f'is "{manager}"' if manager else "is not set"
    return (
        f'{kind} "{key}": {describe_path(field)} {found}, so its own cluster runs it; '
        f'{CREATE_AGAIN} with managedBy "{names.MULTIKUEUE_CONTROLLER}"'
    )


class CopyAdapter(AdapterDefaults):
    """The adapter of a kind whose spec is copied once and whose status is copied whole.

    Args:
        kind: The kind's integration.
        success: The condition of a job that ended well.
        failure: The condition of a job that failed.
        dropped: Fields that the copy must not have, beside those that name the controller and the
            time to live.
    """

    def __init__(
        self,
        kind: TemplateKind,
        *,
        success: str = "Completed",
        failure: str = "Failed",
        dropped: Sequence[FieldPath] = (),
    ) -> None:
        self.kind = kind
        self.gvk = kind.gvk
        self.resource = kind.resource
        self._success, self._failure = success, failure
        self._dropped = (kind.ttl_field, *dropped)

    def refusal(self, job: Job) -> str | None:
        """Refuse a job whose controller field does not name MultiKueue (M-137)."""
        field = self.kind.managed_by_field
        return None if field is None else refuse_other_manager(job, self.gvk.kind, field)

    def remote_job(
        self, local: Job, *, workload_name: str, origin: str, pods: Mapping[str, int] = NO_PODS
    ) -> Job:
        """Copy name, namespace, labels, annotations and spec; suspend the copy."""
        remote = copy_object(local, self.resource, workload_name=workload_name, origin=origin)
        managed_by = self.kind.managed_by_field
        for field in (*self._dropped, *([managed_by] if managed_by else ())):
            remote = drop_field(remote, field)
        return self.kind.set_suspended(remote, value=True)

    def status_patch(self, local: Job, remote: Job) -> StatusSync:
        """Copy the whole status (J-144)."""
        change = diff(local.get("status") or {}, remote.get("status") or {})
        return StatusSync(patch={"status": change} if change else None)

    def stopped_patch(self, local: Job) -> dict[str, Any] | None:
        """Remove the status of a worker that no longer runs the job.

        It would say for ever that pods run, so that the quota would never be released.
        """
        return {"status": None} if self.kind.is_active(local) else None

    def final_patch(self, local: Job, end: Finished, now: datetime) -> dict[str, Any] | None:
        """Add the condition of a job that ended."""
        if self.kind.finished(local) is not None:
            return None
        type_ = self._success if end.success else self._failure
        conditions = get_field(local, ("status", "conditions")) or ()
        condition = {
            "type": type_,
            "status": "True",
            "reason": GONE_REASON,
            "message": end.message,
            "lastTransitionTime": format_time(now),
        }
        return {
            "status": {"conditions": [*(c for c in conditions if c["type"] != type_), condition]}
        }


def slice_patch(remote: Job, workload_name: str) -> dict[str, Any]:
    """Return the patch that makes a remote job belong to another slice; empty if it does."""
    if prebuilt_name(remote) == workload_name:
        return {}
    is_label = len(workload_name) <= MAX_LABEL_VALUE
    return {
        "metadata": {
            "annotations": {names.PREBUILT_WORKLOAD_NAME: workload_name},
            "labels": {names.PREBUILT_WORKLOAD_NAME: workload_name if is_label else None},
        }
    }
