"""Watches nodes and pods once there is a Topology; most clusters have none."""

from __future__ import annotations

import asyncio

from multiqueue.api.v1beta2 import Topology
from multiqueue.jobs.context import ManagerContext
from multiqueue.jobs.machines.nodes import (
    BY_HOSTNAME,
    WatchedNode,
    by_hostname,
    identify_node,
    read_node,
)
from multiqueue.jobs.machines.pods import (
    BY_PINNED_NODE,
    BY_WORKLOAD,
    LIVE,
    Pod,
    by_pinned_node,
    by_workload,
    identify_pod,
    read_pod,
)
from multiqueue.kube.informer import Informer
from multiqueue.kube.resources import NODES, PODS


class TopologyWatch:
    """The informers of topology-aware scheduling.

    Attributes:
        nodes: All nodes.
        pods: Pods that have not ended; an ended pod looks deleted.
        wanted: Set once there is a Topology.
    """

    name = "topology-watch"

    def __init__(self, context: ManagerContext) -> None:
        client = context.client
        self.nodes: Informer[WatchedNode] = Informer(
            client,
            NODES,
            decode=read_node,
            meta=identify_node,
            indexers={BY_HOSTNAME: by_hostname},
        )
        self.pods: Informer[Pod] = Informer(
            client,
            PODS,
            field_selector=LIVE,
            decode=read_pod,
            meta=identify_pod,
            indexers={BY_WORKLOAD: by_workload, BY_PINNED_NODE: by_pinned_node},
        )
        self.wanted = asyncio.Event()
        self._topologies = context.informers.topologies

    async def run(self) -> None:
        """Watch until cancelled."""
        self._topologies.add_handler(self._on_topology)
        await self.wanted.wait()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.pods.run(), name="informer pods")
            tasks.create_task(self.nodes.run(), name="informer nodes")

    async def until_known(self) -> None:
        """Wait until nodes and pods were listed; for ever if there is no Topology."""
        await self.pods.synced.wait()
        await self.nodes.synced.wait()

    def _on_topology(self, old: Topology | None, new: Topology | None) -> None:
        del old
        if new is not None:
            self.wanted.set()
