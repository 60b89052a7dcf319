"""Pods, with the fields that topologies need: few, so that 100,000 pods stay small. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import orjson

from multiqueue.api import names
from multiqueue.kube.store import ObjectKeyAndVersion, parse_version
from multiqueue.lib.amount import Amount
from multiqueue.model.pod_template import sum_pod_requests
from multiqueue.model.topology import HOSTNAME

LIVE = "status.phase!=Succeeded,status.phase!=Failed"
"""Field selector of pods that use room or may use it later; ended pods are replaced by others."""
BY_WORKLOAD = "workload"
"""Pods that a topology places, by the key of their Workload."""
BY_PINNED_NODE = "pinned-node"
"""Pods that a topology placed, by the hostname in their node selector."""
ENDED = frozenset({"Succeeded", "Failed"})
CONSTRAINTS = (
    names.PODSET_REQUIRED_TOPOLOGY,
    names.PODSET_PREFERRED_TOPOLOGY,
    names.PODSET_UNCONSTRAINED_TOPOLOGY,
    names.PODSET_SLICE_REQUIRED_TOPOLOGY,
    names.PODSET_SLICE_CONSTRAINTS,
)
_NOTHING: Mapping[str, Amount] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """One live pod.

    Shape: ``workload`` is the key of the Workload by whose topology assignment the pod is placed,
    "" for every other pod. Only with it are ``pod_set``, ``labels``, ``selector``, ``gates`` and
    ``created_at`` kept. Only without it is ``requests`` kept, the pod's usage of its node.
    """

    key: str
    version: int
    uid: str
    node: str = ""
    workload: str = ""
    pod_set: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    index_offset: str = ""
    selector: Mapping[str, str] = field(default_factory=dict)
    gates: tuple[str, ...] = ()
    created_at: str = ""
    terminating: bool = False
    ended: bool = False
    requests: Mapping[str, Amount] = field(default_factory=dict)

    @property
    def is_gated(self) -> bool:
        """Whether the pod is gated until it gets its domain."""
        return names.TOPOLOGY_GATE in self.gates

    @property
    def is_stuck(self) -> bool:
        """Whether the pod has its domain, but no scheduler has found a node for it yet."""
        return not (self.is_gated or self.node or self.ended or self.terminating)


def read_pod(data: bytes) -> Pod:
    """Keep the needed fields of a pod."""
    wire = orjson.loads(data)
    metadata, spec, status = wire["metadata"], wire.get("spec") or {}, wire.get("status") or {}
    namespace, annotations = metadata.get("namespace", ""), metadata.get("annotations") or {}
    key = names.key_of(namespace, metadata["name"])
    version, uid = parse_version(metadata.get("resourceVersion")), metadata.get("uid", "")
    node, ended = spec.get("nodeName") or "", status.get("phase") in ENDED
    workload = annotations.get(names.WORKLOAD)
    if not workload or not any(wanted in annotations for wanted in CONSTRAINTS):
        return Pod(
            key=key,
            version=version,
            uid=uid,
            node=node,
            ended=ended,
            requests=_requests(wire) if node and not ended else _NOTHING,
        )
    labels = metadata.get("labels") or {}
    return Pod(
        key=key,
        version=version,
        uid=uid,
        node=node,
        ended=ended,
        workload=names.key_of(namespace, workload),
        pod_set=labels.get(names.PODSET, ""),
        labels=labels,
        index_offset=annotations.get(names.POD_INDEX_OFFSET, ""),
        selector=spec.get("nodeSelector") or {},
        gates=tuple(gate["name"] for gate in spec.get("schedulingGates") or ()),
        created_at=metadata.get("creationTimestamp") or "",
        terminating=bool(metadata.get("deletionTimestamp")),
    )


def identify_pod(pod: Pod) -> ObjectKeyAndVersion:
    """Return key, version and uid for the informer."""
    return ObjectKeyAndVersion(pod.key, pod.version, pod.uid)


def by_workload(pod: Pod) -> Iterable[str]:
    """Return the value for the index `BY_WORKLOAD`."""
    return (pod.workload,) if pod.workload else ()


def by_pinned_node(pod: Pod) -> Iterable[str]:
    """Return the value for the index `BY_PINNED_NODE`."""
    host = pod.selector.get(HOSTNAME) if pod.workload else None
    return (host,) if host else ()


def _requests(pod: Mapping[str, Any]) -> Mapping[str, Amount]:
    return _share(tuple(sorted(sum_pod_requests(pod).requests.items())))


@lru_cache(maxsize=4096)
def _share(requests: tuple[tuple[str, Amount], ...]) -> Mapping[str, Amount]:
    """Return one shared mapping for all pods that request the same."""
    return dict(requests)
