"""What a rule may ask for: one write, or to wait. Plain values; `execute` carries them out.

After a write everything is observed again, so a plan never has more than one step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from multiqueue.api.v1beta2 import Workload, WorkloadStatus
from multiqueue.jobs.framework.integration import JobPatch, MemberWrites


@dataclass(frozen=True, slots=True, kw_only=True)
class EventNote:
    """An event to record once the write succeeded; on the job unless ``on_workload``."""

    reason: str
    message: str
    warning: bool = False
    on_workload: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """Nothing to do until something changes, or for that many seconds."""

    requeue_after: float | None = None
    note: EventNote | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateJobWorkload:
    """Create the job's Workload."""

    body: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteWorkload:
    """Delete a Workload and release its finalizer."""

    workload: Workload
    note: EventNote | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseWorkload:
    """Remove our finalizer from a Workload."""

    workload: Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class PatchWorkload:
    """Merge-patch spec or metadata of a Workload."""

    workload: Workload
    patch: Mapping[str, Any]
    note: EventNote | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeStatus:
    """Change the status of a Workload; decided again on its newest state."""

    workload: Workload
    change: Callable[[Workload], WorkloadStatus]
    note: EventNote | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteJob:
    """Write to the job.

    Attributes:
        patch: The patch to write.
        strict: Write only if the job has not changed since it was read.
        note: The event to record.
        start_of: The Workload that this write starts. If the API server refuses the write for
            good, that Workload fails to start.
    """

    patch: JobPatch
    strict: bool = True
    note: EventNote | None = None
    start_of: Workload | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteJob:
    """Delete the job itself (E-116)."""

    note: EventNote


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteMembers:
    """Write to several members of a job at the same time.

    Attributes:
        writes: The steps of each member.
        note: The event to record on each member whose steps were carried out.
        start_of: See `WriteJob`.
    """

    writes: MemberWrites
    note: EventNote | None = None
    start_of: Workload | None = None


JobPlan: TypeAlias = (
    Wait
    | CreateJobWorkload
    | DeleteWorkload
    | ReleaseWorkload
    | PatchWorkload
    | ChangeStatus
    | WriteJob
    | DeleteJob
    | WriteMembers
)
