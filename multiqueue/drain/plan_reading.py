"""Reads what the forecast of a drain needs, with the rights of whoever asks for it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple

from multiqueue.api import v1beta2 as api
from multiqueue.api.job_kinds import find_job_kind
from multiqueue.api.serde import decode
from multiqueue.api.v1alpha1 import DisruptionPolicy
from multiqueue.capacity.own_quota import OwnQuota
from multiqueue.drain.plan import DrainSurroundings, Quotas, is_resident
from multiqueue.drain.stop_time import find_notice_length
from multiqueue.kube import resources
from multiqueue.kube.client import KubeClient
from multiqueue.kube.errors import Forbidden, KubeError, NotFound
from multiqueue.kube.resources import Resource, resource_of
from multiqueue.workers.kubeconfigs.stored import WORKER_SECONDS, worker_credentials

JOBS_AT_ONCE = 16
"""Jobs that are read at the same time."""


async def read_surroundings(
    client: KubeClient, worker: str, *, system_namespace: str, now: datetime
) -> DrainSurroundings:
    """Read everything that decides which other worker could run the jobs of a worker.

    Objects that the user may not read are left out.

    Args:
        client: A client of the manager's cluster, with the rights of the user.
        worker: The worker that would be drained.
        system_namespace: The manager's namespace, with the kubeconfigs of the workers.
        now: The time, to judge whether a kubeconfig has expired.

    Raises:
        KubeError: Workloads or MultiKueueClusters may not be listed.
    """
    listed = await client.list(resources.WORKLOADS, decode=partial(_decode_resident, worker))
    workloads = [workload for workload in listed.items if workload is not None]
    clusters = await client.list(
        resources.MULTIKUEUE_CLUSTERS, decode=partial(decode, api.MultiKueueCluster)
    )
    checks, configs, policies, own = await asyncio.gather(
        _list(client, resources.ADMISSION_CHECKS, api.AdmissionCheck),
        _list(client, resources.MULTIKUEUE_CONFIGS, api.MultiKueueConfig),
        _list(client, resources.DISRUPTION_POLICIES, DisruptionPolicy),
        _read_queues(client, _list),
    )
    workers = await asyncio.gather(
        *(_read_worker(client, cluster, system_namespace, now) for cluster in clusters.items)
    )
    names = [cluster.metadata.name for cluster in clusters.items]
    return DrainSurroundings(
        workloads=workloads,
        jobs=await _read_jobs(client, workloads),
        clusters=dict(zip(names, clusters.items, strict=True)),
        checks=_by_name(checks),
        configs=_by_name(configs),
        flavors=_by_name(own.flavors),
        own=own.quota,
        workers=dict(zip(names, workers, strict=True)),
        notice_length=partial(
            find_notice_length,
            queue_of=_by_name(own.cluster_queues).get,
            cohort_of=_by_name(own.cohorts).get,
            policy_of=_by_name(policies).get,
        ),
    )


async def _read_worker(
    client: KubeClient, cluster: api.MultiKueueCluster, system_namespace: str, now: datetime
) -> Quotas:
    try:
        async with asyncio.timeout(WORKER_SECONDS):
            credentials = await worker_credentials(client, cluster, system_namespace, now)
            async with KubeClient(credentials, default_timeout=WORKER_SECONDS) as worker:
                found = await _read_queues(worker, _list_all)
                queues = await worker.list(
                    resources.LOCAL_QUEUES, decode=partial(decode, api.LocalQueue)
                )
    except TimeoutError:
        return Quotas(problem=f"no answer within {WORKER_SECONDS:g} s")
    except (KubeError, ValueError) as error:
        return Quotas(problem=str(error))
    return Quotas(quota=found.quota, local_queues={q.metadata.key: q for q in queues.items})


def _decode_resident(worker: str, data: bytes) -> api.Workload | None:
    """Return a Workload on the worker; None for another, which takes no memory then."""
    workload = decode(api.Workload, data)
    return workload if is_resident(workload, worker) else None


async def _read_jobs(
    client: KubeClient, workloads: Sequence[api.Workload]
) -> dict[str, dict[str, Any]]:
    """Return the jobs of these Workloads, by uid: one by one, as a cluster may have many others."""
    slots = asyncio.Semaphore(JOBS_AT_ONCE)

    async def read(workload: api.Workload) -> dict[str, Any] | None:
        for owner in workload.metadata.owner_references:
            row = find_job_kind(owner.api_version, owner.kind)
            if row is None:
                continue
            resource = resource_of(row.api_version, row.plural, row.kind)
            with suppress(Forbidden, NotFound):
                async with slots:
                    return await client.get(
                        resource, owner.name, namespace=workload.metadata.namespace
                    )
        return None

    found = await asyncio.gather(*map(read, workloads))
    return {job["metadata"]["uid"]: job for job in found if job is not None}


class _Queues(NamedTuple):
    cluster_queues: list[api.ClusterQueue]
    flavors: list[api.ResourceFlavor]
    cohorts: list[api.Cohort]

    @property
    def quota(self) -> OwnQuota:
        return OwnQuota(
            cluster_queues=lambda: self.cluster_queues,
            cohorts=lambda: self.cohorts,
            flavors=lambda: self.flavors,
        )


async def _read_queues(
    client: KubeClient, read: Callable[[KubeClient, Resource, type[Any]], Awaitable[list[Any]]]
) -> _Queues:
    """Return a cluster's queues, flavors and Cohorts."""
    return _Queues(
        *await asyncio.gather(
            read(client, resources.CLUSTER_QUEUES, api.ClusterQueue),
            read(client, resources.RESOURCE_FLAVORS, api.ResourceFlavor),
            # Old workers have no Cohorts; if they may not be read, they rarely matter.
            _list(client, resources.COHORTS, api.Cohort),
        )
    )


async def _list(client: KubeClient, resource: Resource, kind: type[Any]) -> list[Any]:
    try:
        return await _list_all(client, resource, kind)
    except (Forbidden, NotFound):
        return []


async def _list_all(client: KubeClient, resource: Resource, kind: type[Any]) -> list[Any]:
    return list((await client.list(resource, decode=partial(decode, kind))).items)


def _by_name(objects: list[Any]) -> dict[str, Any]:
    return {each.metadata.name: each for each in objects}
