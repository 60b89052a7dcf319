"""Live copies of objects on one worker; Workloads and jobs only with our origin label.

The views of the rules are built from these; nothing on the hot path asks a worker.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import msgspec

from multiqueue.api import v1beta2 as api
from multiqueue.api.names import MULTIKUEUE_ORIGIN, key_of
from multiqueue.api.serde import decode
from multiqueue.jobs.framework.gvk import GroupVersionKind
from multiqueue.jobs.framework.multikueue import MultiKueueAdapter
from multiqueue.kube import resources
from multiqueue.kube.client import KubeClient
from multiqueue.kube.informer import Informer
from multiqueue.kube.resources import Resource
from multiqueue.kube.sizes import MAX_COLLECTION_BYTES
from multiqueue.observability.metrics import ManagerMetrics

K = TypeVar("K", bound=msgspec.Struct)
Json = dict[str, Any]

BY_WORKLOAD = "workload"
"""Index of remote jobs by the key of their Workload."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerInformers:
    """Live copies of one worker: of our objects, and of its queues.

    ``jobs`` is by kind, and changes with the declared kinds; a kind that the worker does not serve
    has an unavailable informer.
    """

    workloads: Informer[api.Workload]
    jobs: dict[GroupVersionKind, Informer[Json]]
    local_queues: Informer[api.LocalQueue]
    cluster_queues: Informer[api.ClusterQueue]
    cohorts: Informer[api.Cohort]
    flavors: Informer[api.ResourceFlavor]

    @property
    def queues(self) -> tuple[Informer[Any], ...]:
        """The informers of objects that the worker need not let us read."""
        return (self.local_queues, self.cluster_queues, self.cohorts, self.flavors)

    @property
    def all(self) -> tuple[Informer[Any], ...]:
        """All informers that run from the beginning."""
        return (self.workloads, *self.jobs.values(), *self.queues)


def build_worker_informers(
    client: KubeClient,
    adapters: Iterable[MultiKueueAdapter],
    origin: str,
    metrics: ManagerMetrics,
    name: str,
) -> WorkerInformers:
    """Build the informers of a worker: of jobs only those with our origin."""
    ours = f"{MULTIKUEUE_ORIGIN}={origin}"

    def typed(resource: Resource, kind: type[K], selector: str = "") -> Informer[K]:
        return Informer(
            client,
            resource,
            label_selector=selector,
            decode=lambda data: decode(kind, data),
            on_restart=metrics.watch_observer(resource.plural, name),
            max_bytes=MAX_COLLECTION_BYTES,
        )

    return WorkerInformers(
        workloads=typed(resources.WORKLOADS, api.Workload, ours),
        jobs={
            adapter.gvk: build_remote_jobs(client, adapter, origin, metrics, name)
            for adapter in adapters
        },
        local_queues=typed(resources.LOCAL_QUEUES, api.LocalQueue),
        cluster_queues=typed(resources.CLUSTER_QUEUES, api.ClusterQueue),
        cohorts=typed(resources.COHORTS, api.Cohort),
        flavors=typed(resources.RESOURCE_FLAVORS, api.ResourceFlavor),
    )


def build_remote_jobs(
    client: KubeClient,
    adapter: MultiKueueAdapter,
    origin: str,
    metrics: ManagerMetrics,
    name: str,
) -> Informer[Json]:
    """Build the informer of our jobs of one kind on a worker."""
    return Informer(
        client,
        adapter.resource,
        label_selector=f"{MULTIKUEUE_ORIGIN}={origin}",
        on_restart=metrics.watch_observer(adapter.resource.plural, name),
        max_bytes=MAX_COLLECTION_BYTES,
        indexers={BY_WORKLOAD: partial(list_workload_keys, adapter)},
    )


def list_workload_keys(adapter: MultiKueueAdapter, job: Json) -> list[str]:
    """Return the key of the Workload that a remote job belongs to; empty if it names none."""
    name = adapter.workload_name(job)
    return [key_of(job["metadata"].get("namespace", ""), name)] if name is not None else []
