"""Feeds the engine with nodes, and with the pods on them that no topology placed (E-129, E-130).

Nodes are told only once the pods are known: an empty node is never offered that is full.
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
"""How long a start waits for nodes and pods; without them everything else can still be decided."""

log = structlog.get_logger("multiqueue.topology")


class TopologyFeed:
    """Connects the watch and the engine.

    Args:
        context: Whose Topologies decide whether there is anything to wait for.
        watch: Nodes and pods.
        engine: What to feed.
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
        """Wait, not too long, until the engine knows the nodes, if they matter at all."""
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
