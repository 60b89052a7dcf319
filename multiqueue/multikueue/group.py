"""One Workload here and its copies there, as values: what the rules decide on.

`observe` builds a `GroupView` from the informers, `decide` turns it into a `GroupPlan` (`plan.py`),
`execute` applies that. Pure: no clock, no I/O; whatever a rule needs to know is in the view.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from multiqueue.api.conditions import CheckState
from multiqueue.plugins import Nomination


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
class LocalJob:
    """The user's job on the manager.

    Attributes:
        refusal: Why MultiKueue may not run it (M-81, M-82); empty when it may.
        active: Whether its status, which is what was last brought back, says that pods run.
        finished: Whether its status says that it ended.
    """

    refusal: str = ""
    active: bool = False
    finished: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """The MultiKueue check of a Workload."""

    name: str
    state: CheckState = CheckState.PENDING
    message: str = ""
    retry_count: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalWorkload:
    """The Workload on the manager.

    Attributes:
        uid: Its identity.
        deleting: It has a deletion timestamp.
        finished: It ended.
        has_quota: Quota is reserved.
        epoch: Names the reservation; every copy and every remote job carries the one that it was
            made for. It stays the same while an eviction is under way. "" without quota.
        digest: Digest of the spec that copies must have.
        evicted_at: When the eviction in force began; None without one.
        was_evicted: It was evicted at least once.
        cluster_name: The cluster that runs it: the latch.
        nominated: Clusters that it is offered to.
        check: Its MultiKueue check; None when its ClusterQueue has none (any more).
        other_checks_ready: Whether all the other checks let it go (M-100).
        priority: Its priority.
        job: Its job; None while it is not known.
    """

    uid: str = ""
    deleting: bool = False
    finished: bool = False
    has_quota: bool = False
    epoch: str = ""
    digest: str = ""
    evicted_at: datetime | None = None
    was_evicted: bool = False
    cluster_name: str | None = None
    nominated: tuple[str, ...] = ()
    check: Check | None = None
    other_checks_ready: bool = True
    priority: Priority = Priority()
    job: LocalJob | None = None

    @property
    def is_claimed(self) -> bool:
        """Whether MultiKueue has a say in it: by its check, or because a cluster runs it."""
        return self.check is not None or self.cluster_name is not None

    @property
    def is_over(self) -> bool:
        """Whether nothing of it may run any more: it ends, has ended, or holds no quota."""
        return self.deleting or self.finished or not self.has_quota

    @property
    def is_rejected(self) -> bool:
        """Whether the check says that it can never run."""
        return self.check is not None and self.check.state == CheckState.REJECTED

    @property
    def is_pending(self) -> bool:
        """Whether the check waits for a cluster."""
        return self.check is not None and self.check.state == CheckState.PENDING

    @property
    def is_ready(self) -> bool:
        """Whether the check let it go."""
        return self.check is not None and self.check.state == CheckState.READY


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteWorkload:
    """Our copy of the Workload on one cluster. Copies of others are never seen here.

    Attributes:
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
    priority: Priority = Priority()
    offered_at: datetime | None = None
    is_gated: bool = False
    gate_opened_at: datetime | None = None
    blocked_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteJob:
    """Our job on one cluster. Jobs of others are never seen here."""

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
        lost_at: Since when it is not reachable.
        first_chance_until: It was not seen since the manager started, and is given until then to
            answer before it counts as lost to what waits; None: it was seen.
        workload: Our copy there; None: absent, or not reachable.
        job: Our job there; None: absent, unknown, or not reachable.
        job_known: Whether ``job`` can be believed.
        creating: The creation of our job there was begun, and has not ended.
        may_run_unseen: It is not reachable and could hold a job of ours for this Workload.
        refusal: Why nothing may be sent there: the kind is not served, a job of that name belongs
            to somebody else, ... Empty when nothing speaks against it.
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
    leave: str = ""
    jobs: int = 0
    condemned: str = ""

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing of ours that we could see."""
        return self.workload is None and self.job is None

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """Leave to preempt, given to one cluster at one time."""

    cluster: str
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupView:
    """Everything about one Workload.

    Attributes:
        key: ``namespace/name``, the same everywhere.
        local: None: it is gone.
        clusters: Sorted by name: the configured ones, and all that hold something of ours.
        last_cluster: The cluster that last held the latch, as long as this process remembers;
            an eviction clears ``cluster_name`` before the job has stopped.
        hopeless: Why no cluster can ever hold it on the flavors that it reserved; empty where one
            can, or might.
        ask_due: Whether the dispatcher is to be asked (again).
        nomination: Its answer, once it was asked.
        problem: Why it gave none.
        ask_again_at: When it is to be asked again, if nothing happens before.
        opening: The gate that this process last opened, or tried to; None: none yet.
    """

    key: str
    local: LocalWorkload | None = None
    clusters: tuple[ClusterState, ...] = ()
    last_cluster: str | None = None
    hopeless: str = ""
    ask_due: bool = True
    nomination: Nomination | None = None
    problem: str = ""
    ask_again_at: datetime | None = None
    opening: Opening | None = None

    def find_cluster(self, name: str | None) -> ClusterState | None:
        """Return the cluster of that name."""
        return next((cluster for cluster in self.clusters if cluster.name == name), None)

    @property
    def reachable(self) -> Iterator[ClusterState]:
        """The clusters that can be seen and changed now."""
        return (cluster for cluster in self.clusters if cluster.reachable)

    def condemn(self, why: Mapping[str, str]) -> GroupView:
        """Return the view as the rules shall see it while objects of these clusters go."""
        if not why:
            return self
        return replace(
            self,
            clusters=tuple(
                replace(cluster, condemned=why[cluster.name]) if cluster.name in why else cluster
                for cluster in self.clusters
            ),
        )


def grace_left(cluster: ClusterState, config: GroupConfig, now: datetime) -> timedelta:
    """How long a cluster that is out of reach may still come back; zero or less: given up."""
    return (cluster.lost_at or now) + config.worker_lost_timeout - now
