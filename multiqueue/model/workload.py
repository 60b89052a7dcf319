"""Workload as the engine sees it: all pods of a job, admitted together or not at all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any, TypeAlias

from multiqueue.api.alternatives import name_hardware
from multiqueue.api.conditions import CheckState
from multiqueue.api.disruptions import Stop
from multiqueue.api.notices import Notice
from multiqueue.api.v1beta2.meta import Condition
from multiqueue.api.v1beta2.workload import PodSetTopologyRequest
from multiqueue.lib.amount import Amount, multiply
from multiqueue.model.disruption_policy import SaveHabits
from multiqueue.model.placement import ANYWHERE, Placement
from multiqueue.model.resources import format_amount
from multiqueue.model.topology import TopologyAssignment

Shape: TypeAlias = tuple[Any, ...]
"""A value to compare and hash: the scheduling hash of E-26 without collisions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSet:
    """A number of equal pods.

    Units: ``requests`` is per pod, after transformations (E-4), sorted by resource.
    Shape: ``count`` is the pods that still need quota: the requested less the reclaimable ones
    (E-5). ``pod_requests`` is what a node needs free for a pod: the pod's own requests, before
    transformations (E-7); None if they equal ``requests``. ``alternatives`` are the pod counts by
    hardware, with "" for hardware that is not named; empty if the count does not depend on it.
    """

    name: str = "main"
    count: int = 1
    min_count: int | None = None
    requests: Mapping[str, Amount] = field(default_factory=dict)
    placement: Placement = ANYWHERE
    topology_request: PodSetTopologyRequest | None = None
    pod_requests: Mapping[str, Amount] | None = None
    alternatives: tuple[tuple[str, int], ...] = ()

    def total(self, resource: str) -> Amount:
        """Return the request of all pods together."""
        return multiply(self.requests.get(resource, 0), self.count)

    def pods_on(self, flavor: str, labels: Mapping[str, str]) -> int:
        """Return how many pods are needed on a flavor with these node labels."""
        if not self.alternatives:
            return self.count
        pods = dict(self.alternatives)
        return min(self.count, pods[name_hardware(flavor, labels, pods)])

    @property
    def node_requests(self) -> Mapping[str, Amount]:
        """What one pod uses of a node, without the ``pods`` that it counts as (E-7)."""
        return self.requests if self.pod_requests is None else self.pod_requests


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSetAssignment:
    """The assignment of a pod set.

    Shape: ``flavors`` by resource; ``usage`` by resource, for all pods together.
    ``delayed_topology`` is ``Pending`` if the topology is decided after the admission, ``Ready``
    once it is, empty if it is decided with the admission or not at all (E-134).
    """

    name: str
    flavors: Mapping[str, str] = field(default_factory=dict)
    usage: Mapping[str, Amount] = field(default_factory=dict)
    count: int = 1
    topology: TopologyAssignment | None = None
    delayed_topology: str = ""

    @property
    def resource_usage(self) -> dict[str, str]:
        """The usage as quantities in wire format."""
        return {name: format_amount(name, value) for name, value in sorted(self.usage.items())}


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """The quota that a Workload holds, and in which ClusterQueue."""

    cluster_queue: str
    pod_sets: tuple[PodSetAssignment, ...] = ()

    def usage(self) -> dict[tuple[str, str], Amount]:
        """Return the usage by (flavor, resource)."""
        total: dict[tuple[str, str], Amount] = {}
        for pod_set in self.pod_sets:
            for resource, amount in pod_set.usage.items():
                flavor = pod_set.flavors.get(resource)
                if flavor is not None:
                    total[flavor, resource] = total.get((flavor, resource), 0) + amount
        return total


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """QuotaReserved=True: the admission, its time, and whether all checks passed too.

    Shape: ``admitted_at`` is None until they have.
    """

    admission: Admission
    reserved_at: datetime
    admitted: bool = False
    admitted_at: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class Workload:
    """All pods of a job, which are admitted together.

    Shape: ``key`` is ``namespace/name``, ``queue`` the key of the LocalQueue; ``job_uid`` is "" for
    a Workload without a job. ``priority`` has the boost in it (E-11), ``queue_order_at`` follows
    E-13. ``checks`` by name of the admission check.
    ``placement_updates`` are node selectors and tolerations from ready checks, by pod set name.
    ``problems`` lists the unreadable fields, which keep it from being admitted (E-10).
    ``pods_ready`` is also true if it runs on another cluster, which waits for the pods itself.
    ``is_broken`` is a reservation without an admission: it holds nothing that could be counted.
    ``closed_gates`` names the preemption gates of the spec that are still closed (E-174).
    ``replaces`` is the key of the slice of the same job whose quota it takes over, "" if there is
    none (E-167). ``family`` is the uid of the parent of a variant, "" for any other workload;
    ``variant_order`` is its place in the family;
    ``allowed_flavors`` are the only flavors that it may use, None for all (E-170). Another workload
    queues and holds quota in place of one that ``stands_aside``. ``is_elastic`` is a slice of an
    elastic job, which has no variants. ``stops`` are the times that it was stopped for others,
    ``ran_before`` the seconds that it ran before its present stay, and ``saves`` what it declares
    about its checkpoints. ``non_preemptible`` says that it asks to be stopped for nobody.
    ``notice`` says that it will be stopped, while it still runs.
    ``run_limit`` are the seconds that all its stays may last together, 0 for no limit;
    ``expected_run`` those that it says it runs, 0 if it does not say.
    """

    key: str
    uid: str = ""
    job_uid: str = ""
    generation: int = 0
    queue: str = ""
    priority: int = 0
    created_at: datetime
    queue_order_at: datetime
    pod_sets: tuple[PodSet, ...] = ()
    active: bool = True
    terminating: bool = False
    finished: bool = False
    on_hold: bool = False
    gated_by: str = ""
    awaits_replacement_pods: bool = False
    pods_ready: bool = False
    evicted: Condition | None = None
    requeued: Condition | None = None
    requeue_at: datetime | None = None
    reservation: Reservation | None = None
    is_broken: bool = False
    checks: Mapping[str, CheckState] = field(default_factory=dict)
    placement_updates: Mapping[str, Placement] = field(default_factory=dict)
    unhealthy_nodes: tuple[str, ...] = ()
    closed_gates: tuple[str, ...] = ()
    replaces: str = ""
    family: str = ""
    variant_order: int = 0
    allowed_flavors: tuple[str, ...] | None = None
    stands_aside: bool = False
    is_elastic: bool = False
    stops: tuple[Stop, ...] = ()
    ran_before: int = 0
    run_limit: int = 0
    expected_run: int = 0
    saves: SaveHabits | None = None
    non_preemptible: bool = False
    notice: Notice | None = None
    problems: tuple[str, ...] = ()

    @property
    def namespace(self) -> str:
        """The namespace in the key."""
        return self.key.partition("/")[0]

    @cached_property
    def may_shrink(self) -> bool:
        """Whether some pod set accepts fewer pods than it requests (E-60)."""
        return any(ps.min_count is not None and ps.min_count < ps.count for ps in self.pod_sets)

    @cached_property
    def has_alternatives(self) -> bool:
        """Whether the number of pods depends on the hardware."""
        return any(pod_set.alternatives for pod_set in self.pod_sets)

    @cached_property
    def shape(self) -> Shape:
        """The fields that decide the verdict (E-26): equal shapes get equal verdicts in a queue."""
        pod_sets = tuple(_pod_set_shape(ps) for ps in self.pod_sets)
        asked = self.run_limit if self.non_preemptible else None
        return (self.priority, self.problems, pod_sets, self.replaces, self.allowed_flavors, asked)


def _pod_set_shape(pod_set: PodSet) -> Shape:
    requests = tuple(sorted(pod_set.requests.items()))
    counts = (pod_set.count, pod_set.min_count)
    own = None if pod_set.pod_requests is None else tuple(sorted(pod_set.pod_requests.items()))
    asked = (counts, requests, pod_set.alternatives)
    return (pod_set.name, asked, pod_set.placement, pod_set.topology_request, own)
