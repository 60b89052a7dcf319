"""The engine of the manager, rebuilt here from what the API shows: positions and reasons as it sees
them.

Reading needs no running manager, and a question never disturbs one. Cost: one list of every kind.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from multiqueue.api import v1beta2 as api
from multiqueue.api.serde import decode
from multiqueue.kube import resources
from multiqueue.kube.errors import Forbidden, NotFound
from multiqueue.kube.resources import Resource

if TYPE_CHECKING:
    from multiqueue.engine.engine import Engine
    from multiqueue.engine.state import PendingWorkload
    from multiqueue.kube.client import KubeClient

S = TypeVar("S", bound=msgspec.Struct)


@dataclass(slots=True, kw_only=True)
class Mirror:
    """Everything about queues that the user may read, and the engine's view of it.

    Attributes:
        hidden: Kinds that the user may not read, or that the cluster does not serve.
    """

    engine: Engine
    now: datetime
    workloads: dict[str, api.Workload] = field(default_factory=dict)
    cluster_queues: dict[str, api.ClusterQueue] = field(default_factory=dict)
    local_queues: dict[str, api.LocalQueue] = field(default_factory=dict)
    clusters: dict[str, api.MultiKueueCluster] = field(default_factory=dict)
    configs: dict[str, api.MultiKueueConfig] = field(default_factory=dict)
    checks: dict[str, api.AdmissionCheck] = field(default_factory=dict)
    hidden: list[str] = field(default_factory=list)
    _places: dict[str, dict[str, PendingWorkload]] = field(default_factory=dict)

    def cluster_queue_of(self, workload: api.Workload) -> str:
        """Return the ClusterQueue behind a Workload's LocalQueue, or an empty string."""
        if workload.status.admission is not None:
            return workload.status.admission.cluster_queue
        queue = self.local_queues.get(f"{workload.metadata.namespace}/{workload.spec.queue_name}")
        return queue.spec.cluster_queue if queue else ""

    def pending(self, cluster_queue: str) -> dict[str, PendingWorkload]:
        """Return who waits in a ClusterQueue, in its order, by key."""
        if cluster_queue not in self._places:
            waiting = self.engine.pending_workloads(cluster_queue)
            self._places[cluster_queue] = {item.workload: item for item in waiting}
        return self._places[cluster_queue]

    def place_of(self, key: str) -> PendingWorkload | None:
        """Return the place of a waiting Workload; None where it does not wait or cannot be seen."""
        workload = self.workloads.get(key)
        if workload is None or "workloads" in self.hidden:
            return None
        queue = self.cluster_queue_of(workload)
        return self.pending(queue).get(key) if queue in self.cluster_queues else None


async def load_mirror(client: KubeClient) -> Mirror:
    """Read the cluster and build the engine's view of it."""
    from multiqueue.engine.engine import Engine
    from multiqueue.engine.options import EngineOptions

    mirror = Mirror(engine=Engine(EngineOptions()), now=datetime.now(UTC))
    lists = await asyncio.gather(
        _list(client, mirror, resources.NAMESPACES, dict),
        _list(client, mirror, resources.RESOURCE_FLAVORS, api.ResourceFlavor),
        _list(client, mirror, resources.TOPOLOGIES, api.Topology),
        _list(client, mirror, resources.ADMISSION_CHECKS, api.AdmissionCheck),
        _list(client, mirror, resources.COHORTS, api.Cohort),
        _list(client, mirror, resources.CLUSTER_QUEUES, api.ClusterQueue),
        _list(client, mirror, resources.LOCAL_QUEUES, api.LocalQueue),
        _list(client, mirror, resources.WORKLOADS, api.Workload),
        _list(client, mirror, resources.MULTIKUEUE_CLUSTERS, api.MultiKueueCluster),
        _list(client, mirror, resources.MULTIKUEUE_CONFIGS, api.MultiKueueConfig),
    )
    _fill(mirror, lists)
    return mirror


async def _list(
    client: KubeClient, mirror: Mirror, resource: Resource, kind: type[Any]
) -> list[Any]:
    load: Callable[[bytes], Any]
    if kind is dict:
        load = msgspec.json.decode
    else:

        def load(data: bytes) -> Any:
            return decode(kind, data)

    try:
        return (await client.list(resource, decode=load)).items
    except (Forbidden, NotFound):
        mirror.hidden.append(resource.plural)
        return []


def _fill(mirror: Mirror, lists: Sequence[list[Any]]) -> None:
    from multiqueue.model import build

    engine = mirror.engine
    namespaces, flavors, topologies, checks, cohorts, queues, local_queues, workloads, *rest = lists
    for namespace in namespaces:
        metadata = namespace["metadata"]
        engine.upsert_namespace(metadata["name"], metadata.get("labels") or {})
    for flavor in flavors:
        engine.upsert_resource_flavor(build.build_resource_flavor(flavor))
    for topology in topologies:
        engine.upsert_topology(build.build_topology(topology))
    for check in checks:
        engine.upsert_admission_check(build.build_admission_check(check))
    for cohort in cohorts:
        engine.upsert_cohort(build.build_cohort(cohort))
    for queue in queues:
        engine.upsert_cluster_queue(build.build_cluster_queue(queue))
    for local_queue in local_queues:
        engine.upsert_local_queue(build.build_local_queue(local_queue))
    for workload in workloads:
        engine.upsert_workload(build.build_workload(workload), mirror.now)
    mirror.checks = {check.metadata.name: check for check in checks}
    mirror.cluster_queues = {queue.metadata.name: queue for queue in queues}
    mirror.local_queues = {queue.metadata.key: queue for queue in local_queues}
    mirror.workloads = {workload.metadata.key: workload for workload in workloads}
    clusters, configs = rest
    mirror.clusters = {cluster.metadata.name: cluster for cluster in clusters}
    mirror.configs = {config.metadata.name: config for config in configs}
