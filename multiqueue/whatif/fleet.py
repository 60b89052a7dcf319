"""What the workers of a snapshot could ever hold; answers as the manager's `FleetCapacity`. Pure.

A worker whose queues are not in the snapshot counts as able to hold anything.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from functools import partial
from typing import Any, TypeVar

import msgspec

from multiqueue.api import v1beta2 as api
from multiqueue.api.names import key_of
from multiqueue.api.serde import decode
from multiqueue.capacity import quota_view
from multiqueue.capacity.exclusions import exclude
from multiqueue.capacity.fleet_capacity import stand
from multiqueue.capacity.workload_view import build_asked_view
from multiqueue.engine.remote import ChosenFlavors, Impossible
from multiqueue.model.resources import is_accelerator
from multiqueue.model.workload import Workload
from multiqueue.plugins import Limit, QueueView, WorkloadView
from multiqueue.plugins.limits import find_impossibility
from multiqueue.whatif.snapshot import Snapshot

T = TypeVar("T", bound=msgspec.Struct)


class SnapshotFleet:
    """The workers of a snapshot; `ask` is a `FleetOracle`.

    Args:
        snapshot: The snapshot; not changed afterwards.
        workloads: Its Workloads by key.
    """

    def __init__(self, snapshot: Snapshot, workloads: Mapping[str, api.Workload]) -> None:
        self._snapshot = snapshot
        self._flavors = _typed(api.ResourceFlavor, snapshot.of("ResourceFlavor").values())
        self._clusters = _typed(api.MultiKueueCluster, snapshot.of("MultiKueueCluster").values())
        self._checks = _typed(api.AdmissionCheck, snapshot.of("AdmissionCheck").values())
        self._configs = _typed(api.MultiKueueConfig, snapshot.of("MultiKueueConfig").values())
        self._workloads = workloads
        self._queues: dict[tuple[str, str], QueueView | str | None] = {}
        self._memo: dict[Hashable, Impossible | None] = {}

    def ask(self, workload: Workload, check: str, flavors: ChosenFlavors) -> Impossible | None:
        """Return why no worker of the check can ever hold a Workload on these flavors."""
        clusters = self._clusters_of(check)
        known = self._workloads[workload.key]
        excluded = exclude(known, None, clusters, self._clusters.get)
        chosen = tuple((name, tuple(sorted(of.items()))) for name, of in sorted(flavors.items()))
        key = (workload.shape, workload.queue, check, excluded, chosen)
        if key not in self._memo:
            view = build_asked_view(workload, flavors, self._flavors.get)
            standing = stand(clusters, excluded, partial(self._judge, view))
            is_known = standing.is_hopeless and not standing.unknown
            self._memo[key] = standing.explain(view) if is_known else None
        return self._memo[key]

    def _clusters_of(self, check: str) -> tuple[str, ...]:
        found = self._checks.get(check)
        parameters = found.spec.parameters if found is not None else None
        config = self._configs.get(parameters.name) if parameters is not None else None
        return config.spec.clusters if config is not None else ()

    def _judge(self, view: WorkloadView, name: str) -> Limit | str | None:
        """Return why a worker can never hold it; "" if it could, None if that is not known."""
        if name not in self._clusters:
            return "has no MultiKueueCluster"
        queue = self._find_queue(name, key_of(view.namespace, view.queue))
        return find_impossibility(view, queue) if isinstance(queue, QueueView) else queue

    def _find_queue(self, cluster: str, key: str) -> QueueView | str | None:
        if (cluster, key) not in self._queues:
            self._queues[cluster, key] = self._build_queue(cluster, key)
        return self._queues[cluster, key]

    def _build_queue(self, cluster: str, key: str) -> QueueView | str | None:
        of = partial(self._snapshot.of, cluster=cluster)
        if not of("ClusterQueue"):
            return None
        local = of("LocalQueue").get(key)
        if local is None:
            namespace, _, name = key.partition("/")
            return f'has no LocalQueue "{name}" in namespace "{namespace}"'
        target = decode(api.LocalQueue, local).spec.cluster_queue
        members = {
            name: quota_view.read_queue(decode(api.ClusterQueue, obj))
            for name, obj in of("ClusterQueue").items()
        }
        if target not in members:
            return f'has no ClusterQueue "{target}", which its LocalQueue "{key}" names'
        member = members[target]
        if member is None:
            return None
        cohorts = {
            name: cohort
            for name, obj in of("Cohort").items()
            if (cohort := quota_view.read_cohort(decode(api.Cohort, obj))) is not None
        }
        readable = (each for each in members.values() if each is not None)
        pools = quota_view.pools_of(member, readable, cohorts)
        flavors = _typed(api.ResourceFlavor, of("ResourceFlavor").values())
        return quota_view.build_queue_view(member, flavors, pools)


def count_worker_gpus(snapshot: Snapshot) -> int | None:
    """Return the accelerators of all workers' ClusterQueues; None if they are not all known."""
    workers = snapshot.of("MultiKueueCluster")
    if not workers or not all(snapshot.of("ClusterQueue", name) for name in workers):
        return None
    queues = [
        quota_view.read_queue(decode(api.ClusterQueue, obj))
        for name in workers
        for obj in snapshot.of("ClusterQueue", name).values()
    ]
    return sum(
        quota.nominal
        for queue in queues
        if queue is not None
        for (_, resource), quota in quota_view.quotas_of(queue.queue.resource_groups).items()
        if is_accelerator(resource)
    )


def _typed(type_: type[T], objects: Iterable[dict[str, Any]]) -> dict[str, T]:
    return {str(obj["metadata"]["name"]): decode(type_, obj) for obj in objects}
