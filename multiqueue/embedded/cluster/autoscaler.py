"""The simulated autoscaler: answers ProvisioningRequests and makes the nodes that they request.

It acts on every provisioning class, because an embedded API server has no other autoscaler.
"""

from __future__ import annotations

import asyncio
from typing import Any

from multiqueue.embedded.cluster.autoscaler_plan import (
    NODE_GROUP_LABEL,
    decide_request,
    node_group,
    provisioned_nodes,
)
from multiqueue.embedded.cluster.clock import SimClock
from multiqueue.embedded.cluster.lifecycle import is_terminal
from multiqueue.embedded.cluster.node_agent import NodeAgent
from multiqueue.embedded.cluster.objects import Object, SimInformers, key_of, patch_status
from multiqueue.kube.client import KubeClient
from multiqueue.kube.errors import NotFound
from multiqueue.kube.informer import Informer
from multiqueue.kube.reconciler import DONE, Reconciler, Result
from multiqueue.kube.resources import PROVISIONING_REQUESTS

CONCURRENCY = 4
BUSY_SECONDS = 5.0
"""Simulated seconds between two checks of nodes that are to be removed but still run pods."""


class Autoscaler:
    """Owns the status of all ProvisioningRequests, and the nodes that were made for them."""

    name = "sim-autoscaler"

    def __init__(
        self, client: KubeClient, informers: SimInformers, clock: SimClock, nodes: NodeAgent
    ) -> None:
        self._client = client
        self._informers = informers
        self._clock = clock
        self._nodes = nodes
        self._groups: dict[str, str] = {}
        self._requests: Informer[Object] = Informer(client, PROVISIONING_REQUESTS)
        self._reconciler = Reconciler(self.name, self.reconcile, concurrency=CONCURRENCY)
        self._requests.add_handler(self._on_request)

    async def run(self) -> None:
        """Work until cancelled; if the kind is not served, wait for it."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._requests.run())
            for informer in (self._informers.nodes, self._informers.pods, self._requests):
                await informer.synced.wait()
            await self._reconciler.run()

    async def reconcile(self, key: str) -> Result:
        """Take the next step with one request, if it is due."""
        request = self._requests.store.get(key)
        if request is None:
            return await self._scale_down(key)
        step = decide_request(request, now=self._clock.now(), speed=self._clock.speed)
        if step.status is not None:
            try:
                request = await patch_status(
                    self._client, PROVISIONING_REQUESTS, request, step.status
                )
            except NotFound:
                return DONE
            self._requests.observe(request)
        nodes = provisioned_nodes(request)
        if nodes:
            self._groups[key] = node_group(request)
            await self._nodes.add(nodes)
        elif key in self._groups:
            return await self._scale_down(key)
        wait = step.wait_seconds
        return Result(requeue_after=None if wait is None else self._clock.real_seconds(wait))

    async def _scale_down(self, key: str) -> Result:
        """Remove the nodes of a deleted request, once no pods run on them."""
        group = self._groups.get(key)
        if group is None:
            return DONE
        names = {
            node["metadata"]["name"]
            for node in self._informers.nodes.store.list()
            if node["metadata"]["labels"].get(NODE_GROUP_LABEL) == group
        }
        busy = {
            pod["spec"].get("nodeName")
            for pod in self._informers.pods.store.list()
            if not is_terminal(pod)
        }
        for name in sorted(names - busy):
            await self._nodes.remove(name)
        if names & busy:
            return Result(requeue_after=self._clock.real_seconds(BUSY_SECONDS))
        self._groups.pop(key, None)
        return DONE

    def _on_request(self, old: Object | None, new: Object | None) -> None:
        request: Any = new or old
        self._reconciler.queue.add(key_of(request))
