"""What a dispatcher sees: one Workload, every cluster of its check, and what was tried before.

All of it is frozen and safe to read in a thread. Collections are in a defined order: clusters as
the MultiKueueConfig lists them, everything else as its object has it.

Units: cpu in milli, memory and storage in bytes, everything else in whole units.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from multiqueue.api.v1beta2.meta import Taint, Toleration
from multiqueue.api.v1beta2.workload import PodSetTopologyRequest
from multiqueue.model.placement import ANYWHERE, NodeSelectorTerm, Placement
from multiqueue.plugins.forecast import Forecast, Runtime


@dataclass(frozen=True, slots=True, kw_only=True)
class ReservedFlavor:
    """The flavor that the manager's quota was taken from, for one resource of a pod set.

    Attributes:
        name: Of the manager's ResourceFlavor.
        node_labels: Of its nodes.
        equivalents: Labels of other hardware that is declared to do as well, the preferred first.
    """

    name: str
    node_labels: Mapping[str, str] = field(default_factory=dict)
    equivalents: tuple[Mapping[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightedTerm:
    """One preferred node affinity term of the pods."""

    weight: int
    term: NodeSelectorTerm


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSetView:
    """A number of equal pods.

    Attributes:
        name: Name of the pod set.
        count: Pods asked for.
        min_count: Pods that would do, where the job allows partial admission.
        alternatives: Fewer pods that do on some hardware: a flavor, or the value of a node label.
        requests: Per pod, by resource.
        placement: Node selector, required affinity and tolerations.
        preferred: Preferred affinity terms.
        reserved: What the manager reserved, by resource.
        topology: Where the pods want to be, relative to each other; None: they do not say.
    """

    name: str = "main"
    count: int = 1
    min_count: int | None = None
    requests: Mapping[str, int] = field(default_factory=dict)
    placement: Placement = ANYWHERE
    preferred: tuple[WeightedTerm, ...] = ()
    reserved: Mapping[str, ReservedFlavor] = field(default_factory=dict)
    topology: PodSetTopologyRequest | None = None
    alternatives: Mapping[str, int] = field(default_factory=dict)

    def total(self, resource: str) -> int:
        """Request of all pods together."""
        return self.requests.get(resource, 0) * self.count


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadView:
    """The Workload to dispatch.

    Attributes:
        key: ``namespace/name``.
        uid: Its identity; a job that was submitted again has another one.
        queue: Name of its LocalQueue, which is the same on every worker.
        kind: Kind of its job as ``Kind.version.group``, such as ``Job.v1.batch``.
        priority: Effective priority.
        created_at: When it was submitted.
        labels: Labels of the Workload.
        annotations: Annotations of the Workload, and those of its job that it lacks.
        pod_sets: All of them run, or none.
        runtime: How long it runs, where anything is known.
        speeds: How fast it is by hardware, in thousandths; a name is a flavor's or the value of a
            node label. Declared (``multiqueue.dev/speeds``) or learned from finished jobs of its
            class; what is absent is as fast as the reference.
        data: Names of the data that it reads (``multiqueue.dev/data``).
    """

    key: str
    uid: str = ""
    queue: str = ""
    kind: str = "Job.v1.batch"
    priority: int = 0
    created_at: datetime
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    pod_sets: tuple[PodSetView, ...] = ()
    runtime: Runtime | None = None
    speeds: Mapping[str, int] = field(default_factory=dict)
    data: frozenset[str] = frozenset()

    @property
    def namespace(self) -> str:
        """The first half of the key."""
        return self.key.partition("/")[0]

    def total(self, resource: str) -> int:
        """Request of all pod sets together."""
        return sum(pod_set.total(resource) for pod_set in self.pod_sets)

    def totals(self) -> dict[str, int]:
        """Requests of all pod sets together, by resource, sorted by name."""
        totals: dict[str, int] = {}
        for pod_set in self.pod_sets:
            for name, request in pod_set.requests.items():
                totals[name] = totals.get(name, 0) + request * pod_set.count
        return {name: totals[name] for name in sorted(totals) if totals[name]}


@dataclass(frozen=True, slots=True, kw_only=True)
class FlavorView:
    """One kind of hardware on a cluster; pods that get it are given its tolerations too."""

    name: str
    node_labels: Mapping[str, str] = field(default_factory=dict)
    node_taints: tuple[Taint, ...] = ()
    tolerations: tuple[Toleration, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaView:
    """Quota of one resource in one flavor of a queue.

    Attributes:
        nominal: What is the queue's own.
        used: Reserved by Workloads of the queue; the asking Workload's own copy is not counted.
        in_flight: Sent there by this manager and not yet in ``used``.
        available: Could be reserved now, lent quota of the cohort included, before ``in_flight``
            is taken off. Never negative.
        most: The most that the queue could ever hold, everything borrowed that may be.
    """

    nominal: int = 0
    used: int = 0
    in_flight: int = 0
    available: int = 0
    most: int = 0

    @property
    def free(self) -> int:
        """What is left for another Workload now."""
        return max(0, self.available - self.in_flight)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceGroupView:
    """Resources that are taken from one flavor together, and the flavors in order."""

    resources: tuple[str, ...] = ()
    flavors: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueView:
    """The worker's ClusterQueue behind the Workload's LocalQueue.

    Attributes:
        name: Name of the ClusterQueue; names on manager and workers are unrelated.
        active: Whether it admits.
        inactive_reason: Why not.
        groups: Its resource groups.
        flavors: By name.
        quotas: By flavor and resource.
        pending: Workloads waiting there, whoever submitted them.
        backlog: Requests, by resource, of our Workloads that wait there without fitting now.
        checks: Its admission checks: what else decides there once quota is reserved, such as
            whether machines can be had.
    """

    name: str
    active: bool = True
    inactive_reason: str = ""
    groups: tuple[ResourceGroupView, ...] = ()
    flavors: Mapping[str, FlavorView] = field(default_factory=dict)
    quotas: Mapping[tuple[str, str], QuotaView] = field(default_factory=dict)
    pending: int = 0
    backlog: Mapping[str, int] = field(default_factory=dict)
    checks: tuple[str, ...] = ()

    def group_of(self, resource: str) -> ResourceGroupView | None:
        """Return the resource group that covers a resource."""
        for group in self.groups:  # many times in a decision: a generator takes twice as long
            if resource in group.resources:
                return group
        return None


class CopyState(StrEnum):
    """How far the copy of the asking Workload is on a cluster."""

    ABSENT = "Absent"
    PENDING = "Pending"
    RESERVED = "Reserved"
    """It holds quota there and waits for checks of that cluster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterClaim:
    """Another Workload that waits in line for room on a cluster.

    Attributes:
        key: ``namespace/name``.
        priority: Its own.
        turn: Of equal priority the earliest comes first.
        start: When it is expected to start there; None where that is not known.
        spare: How much others may take there all the same, of the resource that matters most to it.
    """

    key: str
    priority: int = 0
    turn: datetime
    start: datetime | None = None
    spare: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterView:
    """One worker.

    Attributes:
        name: Name of the MultiKueueCluster.
        labels: Its labels.
        connected: Whether it answers.
        cordoned: Whether people took it out of use; ``unusable`` says so, too.
        unusable: Not empty: the core will not send this Workload there, and why (not connected,
            the kind is not served, a Job of that name belongs to somebody else, ...). Nominating
            it anyway gets it dropped.
        kinds: Job kinds that it serves, as ``Kind.version.group``.
        queue: The queue behind the Workload's LocalQueue; None: there is none, or unknown.
        queue_known: Whether ``queue`` can be believed; False without read rights, or before the
            first answer.
        copy: The Workload's copy there.
        offered_at: Since when the Workload is offered there; known after a restart of the manager
            too. None: it is not.
        avoid: Not empty: others come first where there is a choice, and why.
        health: How well it does: from 0, best left alone, to 1, all well.
        running: Workloads of this manager that hold quota there.
        waiting: Workloads of this manager that wait there.
        neighbours: Of both, those of the asking Workload's LocalQueue.
        forecast: What would become of the Workload there; None where it was not asked for.
        claims: Others that wait in line for room there, whoever comes first in front.
        prices: Of an hour of one device, in thousandths, by flavor (``multiqueue.dev/prices``).
        data: Names of the data that is there (``multiqueue.dev/data``).
    """

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    connected: bool = True
    cordoned: bool = False
    unusable: str = ""
    kinds: frozenset[str] = frozenset()
    queue: QueueView | None = None
    queue_known: bool = True
    copy: CopyState = CopyState.ABSENT
    offered_at: datetime | None = None
    avoid: str = ""
    health: float = 1.0
    running: int = 0
    waiting: int = 0
    neighbours: int = 0
    forecast: Forecast | None = None
    claims: tuple[ClusterClaim, ...] = ()
    prices: Mapping[str, int] = field(default_factory=dict)
    data: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """An earlier answer for this Workload. Forgotten when the manager restarts."""

    at: datetime
    clusters: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatchView:
    """Everything that there is to decide by.

    Attributes:
        workload: What to dispatch.
        clusters: The workers of its check, in the order of the MultiKueueConfig.
        nominated: Where it is offered now.
        claim: Where room is kept for it, while it stands in line; empty: nowhere.
        history: Earlier rounds since quota was reserved, the oldest first; at most 20.
        usual_speeds: How fast jobs usually are by hardware, in thousandths of their speed on all of
            it; names as in ``WorkloadView.speeds``. Learned from finished jobs; empty at first.
        arguments: ``multiKueue.dispatcherArguments`` of the configuration.
        dispatcher: The name by which this dispatcher was chosen.
        now: The time, aware, in UTC.
    """

    workload: WorkloadView
    clusters: tuple[ClusterView, ...] = ()
    nominated: tuple[str, ...] = ()
    claim: str = ""
    history: tuple[Round, ...] = ()
    usual_speeds: Mapping[str, int] = field(default_factory=dict)
    arguments: Mapping[str, Any] = field(default_factory=dict)
    dispatcher: str = ""
    now: datetime

    def find_cluster(self, name: str) -> ClusterView | None:
        """Return the cluster of that name."""
        return next((cluster for cluster in self.clusters if cluster.name == name), None)
