"""What we see of one Workload on one cluster, as values. Pure; `group.py` has the whole view."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConfig:
    """What the rules are told by the configuration.

    Attributes:
        worker_lost_timeout: How long a worker that runs a Workload may be out of reach before the
            Workload is taken away from it (M-91).
        preemption_timeout: How long one cluster may try to preempt before another may, too (M-181).
    """

    worker_lost_timeout: timedelta = timedelta(minutes=15)
    preemption_timeout: timedelta = timedelta(minutes=5)


class Presence(Enum):
    """Whether something is somewhere. Not to know is not to know that it is not."""

    PRESENT = "Present"
    ABSENT = "Absent"
    UNKNOWN = "Unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Priority:
    """Where a Workload's priority comes from, what it is, and what is added to it."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteWorkload:
    """Our copy of the Workload on one cluster. Copies of others are never seen here.

    Attributes:
        had_job: Its job is or was there, as far as it tells: it was admitted, or belongs to one.
        offered_at: When it was made, by the manager's clock.
        is_gated: It has our preemption gate, open or not.
        gate_opened_at: When that was opened; None while it is closed.
        blocked_at: Since when the gate alone keeps it from preempting.
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
    """Our job on one cluster. Jobs of others are never seen here.

    Attributes:
        earlier_key: The slice that this one replaces, as long as the job is still that one's; "":
            it was taken over, or is no slice's.
        earlier_copy: The copy of that slice there; None: absent.
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
        reachable: What we know of it is true now.
        lost_at: Since when it is not reachable, or does not show its jobs.
        first_chance_until: It was not seen since the manager started, and is given until then to
            answer before it counts as lost to what waits; None: it was seen.
        workload: Our copy there; None: absent, or not reachable.
        job: Our job there; None: absent, unknown, or not reachable.
        job_known: Whether ``job`` can be believed.
        creating: The creation of our job there was begun, and has not ended.
        may_run_unseen: Its jobs cannot be seen, and one of ours for this Workload could be among
            them.
        refusal: Why nothing may be sent there: the kind is not served, a job of that name belongs
            to somebody else, ... Empty when nothing speaks against it.
        misfit: Why the copy, which holds nothing there yet, shall be made anew; empty: it is right.
        misfit_at: When to look whether it is; None: that was looked at, or does not matter.
        stopping_since: Since when this manager has seen that what is there must stop, because the
            Workload was evicted here; None: it need not, or that was not looked at.
        leave: Why the Workload shall leave it now, if it runs there; empty: it may stay.
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
    jobs: int = 0
    condemned: str = ""

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing of ours that we could see."""
        return self.workload is None and self.job is None

    @property
    def job_presence(self) -> Presence:
        """Whether a job of ours for this Workload is there, and so may run or begin to."""
        if self.job is not None or self.creating:
            return Presence.PRESENT
        if self.may_run_unseen and not (self.reachable and self.job_known):
            return Presence.UNKNOWN
        return Presence.ABSENT

    @property
    def has_earlier_job(self) -> bool:
        """Whether the job is still that of an earlier slice, and to be taken over."""
        return self.job_known and self.job is not None and bool(self.job.earlier_key)

    @property
    def evicted_earlier(self) -> RemoteWorkload | None:
        """The copy of the earlier slice, where the worker evicted the job that is still its."""
        copy = self.job.earlier_copy if self.job is not None else None
        return copy if copy is not None and copy.evicted_at is not None else None

    @property
    def can_be_cleared(self) -> bool:
        """Whether what we see there may be removed while the Workload holds quota.

        A copy whose job cannot be seen stays: it is what tells the next manager of that job.
        """
        is_hidden = self.job_presence is Presence.UNKNOWN
        return self.reachable and not self.is_empty and not is_hidden

    @property
    def copy(self) -> RemoteWorkload | None:
        """The copy that counts: there, reachable, and not on its way out."""
        if not self.reachable or self.condemned or self.workload is None or self.workload.deleting:
            return None
        return self.workload

    @property
    def admitted_at(self) -> datetime | None:
        """Since when the copy that counts is admitted."""
        copy = self.copy
        return copy.admitted_at if copy is not None and copy.finished is None else None


def grace_left(cluster: ClusterState, config: GroupConfig, now: datetime) -> timedelta:
    """How long a cluster that is out of sight may still come back; zero or less: given up."""
    return (cluster.lost_at or now) + config.worker_lost_timeout - now
