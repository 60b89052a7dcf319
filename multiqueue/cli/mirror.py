"""The engine of the manager, rebuilt here from what the API shows: positions and reasons as it sees
them.

Reading needs no running manager, and a question never disturbs one. Cost: one list of every kind.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec

from multiqueue.api import v1beta2 as api
from multiqueue.api.names import QUEUE_NAME
from multiqueue.api.serde import decode
from multiqueue.kube import resources
from multiqueue.kube.errors import Forbidden, NotFound
from multiqueue.kube.resources import Resource

if TYPE_CHECKING:
    from multiqueue.engine.engine import Engine
    from multiqueue.engine.state import PendingWorkload
    from multiqueue.kube.client import KubeClient

_KINDS: dict[str, tuple[Resource, type[Any]]] = {
    "namespaces": (resources.NAMESPACES, dict),
    "flavors": (resources.RESOURCE_FLAVORS, api.ResourceFlavor),
    "topologies": (resources.TOPOLOGIES, api.Topology),
    "checks": (resources.ADMISSION_CHECKS, api.AdmissionCheck),
    "cohorts": (resources.COHORTS, api.Cohort),
    "cluster_queues": (resources.CLUSTER_QUEUES, api.ClusterQueue),
    "local_queues": (resources.LOCAL_QUEUES, api.LocalQueue),
    "workloads": (resources.WORKLOADS, api.Workload),
    "clusters": (resources.MULTIKUEUE_CLUSTERS, api.MultiKueueCluster),
    "configs": (resources.MULTIKUEUE_CONFIGS, api.MultiKueueConfig),
    "jobs": (resources.JOBS, dict),
}
"""Argument of `build_mirror` -> what to list for it."""


@dataclass(slots=True, kw_only=True)
class Mirror:
    """Everything about queues that the user may read, and the engine's view of it.

    Attributes:
        jobs: Those in queues, by uid.
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
    flavors: dict[str, api.ResourceFlavor] = field(default_factory=dict)
    jobs: dict[str, dict[str, Any]] = field(default_factory=dict)
    hidden: list[str] = field(default_factory=list)
    _places: dict[str, dict[str, PendingWorkload]] = field(default_factory=dict)

    def cluster_queue_of(self, workload: api.Workload) -> str:
        """Return the ClusterQueue behind a Workload's LocalQueue, or an empty string."""
        if workload.status.admission is not None:
            return workload.status.admission.cluster_queue
        queue = self.local_queues.get(f"{workload.metadata.namespace}/{workload.spec.queue_name}")
        return queue.spec.cluster_queue if queue else ""

    def job_of(self, workload: api.Workload) -> dict[str, Any] | None:
        """Return the job of a Workload, as far as it is known."""
        owners = (self.jobs.get(owner.uid) for owner in workload.metadata.owner_references)
        return next(filter(None, owners), None)

    def pending(self, cluster_queue: str) -> dict[str, PendingWorkload]:
        """Return who waits in a ClusterQueue, in its order, by key."""
        if cluster_queue not in self._places:
            waiting = self.engine.pending_workloads(cluster_queue)
            self._places[cluster_queue] = {item.workload: item for item in waiting}
        return self._places[cluster_queue]

    def past_usage(self, cluster_queue: str) -> list[tuple[str, float]]:
        """Return the LocalQueues in which somebody waits, by their past usage, the least first.

        Empty where past usage does not decide whose turn it is.
        """
        usage = self.engine.usage
        if usage is None or not usage.counts_in(cluster_queue):
            return []
        waiting = dict.fromkeys(item.local_queue for item in self.pending(cluster_queue).values())
        return sorted(((key, usage.usage_of(key)) for key in waiting), key=lambda row: row[1])

    def place_of(self, key: str) -> PendingWorkload | None:
        """Return the place of a waiting Workload; None where it does not wait or cannot be seen."""
        workload = self.workloads.get(key)
        if workload is None or "workloads" in self.hidden:
            return None
        queue = self.cluster_queue_of(workload)
        return self.pending(queue).get(key) if queue in self.cluster_queues else None


async def load_mirror(client: KubeClient) -> Mirror:
    """Read the cluster and build the engine's view of it."""
    hidden: list[str] = []
    rows = await asyncio.gather(
        *(_list(client, hidden, resource, kind) for resource, kind in _KINDS.values())
    )
    lists = dict(zip(_KINDS, rows, strict=True))
    return build_mirror(now=datetime.now(UTC), hidden=hidden, **lists)


def build_mirror(  # noqa: PLR0913 - one argument a kind
    *,
    now: datetime,
    namespaces: Sequence[dict[str, Any]] = (),
    flavors: Sequence[api.ResourceFlavor] = (),
    topologies: Sequence[api.Topology] = (),
    checks: Sequence[api.AdmissionCheck] = (),
    cohorts: Sequence[api.Cohort] = (),
    cluster_queues: Sequence[api.ClusterQueue] = (),
    local_queues: Sequence[api.LocalQueue] = (),
    workloads: Sequence[api.Workload] = (),
    clusters: Sequence[api.MultiKueueCluster] = (),
    configs: Sequence[api.MultiKueueConfig] = (),
    jobs: Sequence[dict[str, Any]] = (),
    hidden: Sequence[str] = (),
) -> Mirror:
    """Feed an engine with objects."""
    from multiqueue.engine.engine import Engine
    from multiqueue.engine.options import AdmissionFairSharing, EngineOptions
    from multiqueue.model import build
    from multiqueue.model.past_usage import build_consumed_resources

    # Past usage is as the status has it: nothing decays here, and resources weigh the same. Where
    # no status has any, the manager does not go by it.
    past_usage = {queue.metadata.key: build_consumed_resources(queue) for queue in local_queues}
    sharing = AdmissionFairSharing() if any(past_usage.values()) else None
    engine = Engine(EngineOptions(admission_fair_sharing=sharing))
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
    for queue in cluster_queues:
        engine.upsert_cluster_queue(build.build_cluster_queue(queue))
    for local_queue in local_queues:
        engine.upsert_local_queue(build.build_local_queue(local_queue))
        if engine.usage is not None:
            key = local_queue.metadata.key
            engine.usage.seed(key, past_usage[key], now)
    options = build.BuildOptions(elastic=True)  # slices are there only where the gate is on
    for workload in workloads:
        engine.upsert_workload(build.build_workload(workload, options), now)
    return Mirror(
        engine=engine,
        now=now,
        workloads={workload.metadata.key: workload for workload in workloads},
        cluster_queues={queue.metadata.name: queue for queue in cluster_queues},
        local_queues={queue.metadata.key: queue for queue in local_queues},
        clusters={cluster.metadata.name: cluster for cluster in clusters},
        configs={config.metadata.name: config for config in configs},
        checks={check.metadata.name: check for check in checks},
        flavors={flavor.metadata.name: flavor for flavor in flavors},
        jobs={job["metadata"]["uid"]: job for job in jobs},
        hidden=list(hidden),
    )


async def _list(
    client: KubeClient, hidden: list[str], resource: Resource, kind: type[Any]
) -> list[Any]:
    load: Callable[[bytes], Any]
    if kind is dict:
        load = msgspec.json.decode
    else:

        def load(data: bytes) -> Any:
            return decode(kind, data)

    # Of jobs, those in queues: a cluster may have many others.
    selector = QUEUE_NAME if resource is resources.JOBS else ""
    try:
        return (await client.list(resource, label_selector=selector, decode=load)).items
    except (Forbidden, NotFound):
        hidden.append(resource.plural)
        return []
