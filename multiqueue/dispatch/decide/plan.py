"""What the rules answer: removals and steps, each of them one thing that may be repeated. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum

from multiqueue.api.conditions import CheckState
from multiqueue.dispatch.decide.cluster_state import Finish


class Trouble(Enum):
    """Why no cluster is found; what is told about it may change without being news."""

    NO_CLUSTER = "NoCluster"
    DISPATCHER = "Dispatcher"


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """Delete what we have on a cluster: the job first, then the copy (M-135).

    As a step where it must not be done before the steps ahead of it.
    """

    cluster: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateWorkload:
    """Mirror the Workload to a cluster (M-105), unless its job name is taken there."""

    cluster: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdatePriority:
    """Bring the priority of a copy up to date (M-89): its boost, and with it the class or not."""

    cluster: str
    with_class: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncJob:
    """Create the remote job where it is absent, else bring its status back (M-132, M-133)."""

    cluster: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeJobOver:
    """Have the remote job of an earlier slice name this one, at its size (M-161)."""

    cluster: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ResizeCopy:
    """Bring the counts of a copy that runs down to those of the Workload (M-163)."""

    cluster: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorStatus:
    """Bring the status of the remote job back; never create it."""

    cluster: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishJob:
    """Bring the final status of the remote job back; make one where the job is gone already."""

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
        at: When it got leave; in the past where an earlier attempt may not have got through.
    """

    cluster: str
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfirmCopyGone:
    """Read the copy past the informer; if it is there after all, stop here and look again.

    Attributes:
        cluster: The worker.
        key: Of an earlier slice, where it is the copy of that; "": its own.
    """

    cluster: str
    key: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfirmJobGone:
    """Read the remote job past the informer; if it is there after all, stop and look again."""

    cluster: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Nominate:
    """Record where the Workload is offered, before anything is created there.

    Attributes:
        clusters: Where.
        message: For people.
        trouble: What kind of trouble keeps it waiting; a Warning tells of each new kind.
    """

    clusters: tuple[str, ...]
    message: str
    trouble: Trouble | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SetCheck:
    """Set the state of the check; with `CheckState.READY` also the latch.

    Attributes:
        state: The new state.
        message: For people.
        cluster: With Ready: the cluster that won.
        warning: Whether the event about it is a Warning.
        requeue_after: With Retry: how long the Workload shall wait before it queues again.
    """

    state: CheckState
    message: str
    cluster: str | None = None
    warning: bool = False
    requeue_after: timedelta | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Explain:
    """Say on the check why it is still Pending; where only figures changed, not each time.

    ``trouble`` as with `Nominate`.
    """

    message: str
    trouble: Trouble | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishLocal:
    """Mark the Workload Finished the way its copy did."""

    finish: Finish


@dataclass(frozen=True, slots=True, kw_only=True)
class StopLocalJob:
    """Say in the local job's status that nothing runs: nobody else will any more (M-175)."""

    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EndEviction:
    """Give the quota of what was evicted back: nothing of it runs on any worker (M-171)."""

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
    """What to do now.

    Attributes:
        rule: Name of the rule that decided.
        removals: Done side by side, each by its own cluster.
        steps: Done in order, after every cluster has had a moment for its removal; one that cannot
            be done ends the plan, and what it changed will call for the next decision.
        ask: Ask the dispatcher, then decide again with its answer.
        wait: Look again after this time, if nothing happens before.
        why: What is being waited for, in words.
    """

    rule: str = ""
    removals: tuple[Removal, ...] = ()
    steps: tuple[Step, ...] = ()
    ask: bool = False
    wait: timedelta | None = None
    why: str = ""


NOTHING = GroupPlan()
"""Nothing to do until something changes."""
