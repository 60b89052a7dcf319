"""Registers the simulated nodes and keeps them Ready, until somebody breaks or deletes them.

A node with the annotation ``multiqueue.dev/sim-down: "true"`` simulates a machine that lost its
network: its Ready condition becomes Unknown, and its pods are neither ended nor removed. A deleted
Node is not registered again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import structlog

from multiqueue.api.v1beta2.meta import format_time
from multiqueue.embedded.cluster.clock import SimClock
from multiqueue.kube.client import KubeClient
from multiqueue.kube.errors import AlreadyExists, KubeError, NotFound
from multiqueue.kube.informer import Informer
from multiqueue.kube.resources import NODES

log = structlog.get_logger("multiqueue.embedded.cluster")

HEARTBEAT_SECONDS = 60.0
"""Real seconds between reports. Kubelets report every 5 minutes and renew Leases every 10 s."""
RETRY_SECONDS = 1.0
DOWN = "multiqueue.dev/sim-down"


class NodeAgent:
    """Owns the Node objects of the simulated cluster."""

    name = "sim-nodes"

    def __init__(
        self,
        client: KubeClient,
        clock: SimClock,
        nodes: Sequence[dict[str, Any]],
        informer: Informer[dict[str, Any]],
    ) -> None:
        self._client = client
        self._clock = clock
        self._nodes = list(nodes)
        self.names = {node["metadata"]["name"] for node in nodes}
        """Names of our nodes that are up; it changes as nodes come and go."""
        self._down: set[str] = set()
        self._since: dict[str, str] = {}
        self._changed = asyncio.Event()
        self.registered = asyncio.Event()
        """Set once every node exists and is Ready."""
        informer.add_handler(self._on_node)

    async def run(self) -> None:
        """Register the nodes, then report them Ready again and again until cancelled."""
        while True:
            self._changed.clear()
            try:
                for node in tuple(self._nodes):
                    if node not in self._nodes:
                        continue  # removed meanwhile
                    await self._register(node)
                    await self._report(node)
            except KubeError as error:
                if not error.retryable and not self.registered.is_set():
                    raise
                log.warning("reporting a node failed", error=str(error))
                await asyncio.sleep(RETRY_SECONDS)
                continue
            self.registered.set()
            with suppress(TimeoutError):
                async with asyncio.timeout(HEARTBEAT_SECONDS):
                    await self._changed.wait()

    async def add(self, nodes: Sequence[dict[str, Any]]) -> None:
        """Create missing nodes, and report them Ready from now on."""
        for node in nodes:
            if node["metadata"]["name"] in self.names:
                continue
            await self._register(node)
            await self._report(node)
            self._nodes.append(node)
            self.names.add(node["metadata"]["name"])

    async def remove(self, name: str) -> None:
        """Delete a node that was added; it must not run pods."""
        self._forget(name)
        with suppress(NotFound):
            await self._client.delete(NODES, name)

    def _on_node(self, old: dict[str, Any] | None, new: dict[str, Any] | None) -> None:
        name = (new or old or {})["metadata"]["name"]
        if new is None:
            self._forget(name)
            return
        is_down = (new["metadata"].get("annotations") or {}).get(DOWN) == "true"
        if name not in self.names | self._down or is_down == (name in self._down):
            return
        (self.names if is_down else self._down).discard(name)
        (self._down if is_down else self.names).add(name)
        self._since[name] = format_time(self._clock.now())
        self._changed.set()

    def _forget(self, name: str) -> None:
        self._nodes = [node for node in self._nodes if node["metadata"]["name"] != name]
        self.names.discard(name)
        self._down.discard(name)
        self._since.pop(name, None)

    async def _register(self, node: dict[str, Any]) -> None:
        if node["metadata"]["name"] in self._since:
            return
        try:
            await self._client.create(NODES, {key: node[key] for key in node if key != "status"})
        except AlreadyExists:
            await self._client.patch(
                NODES,
                node["metadata"]["name"],
                {"metadata": {"labels": node["metadata"]["labels"]}},
            )

    async def _report(self, node: dict[str, Any]) -> None:
        name = node["metadata"]["name"]
        moment = format_time(self._clock.now())
        since = self._since.setdefault(name, moment)
        condition = {
            "type": "Ready",
            "status": "True",
            "reason": "KubeletReady",
            "message": "the simulated kubelet is ready",
            "lastHeartbeatTime": moment,
            "lastTransitionTime": since,
        }
        if name in self._down:
            condition |= {
                "status": "Unknown",
                "reason": "NodeStatusUnknown",
                "message": "Kubelet stopped posting node status.",
            }
        status = {**node["status"], "conditions": [condition]}
        with suppress(NotFound):  # deleted meanwhile; that is on its way to us
            await self._client.patch(NODES, name, {"status": status}, subresource="status")
