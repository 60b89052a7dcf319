"""Objects that are queued through their pods, on workers. Pure. Parity: J-294, J-313, M-24.

The worker's own controller makes the pods there; those on the manager stay gated.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from multiqueue.api import names
from multiqueue.jobs.framework.copy_adapter import copy_object
from multiqueue.jobs.framework.integration import Finished, Job
from multiqueue.jobs.framework.multikueue import NO_PODS, AdapterDefaults, StatusSync
from multiqueue.jobs.pod_owners.kind import PodOwnerKind


class PodOwnerAdapter(AdapterDefaults):
    """The adapter of a kind whose pods are one group for each Workload.

    Args:
        kind: The integration of the kind.
    """

    def __init__(self, kind: PodOwnerKind) -> None:
        self.gvk = kind.gvk
        self.resource = kind.resource

    def refusal(self, job: Job) -> None:
        """Return None: the queue alone decides where the pods run."""

    def remote_job(
        self, local: Job, *, workload_name: str, origin: str, pods: Mapping[str, int] = NO_PODS
    ) -> Job:
        """Copy the object; the worker derives the same names from the uid of this one."""
        remote = copy_object(local, self.resource, workload_name=workload_name, origin=origin)
        uid = local["metadata"]["uid"]
        remote["metadata"]["annotations"][names.MULTIKUEUE_ORIGIN_UID] = uid
        return remote

    def status_patch(self, local: Job, remote: Job) -> StatusSync:
        """Write nothing: this cluster's own controller writes the status of its object."""
        return StatusSync()

    def stopped_patch(self, local: Job) -> dict[str, Any] | None:
        """Write nothing."""
        return None

    def final_patch(self, local: Job, end: Finished, now: datetime) -> dict[str, Any] | None:
        """Write nothing: such an object does not end."""
        return None
