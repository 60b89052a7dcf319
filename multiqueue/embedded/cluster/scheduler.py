"""The simulated kube-scheduler: binds pods to nodes, one by one, as room becomes free.

Pods that fit nowhere are parked by shape. Free room is offered to one pod of each shape, so the
cost of an event grows with the number of shapes, not of pods.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import structlog

from multiqueue.api.v1beta2.meta import format_time
from multiqueue.embedded.cluster.clock import SimClock
from multiqueue.embedded.cluster.lifecycle import is_terminal
from multiqueue.embedded.cluster.objects import Object, SimInformers, key_of, patch_status
from multiqueue.embedded.cluster.placement import NodeLedger, pod_shape
from multiqueue.embedded.cluster.requests import pod_requests
from multiqueue.kube.client import KubeClient, PatchType
from multiqueue.kube.errors import ApiError, KubeError, NotFound
from multiqueue.kube.resources import PODS

log = structlog.get_logger("multiqueue.embedded.cluster")

MAX_BINDINGS_IN_FLIGHT = 32
RETRY_SECONDS = 1.0
"""Delay before a pod whose binding failed is tried again."""


class Scheduler:
    """Places unbound pods."""

    name = "sim-scheduler"

    def __init__(self, client: KubeClient, informers: SimInformers, clock: SimClock) -> None:
        self._client = client
        self._informers = informers
        self._clock = clock
        self._ledger = NodeLedger()
        self._fresh: dict[str, Object] = {}
        self._parked: dict[str, dict[str, Object]] = {}
        self._shape_of: dict[str, str] = {}
        self._told: dict[str, str] = {}
        self._has_room = False
        self._wake = asyncio.Event()
        self._slots = asyncio.Semaphore(MAX_BINDINGS_IN_FLIGHT)
        informers.nodes.add_handler(self._on_node)
        informers.pods.add_handler(self._on_pod)

    async def run(self) -> None:
        """Place pods until cancelled."""
        for informer in (self._informers.nodes, self._informers.pods):
            await informer.synced.wait()
        async with asyncio.TaskGroup() as tasks:
            while True:
                await self._wake.wait()
                self._wake.clear()
                self._place_all(tasks)

    def _place_all(self, tasks: asyncio.TaskGroup) -> None:
        fresh = sorted(self._fresh.values(), key=_queue_order)
        self._fresh.clear()
        for pod in fresh:
            self._place(pod, tasks)
        if not self._has_room:
            return
        self._has_room = False
        shapes = sorted(
            self._parked, key=lambda shape: _queue_order(next(iter(self._parked[shape].values())))
        )
        for shape in shapes:
            for pod in list(self._parked[shape].values()):
                if not self._place(pod, tasks):
                    break

    def _place(self, pod: Object, tasks: asyncio.TaskGroup) -> bool:
        """Assume a node for one pod and bind it, or park it; return whether it has a node."""
        key, uid = key_of(pod), pod["metadata"]["uid"]
        placement = self._ledger.place(pod)
        if placement.node is None:
            self._park(key, pod)
            if self._told.get(uid) is None:
                self._told[uid] = placement.message
                tasks.create_task(self._tell_unschedulable(pod, placement.message))
            return False
        self._unpark(key)
        self._ledger.occupy(uid, placement.node, pod_requests(pod))
        tasks.create_task(self._bind(pod, placement.node))
        return True

    def _park(self, key: str, pod: Object) -> None:
        shape = pod_shape(pod)
        self._shape_of[key] = shape
        self._parked.setdefault(shape, {})[key] = pod

    def _unpark(self, key: str) -> None:
        shape = self._shape_of.pop(key, None)
        if shape is not None:
            pods = self._parked[shape]
            pods.pop(key, None)
            if not pods:
                del self._parked[shape]

    async def _bind(self, pod: Object, node: str) -> None:
        metadata = pod["metadata"]
        namespace, name = metadata["namespace"], metadata["name"]
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name, "namespace": namespace, "uid": metadata["uid"]},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        try:
            async with self._slots:
                await self._client.request("POST", PODS.path(namespace, name, "binding"), body=body)
        except KubeError as error:
            if isinstance(error, ApiError) and error.status in (404, 409):
                log.debug("pod cannot be bound any more", pod=key_of(pod), error=str(error))
                self._release(metadata["uid"])
                return
            log.warning("binding a pod failed", pod=key_of(pod), node=node, error=str(error))
            await asyncio.sleep(RETRY_SECONDS)
            self._release(metadata["uid"])
            current = self._informers.pods.store.get(key_of(pod))
            if current is not None:
                self._on_pod(None, current)

    async def _tell_unschedulable(self, pod: Object, message: str) -> None:
        """Set PodScheduled=False; best effort, because only people read it."""
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": message,
            "lastTransitionTime": format_time(self._clock.now()),
        }
        status = {"conditions": [condition]}
        try:
            async with self._slots:
                await patch_status(self._client, PODS, pod, status, patch_type=PatchType.STRATEGIC)
        except NotFound:
            return
        except KubeError as error:
            log.debug("unschedulable condition not written", pod=key_of(pod), error=str(error))

    def _on_node(self, old: Object | None, new: Object | None) -> None:
        if new is not None:
            if old is not None and _node_shape(old) == _node_shape(new):
                return
            self._ledger.upsert_node(new)
        elif old is not None:
            self._ledger.delete_node(old["metadata"]["name"])
        self._offer_room()

    def _on_pod(self, old: Object | None, new: Object | None) -> None:
        if new is None:
            if old is not None:
                self._forget(old)
            return
        uid, node = new["metadata"]["uid"], new["spec"].get("nodeName")
        if is_terminal(new):
            self._forget(new)
        elif node:
            self._unqueue(key_of(new))
            self._ledger.occupy(uid, node, pod_requests(new))
        elif new["metadata"].get("deletionTimestamp") or new["spec"].get("schedulingGates"):
            self._unqueue(key_of(new))
        elif key_of(new) not in self._shape_of and not self._ledger.knows(uid):
            self._fresh[key_of(new)] = new
            self._wake.set()

    def _forget(self, pod: Object) -> None:
        self._unqueue(key_of(pod))
        self._told.pop(pod["metadata"]["uid"], None)
        self._release(pod["metadata"]["uid"])

    def _unqueue(self, key: str) -> None:
        self._fresh.pop(key, None)
        self._unpark(key)

    def _release(self, uid: str) -> None:
        if self._ledger.release(uid):
            self._offer_room()

    def _offer_room(self) -> None:
        self._has_room = True
        self._wake.set()


def _queue_order(pod: Mapping[str, Any]) -> tuple[int, str, str]:
    metadata = pod["metadata"]
    return (
        -int(pod["spec"].get("priority") or 0),
        metadata.get("creationTimestamp") or "",
        key_of(pod),
    )


def _node_shape(node: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the parts of a node that placement depends on; heartbeats do not change them."""
    spec, status = node.get("spec") or {}, node.get("status") or {}
    ready = [c["status"] for c in status.get("conditions") or () if c["type"] == "Ready"]
    return (
        node["metadata"].get("labels"),
        spec.get("taints"),
        spec.get("unschedulable"),
        status.get("allocatable"),
        ready,
    )
