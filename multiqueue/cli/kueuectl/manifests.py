"""The objects that ``create`` sends. Pure.

Parity: `cmd/kueuectl/app/create` @v0.19: the defaults are written out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from multiqueue.cli.kueuectl.kinds import (
    CLUSTER_QUEUE,
    LOCAL_QUEUE,
    RESOURCE_FLAVOR,
    KueuectlKind,
)

Json = dict[str, Any]
API_VERSION = "kueue.x-k8s.io/v1beta2"


def build_cluster_queue(
    name: str,
    *,
    cohort: str,
    strategy: str,
    namespace_labels: Mapping[str, str],
    reclaim: str,
    preemption: str,
    resource_groups: Sequence[Json],
) -> Json:
    """Return a ClusterQueue; without labels, its jobs come from all namespaces."""
    spec: Json = {"cohortName": cohort} if cohort else {}
    spec |= {
        "queueingStrategy": strategy,
        "namespaceSelector": {"matchLabels": dict(namespace_labels)} if namespace_labels else {},
        "preemption": {"reclaimWithinCohort": reclaim, "withinClusterQueue": preemption},
    }
    if resource_groups:
        spec["resourceGroups"] = list(resource_groups)
    return _object(CLUSTER_QUEUE, {"name": name}, spec)


def build_local_queue(name: str, namespace: str, cluster_queue: str) -> Json:
    """Return a LocalQueue."""
    metadata = {"name": name, "namespace": namespace}
    return _object(LOCAL_QUEUE, metadata, {"clusterQueue": cluster_queue})


def build_resource_flavor(
    name: str,
    *,
    node_labels: Mapping[str, str],
    node_taints: Sequence[Json],
    tolerations: Sequence[Json],
) -> Json:
    """Return a ResourceFlavor."""
    found = {
        "nodeLabels": dict(node_labels),
        "nodeTaints": list(node_taints),
        "tolerations": list(tolerations),
    }
    spec = {field: value for field, value in found.items() if value}
    return _object(RESOURCE_FLAVOR, {"name": name}, spec)


def _object(kind: KueuectlKind, metadata: Json, spec: Json) -> Json:
    return {"apiVersion": API_VERSION, "kind": kind.kind, "metadata": metadata, "spec": spec}
