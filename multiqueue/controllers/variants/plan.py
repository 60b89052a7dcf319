"""What may be done about a parent and its variants: one write each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from multiqueue.api.v1beta2 import Workload, WorkloadStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateVariant:
    """Create the variant for a flavor; ``order`` is the place of the flavor in the queue."""

    flavor: str
    order: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteVariant:
    """Delete a variant; the message says why."""

    variant: Workload
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseVariant:
    """Remove the finalizer of a variant under deletion."""

    variant: Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class PatchObject:
    """Merge-patch metadata or spec of a Workload; tell of it if there is a reason."""

    workload: Workload
    patch: Mapping[str, Any]
    reason: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PatchStatus:
    """Change the status of a Workload, computed again on its newest state."""

    workload: Workload
    change: Callable[[Workload], WorkloadStatus]
    reason: str = ""
    message: str = ""


FamilyStep: TypeAlias = CreateVariant | DeleteVariant | ReleaseVariant | PatchObject | PatchStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class FamilyPlan:
    """The next steps; without any, the seconds until the next look, None for the next change."""

    steps: tuple[FamilyStep, ...] = ()
    requeue_after: float | None = None
