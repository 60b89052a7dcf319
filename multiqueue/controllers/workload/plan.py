"""What a rule of the workload controller may ask for: one write, or to come again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from multiqueue.api.v1beta2 import WorkloadStatus
from multiqueue.controllers.workload.view import WorkloadSituation


@dataclass(frozen=True, slots=True, kw_only=True)
class NothingToDo:
    """Nothing to do until something changes, or for so many seconds."""

    requeue_after: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WarnEvent:
    """A Warning event that goes with a write."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteStatus:
    """Write the status that a rule wants; the rule is asked again on the newest state.

    ``change`` gives the view's own status where there is nothing to change any more. What is
    ``minor`` may wait: only figures in a message differ. ``explains`` says that nothing follows
    from the write: it tells why the Workload waits.
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
    """Delete the Workload: it was kept long enough."""

    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseFinalizer:
    """Let a Workload go that is being deleted."""


WorkloadPlan: TypeAlias = NothingToDo | WriteStatus | PatchSpec | Delete | ReleaseFinalizer
