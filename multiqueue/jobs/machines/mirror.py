"""Passes on nodes, and the usage of their pods that no topology placed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from multiqueue.jobs.machines.nodes import WatchedNode
from multiqueue.jobs.machines.pods import Pod
from multiqueue.lib.amount import Amount
from multiqueue.model.topology import Node


class NodeMirror(Protocol):
    """What an engine has to know about nodes."""

    def upsert_node(self, node: Node) -> None:
        """Add or change a node."""

    def delete_node(self, name: str) -> None:
        """Remove a node."""

    def set_pod_usage(self, key: str, node: str, requests: Mapping[str, Amount] | None) -> None:
        """Note the requests of a pod that no topology placed; None once it uses nothing."""


def pass_on_node(mirror: NodeMirror, old: WatchedNode | None, new: WatchedNode | None) -> bool:
    """Pass on a change of a node; return whether there was one that matters."""
    if new is None:
        if old is None:
            return False
        mirror.delete_node(old.node.name)
        return True
    if old is not None and old.node == new.node:
        return False
    mirror.upsert_node(new.node)
    return True


def pass_on_pod(mirror: NodeMirror, old: Pod | None, new: Pod | None) -> bool:
    """Pass on a change of a pod; return whether there was one that matters."""
    before, after = _usage(old), _usage(new)
    if before == after:
        return False
    pod = new or old
    assert pod is not None, "an event has an object"
    node, requests = after or (pod.node, None)
    mirror.set_pod_usage(pod.key, node, requests)
    return True


def _usage(pod: Pod | None) -> tuple[str, Mapping[str, Amount]] | None:
    """Return the pod's node and requests; None for pods that an engine placed itself."""
    if pod is None or pod.workload or not pod.node or pod.ended:
        return None
    return pod.node, pod.requests
