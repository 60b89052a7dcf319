"""What a job kind must tell MultiKueue to run on a worker; pure, `multikueue` does the I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Any, Protocol

from multiqueue.jobs.framework.gvk import GroupVersionKind
from multiqueue.jobs.framework.integration import Finished, Job
from multiqueue.kube.resources import Resource

NO_PODS: Mapping[str, int] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusSync:
    """What to do with the status of the remote job (M-140).

    Attributes:
        patch: JSON merge patch for the local job's ``/status``, as ``{"status": {...}}``; None when
            there is nothing to write.
        deferred: Ask again soon: the local job is not ready to take the status.
    """

    patch: dict[str, Any] | None = None
    deferred: bool = False


class MultiKueueAdapter(Protocol):
    """One job kind that can be dispatched."""

    @property
    def gvk(self) -> GroupVersionKind:
        """The kind."""
        ...

    @property
    def resource(self) -> Resource:
        """The REST collection of the kind, on manager and workers."""
        ...

    def refusal(self, job: Job) -> str | None:
        """Why this job cannot be run by MultiKueue (M-82), or None when it can."""
        ...

    def remote_job(
        self, local: Job, *, workload_name: str, origin: str, pods: Mapping[str, int] = NO_PODS
    ) -> Job:
        """The object to create on the worker (M-132): suspended, its worker lets it run.

        Args:
            local: The job on the manager.
            workload_name: Name of the copy of its Workload.
            origin: Of the manager.
            pods: Numbers of pods by pod set, where they are others than the job asks for.
        """
        ...

    def status_patch(self, local: Job, remote: Job) -> StatusSync:
        """How the remote status comes back (M-133, M-140)."""
        ...

    def resize_patch(
        self, local: Job, remote: Job, *, workload_name: str, pods: int
    ) -> dict[str, Any] | None:
        """Patch of the remote job of an elastic one, for another slice or size (M-161).

        Where the local job has another size than its slice by now, only the slice is changed: the
        size follows when that has it. None where nothing is to be written.

        Args:
            local: The job on the manager.
            remote: Its copy.
            workload_name: Name of the slice that the copy is to belong to.
            pods: Size of that slice.
        """
        ...

    def stopped_patch(self, local: Job) -> dict[str, Any] | None:
        """Patch of the local status that says that nothing runs any more; None where it says so."""
        ...

    def final_patch(self, local: Job, end: Finished, now: datetime) -> dict[str, Any] | None:
        """Patch of the local status for a remote job that ended and is gone; None where it says so.

        Better than a job that never ends: somebody, or a time to live on the worker, deleted the
        remote job before its last status was seen.
        """
        ...

    def workload_name(self, remote: Job) -> str | None:
        """Name of the Workload that a remote job belongs to (M-144), or None."""
        ...
