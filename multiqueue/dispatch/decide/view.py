"""One Workload and its copies on the clusters, as values: the input of the rules.

`observe` builds a `GroupView` from the informers, `decide` turns it into a `GroupPlan` (`plan.py`),
`execute` applies that. Pure: no clock, no I/O; the view has everything that a rule needs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from multiqueue.api.conditions import CheckState
from multiqueue.dispatch.decide.cluster_state import ClusterState, Priority
from multiqueue.dispatch.decide.slice_chain import Successor
from multiqueue.plugins import Nomination


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalJob:
    """The user's job on the manager.

    Attributes:
        refusal: Why MultiKueue may not run it (M-81, M-82); empty if it may.
        active: Whether its status says that pods run; the status is the one last brought back.
        suspended: Whether it was stopped here completely.
        finished: Whether its status says that it ended.
    """

    refusal: str = ""
    active: bool = False
    suspended: bool = True
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
        epoch: Names the reservation; every copy and every remote job has the epoch that it was made
            for. It stays the same during an eviction. "" without quota.
        digest: Digest of the spec that copies must have.
        evicted_at: When the eviction in force began; None without one.
        was_evicted: It was evicted at least once.
        cluster_name: The cluster that runs it: the latch.
        nominated: Clusters that it is offered to.
        check: Its MultiKueue check; None when its ClusterQueue has none (any more).
        other_checks_ready: Whether all the other checks let it go (M-100).
        priority: Its priority.
        job: Its job; None while it is not known.
        elastic: Whether its size may change while it runs: its counts and the counts of copies may
            differ.
        earlier: Keys of the slices that it took over from, the last one first.
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
    priority: Priority = field(default_factory=Priority)
    job: LocalJob | None = None
    elastic: bool = False
    earlier: tuple[str, ...] = ()

    @property
    def is_claimed(self) -> bool:
        """Whether MultiKueue has a part in it: it has a MultiKueue check, or a cluster runs it."""
        return self.check is not None or self.cluster_name is not None

    @property
    def is_over(self) -> bool:
        """Whether it must not run any more: it is being deleted, has ended, or holds no quota."""
        return self.deleting or self.finished or not self.has_quota

    @property
    def is_settled(self) -> bool:
        """Whether one cluster runs it and no eviction is in force: no other cluster counts."""
        return self.cluster_name is not None and not self.is_over and self.evicted_at is None

    @property
    def is_being_evicted(self) -> bool:
        """Whether it was evicted but holds its quota until its remote job has ended."""
        return (
            self.evicted_at is not None
            and self.has_quota
            and self.job is not None
            and not self.job.refusal
        )

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
        """Whether the check is Ready."""
        return self.check is not None and self.check.state == CheckState.READY


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """Permission to preempt, given to one cluster at one time."""

    cluster: str
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupView:
    """Everything about one Workload.

    Attributes:
        key: ``namespace/name``, the same everywhere.
        local: The Workload on the manager; None: it is gone.
        clusters: The configured clusters and all that have objects of ours, sorted by name.
        last_cluster: The cluster that last held the latch, as long as this process remembers it; an
            eviction clears ``cluster_name`` before the job has stopped.
        hopeless: Why no cluster can ever hold it on the flavors that it reserved; empty if one can,
            or might.
        ask_due: Whether the dispatcher must be asked (again).
        nomination: The dispatcher's answer, once it was asked.
        problem: Why the dispatcher gave no answer.
        ask_again_at: When to ask the dispatcher again, if nothing happens before.
        opening: The gate that this process last opened, or tried to open; None: none yet.
        successor: The slice that took over from this one, if one did.
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
    successor: Successor | None = None

    def find_cluster(self, name: str | None) -> ClusterState | None:
        """Return the cluster of that name."""
        return next((cluster for cluster in self.clusters if cluster.name == name), None)

    @property
    def earlier(self) -> tuple[str, ...]:
        """Keys of the slices that the Workload took over from, the last one first."""
        return self.local.earlier if self.local is not None else ()

    @property
    def reachable(self) -> Iterator[ClusterState]:
        """The clusters that can be seen and changed now."""
        return (cluster for cluster in self.clusters if cluster.reachable)

    def condemn(self, why: Mapping[str, str]) -> GroupView:
        """Return the view for the rules while the objects on these clusters are being removed."""
        if not why:
            return self
        return replace(
            self,
            clusters=tuple(
                replace(cluster, condemned=why[cluster.name]) if cluster.name in why else cluster
                for cluster in self.clusters
            ),
        )
