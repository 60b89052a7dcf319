"""The objects that decide where a running job is charged, read once before the jobs."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from multiqueue.api import v1beta2 as api
from multiqueue.api.config import Configuration
from multiqueue.api.serde import decode
from multiqueue.jobs.build_options import build_options
from multiqueue.jobs.framework.priority import PriorityClasses
from multiqueue.kube import resources
from multiqueue.kube.client import KubeClient
from multiqueue.model.build_workload import BuildOptions
from multiqueue.model.surroundings import NamespaceSurroundings, summarize_limit_ranges

Labels = Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportWorld:
    """Everything that the decision about one job needs beside the job.

    Attributes:
        namespaces: The labels of the namespaces to import from, by name.
        local_queues: The LocalQueues there, by ``namespace/name``.
        cluster_queues: All ClusterQueues, by name.
        flavors: All ResourceFlavors, by name.
        nodes: The labels of nodes, by name; empty if no flavor has node labels.
        workload_classes, pod_classes: The priority classes, by name.
        surroundings: LimitRanges and overheads, by namespace.
        options: How the manager reads Workloads.
    """

    namespaces: Mapping[str, Labels] = field(default_factory=dict)
    local_queues: Mapping[str, api.LocalQueue] = field(default_factory=dict)
    cluster_queues: Mapping[str, api.ClusterQueue] = field(default_factory=dict)
    flavors: Mapping[str, api.ResourceFlavor] = field(default_factory=dict)
    nodes: Mapping[str, Labels] = field(default_factory=dict)
    workload_classes: Mapping[str, api.WorkloadPriorityClass] = field(default_factory=dict)
    pod_classes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    surroundings: Mapping[str, NamespaceSurroundings] = field(default_factory=dict)
    options: BuildOptions = field(default_factory=BuildOptions)

    @property
    def classes(self) -> PriorityClasses:
        """The priority classes. As in upstream's importer, none applies that a pod does not name.

        The API server has given every pod that names none the default PriorityClass.
        """
        return PriorityClasses(
            find_workload_class=self.workload_classes.get,
            find_pod_class=self.pod_classes.get,
            list_pod_classes=tuple,
            has_default=False,
        )


async def read_world(
    client: KubeClient, namespaces: Sequence[str], config: Configuration
) -> ImportWorld:
    """Read the queues, flavors and classes that an import needs.

    Raises:
        KubeError: something cannot be read.
    """
    list_typed = partial(_list, client)
    cluster_queues, flavors, workload_classes, pod_classes, runtime_classes = await asyncio.gather(
        list_typed(resources.CLUSTER_QUEUES, api.ClusterQueue),
        list_typed(resources.RESOURCE_FLAVORS, api.ResourceFlavor),
        list_typed(resources.WORKLOAD_PRIORITY_CLASSES, api.WorkloadPriorityClass),
        client.list(resources.PRIORITY_CLASSES),
        client.list(resources.RUNTIME_CLASSES),
    )
    overheads = {
        each["metadata"]["name"]: each["overhead"].get("podFixed") or {}
        for each in runtime_classes.items
        if each.get("overhead")
    }
    labels: dict[str, Labels] = {}
    local_queues: dict[str, api.LocalQueue] = {}
    surroundings: dict[str, NamespaceSurroundings] = {}
    for name in namespaces:
        namespace, queues, ranges = await asyncio.gather(
            client.get(resources.NAMESPACES, name),
            list_typed(resources.LOCAL_QUEUES, api.LocalQueue, namespace=name),
            client.list(resources.LIMIT_RANGES, namespace=name),
        )
        labels[name] = namespace["metadata"].get("labels") or {}
        local_queues |= {each.metadata.key: each for each in queues}
        limits = summarize_limit_ranges(ranges.items)
        surroundings[name] = NamespaceSurroundings(limits=limits, overheads=overheads)
    has_labels = any(flavor.spec.node_labels for flavor in flavors)
    return ImportWorld(
        namespaces=labels,
        local_queues=local_queues,
        cluster_queues={each.metadata.name: each for each in cluster_queues},
        flavors={each.metadata.name: each for each in flavors},
        nodes=await _read_nodes(client) if has_labels else {},
        workload_classes={each.metadata.name: each for each in workload_classes},
        pod_classes={each["metadata"]["name"]: each for each in pod_classes.items},
        surroundings=surroundings,
        options=build_options(config),
    )


async def _list(
    client: KubeClient, resource: Any, type_: type[Any], namespace: str | None = None
) -> list[Any]:
    found = await client.list(resource, namespace=namespace, decode=partial(decode, type_))
    return found.items


async def _read_nodes(client: KubeClient) -> dict[str, Labels]:
    """Return the labels of all nodes; a page at a time, since nodes are large."""
    labels: dict[str, Labels] = {}
    async for page in client.pages(resources.NODES):
        for node in page.items:
            labels[node["metadata"]["name"]] = node["metadata"].get("labels") or {}
    return labels
