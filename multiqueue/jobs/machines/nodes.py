"""Nodes, with the fields that topologies need. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import orjson

from multiqueue.api.v1beta2.meta import Taint, parse_time
from multiqueue.kube.store import ObjectKeyAndVersion, parse_version
from multiqueue.lib.quantity import QuantityError
from multiqueue.model.resources import parse_request
from multiqueue.model.topology import HOSTNAME, Node

BY_HOSTNAME = "hostname"
"""Nodes by the hostname under which topology assignments name them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedNode:
    """A node, and the time since which it is not ready.

    Shape: ``reports`` is whether it has a Ready condition at all; ``unready_since`` is None while
    that condition is True.
    """

    node: Node
    version: int
    uid: str
    reports: bool = True
    unready_since: datetime | None = None

    @property
    def hostname(self) -> str:
        """The name of the node in topology assignments."""
        return self.node.labels.get(HOSTNAME, self.node.name)


def read_node(data: bytes) -> WatchedNode:
    """Keep the needed fields of a node."""
    wire = orjson.loads(data)
    metadata, spec, status = wire["metadata"], wire.get("spec") or {}, wire.get("status") or {}
    ready = next((c for c in status.get("conditions") or () if c.get("type") == "Ready"), None)
    is_ready = ready is not None and ready.get("status") == "True"
    since = None
    if ready is not None and not is_ready:
        since = parse_time(ready.get("lastTransitionTime") or metadata.get("creationTimestamp"))
    return WatchedNode(
        node=Node(
            name=metadata["name"],
            labels=metadata.get("labels") or {},
            taints=tuple(
                Taint(
                    key=taint.get("key", ""),
                    value=taint.get("value") or "",
                    effect=taint.get("effect", ""),
                )
                for taint in spec.get("taints") or ()
            ),
            allocatable=_amounts(status.get("allocatable") or {}),
            ready=is_ready,
            schedulable=not spec.get("unschedulable"),
        ),
        version=parse_version(metadata.get("resourceVersion")),
        uid=metadata.get("uid", ""),
        reports=ready is not None,
        unready_since=since,
    )


def identify_node(watched: WatchedNode) -> ObjectKeyAndVersion:
    """Return key, version and uid for the informer."""
    return ObjectKeyAndVersion(watched.node.name, watched.version, watched.uid)


def by_hostname(watched: WatchedNode) -> Iterable[str]:
    """Return the value for the index `BY_HOSTNAME`."""
    return (watched.hostname,)


def _amounts(raw: dict[str, Any]) -> dict[str, int]:
    """Read quantities; an invalid one counts as zero, so that no pod is placed on it."""
    amounts = {}
    for name, value in sorted(raw.items()):
        try:
            amounts[name] = parse_request(name, value)
        except QuantityError:
            amounts[name] = 0
    return amounts
