"""Feeds the engine with nodes, and with the pods there that no topology placed (E-129, E-130).

Nodes are passed on only once the pods are known, so that a full node never looks empty.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog

from multiqueue.controllers.topology.watch import TopologyWatch
from multiqueue.jobs.context import ManagerContext
from multiqueue.jobs.machines.mirror import NodeMirror, pass_on_node, pass_on_pod
from multiqueue.jobs.machines.nodes import WatchedNode
from multiqueue.jobs.machines.pods import Pod

KNOWN_SECONDS = 10.0
"""How long a start waits for nodes and pods; other Workloads can be decided without them."""

log = structlog.get_logger("multiqueue.topology")


class TopologyFeed:
    """Connects the watch and the engine.

    Args:
        context: The manager's context; its Topologies decide whether to wait at all.
        watch: The watch of nodes and pods.
        engine: The engine to feed.
        on_change: Called after each change of the engine.
    """

    name = "topology-feed"

    def __init__(
        self,
        context: ManagerContext,
        watch: TopologyWatch,
        engine: NodeMirror,
        *,
        on_change: Callable[[], None],
    ) -> None:
        self._topologies = context.informers.topologies
        self._watch = watch
        self._engine = engine
        self._on_change = on_change
        self._fed = asyncio.Event()

    async def run(self) -> None:
        """Feed until cancelled."""
        self._watch.pods.add_handler(self._on_pod)
        await self._watch.until_known()
        self._watch.nodes.add_handler(self._on_node)
        self._fed.set()
        await asyncio.Event().wait()

    async def until_fed(self) -> None:
        """Wait for a limited time until the engine knows the nodes, if any Topology needs them."""
        await self._topologies.settled.wait()
        if not self._topologies.store.list():
            return
        try:
            async with asyncio.timeout(KNOWN_SECONDS):
                await self._fed.wait()
        except TimeoutError:
            log.warning(
                "nodes and pods are not known yet; scheduling begins without topologies",
                nodes=str(self._watch.nodes.last_error or "listing"),
                pods=str(self._watch.pods.last_error or "listing"),
            )

    def _on_node(self, old: WatchedNode | None, new: WatchedNode | None) -> None:
        if pass_on_node(self._engine, old, new):
            self._on_change()

    def _on_pod(self, old: Pod | None, new: Pod | None) -> None:
        if pass_on_pod(self._engine, old, new):
            self._on_change()
