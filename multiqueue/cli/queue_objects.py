"""The queue objects that a command shows, as far as the user may read them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any

from multiqueue.api import v1beta2 as api
from multiqueue.api.job_kinds import KnownKind, find_job_kind
from multiqueue.api.names import QUEUE_NAME
from multiqueue.api.serde import decode
from multiqueue.api.v1alpha1 import UsageReport
from multiqueue.cli.declared_kinds import note_unknown
from multiqueue.kube import resources
from multiqueue.kube.client import KubeClient
from multiqueue.kube.errors import Forbidden, NotFound
from multiqueue.kube.resources import Resource, resource_of

_KINDS: dict[str, tuple[Resource, type[Any]]] = {
    "workloads": (resources.WORKLOADS, api.Workload),
    "local_queues": (resources.LOCAL_QUEUES, api.LocalQueue),
    "cluster_queues": (resources.CLUSTER_QUEUES, api.ClusterQueue),
    "flavors": (resources.RESOURCE_FLAVORS, api.ResourceFlavor),
    "checks": (resources.ADMISSION_CHECKS, api.AdmissionCheck),
    "configs": (resources.MULTIKUEUE_CONFIGS, api.MultiKueueConfig),
    "clusters": (resources.MULTIKUEUE_CLUSTERS, api.MultiKueueCluster),
    "usage_reports": (resources.USAGE_REPORTS, UsageReport),
}
"""The resource and type to read for each attribute of `QueueObjects`."""


@dataclass(slots=True, kw_only=True)
class QueueObjects:
    """The objects that were read. Kinds that a command does not need are empty.

    Attributes:
        now: The time of reading.
        workloads, local_queues: By ``namespace/name``.
        jobs: The jobs in queues, by uid.
        namespace: The namespace to list if the user may not list in all of them; empty for none.
        hidden: Kinds that the user may not read, or that the cluster does not serve.
        narrowed: Kinds of which only those in `namespace` were read.
    """

    now: datetime
    namespace: str = ""
    workloads: dict[str, api.Workload] = field(default_factory=dict)
    local_queues: dict[str, api.LocalQueue] = field(default_factory=dict)
    cluster_queues: dict[str, api.ClusterQueue] = field(default_factory=dict)
    flavors: dict[str, api.ResourceFlavor] = field(default_factory=dict)
    checks: dict[str, api.AdmissionCheck] = field(default_factory=dict)
    configs: dict[str, api.MultiKueueConfig] = field(default_factory=dict)
    clusters: dict[str, api.MultiKueueCluster] = field(default_factory=dict)
    usage_reports: dict[str, UsageReport] = field(default_factory=dict)
    jobs: dict[str, dict[str, Any]] = field(default_factory=dict)
    hidden: list[str] = field(default_factory=list)
    narrowed: list[str] = field(default_factory=list)

    def add(self, kind: str, objects: Sequence[Any]) -> None:
        """Add objects of a kind, which is the name of an attribute."""
        known = getattr(self, kind)
        for each in objects:
            known[each["metadata"]["uid"] if kind == "jobs" else each.metadata.key] = each

    def cluster_queue_of(self, workload: api.Workload) -> str:
        """Return the ClusterQueue of a Workload's LocalQueue, or an empty string."""
        if workload.status.admission is not None:
            return workload.status.admission.cluster_queue
        queue = self.local_queues.get(f"{workload.metadata.namespace}/{workload.spec.queue_name}")
        return queue.spec.cluster_queue if queue else ""

    def job_of(self, workload: api.Workload) -> dict[str, Any] | None:
        """Return the job of a Workload, if it was read."""
        owners = (self.jobs.get(owner.uid) for owner in workload.metadata.owner_references)
        return next(filter(None, owners), None)

    async def list(self, client: KubeClient, *kinds: str, namespace: str | None = None) -> None:
        """Read all objects of some kinds at once, in one namespace or in all."""
        await asyncio.gather(*(self._list(client, kind, namespace) for kind in kinds))

    async def _list(self, client: KubeClient, kind: str, namespace: str | None) -> None:
        resource, type_ = _KINDS[kind]
        where = namespace if resource.namespaced else None
        listed = await self._try_list(client, resource, where, decode=partial(decode, type_))
        self.add(kind, listed)

    async def _try_list(
        self, client: KubeClient, resource: Resource, namespace: str | None, **options: Any
    ) -> Sequence[Any]:
        """Return the objects, those of the user's own namespace if no others may be read."""
        try:
            return (await client.list(resource, namespace=namespace, **options)).items
        except NotFound:
            self._hide(resource)
            return ()
        except Forbidden:
            if namespace is not None or not resource.namespaced or not self.namespace:
                self._hide(resource)
                return ()
        if resource.plural not in self.narrowed:
            self.narrowed.append(resource.plural)
        return await self._try_list(client, resource, self.namespace, **options)

    async def list_jobs(self, client: KubeClient, *, namespace: str | None = None) -> None:
        """Read the jobs in queues, of each kind that owns one of the known Workloads."""
        note_unknown(owner_kinds(self.workloads.values()))
        await asyncio.gather(
            *(self._list_jobs(client, row, namespace) for row in owner_rows(self.workloads))
        )

    async def _list_jobs(self, client: KubeClient, row: KnownKind, namespace: str | None) -> None:
        resource = resource_of(row.api_version, row.plural, row.kind)
        # Only jobs in queues: a cluster may have many others.
        listed = await self._try_list(client, resource, namespace, label_selector=QUEUE_NAME)
        head = {"apiVersion": row.api_version, "kind": row.kind}
        self.add("jobs", [{**head, **job} for job in listed])

    async def get_job(self, client: KubeClient, workload: api.Workload) -> None:
        """Read the job that owns a Workload, if it exists and the user may read it."""
        for owner in workload.metadata.owner_references[:1]:
            row = find_job_kind(owner.api_version, owner.kind)
            if row is None:
                continue
            resource = resource_of(owner.api_version, row.plural, row.kind)
            namespace = workload.metadata.namespace
            try:
                job = await client.get(resource, owner.name, namespace=namespace)
            except Forbidden:
                self._hide(resource)
            except NotFound:
                continue
            else:
                head = {"apiVersion": row.api_version, "kind": row.kind}
                self.add("jobs", [{**head, **job}])

    async def get(
        self, client: KubeClient, kind: str, name: str, *, namespace: str | None = None
    ) -> None:
        """Read one object, if it exists and the user may read it; an empty name is ignored."""
        if not name:
            return
        resource, type_ = _KINDS[kind]
        try:
            decoder = partial(decode, type_)
            found = await client.get(resource, name, namespace=namespace, decode=decoder)
        except Forbidden:
            self._hide(resource)
        except NotFound:
            return
        else:
            self.add(kind, [found])

    def _hide(self, resource: Resource) -> None:
        if resource.plural not in self.hidden:
            self.hidden.append(resource.plural)


def owner_rows(workloads: Mapping[str, api.Workload]) -> set[KnownKind]:
    """Return the known kinds of the jobs that own these Workloads."""
    rows = (find_job_kind(*owner) for owner in owner_kinds(workloads.values()))
    return {row for row in rows if row is not None}


def owner_kinds(workloads: Iterable[api.Workload]) -> set[tuple[str, str]]:
    """Return apiVersion and kind of the objects that own these Workloads."""
    return {
        (owner.api_version, owner.kind)
        for workload in workloads
        for owner in workload.metadata.owner_references
    }
