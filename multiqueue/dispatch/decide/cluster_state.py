"""The state of one Workload on one cluster, as values. Pure; `view.py` has the whole view."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum

from multiqueue.api.conditions import Reason
from multiqueue.api.disruptions import Stop


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConfig:
    """The configuration that the rules need.

    Attributes:
        worker_lost_timeout: How long a worker that runs a Workload may be out of reach before the
            Workload is taken away from it (M-91).
        preemption_timeout: How long one cluster may try to preempt before another may, too (M-181).
    """

    worker_lost_timeout: timedelta = timedelta(minutes=15)
    preemption_timeout: timedelta = timedelta(minutes=5)


class Presence(Enum):
    """Whether an object is there, absent or unknown. Unknown is never treated as absent."""

    PRESENT = "Present"
    ABSENT = "Absent"
    UNKNOWN = "Unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Priority:
    """The priority of a Workload: its class, its value, and its boost."""

    value: int | None = None
    kind: str = ""
    name: str = ""
    boost: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finish:
    """How a Workload or a job ended."""

    success: bool
    reason: str
    message: str = ""
    at: datetime

    @property
    def is_without_job(self) -> bool:
        """Whether a worker finished a copy though its job did not end: it differs, or is gone."""
        return self.reason in {Reason.OUT_OF_SYNC, Reason.OWNER_NOT_FOUND}


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteWorkload:
    """Our copy of the Workload on one cluster. Copies of other managers are never shown here.

    Attributes:
        had_job: Whether its job is or was there: the copy was admitted, or a job owns it.
        offered_at: When it was made, by the manager's clock.
        is_gated: It has our preemption gate, open or not.
        gate_opened_at: When our gate was opened; None while it is closed.
        blocked_at: Since when nothing but the gate keeps it from preempting.
    """

    uid: str = ""
    epoch: str = ""
    digest: str = ""
    deleting: bool = False
    quota_reserved: bool = False
    admitted_at: datetime | None = None
    evicted_at: datetime | None = None
    evicted_why: str = ""
    finished: Finish | None = None
    deactivating: bool = False
    had_job: bool = False
    priority: Priority = Priority()
    offered_at: datetime | None = None
    is_gated: bool = False
    gate_opened_at: datetime | None = None
    blocked_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteJob:
    """Our job on one cluster. Jobs of other managers are never shown here.

    Attributes:
        earlier_key: The replaced slice, if the job still belongs to that slice; "": the job was
            taken over, or belongs to no slice.
        earlier_copy: The copy of the replaced slice there; None: absent.
    """

    earlier_key: str = ""
    earlier_copy: RemoteWorkload | None = None
    uid: str = ""
    epoch: str = ""
    deleting: bool = False
    finished: Finish | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterState:
    """One cluster, as far as this Workload is concerned.

    Attributes:
        name: Name of the MultiKueueCluster.
        configured: The check's MultiKueueConfig lists it, and it exists.
        reachable: What is known of it is current.
        lost_at: Since when it is not reachable, or does not show its jobs.
        first_chance_until: Set until the cluster first connects after a start of the manager.
            Waiting Workloads count it as lost only after this time. None: it was connected.
        workload: Our copy there; None: absent, or not reachable.
        job: Our job there; None: absent, unknown, or not reachable.
        job_known: Whether ``job`` can be believed.
        creating: A request to create our job there is in progress.
        may_run_unseen: Its jobs cannot be seen, and one of them could be ours for this Workload.
        refusal: Why nothing may be sent there: the kind is not served, somebody else has a job of
            that name, ... Empty if there is no reason.
        misfit: Why the copy, which holds no quota there yet, must be made again; empty: it is
            right.
        misfit_at: When to check again whether the copy must be made again; None: no check is due.
        stopping_since: Since when this manager has seen that the copy or job there must stop
            because the Workload was evicted here; None: it need not stop, or that was not checked.
        leave: Why the Workload must leave this cluster if it runs there; empty: it may stay.
        stop: The stop that is recorded if it leaves; None: none.
        jobs: How many jobs of ours are there in all.
        condemned: Its objects are being removed, and why; set by `decide` itself.
    """

    name: str
    configured: bool = True
    reachable: bool = True
    lost_at: datetime | None = None
    first_chance_until: datetime | None = None
    workload: RemoteWorkload | None = None
    job: RemoteJob | None = None
    job_known: bool = True
    creating: bool = False
    may_run_unseen: bool = False
    refusal: str = ""
    misfit: str = ""
    misfit_at: datetime | None = None
    stopping_since: datetime | None = None
    leave: str = ""
    stop: Stop | None = None
    jobs: int = 0
    condemned: str = ""

    @property
    def is_empty(self) -> bool:
        """Whether nothing of ours can be seen there."""
        return self.workload is None and self.job is None

    @property
    def job_presence(self) -> Presence:
        """Whether our job for this Workload is there, and so may run or start."""
        if self.job is not None or self.creating:
            return Presence.PRESENT
        if self.may_run_unseen and not (self.reachable and self.job_known):
            return Presence.UNKNOWN
        return Presence.ABSENT

    @property
    def has_earlier_job(self) -> bool:
        """Whether the job still belongs to an earlier slice and must be taken over."""
        return self.job_known and self.job is not None and bool(self.job.earlier_key)

    @property
    def evicted_earlier(self) -> RemoteWorkload | None:
        """The copy of the earlier slice, if the worker evicted it and the job is still its own."""
        copy = self.job.earlier_copy if self.job is not None else None
        return copy if copy is not None and copy.evicted_at is not None else None

    @property
    def can_be_cleared(self) -> bool:
        """Whether the objects seen there may be removed while the Workload holds quota.

        A copy whose job cannot be seen stays, because it tells the next manager of that job.
        """
        is_hidden = self.job_presence is Presence.UNKNOWN
        return self.reachable and not self.is_empty and not is_hidden

    @property
    def copy(self) -> RemoteWorkload | None:
        """The copy that counts: it exists, is reachable, and is not being deleted."""
        if not self.reachable or self.condemned or self.workload is None or self.workload.deleting:
            return None
        return self.workload

    @property
    def admitted_at(self) -> datetime | None:
        """Since when the copy that counts is admitted."""
        copy = self.copy
        return copy.admitted_at if copy is not None and copy.finished is None else None


def grace_left(cluster: ClusterState, config: GroupConfig, now: datetime) -> timedelta:
    """How long an unreachable cluster may still come back; zero or less: it is given up."""
    return (cluster.lost_at or now) + config.worker_lost_timeout - now
