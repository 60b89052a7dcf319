"""What a rule of the workload controller may ask for: one write, or another reconcile later."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from multiqueue.api.v1beta2 import WorkloadStatus
from multiqueue.controllers.workload.view import WorkloadSituation


@dataclass(frozen=True, slots=True, kw_only=True)
class NothingToDo:
    """Nothing to do until something changes, or for that many seconds."""

    requeue_after: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WarnEvent:
    """A Warning event that goes with a write."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteStatus:
    """Write the status that a rule computes; it is computed again on the newest state.

    ``change`` returns the view's own status if nothing is left to change. A ``minor`` write may
    wait: only numbers in a message differ. ``explains`` says that nothing follows from the
    write: it only gives the reason for waiting.
    """

    change: Callable[[WorkloadSituation], WorkloadStatus]
    warn: WarnEvent | None = None
    minor: bool = False
    explains: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PatchSpec:
    """Merge-patch the spec."""

    patch: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    """Delete the Workload after its retention time."""

    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseFinalizer:
    """Remove the finalizer of a Workload under deletion."""


WorkloadPlan: TypeAlias = NothingToDo | WriteStatus | PatchSpec | Delete | ReleaseFinalizer
