"""On which flavors the manager could reserve quota for a Workload that leaves its worker.

A Workload that moves to other hardware also needs quota for that hardware on the manager. Otherwise
it would be stopped on one worker only to wait in the manager's queue.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import islice, product

from multiqueue.api import v1beta2 as api
from multiqueue.capacity import quota_view
from multiqueue.capacity.quota_view import QueueObject
from multiqueue.capacity.workload_view import usage_of
from multiqueue.plugins import Grade, QueueView, QuotaView, WorkloadView, grade_flavor
from multiqueue.plugins.alternatives import pods_on

FlavorResource = tuple[str, str]
MAX_CHOICES = 32
"""How many combinations of flavors are tried if there are several resource groups."""
NO_QUOTA = QuotaView()


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaClaim:
    """Quota of the manager that a leaving Workload is expected to reserve again."""

    queue: str
    taken: Mapping[FlavorResource, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One way to reserve.

    Attributes:
        flavors: By pod set and resource.
        pods: By pod set.
        claim: The quota that it takes.
        has_room: Whether that quota is free now, counting what the Workload holds as free.
    """

    flavors: Mapping[str, Mapping[str, str]]
    pods: Mapping[str, int]
    claim: QuotaClaim
    has_room: bool

    @property
    def words(self) -> str:
        """The flavors, for people."""
        return ", ".join(sorted({flavor for flavor, _ in self.claim.taken}))


class OwnQuota:
    """Reads the free quota of the manager's ClusterQueues.

    Args:
        cluster_queues: Returns the ClusterQueues.
        cohorts: Returns the Cohorts.
        flavors: Returns the ResourceFlavors.
    """

    def __init__(
        self,
        *,
        cluster_queues: Callable[[], Iterable[api.ClusterQueue]],
        cohorts: Callable[[], Iterable[api.Cohort]],
        flavors: Callable[[], Iterable[api.ResourceFlavor]],
    ) -> None:
        self._cluster_queues = cluster_queues
        self._cohorts = cohorts
        self._flavors = flavors
        self._read: dict[str, tuple[str, QueueObject | None]] = {}
        self._views: dict[str, QueueView | None] = {}

    def refresh(self, claims: Iterable[QuotaClaim]) -> None:
        """Read the queues again, and count these claims first."""
        self._views.clear()
        for claim in claims:
            self.take(claim)

    def take(self, claim: QuotaClaim) -> None:
        """Count a claim until the next `refresh`."""
        view = self.find(claim.queue)
        if view is not None:
            self._views[claim.queue] = quota_view.with_in_flight(view, claim.taken)

    def choices(self, workload: api.Workload, shown: WorkloadView) -> list[Choice]:
        """Return the ways to reserve for a Workload, in the order of its ClusterQueue.

        Args:
            workload: The Workload, with its reservation.
            shown: The view of the Workload, without a reservation.
        """
        admission = workload.status.admission
        queue = self.find(admission.cluster_queue) if admission is not None else None
        if queue is None:
            return []
        free = quota_view.with_usage(queue, usage_of(workload))
        per_group = [
            [(group.resources, name) for name in group.flavors if _suits(shown, queue, i, name)]
            for i, group in enumerate(queue.groups)
            if any(shown.total(resource) for resource in group.resources)
        ]
        return [
            self._choice(shown, free, dict(_pairs(chosen)))
            for chosen in islice(product(*per_group), MAX_CHOICES)
        ]

    def _choice(self, shown: WorkloadView, queue: QueueView, flavors: dict[str, str]) -> Choice:
        by_pod_set: dict[str, dict[str, str]] = {}
        pods: dict[str, int] = {}
        taken: dict[FlavorResource, int] = {}
        for pod_set in shown.pod_sets:
            used = {r: f for r, f in flavors.items() if pod_set.requests.get(r, 0) > 0}
            by_pod_set[pod_set.name] = used
            pods[pod_set.name] = count = pods_on(pod_set, queue, used.values())
            for resource, flavor in used.items():
                pair = (flavor, resource)
                taken[pair] = taken.get(pair, 0) + pod_set.requests[resource] * count
        return Choice(
            flavors=by_pod_set,
            pods=pods,
            claim=QuotaClaim(queue=queue.name, taken=taken),
            has_room=all(n <= queue.quotas.get(p, NO_QUOTA).free for p, n in taken.items()),
        )

    def find(self, name: str) -> QueueView | None:
        """Return a ClusterQueue with all claims counted; None: there is none."""
        if name not in self._views:
            self._views[name] = self._build(name)
        return self._views[name]

    def _build(self, name: str) -> QueueView | None:
        queues = {obj.metadata.name: self._parse(obj) for obj in self._cluster_queues()}
        member = queues.get(name)
        if member is None:
            return None
        cohorts = {
            obj.metadata.name: cohort
            for obj in self._cohorts()
            if (cohort := quota_view.read_cohort(obj)) is not None
        }
        known = [queue for queue in queues.values() if queue is not None]
        flavors = {f.metadata.name: f for f in self._flavors()}
        pools = quota_view.pools_of(member, known, cohorts)
        return quota_view.build_queue_view(member, flavors, pools)

    def _parse(self, obj: api.ClusterQueue) -> QueueObject | None:
        name, version = obj.metadata.name, obj.metadata.resource_version
        known = self._read.get(name)
        if known is None or known[0] != version:
            known = (version, quota_view.read_queue(obj))
            self._read[name] = known
        return known[1]


def _suits(shown: WorkloadView, queue: QueueView, group: int, name: str) -> bool:
    """Whether every pod set could get the flavor, whatever it reserved before."""
    flavor = queue.flavors.get(name)
    return flavor is not None and all(
        grade_flavor(replace(pod_set, reserved={}), queue, queue.groups[group], flavor)
        is not Grade.MISMATCH
        for pod_set in shown.pod_sets
        if any(pod_set.requests.get(resource, 0) for resource in queue.groups[group].resources)
    )


def _pairs(chosen: Iterable[tuple[tuple[str, ...], str]]) -> Iterable[tuple[str, str]]:
    for resources, flavor in chosen:
        for resource in resources:
            yield resource, flavor
