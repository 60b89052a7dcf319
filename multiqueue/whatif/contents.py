"""Which kinds and fields go into a snapshot: a list of what goes in, not of what stays out. Pure.

Nothing of a pod but what decides where it runs and what it counts: no images, commands,
environment, volumes. No Secrets, kubeconfigs or addresses. No messages of conditions, but that of
Disrupted: budgets add up the stops that it lists, with times, costs, queues and namespaces.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from multiqueue.api import names
from multiqueue.api import v1beta2 as api
from multiqueue.api.conditions import DISRUPTED
from multiqueue.api.config import Configuration
from multiqueue.api.config.dump import dump_configuration
from multiqueue.api.v1alpha1 import DisruptionPolicy
from multiqueue.kube import resources
from multiqueue.kube.resources import Resource
from multiqueue.lib.words import words

Json = dict[str, Any]
_METADATA = ("name", "namespace", "uid", "generation", "creationTimestamp", "deletionTimestamp")
_OWNER = ("apiVersion", "kind", "name", "uid", "controller")
_POD = words(
    "nodeSelector affinity tolerations priority priorityClassName runtimeClassName "
    "overhead resourceClaims terminationGracePeriodSeconds"
)
_CONTAINER = ("name", "restartPolicy")
_RESOURCES = ("requests", "limits", "claims")
_CONDITION = ("type", "status", "reason", "lastTransitionTime", "observedGeneration")
_WORKLOAD_STATUS = words(
    "admission requeueState reclaimablePods clusterName nominatedClusterNames "
    "unhealthyNodes preemptionGates accumulatedPastExecutionTimeSeconds"
)
_CHECK_STATE = (
    "name",
    "state",
    "lastTransitionTime",
    "retryCount",
    "requeueAfterSeconds",
)
_WORKLOAD_SPEC = words(
    "queueName priority priorityClassRef active maximumExecutionTimeSeconds preemptionGates"
)
_LABELLED = frozenset({"Namespace", "Node", "ResourceFlavor", "MultiKueueCluster"})
"""Kinds that are selected by labels of any group."""
CONFIGURATION = words(
    "apiVersion kind namespace manageJobsWithoutQueueName waitForPodsReady integrations "
    "fairSharing admissionFairSharing resources featureGates"
)
"""The sections of the Configuration that change decisions; none of them has an address."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotKind:
    """A kind of objects in snapshots.

    Attributes:
        name: The kind.
        resource: Where to read it.
        type: Its type; None for foreign objects.
        reduce: Returns the listed fields beside those of the metadata.
        is_needed: Whether a snapshot without it would be wrong.
        on_workers: Whether workers have it in the snapshot, too.
    """

    name: str
    resource: Resource
    type: type[msgspec.Struct] | None = None
    reduce: Callable[[Mapping[str, Any]], Json]
    is_needed: bool = False
    on_workers: bool = False


def keep_listed(obj: Mapping[str, Any]) -> Json:
    """Return an object with the fields that its kind lists."""
    kind = KIND_BY_NAME[obj["kind"]]
    has_labels = kind.name in _LABELLED
    kept: Json = {"apiVersion": obj.get("apiVersion", ""), "kind": kind.name}
    kept["metadata"] = _metadata(obj["metadata"], all_labels=has_labels)
    return kept | kind.reduce(obj)


def keep_configuration(config: Configuration) -> Json:
    """Return the parts of a Configuration that change decisions."""
    dumped = dump_configuration(config)
    return _pick(dumped, CONFIGURATION)


def _pick(obj: Mapping[str, Any] | None, fields: tuple[str, ...]) -> Json:
    return {name: obj[name] for name in fields if name in obj} if obj else {}


def _ours(pairs: Mapping[str, str] | None) -> dict[str, str]:
    """Return the labels or annotations of our and upstream's groups."""
    return {key: value for key, value in (pairs or {}).items() if _is_ours(key)}


def _is_ours(key: str) -> bool:
    group = key.partition("/")[0] if "/" in key else ""
    return any(group == own or group.endswith(f".{own}") for own in (names.GROUP, names.OWN_GROUP))


def _metadata(metadata: Mapping[str, Any], *, all_labels: bool) -> Json:
    labels = metadata.get("labels") or {}
    owners = [_pick(owner, _OWNER) for owner in metadata.get("ownerReferences") or ()]
    return {
        **_pick(metadata, _METADATA),
        "labels": dict(labels) if all_labels else _ours(labels),
        "annotations": _ours(metadata.get("annotations")),
        **({"ownerReferences": owners} if owners else {}),
    }


def _spec(obj: Mapping[str, Any]) -> Json:
    return {"spec": obj.get("spec") or {}}


def _conditions(status: Mapping[str, Any]) -> list[Json]:
    return [
        _pick(each, (*_CONDITION, "message") if each.get("type") == DISRUPTED else _CONDITION)
        for each in status.get("conditions") or ()
    ]


def _with_conditions(obj: Mapping[str, Any]) -> Json:
    return _spec(obj) | {"status": {"conditions": _conditions(obj.get("status") or {})}}


def _local_queue(obj: Mapping[str, Any]) -> Json:
    return _spec(obj) | {"status": _pick(obj.get("status"), ("fairSharing",))}


def _multikueue_cluster(obj: Mapping[str, Any]) -> Json:
    return {"status": {"conditions": _conditions(obj.get("status") or {})}}


def _workload(obj: Mapping[str, Any]) -> Json:
    wanted, status = obj.get("spec") or {}, obj.get("status") or {}
    pod_sets = [_pod_set(pod_set) for pod_set in wanted.get("podSets") or ()]
    spec = _pick(wanted, _WORKLOAD_SPEC) | {"podSets": pod_sets}
    kept = _pick(status, _WORKLOAD_STATUS) | {"conditions": _conditions(status)}
    checks = [_check_state(each) for each in status.get("admissionChecks") or ()]
    return {"spec": spec, "status": kept | ({"admissionChecks": checks} if checks else {})}


def _check_state(state: Mapping[str, Any]) -> Json:
    updates = [
        _pick(update, ("name", "nodeSelector", "tolerations"))
        for update in state.get("podSetUpdates") or ()
    ]
    return _pick(state, _CHECK_STATE) | ({"podSetUpdates": updates} if updates else {})


def _pod_set(pod_set: Mapping[str, Any]) -> Json:
    template = pod_set.get("template") or {}
    metadata = template.get("metadata") or {}
    kept = _pick(pod_set, ("name", "count", "minCount", "topologyRequest"))
    annotations = _ours(metadata.get("annotations"))
    return kept | {
        "template": {
            **({"metadata": {"annotations": annotations}} if annotations else {}),
            "spec": _pod(template.get("spec") or {}),
        }
    }


def _pod(spec: Mapping[str, Any]) -> Json:
    kept = _with_resources(spec, _POD)
    for field in ("initContainers", "containers"):
        if spec.get(field):
            kept[field] = [_with_resources(each, _CONTAINER) for each in spec[field]]
    return kept


def _with_resources(obj: Mapping[str, Any], fields: tuple[str, ...]) -> Json:
    """Return fields of a container or of a pod, with its resources."""
    asked = _pick(obj.get("resources"), _RESOURCES)
    return _pick(obj, fields) | ({"resources": asked} if asked else {})


def _priority_class(obj: Mapping[str, Any]) -> Json:
    return _pick(obj, ("value", "globalDefault"))


def _runtime_class(obj: Mapping[str, Any]) -> Json:
    return {"overhead": _pick(obj.get("overhead"), ("podFixed",))}


def _nothing(_: Mapping[str, Any]) -> Json:
    return {}


def _node(obj: Mapping[str, Any]) -> Json:
    status = obj.get("status") or {}
    ready = [each for each in _conditions(status) if each.get("type") == "Ready"]
    return {
        "spec": _pick(obj.get("spec"), ("taints", "unschedulable")),
        "status": _pick(status, ("allocatable",)) | {"conditions": ready},
    }


KINDS: tuple[SnapshotKind, ...] = (
    SnapshotKind(
        name="ResourceFlavor",
        resource=resources.RESOURCE_FLAVORS,
        type=api.ResourceFlavor,
        reduce=_spec,
        is_needed=True,
        on_workers=True,
    ),
    SnapshotKind(name="Topology", resource=resources.TOPOLOGIES, type=api.Topology, reduce=_spec),
    SnapshotKind(
        name="AdmissionCheck",
        resource=resources.ADMISSION_CHECKS,
        type=api.AdmissionCheck,
        reduce=_with_conditions,
        is_needed=True,
    ),
    SnapshotKind(
        name="DisruptionPolicy",
        resource=resources.DISRUPTION_POLICIES,
        type=DisruptionPolicy,
        reduce=_spec,
    ),
    SnapshotKind(
        name="Cohort",
        resource=resources.COHORTS,
        type=api.Cohort,
        reduce=_spec,
        is_needed=True,
        on_workers=True,
    ),
    SnapshotKind(
        name="ClusterQueue",
        resource=resources.CLUSTER_QUEUES,
        type=api.ClusterQueue,
        reduce=_spec,
        is_needed=True,
        on_workers=True,
    ),
    SnapshotKind(
        name="LocalQueue",
        resource=resources.LOCAL_QUEUES,
        type=api.LocalQueue,
        reduce=_local_queue,
        is_needed=True,
        on_workers=True,
    ),
    SnapshotKind(
        name="WorkloadPriorityClass",
        resource=resources.WORKLOAD_PRIORITY_CLASSES,
        type=api.WorkloadPriorityClass,
        reduce=_priority_class,
    ),
    SnapshotKind(
        name="MultiKueueConfig",
        resource=resources.MULTIKUEUE_CONFIGS,
        type=api.MultiKueueConfig,
        reduce=_spec,
    ),
    SnapshotKind(
        name="MultiKueueCluster",
        resource=resources.MULTIKUEUE_CLUSTERS,
        type=api.MultiKueueCluster,
        reduce=_multikueue_cluster,
    ),
    SnapshotKind(name="Namespace", resource=resources.NAMESPACES, reduce=_nothing, is_needed=True),
    SnapshotKind(name="LimitRange", resource=resources.LIMIT_RANGES, reduce=_spec),
    SnapshotKind(name="RuntimeClass", resource=resources.RUNTIME_CLASSES, reduce=_runtime_class),
    SnapshotKind(name="PriorityClass", resource=resources.PRIORITY_CLASSES, reduce=_priority_class),
    SnapshotKind(name="Node", resource=resources.NODES, reduce=_node),
    SnapshotKind(
        name="Workload",
        resource=resources.WORKLOADS,
        type=api.Workload,
        reduce=_workload,
        is_needed=True,
    ),
)
"""In the order in which they are read: Workloads last, so that their queues are known."""
KIND_BY_NAME = {kind.name: kind for kind in KINDS}
