"""Finds the node for a pod: resources, node selectors, required affinity and taints. Pure.

Selectors, affinity and taints are judged by the rules of the engine.

`NodeLedger` mirrors nodes and the pods on them incrementally; a placement costs one pass over the
nodes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import orjson

from multiqueue.api.v1beta2.meta import Taint
from multiqueue.embedded.cluster.requests import Amounts, pod_requests, read_pod
from multiqueue.engine.eligibility import find_untolerated
from multiqueue.engine.tas.node_filter import NodeFilter
from multiqueue.jobs.machines.nodes import read_node
from multiqueue.model.topology import Node

UNSCHEDULABLE_TAINT = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")


@dataclass(slots=True)
class _FreeNode:
    """A node, and what its pods leave free."""

    node: Node
    free: Amounts
    pods: dict[str, Amounts] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PodPlacement:
    """The outcome for one pod: a node, or why none fits, in kube-scheduler's wording."""

    node: str | None
    message: str = ""


class NodeLedger:
    """Free resources per node. Pods are known by uid; every call may be repeated."""

    def __init__(self) -> None:
        self._rooms: dict[str, _FreeNode] = {}
        self._node_of: dict[str, str] = {}
        self._waiting: dict[str, dict[str, Amounts]] = {}

    def upsert_node(self, node: Mapping[str, Any]) -> None:
        """Add or replace a node; pods that were placed on it before stay counted."""
        name = node["metadata"]["name"]
        old = self._rooms.get(name)
        pods = old.pods if old is not None else self._waiting.pop(name, {})
        read = read_node(orjson.dumps(node)).node
        if not read.schedulable:
            read = replace(read, taints=(*read.taints, UNSCHEDULABLE_TAINT))
        room = self._rooms[name] = _FreeNode(read, dict(read.allocatable), pods)
        for requests in pods.values():
            _subtract(room.free, requests)

    def delete_node(self, name: str) -> None:
        """Forget a node; its pods stay known in case it comes back."""
        room = self._rooms.pop(name, None)
        if room is not None and room.pods:
            self._waiting[name] = room.pods

    def occupy(self, uid: str, node_name: str, requests: Amounts) -> None:
        """Count a pod on a node, once."""
        if self._node_of.get(uid) == node_name:
            return
        self.release(uid)
        self._node_of[uid] = node_name
        room = self._rooms.get(node_name)
        if room is None:
            self._waiting.setdefault(node_name, {})[uid] = requests
            return
        room.pods[uid] = requests
        _subtract(room.free, requests)

    def release(self, uid: str) -> bool:
        """Stop counting a pod; returns whether it was counted."""
        node_name = self._node_of.pop(uid, None)
        if node_name is None:
            return False
        room = self._rooms.get(node_name)
        if room is None:
            self._waiting.get(node_name, {}).pop(uid, None)
            return True
        for name, amount in room.pods.pop(uid).items():
            room.free[name] = room.free.get(name, 0) + amount
        return True

    def knows(self, uid: str) -> bool:
        """Whether a pod is counted on some node."""
        return uid in self._node_of

    def place(self, pod: Mapping[str, Any]) -> PodPlacement:
        """Find a node for a pod: the fullest that fits, then by name, to keep gangs together."""
        requests, placement = pod_requests(pod), read_pod(pod).placement
        node_filter = NodeFilter(
            placement.tolerations, placement.node_selector, placement.affinity_terms
        )
        refusals: dict[str, int] = {}
        best: tuple[float, str] | None = None
        for room in self._rooms.values():
            refusal = _refusal(room, node_filter, requests)
            if refusal is not None:
                for text in refusal:
                    refusals[text] = refusals.get(text, 0) + 1
                continue
            rank = (_free_share(room, requests), room.node.name)
            if best is None or rank < best:
                best = rank
        if best is not None:
            return PodPlacement(node=best[1])
        details = ", ".join(f"{count} {text}" for text, count in sorted(refusals.items()))
        suffix = f": {details}." if details else "."
        return PodPlacement(node=None, message=f"0/{len(self._rooms)} nodes are available{suffix}")


def pod_shape(pod: Mapping[str, Any]) -> str:
    """Return a key that is equal for pods which fit the same nodes."""
    read = read_pod(pod)
    return repr((sorted(read.pod.requests.items()), read.placement))


def is_ready(node: Mapping[str, Any]) -> bool:
    """Whether a node reports that it can run pods."""
    conditions = (node.get("status") or {}).get("conditions") or ()
    return any(c.get("type") == "Ready" and c.get("status") == "True" for c in conditions)


def _subtract(free: Amounts, requests: Mapping[str, int]) -> None:
    for name, amount in requests.items():
        free[name] = free.get(name, 0) - amount


def _free_share(room: _FreeNode, requests: Mapping[str, int]) -> float:
    """Return the free share of the scarcest requested resource; accelerators precede cpu."""
    extended = [name for name in requests if "/" in name]
    judged = extended or ["cpu"]
    return max(
        (room.free.get(name, 0) - requests.get(name, 0))
        / max(1, room.node.allocatable.get(name, 0))
        for name in judged
    )


def _refusal(
    room: _FreeNode, node_filter: NodeFilter, requests: Mapping[str, int]
) -> list[str] | None:
    if not room.node.ready:
        return ["node(s) were not ready"]
    if taint := find_untolerated(room.node.taints, node_filter.tolerations):
        return [f"node(s) had untolerated taint {{{taint.key}: {taint.value}}}"]
    if node_filter.refuse(room.node):
        return ["node(s) didn't match Pod's node affinity/selector"]
    short = [name for name, amount in requests.items() if amount > max(0, room.free.get(name, 0))]
    if short:
        return ["Too many pods" if name == "pods" else f"Insufficient {name}" for name in short]
    return None
