"""RayClusters, RayJobs and RayServices on workers. Pure.

Parity: J-331, J-343, J-364, M-145, M-162.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from multiqueue.api import names
from multiqueue.api.slices import counts_of
from multiqueue.jobs.framework.copy_adapter import GONE_REASON, CopyAdapter, slice_patch
from multiqueue.jobs.framework.fields import drop_field, get_field
from multiqueue.jobs.framework.integration import Finished, InvalidJobError, Job
from multiqueue.jobs.framework.multikueue import NO_PODS
from multiqueue.jobs.ray.cluster import groups_of, is_marked_elastic

SIZES = ("replicas", "numOfHosts")
"""The fields of a group of workers that follow the local cluster while it runs."""


class RayClusterAdapter(CopyAdapter):
    """The adapter of RayClusters: the local one says how large an elastic remote one is."""

    def remote_job(
        self, local: Job, *, workload_name: str, origin: str, pods: Mapping[str, int] = NO_PODS
    ) -> Job:
        """Copy the cluster; an elastic one does not scale itself there."""
        remote = super().remote_job(local, workload_name=workload_name, origin=origin, pods=pods)
        scales_itself = ("spec", "enableInTreeAutoscaling")
        copied: Job = drop_field(remote, scales_itself) if is_marked_elastic(local) else remote
        return copied

    def resize_patch(
        self, local: Job, remote: Job, *, workload_name: str, pods: Mapping[str, int]
    ) -> dict[str, Any] | None:
        """Patch the name of the slice, and the sizes of the groups of workers."""
        patch = slice_patch(remote, workload_name)
        try:
            is_at_size = counts_of(self.kind.pod_sets(local)) == pods
        except InvalidJobError:
            is_at_size = False
        if is_at_size:
            here = {group["groupName"]: group for group in groups_of(local["spec"])}
            there = groups_of(remote["spec"])
            wanted = [_resized(group, here.get(group["groupName"])) for group in there]
            if wanted != list(there):
                patch["spec"] = {"workerGroupSpecs": wanted}
        return patch or None

    def stopped_patch(self, local: Job) -> dict[str, Any] | None:
        """Say that the cluster is suspended."""
        return {"status": {"state": "suspended"}} if self.kind.is_active(local) else None

    def final_patch(self, local: Job, end: Finished, now: datetime) -> dict[str, Any] | None:
        """Change nothing: a cluster has no end that its status could tell."""
        return None


class RayOwnerAdapter(CopyAdapter):
    """What the adapters of RayJobs and RayServices share.

    Deviates: an elastic one is refused; upstream sends it to a worker, where it cannot grow.
    """

    def refusal(self, job: Job) -> str | None:
        """Refuse jobs of other controllers, and elastic ones."""
        if not is_marked_elastic(job):
            return super().refusal(job)
        metadata = job["metadata"]
        key = names.key_of(metadata.get("namespace", ""), metadata["name"])
        return (
            f'{self.gvk.kind} "{key}": an elastic {self.gvk.kind} cannot run on a worker; create '
            f"it again without the annotation {names.ELASTIC_JOB} and without in-tree autoscaling"
        )


class RayJobAdapter(RayOwnerAdapter):
    """The adapter of RayJobs."""

    def stopped_patch(self, local: Job) -> dict[str, Any] | None:
        """Say that the job is suspended."""
        if not self.kind.is_active(local):
            return None
        stopped = {"jobDeploymentStatus": "Suspended", "rayClusterStatus": {"state": "suspended"}}
        return {"status": stopped}

    def final_patch(self, local: Job, end: Finished, now: datetime) -> dict[str, Any] | None:
        """Set the end, as KubeRay writes it."""
        if self.kind.finished(local) is not None:
            return None
        deployment, job = ("Complete", "SUCCEEDED") if end.success else ("Failed", "FAILED")
        ended = {"jobDeploymentStatus": deployment, "jobStatus": job, "message": end.message}
        return {"status": ended}


class RayServiceAdapter(RayOwnerAdapter):
    """The adapter of RayServices: the local one says which applications run."""

    def spec_patch(self, local: Job, remote: Job) -> dict[str, Any] | None:
        """Forward ``serveConfigV2`` (M-145)."""
        wanted = local["spec"].get("serveConfigV2")
        is_known = remote["spec"].get("serveConfigV2") == wanted
        return None if is_known else {"spec": {"serveConfigV2": wanted}}

    def stopped_patch(self, local: Job) -> dict[str, Any] | None:
        """Say that the service is not ready."""
        if not self.kind.is_active(local):
            return None
        conditions = get_field(local, ("status", "conditions")) or ()
        return {
            "status": {
                "conditions": [
                    {**c, "status": "False", "reason": GONE_REASON} if c["type"] == "Ready" else c
                    for c in conditions
                ]
            }
        }

    def final_patch(self, local: Job, end: Finished, now: datetime) -> dict[str, Any] | None:
        """Change nothing: a service has no end that its status could tell."""
        return None


def _resized(group: Mapping[str, Any], local: Mapping[str, Any] | None) -> Mapping[str, Any]:
    if local is None:
        return group
    kept = {key: value for key, value in group.items() if key not in SIZES}
    return {**kept, **{key: local[key] for key in SIZES if key in local}}
