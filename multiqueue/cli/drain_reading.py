"""Reads what ``clusters drain --dry-run`` needs from the manager and all workers at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any, NamedTuple

from multiqueue.api import v1beta2 as api
from multiqueue.api.serde import decode
from multiqueue.api.v1alpha1 import DisruptionPolicy
from multiqueue.capacity.own_quota import OwnQuota
from multiqueue.cli.queue_objects import QueueObjects
from multiqueue.cli.views.drain_plan import DrainSurroundings, Quotas
from multiqueue.cli.worker_access import WORKER_SECONDS, worker_credentials
from multiqueue.drain.stop_time import find_notice_length
from multiqueue.kube import resources
from multiqueue.kube.client import KubeClient
from multiqueue.kube.errors import Forbidden, KubeError, NotFound
from multiqueue.kube.resources import Resource


async def read_surroundings(client: KubeClient, *, system_namespace: str) -> DrainSurroundings:
    """Read everything that decides which worker could run a job.

    Objects that the user may not read are left out.
    """
    workloads = await client.list(
        resources.WORKLOADS, decode=lambda data: decode(api.Workload, data)
    )
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
        *(_read_worker(client, cluster, system_namespace) for cluster in clusters.items)
    )
    objects = QueueObjects(now=datetime.now(UTC))
    objects.add("workloads", workloads.items)
    await objects.list_jobs(client)
    names = [cluster.metadata.name for cluster in clusters.items]
    return DrainSurroundings(
        workloads=workloads.items,
        jobs=objects.jobs,
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
    client: KubeClient, cluster: api.MultiKueueCluster, system_namespace: str
) -> Quotas:
    try:
        async with asyncio.timeout(WORKER_SECONDS):
            credentials = await worker_credentials(client, cluster, system_namespace)
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
    return (await client.list(resource, decode=partial(decode, kind))).items


def _by_name(objects: list[Any]) -> dict[str, Any]:
    return {each.metadata.name: each for each in objects}
