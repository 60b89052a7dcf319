"""The input of a dispatcher: one Workload, all clusters of its check, and earlier rounds.

Everything is frozen and safe to read in a thread. Collections have a defined order: clusters as in
the MultiKueueConfig, everything else as in its object.

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
    """The flavor from which the manager's quota was taken, for one resource of a pod set.

    Attributes:
        name: Name of the manager's ResourceFlavor.
        node_labels: Node labels of that flavor.
        equivalents: Node labels of hardware that is declared equivalent, the preferred one first.
    """

    name: str
    node_labels: Mapping[str, str] = field(default_factory=dict)
    equivalents: tuple[Mapping[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightedTerm:
    """One preferred node affinity term of the pods.

    Attributes:
        weight: How much it counts, from 1 to 100.
        term: The labels that a node should have.
    """

    weight: int
    term: NodeSelectorTerm


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSetView:
    """A set of equal pods.

    Attributes:
        name: Name of the pod set.
        count: Number of pods requested.
        min_count: Smallest number of pods that is enough, if the job allows partial admission.
        alternatives: Smaller numbers of pods that are enough on some hardware, by the name of a
            flavor or the value of a node label.
        requests: Requests of one pod, by resource.
        placement: Node selector, required affinity and tolerations.
        preferred: Preferred affinity terms.
        reserved: The flavors that the manager reserved, by resource.
        topology: Where the pods shall be relative to each other; None: no request.
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
        """Return the request of all pods together."""
        return self.requests.get(resource, 0) * self.count


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadView:
    """The Workload to dispatch.

    Attributes:
        key: ``namespace/name``.
        uid: Its uid; a job that is submitted again has another one.
        queue: Name of its LocalQueue, which is the same on every worker.
        kind: Kind of its job as ``Kind.version.group``, such as ``Job.v1.batch``.
        priority: Effective priority.
        created_at: When it was submitted.
        labels: Labels of the Workload.
        annotations: Annotations of the Workload, completed by those of its job.
        pod_sets: Its pod sets; either all of them run or none.
        runtime: How long it runs; None if nothing is known.
        speeds: How fast it is by hardware, in thousandths. A key is the name of a flavor or the
            value of a node label. Speeds are declared (``multiqueue.dev/speeds``) or learned from
            finished jobs of its class. Missing hardware is as fast as the reference.
        data: Names of the data sets that it reads (``multiqueue.dev/data``).
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
        """The namespace, from the key."""
        return self.key.partition("/")[0]

    def total(self, resource: str) -> int:
        """Return the request of all pod sets together."""
        return sum(pod_set.total(resource) for pod_set in self.pod_sets)

    def totals(self) -> dict[str, int]:
        """Return the requests of all pod sets together, by resource, sorted by name."""
        totals: dict[str, int] = {}
        for pod_set in self.pod_sets:
            for name, request in pod_set.requests.items():
                totals[name] = totals.get(name, 0) + request * pod_set.count
        return {name: totals[name] for name in sorted(totals) if totals[name]}


@dataclass(frozen=True, slots=True, kw_only=True)
class FlavorView:
    """One kind of hardware on a cluster.

    Attributes:
        name: Name of the ResourceFlavor.
        node_labels: Labels of its nodes.
        node_taints: Taints of its nodes, which pods must tolerate.
        tolerations: Tolerations that pods get in this flavor.
    """

    name: str
    node_labels: Mapping[str, str] = field(default_factory=dict)
    node_taints: tuple[Taint, ...] = ()
    tolerations: tuple[Toleration, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaView:
    """Quota of one resource in one flavor of a queue.

    Attributes:
        nominal: The queue's own quota.
        used: Quota held by Workloads of the queue, without the asking Workload's own copy.
        in_flight: Quota of Workloads that this manager sent there and that ``used`` does not count
            yet.
        available: What could be reserved now, quota lent by the cohort included, before
            ``in_flight`` is subtracted. Never negative.
        most: The most that the queue could ever hold, with everything that it may borrow.
    """

    nominal: int = 0
    used: int = 0
    in_flight: int = 0
    available: int = 0
    most: int = 0

    @property
    def free(self) -> int:
        """Return what is left for another Workload now."""
        return max(0, self.available - self.in_flight)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceGroupView:
    """Resources that are taken from one flavor together.

    Attributes:
        resources: Names of the resources.
        flavors: Names of the flavors, in the order in which the queue tries them.
    """

    resources: tuple[str, ...] = ()
    flavors: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueView:
    """The worker's ClusterQueue behind the Workload's LocalQueue.

    Attributes:
        name: Name of the ClusterQueue; names on manager and workers are unrelated.
        active: Whether the queue admits Workloads.
        inactive_reason: Why it admits none.
        groups: Its resource groups.
        flavors: Its flavors by name.
        quotas: Its quotas by flavor and resource.
        pending: Number of all Workloads that wait there, from all submitters.
        backlog: Requests, by resource, of this manager's Workloads that wait there and do not fit
            now.
        checks: Its admission checks: further conditions once quota is reserved, such as whether
            machines are available.
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
        for group in self.groups:  # a hot path: a generator takes twice as long
            if resource in group.resources:
                return group
        return None


class CopyState(StrEnum):
    """The state of the asking Workload's copy on a cluster."""

    ABSENT = "Absent"
    """There is no copy there."""
    PENDING = "Pending"
    """The copy waits there for quota."""
    RESERVED = "Reserved"
    """The copy holds quota there and waits for admission checks of that cluster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterClaim:
    """The claim of another Workload that waits in the global queue for room on a cluster.

    Attributes:
        key: ``namespace/name`` of that Workload.
        priority: Priority of that Workload.
        queue: Name of its ClusterQueue on that cluster.
        yields: Whether Workloads of other queues go first at equal priority if they do not yield.
        turn: Its turn: otherwise, the earliest comes first.
        created_at: When it was created; None if room is kept for it however old it is, because
            another job is leaving for it.
        start: When it is expected to start there; None if unknown.
        spare: How much of its scarce resource others may take there without delaying it.
    """

    key: str
    priority: int = 0
    queue: str = ""
    yields: bool = False
    turn: datetime
    created_at: datetime | None = None
    start: datetime | None = None
    spare: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterView:
    """One worker.

    Attributes:
        name: Name of the MultiKueueCluster.
        labels: Its labels.
        connected: Whether it answers.
        cordoned: Whether an operator took it out of use; then ``unusable`` is set too.
        unusable: Why the core will not send this Workload there (not connected, the kind is not
            served, another owner's Job has the same name, ...); empty if it will. A nomination of
            an unusable cluster is dropped.
        kinds: Job kinds that it serves, as ``Kind.version.group``.
        queue: The ClusterQueue behind the Workload's LocalQueue; None if there is none, or unknown.
        queue_known: Whether ``queue`` is known. False without read permission, and before the first
            answer.
        copy: State of the Workload's copy there.
        offered_at: Since when the Workload is offered there; survives a restart of the manager.
            None: it is not offered there.
        avoid: Why other clusters come first if there is a choice; empty if they do not.
        health: How well the cluster works, from 0 (avoid it) to 1 (no problems).
        running: Number of this manager's Workloads that hold quota there.
        waiting: Number of this manager's Workloads that wait there.
        neighbours: How many of both are from the asking Workload's LocalQueue.
        forecast: The forecast of the Workload there; None if none was made.
        claims: Other Workloads of the global queue that claim room there, in their order.
        prices: Prices of one device for an hour, in thousandths, by flavor
            (``multiqueue.dev/prices``).
        data: Names of the data sets that are there (``multiqueue.dev/data``).
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
    """An earlier answer for this Workload. Earlier answers are lost when the manager restarts.

    Attributes:
        at: When it was given.
        clusters: The clusters that it named.
    """

    at: datetime
    clusters: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatchView:
    """Everything that a dispatcher may base its decision on.

    Attributes:
        workload: The Workload to dispatch.
        clusters: The workers of its check, in the order of the MultiKueueConfig.
        nominated: Clusters to which it is offered now.
        claim: The cluster where room is kept for it while it is in the global queue; empty: none.
        history: Earlier rounds since quota was reserved, the oldest first; at most 20.
        usual_speeds: How fast jobs in general are by hardware, in thousandths of their speed over
            all hardware; keys as in ``WorkloadView.speeds``. Learned from finished jobs; empty at
            first.
        arguments: Arguments of the DispatchProfile; without one
            ``multiKueue.dispatcherArguments`` of the configuration.
        dispatcher: The name by which this dispatcher was chosen.
        now: The current time, aware, in UTC.
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
        """Return the cluster with the given name; None if there is none."""
        return next((cluster for cluster in self.clusters if cluster.name == name), None)
