"""The informers of a manager, with the indexes by which controllers find related objects."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, TypeVar

import msgspec

from multiqueue.api import v1beta2 as api
from multiqueue.api.config import Configuration
from multiqueue.api.names import PRIORITY_CLASS, key_of
from multiqueue.api.serde import decode
from multiqueue.api.slices import replaced_key
from multiqueue.api.v1alpha1 import DispatchProfile, DisruptionPolicy, JobKind, QuotaPlan
from multiqueue.jobs.context import Informers
from multiqueue.jobs.framework.ancestors import controller_of
from multiqueue.jobs.framework.gvk import GroupVersionKind
from multiqueue.jobs.framework.integration import Integration
from multiqueue.jobs.framework.job_source import (
    BY_CONTROLLER,
    BY_OWNER,
    BY_OWNER_KEY,
    BY_PREBUILT,
    owner_key,
    prebuilt_name,
)
from multiqueue.jobs.framework.related import list_related, related_keys
from multiqueue.jobs.registry import IntegrationRegistry, SupportedKind
from multiqueue.kube import resources
from multiqueue.kube.client import KubeClient
from multiqueue.kube.informer import Informer
from multiqueue.kube.resources import Resource
from multiqueue.kube.store import Indexer

T = TypeVar("T", bound=msgspec.Struct)

BY_QUEUE = "queue"
"""Workloads by the key of the LocalQueue that they request."""
BY_CLUSTER_QUEUE = "cluster-queue"
"""Workloads by the ClusterQueue they hold quota in; LocalQueues by the one behind them."""
BY_PRIORITY_CLASS = "priority-class"
"""Workloads by the WorkloadPriorityClass they refer to."""
BY_CLUSTER = "cluster"
"""Workloads by the worker that runs them."""
BY_REPLACED = "replaced"
"""Workloads by the slice that they replace."""
BY_CHECK = "check"
"""Workloads, and ClusterQueues, by the AdmissionChecks they list."""
BY_JOB_CLASS = "job-class"
"""Jobs by the WorkloadPriorityClass or PriorityClass that they name."""
BY_NAMESPACE = "namespace"
"""Jobs by namespace."""
BY_RELATED = "related"
"""Jobs by the `related_keys` of the objects that they are read with."""
BY_FLAVOR = "flavor"
"""ClusterQueues by the flavors they have quota in."""


def build_informers(
    client: KubeClient,
    config: Configuration,
    integrations: IntegrationRegistry,
    *,
    on_failed_object: Callable[[str], None] = lambda _: None,
) -> Informers:
    """Build every informer of a manager; none runs yet.

    Args:
        client: The client of the manager's cluster.
        config: The manager's Configuration.
        integrations: The job kinds to watch.
        on_failed_object: Called with the plural of a kind if one of its objects was left out, or
            a handler raised for it.
    """

    def failed(resource: Resource) -> Callable[[], None]:
        return partial(on_failed_object, resource.plural)

    def typed(
        resource: Resource, kind: type[T], indexers: dict[str, Indexer[T]] | None = None
    ) -> Informer[T]:
        return Informer(
            client,
            resource,
            decode=_decoder(kind),
            indexers=indexers or {},
            on_failed_object=failed(resource),
        )

    def untyped(
        resource: Resource,
        indexers: dict[str, Indexer[dict[str, Any]]] | None = None,
        namespace: str | None = None,
    ) -> Informer[dict[str, Any]]:
        return Informer(
            client,
            resource,
            namespace=namespace,
            indexers=indexers or {},
            on_failed_object=failed(resource),
        )

    jobs = {
        kind.integration.name: build_job_informer(client, kind, on_failed_object=on_failed_object)
        for kind in integrations.kinds
    }
    queued = {
        kind.integration.resource: jobs[kind.integration.name]
        for kind in integrations.kinds
        if not kind.label_selector
    }
    read = {resource for kind in integrations.integrations for resource in list_related(kind)}
    return Informers(
        workloads=typed(resources.WORKLOADS, api.Workload, WORKLOAD_INDEXES),
        cluster_queues=typed(resources.CLUSTER_QUEUES, api.ClusterQueue, CLUSTER_QUEUE_INDEXES),
        local_queues=typed(resources.LOCAL_QUEUES, api.LocalQueue, LOCAL_QUEUE_INDEXES),
        cohorts=typed(resources.COHORTS, api.Cohort),
        resource_flavors=typed(resources.RESOURCE_FLAVORS, api.ResourceFlavor),
        admission_checks=typed(resources.ADMISSION_CHECKS, api.AdmissionCheck),
        topologies=typed(resources.TOPOLOGIES, api.Topology),
        priority_classes=typed(resources.WORKLOAD_PRIORITY_CLASSES, api.WorkloadPriorityClass),
        kube_priority_classes=untyped(resources.PRIORITY_CLASSES),
        multikueue_configs=typed(resources.MULTIKUEUE_CONFIGS, api.MultiKueueConfig),
        multikueue_clusters=typed(resources.MULTIKUEUE_CLUSTERS, api.MultiKueueCluster),
        dispatch_profiles=typed(resources.DISPATCH_PROFILES, DispatchProfile),
        disruption_policies=typed(resources.DISRUPTION_POLICIES, DisruptionPolicy),
        quota_plans=typed(resources.QUOTA_PLANS, QuotaPlan),
        job_kinds=typed(resources.JOB_KINDS, JobKind),
        namespaces=untyped(resources.NAMESPACES),
        limit_ranges=untyped(resources.LIMIT_RANGES),
        runtime_classes=untyped(resources.RUNTIME_CLASSES),
        secrets=untyped(resources.SECRETS, namespace=config.namespace),
        jobs=jobs,
        related={resource: queued.get(resource) or untyped(resource) for resource in read},
    )


def build_job_informer(
    client: KubeClient,
    kind: SupportedKind,
    *,
    on_failed_object: Callable[[str], None] = lambda _: None,
) -> Informer[dict[str, Any]]:
    """Build the informer of a kind's objects, with the indexes that controllers need."""
    resource = kind.integration.resource
    return Informer(
        client,
        resource,
        label_selector=kind.label_selector,
        indexers={**_job_indexes(kind.integration), **kind.indexes},
        on_failed_object=partial(on_failed_object, resource.plural),
    )


def _decoder(kind: type[T]) -> Callable[[bytes], T]:
    return lambda data: decode(kind, data)


def _by_owner(workload: api.Workload) -> Iterable[str]:
    return [owner.uid for owner in workload.metadata.owner_references]


def _by_owner_key(workload: api.Workload) -> Iterable[str]:
    namespace = workload.metadata.namespace
    return [
        owner_key(GroupVersionKind.of(owner.api_version, owner.kind), namespace, owner.name)
        for owner in workload.metadata.owner_references
    ]


def _by_queue(workload: api.Workload) -> Iterable[str]:
    return [key_of(workload.metadata.namespace, workload.spec.queue_name)]


def _by_cluster_queue(workload: api.Workload) -> Iterable[str]:
    return [workload.status.admission.cluster_queue] if workload.status.admission else []


def _by_priority_class(workload: api.Workload) -> Iterable[str]:
    reference = workload.spec.priority_class_ref
    return [reference.name] if reference and reference.kind == "WorkloadPriorityClass" else []


def _by_cluster(workload: api.Workload) -> Iterable[str]:
    return [workload.status.cluster_name] if workload.status.cluster_name else []


def _by_replaced(workload: api.Workload) -> Iterable[str]:
    key = replaced_key(workload)
    return [key] if key else []


def _by_check(workload: api.Workload) -> Iterable[str]:
    return [check.name for check in workload.status.admission_checks]


def flavors_of(queue: api.ClusterQueue) -> Iterable[str]:
    """Return the flavors that a ClusterQueue has quota in."""
    return {flavor.name for group in queue.spec.resource_groups for flavor in group.flavors}


def checks_of(queue: api.ClusterQueue) -> Iterable[str]:
    """Return the AdmissionChecks of a ClusterQueue's strategy."""
    strategy = queue.spec.admission_checks_strategy
    return {rule.name for rule in strategy.admission_checks} if strategy else ()


def _queue_behind(queue: api.LocalQueue) -> Iterable[str]:
    return [queue.spec.cluster_queue]


def _by_prebuilt(job: dict[str, Any]) -> Iterable[str]:
    name = prebuilt_name(job)
    return [key_of(job["metadata"].get("namespace", ""), name)] if name else []


def _by_controller(job: dict[str, Any]) -> Iterable[str]:
    reference = controller_of(job)
    return [str(reference.get("uid"))] if reference is not None else []


def _by_class(integration: Integration) -> Indexer[dict[str, Any]]:
    def classes(job: dict[str, Any]) -> Iterable[str]:
        labels = job["metadata"].get("labels") or {}
        return filter(None, (labels.get(PRIORITY_CLASS), integration.priority_class(job)))

    return classes


def _job_indexes(integration: Integration) -> dict[str, Indexer[dict[str, Any]]]:
    indexes = {**JOB_INDEXES, BY_JOB_CLASS: _by_class(integration)}
    if list_related(integration):
        indexes[BY_RELATED] = partial(related_keys, integration)
    return indexes


WORKLOAD_INDEXES: dict[str, Indexer[api.Workload]] = {
    BY_OWNER: _by_owner,
    BY_OWNER_KEY: _by_owner_key,
    BY_QUEUE: _by_queue,
    BY_CLUSTER_QUEUE: _by_cluster_queue,
    BY_PRIORITY_CLASS: _by_priority_class,
    BY_CHECK: _by_check,
    BY_CLUSTER: _by_cluster,
    BY_REPLACED: _by_replaced,
}
CLUSTER_QUEUE_INDEXES: dict[str, Indexer[api.ClusterQueue]] = {
    BY_FLAVOR: flavors_of,
    BY_CHECK: checks_of,
}
LOCAL_QUEUE_INDEXES: dict[str, Indexer[api.LocalQueue]] = {BY_CLUSTER_QUEUE: _queue_behind}
JOB_INDEXES: dict[str, Indexer[dict[str, Any]]] = {
    BY_PREBUILT: _by_prebuilt,
    BY_CONTROLLER: _by_controller,
    BY_NAMESPACE: lambda job: [job["metadata"].get("namespace", "")],
}
