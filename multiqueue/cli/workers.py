"""Reads all workers at once, each through its own kubeconfig; none delays the others."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from multiqueue.api.conditions import (
    ACTIVE,
    CREDENTIALS_EXPIRING,
    ORIGIN_SHARED,
    find_condition,
)
from multiqueue.api.serde import decode
from multiqueue.api.v1beta2 import ClusterQueue, MultiKueueCluster, Workload
from multiqueue.cli.views.drains import IN_USE, Use, view_use
from multiqueue.cli.views.inactive import explain_cluster_queue
from multiqueue.kube.client import KubeClient
from multiqueue.kube.errors import Forbidden, KubeError, NotFound
from multiqueue.kube.resources import (
    CLUSTER_QUEUES,
    CONFIG_MAPS,
    MULTIKUEUE_CLUSTERS,
    WORKLOADS,
)
from multiqueue.model.build_workload import build_workload
from multiqueue.model.cluster_queue import build_cluster_queue
from multiqueue.model.resources import is_accelerator
from multiqueue.views.phase import AT_WORK, ENDED
from multiqueue.views.workloads import view_workload
from multiqueue.workers.connections.capabilities import CONFIG_MAP
from multiqueue.workers.kubeconfigs.stored import WORKER_SECONDS, worker_credentials

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


@dataclass(slots=True, kw_only=True)
class FlavorGpus:
    """The accelerators of one flavor on a worker."""

    flavor: str
    total: int = 0
    used: int = 0

    @property
    def free(self) -> int:
        """The accelerators that no Workload has reserved."""
        return max(0, self.total - self.used)


@dataclass(slots=True, kw_only=True)
class WorkerStatus:
    """One worker.

    Attributes:
        use: Whether it is in use, cordoned or drained.
        warnings: Problems that its MultiKueueCluster reports.
        capabilities: Its versions, job kinds, flavors and topologies, as the manager found them.
        problem: Why its own figures are missing; empty if they are there.
        stopped: ClusterQueues there that admit nothing, each in a sentence.
    """

    name: str
    connected: bool
    reason: str
    use: Use = IN_USE
    flavors: list[FlavorGpus] = field(default_factory=list)
    running: list[str] = field(default_factory=list)
    waiting: int = 0
    warnings: list[str] = field(default_factory=list)
    capabilities: dict[str, Any] | None = None
    problem: str = ""
    stopped: list[str] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """Return the worker for ``-o json``."""
        return {
            "name": self.name,
            "connected": self.connected,
            "reason": self.reason or None,
            "use": self.use.to_dict(),
            "gpus": [
                {"flavor": f.flavor, "total": f.total, "used": f.used, "free": f.free}
                for f in self.flavors
            ],
            "running": self.running,
            "waiting": self.waiting,
            "warnings": self.warnings,
            "capabilities": self.capabilities,
            "problem": self.problem or None,
            "stopped": self.stopped,
        }


async def read_workers(client: KubeClient, *, system_namespace: str) -> list[WorkerStatus]:
    """Return every MultiKueueCluster, with the figures that its cluster gives."""
    listed = await client.list(
        MULTIKUEUE_CLUSTERS, decode=lambda data: decode(MultiKueueCluster, data)
    )
    capabilities = await _read_capabilities(client, system_namespace)
    found = await asyncio.gather(
        *(_read_worker(client, cluster, system_namespace) for cluster in listed.items)
    )
    for worker in found:
        worker.capabilities = capabilities.get(worker.name)
    return list(found)


async def _read_capabilities(client: KubeClient, namespace: str) -> dict[str, Any]:
    """Return what the manager published about the workers; empty if it may not be read."""
    try:
        found = await client.get(CONFIG_MAPS, CONFIG_MAP, namespace=namespace)
    except (NotFound, Forbidden):
        return {}
    return {name: json.loads(text) for name, text in (found.get("data") or {}).items()}


async def _read_worker(
    client: KubeClient, cluster: MultiKueueCluster, namespace: str
) -> WorkerStatus:
    active = find_condition(cluster.status.conditions, ACTIVE)
    connected = active is not None and active.status == "True"
    reason = "no manager has looked at it"
    if active is not None:
        reason = "" if connected else _reason(active.reason, active.message)
    status = WorkerStatus(
        name=cluster.metadata.name,
        connected=connected,
        reason=reason,
        use=view_use(cluster),
        warnings=[
            condition.message
            for type_ in (CREDENTIALS_EXPIRING, ORIGIN_SHARED)
            if (condition := find_condition(cluster.status.conditions, type_)) is not None
            and condition.status == "True"
        ],
    )
    try:
        async with asyncio.timeout(WORKER_SECONDS):
            credentials = await worker_credentials(client, cluster, namespace, datetime.now(UTC))
            async with KubeClient(credentials, default_timeout=WORKER_SECONDS) as worker:
                await read_figures(worker, status)
    except Forbidden as error:
        status.problem = f"not allowed to look: {error}"
    except NotFound as error:
        status.problem = str(error)
    except TimeoutError:
        status.problem = f"no answer within {WORKER_SECONDS:g} s"
    except (KubeError, ValueError) as error:
        status.problem = str(error)
    return status


async def read_figures(worker: KubeClient, status: WorkerStatus) -> None:
    """Fill in the free GPUs and the stopped queues that the worker itself shows."""
    queues = await worker.list(CLUSTER_QUEUES, decode=lambda data: decode(ClusterQueue, data))
    workloads = await worker.list(WORKLOADS, decode=lambda data: decode(Workload, data))
    status.stopped = list(filter(None, map(explain_cluster_queue, queues.items)))
    status.flavors = count_gpus(queues.items, workloads.items)
    for workload in workloads.items:
        view = view_workload(workload)
        if view.state in AT_WORK:
            status.running.append(view.key)
        elif view.state not in ENDED:
            status.waiting += 1
    status.running.sort()


def count_gpus(queues: Sequence[ClusterQueue], workloads: Sequence[Workload]) -> list[FlavorGpus]:
    """Return accelerators by flavor: nominal quota of all queues, and the reserved part."""
    by_flavor: dict[str, FlavorGpus] = {}

    def flavor_of(name: str) -> FlavorGpus:
        return by_flavor.setdefault(name, FlavorGpus(flavor=name))

    for flavor, amount in _nominal(queues):
        flavor_of(flavor).total += amount
    for flavor, amount in _reserved(workloads):
        flavor_of(flavor).used += amount
    return [by_flavor[name] for name in sorted(by_flavor)]


def _nominal(queues: Sequence[ClusterQueue]) -> Iterator[tuple[str, int]]:
    for queue in queues:
        for group in build_cluster_queue(queue).resource_groups:
            for flavor in group.flavors:
                for resource, quota in flavor.quotas.items():
                    if is_accelerator(resource):
                        yield flavor.name, quota.nominal


def _reserved(workloads: Sequence[Workload]) -> Iterator[tuple[str, int]]:
    for workload in map(build_workload, workloads):
        if workload.finished or workload.reservation is None:
            continue
        for (flavor, resource), amount in workload.reservation.admission.usage().items():
            if is_accelerator(resource):
                yield flavor, amount


def _reason(reason: str, message: str) -> str:
    return reason if not message or message == reason else f"{reason}: {message}"
