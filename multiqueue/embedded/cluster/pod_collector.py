"""The simulated pod garbage collector: ends and deletes pods whose node is gone for good.

Parity: the orphan rule of Kubernetes' pod garbage collector: a node has to be missing for 40 s,
then its pods fail with the condition DisruptionTarget and are deleted without grace. Pods that were
never bound and are being deleted are let go by the kubelet here; the limit of 12,500 ended pods is
not simulated, since Jobs keep no more than they need.
"""

from __future__ import annotations

from contextlib import suppress

from multiqueue.api.v1beta2.meta import format_time
from multiqueue.embedded.cluster.clock import SimClock
from multiqueue.embedded.cluster.lifecycle import is_terminal
from multiqueue.embedded.cluster.objects import (
    Object,
    SimInformers,
    delete_pod,
    key_of,
    patch_status,
)
from multiqueue.kube.client import KubeClient, PatchType
from multiqueue.kube.errors import Conflict, NotFound
from multiqueue.kube.reconciler import Reconciler, Result
from multiqueue.kube.resources import PODS

QUARANTINE_SECONDS = 40.0
"""Seconds to wait, as in Kubernetes, because a node may be registered again."""


class PodCollector:
    """Ends and deletes the pods of nodes that no longer exist."""

    name = "sim-pod-gc"

    def __init__(self, client: KubeClient, informers: SimInformers, clock: SimClock) -> None:
        self._client = client
        self._informers = informers
        self._clock = clock
        self._missing_since: dict[str, float] = {}
        self._reconciler = Reconciler(self.name, self.reconcile)
        informers.pods.add_handler(self._on_pod)
        informers.nodes.add_handler(self._on_node)

    async def run(self) -> None:
        """Work until cancelled."""
        for informer in (self._informers.nodes, self._informers.pods):
            await informer.synced.wait()
        await self._reconciler.run()

    async def reconcile(self, key: str) -> Result:
        """Collect one pod, if its node has been missing for long enough."""
        pod = self._informers.pods.store.get(key)
        node = (pod or {}).get("spec", {}).get("nodeName")
        if pod is None or not node or self._informers.nodes.store.get(node) is not None:
            return Result()
        now = self._clock.seconds()
        due = self._missing_since.setdefault(node, now) + QUARANTINE_SECONDS
        if due - now > 1e-3:
            return Result(requeue_after=self._clock.real_seconds(due - now))
        with suppress(NotFound, Conflict):  # somebody else was faster
            await self._collect(pod)
        return Result()

    async def _collect(self, pod: Object) -> None:
        if not is_terminal(pod):
            condition = {
                "type": "DisruptionTarget",
                "status": "True",
                "reason": "DeletionByPodGC",
                "message": "PodGC: node no longer exists",
                "lastTransitionTime": format_time(self._clock.now()),
            }
            status = {"phase": "Failed", "conditions": [condition]}
            await patch_status(self._client, PODS, pod, status, patch_type=PatchType.STRATEGIC)
        await delete_pod(self._client, pod, grace_seconds=0)

    def _on_node(self, old: Object | None, new: Object | None) -> None:
        if new is not None:
            self._missing_since.pop(new["metadata"]["name"], None)
        elif old is not None:
            name = old["metadata"]["name"]
            for pod in self._informers.pods.store.list():
                if pod["spec"].get("nodeName") == name:
                    self._reconciler.queue.add(key_of(pod))

    def _on_pod(self, old: Object | None, new: Object | None) -> None:
        node = ((new or {}).get("spec") or {}).get("nodeName")
        was_bound = old is not None and old["spec"].get("nodeName")
        if new is None or not node or was_bound:
            return
        if self._informers.nodes.store.get(node) is None:
            self._reconciler.queue.add(key_of(new))
