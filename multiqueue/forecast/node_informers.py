"""Watch topologies, nodes and pods of one worker, once a flavor names a topology.

Most workers have no topologies. Where there are some, the manager may lack permission to read nodes
or pods. What cannot be read is unknown, and nothing waits for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from multiqueue.api import v1beta2 as api
from multiqueue.api.serde import decode
from multiqueue.forecast.node_model import NodeModel
from multiqueue.jobs.machines.mirror import pass_on_node, pass_on_pod
from multiqueue.jobs.machines.nodes import WatchedNode, identify_node, read_node
from multiqueue.jobs.machines.pods import LIVE, Pod, identify_pod, read_pod
from multiqueue.kube import resources
from multiqueue.kube.client import KubeClient
from multiqueue.kube.errors import Forbidden
from multiqueue.kube.informer import Informer
from multiqueue.kube.sizes import MAX_COLLECTION_BYTES, MAX_SKIMMED_BYTES
from multiqueue.model.resource_flavor import build_topology
from multiqueue.observability.metrics import ManagerMetrics

T = TypeVar("T")


class NodeInformers:
    """The node informers of one worker.

    Args:
        client: The worker's client.
        metrics: The manager's metrics, which count failed watches.
        name: Name of the worker.

    Attributes:
        wanted: Set once a flavor has a topology.
    """

    def __init__(self, client: KubeClient, metrics: ManagerMetrics, name: str) -> None:
        self.wanted = asyncio.Event()
        self.topologies: Informer[api.Topology] = Informer(
            client,
            resources.TOPOLOGIES,
            decode=lambda data: decode(api.Topology, data),
            on_restart=metrics.watch_observer(resources.TOPOLOGIES.plural, name),
            max_bytes=MAX_COLLECTION_BYTES,
        )
        self.nodes: Informer[WatchedNode] = Informer(
            client,
            resources.NODES,
            decode=read_node,
            meta=identify_node,
            on_restart=metrics.watch_observer(resources.NODES.plural, name),
            max_bytes=MAX_SKIMMED_BYTES,
        )
        self.pods: Informer[Pod] = Informer(
            client,
            resources.PODS,
            field_selector=LIVE,
            decode=read_pod,
            meta=identify_pod,
            on_restart=metrics.watch_observer(resources.PODS.plural, name),
            max_bytes=MAX_SKIMMED_BYTES,
        )

    async def run(self) -> None:
        """Watch until cancelled."""
        await self.wanted.wait()
        async with asyncio.TaskGroup() as tasks:
            for informer in (self.pods, self.topologies, self.nodes):
                tasks.create_task(informer.run(), name=f"worker {informer.resource.plural}")

    def follow(
        self,
        flavors: Informer[api.ResourceFlavor],
        node_model: NodeModel,
        *,
        on_room: Callable[[], None],
    ) -> None:
        """Keep a node model up to date.

        Args:
            flavors: The informer of the worker's flavors.
            node_model: The node model to update.
            on_room: Called when a node appeared, disappeared or changed. Room that other
                Workloads free is reported elsewhere.
        """
        flavors.add_handler(self._on_flavor)
        for informer in (self.pods, self.topologies, self.nodes):
            informer.add_listener(lambda _: self._look(node_model))
        self.pods.add_handler(partial(_pass_on, pass_on_pod, node_model, lambda: None))
        self.nodes.add_handler(partial(_pass_on, pass_on_node, node_model, on_room))
        self.topologies.add_handler(partial(_pass_on_topology, node_model))

    def _on_flavor(self, _: api.ResourceFlavor | None, new: api.ResourceFlavor | None) -> None:
        if new is not None and new.spec.topology_name:
            self.wanted.set()

    def _look(self, node_model: NodeModel) -> None:
        # Pods first: nodes must not appear empty while their pods are unknown.
        pods_answered = self.pods.synced.is_set() or self.pods.last_error is not None
        node_model.see(
            nodes=_is_seen(self.nodes) and _is_seen(self.topologies) and pods_answered,
            pods=_is_seen(self.pods),
        )


def _is_seen(informer: Informer[Any]) -> bool:
    return informer.synced.is_set() and not isinstance(informer.last_error, Forbidden)


def _pass_on(
    tell: Callable[[NodeModel, T | None, T | None], bool],
    node_model: NodeModel,
    on_change: Callable[[], None],
    old: T | None,
    new: T | None,
) -> None:
    if tell(node_model, old, new):
        on_change()


def _pass_on_topology(
    node_model: NodeModel, old: api.Topology | None, new: api.Topology | None
) -> None:
    if new is not None:
        node_model.upsert_topology(build_topology(new))
    elif old is not None:
        node_model.delete_topology(old.metadata.name)
