"""The protocol of a job kind that can run on a worker; pure, `dispatch` does the I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Any, Protocol

from multiqueue.jobs.framework.gvk import GroupVersionKind
from multiqueue.jobs.framework.integration import Finished, Job
from multiqueue.jobs.framework.job_source import prebuilt_name
from multiqueue.kube.resources import Resource

NO_PODS: Mapping[str, int] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusSync:
    """The consequence of the remote job's status for the local one (M-140).

    Attributes:
        patch: JSON merge patch for the local job's ``/status``, as ``{"status": {...}}``; None if
            nothing has to be written.
        deferred: Ask again soon: the local job cannot take the status yet.
    """

    patch: dict[str, Any] | None = None
    deferred: bool = False


class AdapterDefaults(Protocol):
    """What holds for kinds whose jobs are one object each; a kind made of members overrides it."""

    @property
    def status_subresource(self) -> str | None:
        """Return ``status``: the subresource by which a local job's status is written."""
        return "status"

    def gather(self, objects: Sequence[Job]) -> Job:
        """Return the job that the objects of one Workload on a worker are."""
        return objects[0]

    def pair(self, local: Job, remote: Job) -> Sequence[tuple[Job, Job | None]]:
        """Return each local object of a job with its counterpart; None if that is to be created."""
        return ((local, remote),)

    def spec_patch(self, local: Job, remote: Job) -> dict[str, Any] | None:
        """Return nothing: the spec is copied once (J-145)."""
        return None

    def resize_patch(
        self, local: Job, remote: Job, *, workload_name: str, pods: Mapping[str, int]
    ) -> dict[str, Any] | None:
        """Return nothing: jobs of the kind have one size."""
        return None

    def workload_name(self, remote: Job) -> str | None:
        """Return the name of the prebuilt Workload."""
        return prebuilt_name(remote) or None


class MultiKueueAdapter(AdapterDefaults, Protocol):
    """What dispatch has to know about one job kind."""

    @property
    def gvk(self) -> GroupVersionKind:
        """The kind."""
        ...

    @property
    def resource(self) -> Resource:
        """The REST collection of the kind, on manager and workers."""
        ...

    def refusal(self, job: Job) -> str | None:
        """Return why MultiKueue cannot run this job (M-82), or None if it can."""
        ...

    def remote_job(
        self, local: Job, *, workload_name: str, origin: str, pods: Mapping[str, int] = NO_PODS
    ) -> Job:
        """Return the object to create on the worker (M-132), suspended; its worker starts it.

        Args:
            local: The job on the manager.
            workload_name: The name of the copy of its Workload.
            origin: The manager's origin.
            pods: Pod counts by pod set, if they differ from the job's.
        """
        ...

    def status_patch(self, local: Job, remote: Job) -> StatusSync:
        """Return how the remote status changes the local one (M-133, M-140)."""
        ...

    def spec_patch(self, local: Job, remote: Job) -> dict[str, Any] | None:
        """Return the patch of a remote job for what changed in the local one's spec (M-145).

        None if nothing has to be written. Sizes are not part of it: see `resize_patch`.
        """
        ...

    def resize_patch(
        self, local: Job, remote: Job, *, workload_name: str, pods: Mapping[str, int]
    ) -> dict[str, Any] | None:
        """Return the patch of an elastic job's remote job for another slice or size (M-161).

        If the local job no longer has the size of its slice, only the slice is changed. The size
        follows once the slice has it. None if nothing has to be written.

        Args:
            local: The job on the manager.
            remote: The job on the worker.
            workload_name: The name of the slice that the remote job is to belong to.
            pods: The size of that slice: numbers of pods by pod set.
        """
        ...

    def stopped_patch(self, local: Job) -> dict[str, Any] | None:
        """Return the local status patch that says that nothing runs; None if it says so already."""
        ...

    def final_patch(self, local: Job, end: Finished, now: datetime) -> dict[str, Any] | None:
        """Return the local status patch for a remote job that ended and is gone.

        None if the status says so already. Used if the remote job was deleted before its last
        status was seen, by somebody or by a time to live on the worker. Otherwise the job would
        never end.
        """
        ...

    def workload_name(self, remote: Job) -> str | None:
        """Return the name of the Workload that a remote job belongs to (M-144), or None."""
        ...
