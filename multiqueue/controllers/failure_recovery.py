"""Ends pods on unreachable nodes, so that their jobs can continue elsewhere (E-191).

A pod under deletion stays until its kubelet reports that it stopped. An unreachable kubelet never
does, so the job waits for ever. If the owner of a pod declared this safe, the pod is failed and
removed instead. Runs only with the gate FailureRecoveryPolicy, and so has its own informers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from multiqueue.api import names
from multiqueue.api.v1beta2.meta import format_time, parse_time
from multiqueue.jobs.context import ManagerContext
from multiqueue.jobs.framework.reconciler import wait_settled
from multiqueue.kube.errors import NotFound
from multiqueue.kube.events import build_reference
from multiqueue.kube.informer import Informer
from multiqueue.kube.reconciler import DONE, Reconciler, Result
from multiqueue.kube.resources import NODES, PODS

Object = dict[str, Any]

GRACE = timedelta(seconds=60)
"""Time beyond its grace period that a pod gets: a node may be back within a minute."""
UNREACHABLE = "node.kubernetes.io/unreachable"
FORCEFULLY_DELETED = "KueueForcefullyDeleted"
MESSAGE = "Pod forcefully deleted: its node is unreachable and it is marked as safe to delete"
BY_NODE = "node"
_ENDED = frozenset({"Succeeded", "Failed"})


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryVerdict:
    """What to do with a pod: end it now, check it again after some seconds, or leave it."""

    ends: bool = False
    look_after: float | None = None


LEAVE = RecoveryVerdict()


def judge_pod(
    pod: Mapping[str, Any], node: Mapping[str, Any] | None, now: datetime
) -> RecoveryVerdict:
    """Decide about a pod; an unknown node is no reason to end its pods."""
    metadata = pod["metadata"]
    annotations = metadata.get("annotations") or {}
    if annotations.get(names.SAFE_TO_FORCEFULLY_DELETE) != "true" or node is None:
        return LEAVE
    deleted_at = parse_time(metadata.get("deletionTimestamp"))
    taints = (node.get("spec") or {}).get("taints") or ()
    if deleted_at is None or all(taint.get("key") != UNREACHABLE for taint in taints):
        return LEAVE
    left = (deleted_at + GRACE - now).total_seconds()
    return RecoveryVerdict(look_after=left) if left > 0 else RecoveryVerdict(ends=True)


def failed_status(pod: Mapping[str, Any], now: datetime) -> Object:
    """Return the patch that marks a pod as failed, so that its job counts it."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    told = {
        "type": FORCEFULLY_DELETED,
        "status": "True",
        "reason": FORCEFULLY_DELETED,
        "message": MESSAGE,
        "lastTransitionTime": format_time(now),
    }
    others = [c for c in conditions if c.get("type") != FORCEFULLY_DELETED]
    return {"status": {"phase": "Failed", "conditions": [*others, told]}}


class FailureRecovery:
    """Watches pods and nodes, and ends pods that no kubelet can end."""

    name = "failure-recovery"

    def __init__(self, context: ManagerContext) -> None:
        self._context = context
        self._nodes: Informer[Object] = Informer(context.client, NODES)
        self._pods: Informer[Object] = Informer(
            context.client, PODS, indexers={BY_NODE: lambda pod: [_node_of(pod)]}
        )
        self._reconciler = Reconciler(self.name, self.reconcile)

    async def run(self) -> None:
        """Recover until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._nodes.run(), name=f"{self.name}-nodes")
            tasks.create_task(self._pods.run(), name=f"{self.name}-pods")
            await wait_settled(self._nodes, self._pods)
            self._pods.add_handler(self._on_pod)
            self._nodes.add_handler(self._on_node)
            tasks.create_task(self._reconciler.run(), name=self.name)

    async def reconcile(self, key: str) -> Result:
        """End one pod if it is due."""
        pod = self._pods.store.get(key)
        if pod is None:
            return DONE
        now = self._context.clock.now()
        verdict = judge_pod(pod, self._nodes.store.get(_node_of(pod)), now)
        if not verdict.ends:
            return Result(requeue_after=verdict.look_after)
        metadata, client = pod["metadata"], self._context.client
        name, namespace = metadata["name"], metadata["namespace"]
        try:
            if (pod.get("status") or {}).get("phase") not in _ENDED:
                patch = {
                    **failed_status(pod, now),
                    "metadata": {"resourceVersion": metadata["resourceVersion"]},
                }
                await client.patch(PODS, name, patch, namespace=namespace, subresource="status")
            await client.delete(
                PODS, name, namespace=namespace, uid=metadata["uid"], grace_seconds=0
            )
        except NotFound:
            return DONE
        self._context.recorder.event(
            build_reference(pod, PODS), "Warning", FORCEFULLY_DELETED, MESSAGE
        )
        return DONE

    def _on_pod(self, old: Object | None, pod: Object | None) -> None:
        del old
        if pod is not None and pod["metadata"].get("deletionTimestamp"):
            self._reconciler.queue.add(_key(pod))

    def _on_node(self, old: Object | None, node: Object | None) -> None:
        del old
        for pod in self._pods.store.by_index(BY_NODE, node["metadata"]["name"]) if node else ():
            self._on_pod(None, pod)


def _node_of(pod: Mapping[str, Any]) -> str:
    return str((pod.get("spec") or {}).get("nodeName") or "")


def _key(pod: Mapping[str, Any]) -> str:
    return names.key_of(pod["metadata"]["namespace"], pod["metadata"]["name"])
