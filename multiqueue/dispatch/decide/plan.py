"""The answers of the rules: removals and steps, each of which may be repeated. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum

from multiqueue.api.conditions import CheckState
from multiqueue.api.disruptions import Stop
from multiqueue.dispatch.decide.cluster_state import Finish


class Trouble(Enum):
    """Why no cluster is found; changed details of the message are not a new trouble."""

    NO_CLUSTER = "NoCluster"
    DISPATCHER = "Dispatcher"


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """Delete our objects on a cluster: the job first, then the copy (M-135).

    It is used as a step if earlier steps must be done first.
    """

    cluster: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateWorkload:
    """Create the copy on a cluster (M-105), unless another job there has its job's name."""

    cluster: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdatePriority:
    """Update the priority of a copy (M-89): its boost and, optionally, its class."""

    cluster: str
    with_class: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncJob:
    """Create the remote job if it is absent, else bring its status back (M-132, M-133)."""

    cluster: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeJobOver:
    """Make the remote job of an earlier slice belong to this one, at its size (M-161)."""

    cluster: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ResizeCopy:
    """Reduce the pod counts of a copy to those of the Workload (M-163)."""

    cluster: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorStatus:
    """Bring the status of the remote job back; never create it."""

    cluster: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishJob:
    """Bring the final status of the remote job back; make one if the job is already gone."""

    cluster: str
    finish: Finish


@dataclass(frozen=True, slots=True, kw_only=True)
class DeactivateCopy:
    """Ask the worker to stop the job (M-92): DeactivationTarget on the copy."""

    cluster: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenGate:
    """Let a copy preempt on its worker (M-181).

    Attributes:
        cluster: The worker.
        at: When the gate is opened; a past time if an earlier attempt may have failed.
    """

    cluster: str
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfirmCopyGone:
    """Read the copy past the informer; if it still exists, stop the plan and reconcile again.

    Attributes:
        cluster: The worker.
        key: The key of an earlier slice, if the copy is of that slice; "": the Workload's own.
    """

    cluster: str
    key: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfirmJobGone:
    """Read the remote job past the informer; if it still exists, stop and reconcile again."""

    cluster: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Nominate:
    """Record where the Workload is offered, before anything is created there.

    Attributes:
        clusters: The clusters to which it is offered.
        message: The explanation for people.
        trouble: Why it cannot be dispatched yet; each new kind is reported in a Warning.
    """

    clusters: tuple[str, ...]
    message: str
    trouble: Trouble | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SetCheck:
    """Set the state of the check; with `CheckState.READY` also the latch.

    Attributes:
        state: The new state.
        message: The explanation for people.
        cluster: With Ready: the cluster that won.
        warning: Whether the event about it is a Warning.
        requeue_after: With Retry: how long the Workload must wait before it queues again.
        stop: With Retry: the stop for its record; None: none is recorded.
    """

    state: CheckState
    message: str
    cluster: str | None = None
    warning: bool = False
    requeue_after: timedelta | None = None
    stop: Stop | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Explain:
    """Say on the check why it is still Pending. If only numbers changed, not every time.

    ``trouble`` has the same meaning as in `Nominate`.
    """

    message: str
    trouble: Trouble | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishLocal:
    """Mark the Workload Finished the way its copy did."""

    finish: Finish


@dataclass(frozen=True, slots=True, kw_only=True)
class StopLocalJob:
    """Write into the local job's status that nothing runs, as nobody else does it (M-175)."""

    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EndEviction:
    """Release the quota of an evicted Workload that runs on no worker any more (M-171)."""

    why: str


Step = (
    Removal
    | CreateWorkload
    | UpdatePriority
    | SyncJob
    | TakeJobOver
    | ResizeCopy
    | MirrorStatus
    | FinishJob
    | DeactivateCopy
    | OpenGate
    | ConfirmCopyGone
    | ConfirmJobGone
    | Nominate
    | SetCheck
    | Explain
    | FinishLocal
    | StopLocalJob
    | EndEviction
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPlan:
    """The plan for one Workload.

    Attributes:
        rule: Name of the rule that decided.
        removals: Done side by side, each by its own cluster.
        steps: Done in order, after every cluster has had a moment for its removal. A step that
            cannot be done ends the plan; its changes cause the next decision.
        ask: Ask the dispatcher, then decide again with its answer.
        wait: Reconcile again after this time, if nothing happens before.
        why: What the Workload waits for, in words.
    """

    rule: str = ""
    removals: tuple[Removal, ...] = ()
    steps: tuple[Step, ...] = ()
    ask: bool = False
    wait: timedelta | None = None
    why: str = ""


NOTHING = GroupPlan()
"""Nothing to do until something changes."""
