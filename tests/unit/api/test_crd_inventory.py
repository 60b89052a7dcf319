"""The generated definitions hold every field, limit, default and choice of Kueue's.

The tables here are the inventory: for each field what bounds it. Rules in CEL and those of webhooks
are tested elsewhere; here is what the schema itself says, in both versions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from multiqueue.api.crd import load_crds
from multiqueue.api.names import GROUP

CRDS = {crd["spec"]["names"]["kind"]: crd for crd in load_crds() if crd["spec"]["group"] == GROUP}
OLD, NEW = "v1beta1", "v1beta2"
Facts = dict[str, Any]

# kind: (plural, short names, namespaced, status subresource, columns with wide ones in brackets)
KINDS: dict[str, tuple[str, list[str], bool, bool, list[str] | None]] = {
    "AdmissionCheck": ("admissionchecks", ["ac"], False, True, None),
    "ClusterQueue": (
        "clusterqueues",
        ["cq"],
        False,
        True,
        ["Cohort", "[Strategy]", "Pending Workloads", "[Admitted Workloads]"],
    ),
    "Cohort": ("cohorts", ["co"], False, True, None),
    "LocalQueue": (
        "localqueues",
        ["queue", "queues", "lq"],
        True,
        True,
        ["ClusterQueue", "Pending Workloads", "Admitted Workloads"],
    ),
    "MultiKueueCluster": ("multikueueclusters", ["mkc"], False, True, ["Connected", "Age"]),
    "MultiKueueConfig": ("multikueueconfigs", ["mkconf"], False, False, None),
    "ProvisioningRequestConfig": ("provisioningrequestconfigs", ["prc"], False, False, None),
    "ResourceFlavor": ("resourceflavors", ["flavor", "flavors", "rf"], False, False, None),
    "Topology": ("topologies", ["topo"], False, False, None),
    "Workload": (
        "workloads",
        ["kwl", "kueueworkload", "kueueworkloads"],
        True,
        True,
        ["Queue", "Reserved in", "Admitted", "Finished", "Age"],
    ),
    "WorkloadPriorityClass": ("workloadpriorityclasses", ["wpc"], False, False, ["Value"]),
}


def items(low: int | None, high: int | None, *keys: str, kind: str = "") -> Facts:
    """A list between two sizes; with keys a map, else of a list type."""
    facts: Facts = {"type": "array"}
    if low:
        facts["minItems"] = low
    if high:
        facts["maxItems"] = high
    if keys:
        facts |= {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(keys)}
    elif kind:
        facts["x-kubernetes-list-type"] = kind
    return facts


def text(high: int | None = None, low: int | None = None) -> Facts:
    """A text between two lengths."""
    limits = {"minLength": low, "maxLength": high}
    return {"type": "string", **{key: each for key, each in limits.items() if each is not None}}


def number(low: int | None = None, default: int | None = None, width: str = "int32") -> Facts:
    """A whole number from a lowest one on."""
    facts: Facts = {"type": "integer", "format": width}
    return facts | {
        key: each for key, each in {"minimum": low, "default": default}.items() if each is not None
    }


def choice(*options: str, default: str | None = None) -> Facts:
    """One of some words."""
    facts: Facts = {"type": "string", "enum": list(options)}
    return facts if default is None else {**facts, "default": default}


NAME = {"type": "string", "maxLength": 253}
QUANTITY = {"x-kubernetes-int-or-string": True}
CONDITIONS = items(None, 16, "type")
STOP = choice("None", "Hold", "HoldAndDrain", default="None")


def quotas(prefix: str) -> dict[str, Facts]:
    """Resource groups of ClusterQueues and Cohorts."""
    return {
        prefix: items(None, 16, kind="atomic"),
        f"{prefix}.coveredResources": items(1, 64),
        f"{prefix}.flavors": items(1, 64, "name"),
        f"{prefix}.flavors.name": NAME,
        f"{prefix}.flavors.resources": items(1, 64, "name"),
        f"{prefix}.flavors.resources.nominalQuota": QUANTITY,
        f"{prefix}.flavors.resources.borrowingLimit": QUANTITY,
        f"{prefix}.flavors.resources.lendingLimit": QUANTITY,
        "spec.fairSharing.weight": {**QUANTITY, "default": 1},
    }


POD_SETS = "spec.podSets"
REQUEST = f"{POD_SETS}.topologyRequest"
ASSIGNED = "status.admission.podSetAssignments"
SLICES = f"{ASSIGNED}.topologyAssignment.slices"
CHECKS = "status.admissionChecks"
FIELDS: dict[str, dict[str, Facts]] = {
    "Workload": {
        POD_SETS: items(1, 18, "name"),
        f"{POD_SETS}.name": {**text(63), "default": "main"},
        f"{POD_SETS}.template": {"type": "object"},
        f"{POD_SETS}.count": number(0, 1),
        f"{POD_SETS}.minCount": number(1),
        f"{REQUEST}.required": text(63),
        f"{REQUEST}.preferred": text(63),
        f"{REQUEST}.unconstrained": {"type": "boolean"},
        f"{REQUEST}.podIndexLabel": text(317),
        f"{REQUEST}.subGroupIndexLabel": text(317),
        f"{REQUEST}.subGroupCount": number(0),
        f"{REQUEST}.podSetGroupName": text(256),
        f"{REQUEST}.podSetSliceRequiredTopology": text(63),
        f"{REQUEST}.podSetSliceSize": number(1),
        f"{REQUEST}.podsetSliceRequiredTopologyConstraints": items(None, 3, kind="atomic"),
        f"{REQUEST}.podsetSliceRequiredTopologyConstraints.topology": text(63, 1),
        f"{REQUEST}.podsetSliceRequiredTopologyConstraints.size": number(1),
        "spec.queueName": NAME,
        "spec.priorityClassRef.group": choice("kueue.x-k8s.io", "scheduling.k8s.io"),
        "spec.priorityClassRef.kind": choice("WorkloadPriorityClass", "PriorityClass"),
        "spec.priorityClassRef.name": text(),
        "spec.priority": number(),
        "spec.active": {"type": "boolean", "default": True},
        "spec.maximumExecutionTimeSeconds": number(1),
        "spec.preemptionGates": items(None, 8, "name"),
        "spec.preemptionGates.name": text(63, 1),
        "status.conditions": CONDITIONS,
        "status.admission.clusterQueue": NAME,
        ASSIGNED: items(None, 18, "name"),
        f"{ASSIGNED}.flavors": {"type": "object"},
        f"{ASSIGNED}.resourceUsage": {"type": "object"},
        f"{ASSIGNED}.count": number(),
        f"{ASSIGNED}.delayedTopologyRequest": choice("Pending", "Ready"),
        f"{ASSIGNED}.topologyAssignment.levels": items(1, 16),
        SLICES: items(None, 1000),
        f"{SLICES}.domainCount": number(1),
        f"{SLICES}.valuesPerLevel": items(1, 16),
        f"{SLICES}.valuesPerLevel.universal": text(63),
        f"{SLICES}.valuesPerLevel.individual.prefix": text(63),
        f"{SLICES}.valuesPerLevel.individual.suffix": text(63),
        f"{SLICES}.valuesPerLevel.individual.roots": items(1, 100000),
        f"{SLICES}.podCounts.universal": number(1),
        f"{SLICES}.podCounts.individual": items(1, 100000),
        "status.requeueState.count": number(0),
        "status.requeueState.requeueAt": {"type": "string", "format": "date-time"},
        "status.reclaimablePods": items(None, 18, "name"),
        "status.reclaimablePods.count": number(0),
        CHECKS: items(None, 8, "name"),
        f"{CHECKS}.state": choice("Pending", "Ready", "Retry", "Rejected"),
        f"{CHECKS}.message": text(32768),
        f"{CHECKS}.requeueAfterSeconds": number(0),
        f"{CHECKS}.retryCount": number(0),
        f"{CHECKS}.podSetUpdates": items(None, 18),
        f"{CHECKS}.podSetUpdates.tolerations": items(None, 8),
        "status.resourceRequests": items(None, 18, "name"),
        "status.accumulatedPastExecutionTimeSeconds": number(),
        "status.schedulingStats.evictions": items(None, 256, "reason", "underlyingCause"),
        "status.nominatedClusterNames": items(None, 20),
        "status.clusterName": text(256),
        "status.unhealthyNodes": items(None, 8, "name"),
        "status.unhealthyNodes.name": text(63),
        "status.preemptionGates": items(None, 8, "name"),
        "status.preemptionGates.position": choice("Closed", "Open"),
    },
    "ClusterQueue": {
        **quotas("spec.resourceGroups"),
        "spec.cohortName": NAME,
        "spec.queueingStrategy": choice("StrictFIFO", "BestEffortFIFO", default="BestEffortFIFO"),
        "spec.namespaceSelector": {"type": "object"},
        "spec.flavorFungibility.whenCanBorrow": choice(
            "MayStopSearch", "TryNextFlavor", default="MayStopSearch"
        ),
        "spec.flavorFungibility.whenCanPreempt": choice(
            "MayStopSearch", "TryNextFlavor", default="TryNextFlavor"
        ),
        "spec.flavorFungibility.preference": choice(
            "BorrowingOverPreemption", "PreemptionOverBorrowing"
        ),
        "spec.preemption.reclaimWithinCohort": choice(
            "Never", "LowerPriority", "Any", default="Never"
        ),
        "spec.preemption.withinClusterQueue": choice(
            "Never", "LowerPriority", "LowerOrNewerEqualPriority", default="Never"
        ),
        "spec.preemption.borrowWithinCohort.policy": choice(
            "Never", "LowerPriority", default="Never"
        ),
        "spec.preemption.borrowWithinCohort.maxPriorityThreshold": number(),
        "spec.admissionChecksStrategy.admissionChecks": items(1, 64, "name"),
        "spec.admissionChecksStrategy.admissionChecks.onFlavors": items(None, 64),
        "spec.stopPolicy": STOP,
        "spec.admissionScope.admissionMode": choice(
            "UsageBasedAdmissionFairSharing", "NoAdmissionFairSharing"
        ),
        "spec.concurrentAdmissionPolicy.migration.mode": choice(
            "TryPreferredFlavors", "RetainFirstAdmission"
        ),
        "spec.concurrentAdmissionPolicy.migration.constraints.lastAcceptableFlavorName": NAME,
        "status.conditions": CONDITIONS,
        "status.flavorsReservation": items(None, 64, "name"),
        "status.flavorsUsage": items(None, 64, "name"),
        "status.flavorsUsage.resources.total": QUANTITY,
        "status.flavorsUsage.resources.borrowed": QUANTITY,
        "status.pendingWorkloads": number(),
        "status.reservingWorkloads": number(),
        "status.admittedWorkloads": number(),
        "status.fairSharing.weightedShare": number(width="int64"),
    },
    "Cohort": {
        **quotas("spec.resourceGroups"),
        "spec.parentName": NAME,
        "status.fairSharing.weightedShare": number(width="int64"),
    },
    "LocalQueue": {
        "spec.clusterQueue": NAME,
        "spec.stopPolicy": STOP,
        "spec.fairSharing.weight": QUANTITY,
        "status.conditions": CONDITIONS,
        "status.pendingWorkloads": number(),
        "status.reservingWorkloads": number(),
        "status.admittedWorkloads": number(),
        "status.flavorsReservation": items(None, 64, "name"),
        "status.flavorsUsage": items(None, 64, "name"),
        "status.fairSharing.weightedShare": number(width="int64"),
        "status.fairSharing.admissionFairSharingStatus.consumedResources": {"type": "object"},
        "status.fairSharing.admissionFairSharingStatus.lastUpdate": {"format": "date-time"},
    },
    "ResourceFlavor": {
        "spec.nodeLabels": {
            "type": "object",
            "maxProperties": 8,
            "x-kubernetes-map-type": "atomic",
        },
        "spec.nodeTaints": items(None, 8),
        "spec.tolerations": items(None, 8),
        "spec.topologyName": NAME,
    },
    "AdmissionCheck": {
        "spec.controllerName": text(253, 1),
        "spec.parameters.apiGroup": NAME,
        "spec.parameters.kind": text(63),
        "spec.parameters.name": text(63),
        "status.conditions": CONDITIONS,
    },
    "WorkloadPriorityClass": {"value": number(), "description": text(2048)},
    "Topology": {
        "spec.levels": items(1, 16),
        "spec.levels.nodeLabel": text(316, 1),
    },
    "MultiKueueCluster": {
        "spec.clusterSource.kubeConfig.location": text(256, 1),
        "spec.clusterSource.kubeConfig.locationType": choice("Secret", "Path", default="Secret"),
        "spec.clusterSource.clusterProfileRef.name": text(),
        "status.conditions": CONDITIONS,
    },
    "MultiKueueConfig": {
        "spec.clusters": items(1, 20, kind="atomic"),  # unique by a rule: their order matters
        "spec.quotaManagement": choice("Manual", "Automated"),  # absent means Manual
    },
    "ProvisioningRequestConfig": {
        "spec.provisioningClassName": NAME,
        "spec.parameters": {"type": "object", "maxProperties": 100},
        "spec.managedResources": items(None, 100),
        "spec.retryStrategy.backoffLimitCount": number(None, 3),
        "spec.retryStrategy.backoffBaseSeconds": number(None, 60),
        "spec.retryStrategy.backoffMaxSeconds": number(None, 1800),
        "spec.podSetUpdates.nodeSelector": items(None, 8, "key"),
        "spec.podSetUpdates.nodeSelector.valueFromProvisioningClassDetail": text(),
        "spec.podSetMergePolicy": choice(
            "IdenticalPodTemplates", "IdenticalWorkloadSchedulingRequirements"
        ),
    },
}


def version(kind: str, name: str) -> dict[str, Any]:
    """One version of a definition."""
    versions: list[dict[str, Any]] = CRDS[kind]["spec"]["versions"]
    return next(each for each in versions if each["name"] == name)


def properties(
    schema: Mapping[str, Any], path: str = ""
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """(path, schema) of every field that has a schema of its own."""
    inner = schema.get("items", schema)
    for name, each in inner.get("properties", {}).items():
        at = f"{path}.{name}" if path else name
        yield at, each
        yield from properties(each, at)


def fields(kind: str, name: str) -> dict[str, Mapping[str, Any]]:
    """All fields of one version, by path."""
    return dict(properties(version(kind, name)["schema"]["openAPIV3Schema"]))


def test_there_are_eleven_kinds() -> None:
    assert sorted(CRDS) == sorted(KINDS)


@pytest.mark.parametrize("kind", KINDS)
def test_names_scope_and_subresources(kind: str) -> None:
    plural, short, namespaced, has_status, columns = KINDS[kind]
    spec = CRDS[kind]["spec"]
    assert spec["names"]["plural"] == plural
    assert spec["names"]["shortNames"] == short
    assert spec["scope"] == ("Namespaced" if namespaced else "Cluster")
    for each in spec["versions"]:
        assert each["served"]
        assert each["storage"] == (each["name"] == NEW)
        assert ("status" in each.get("subresources", {})) == has_status
        if columns is not None:
            assert [shown(column) for column in each["additionalPrinterColumns"]] == columns


def shown(column: Mapping[str, Any]) -> str:
    """A column's name; in brackets if it is shown on demand."""
    return f"[{column['name']}]" if column.get("priority") else str(column["name"])


@pytest.mark.parametrize(
    ("kind", "path"), [(kind, path) for kind in FIELDS for path in FIELDS[kind]]
)
def test_a_field_is_bounded_as_the_inventory_says(kind: str, path: str) -> None:
    """M-11, M-13, M-14, M-16, M-17."""
    want = FIELDS[kind][path]
    found = fields(kind, NEW)
    assert path in found, sorted(found)
    got = found[path]
    assert {key: got.get(key) for key in want} == want


# What the old version has instead (None: does not have at all).
OLD_FIELDS: dict[str, dict[str, Facts | None]] = {
    "Workload": {
        "spec.priorityClassRef": None,
        "spec.preemptionGates": None,
        "status.preemptionGates": None,
        f"{REQUEST}.podsetSliceRequiredTopologyConstraints": None,
        "status.accumulatedPastExecutionTimeSeconds": None,
        SLICES: None,
        "spec.priorityClassName": NAME,
        "spec.priorityClassSource": choice(
            "kueue.x-k8s.io/workloadpriorityclass", "scheduling.k8s.io/priorityclass", ""
        ),
        "status.accumulatedPastExexcutionTimeSeconds": number(),
        f"{ASSIGNED}.topologyAssignment.domains": items(None, 100000),
        f"{ASSIGNED}.topologyAssignment.domains.values": items(1, 16),
        f"{ASSIGNED}.topologyAssignment.domains.count": number(1),
    },
    "ClusterQueue": {
        "spec.cohortName": None,
        "spec.concurrentAdmissionPolicy": None,
        "spec.cohort": NAME,
        "spec.admissionChecks": items(None, None),
        "spec.flavorFungibility.whenCanBorrow": choice(
            "MayStopSearch", "TryNextFlavor", "Borrow", "", default="MayStopSearch"
        ),
        "spec.flavorFungibility.whenCanPreempt": choice(
            "MayStopSearch", "TryNextFlavor", "Preempt", "", default="TryNextFlavor"
        ),
        "status.pendingWorkloadsStatus": {"type": "object"},
    },
    "LocalQueue": {
        "status.flavorsUsage": None,
        "status.flavorUsage": items(None, None, "name"),
        "status.flavors": items(None, None, "name"),
        "status.flavors.nodeLabels": {"type": "object", "maxProperties": 8},
        "status.flavors.nodeTaints": items(None, 8),
        "status.flavors.topology": {"type": "object"},
    },
    "AdmissionCheck": {"spec.retryDelayMinutes": number(None, 15, "int64")},
    "MultiKueueCluster": {
        "spec.clusterSource": None,
        "spec.kubeConfig.locationType": choice("Secret", "Path", default="Secret"),
        "spec.clusterProfileRef.name": text(),
    },
    "MultiKueueConfig": {
        "spec.quotaManagement": None,
        "spec.clusters": items(1, 20, kind="set"),
    },
}


@pytest.mark.parametrize(
    ("kind", "path"), [(kind, path) for kind in OLD_FIELDS for path in OLD_FIELDS[kind]]
)
def test_a_field_differs_in_the_old_version(kind: str, path: str) -> None:
    want, found = OLD_FIELDS[kind][path], fields(kind, OLD)
    if want is None:
        assert path not in found
        return
    assert path in found, sorted(found)
    assert {key: found[path].get(key) for key in want} == want


# What the new version limits and the old one never did, as its definitions at Kueue 0.19 say.
LACKS: dict[str, dict[str, tuple[str, ...]]] = {
    "AdmissionCheck": {"spec.controllerName": ("minLength", "maxLength")},
    "ClusterQueue": {
        "spec.admissionChecksStrategy": ("required",),
        "spec.admissionChecksStrategy.admissionChecks": ("minItems", "maxItems"),
        "spec.admissionChecksStrategy.admissionChecks.name": ("minLength",),
        "spec.admissionChecksStrategy.admissionChecks.onFlavors": ("maxItems",),
        "spec.admissionScope": ("required",),
        "spec.admissionScope.admissionMode": ("enum",),
    },
    "Workload": {
        f"{REQUEST}.required": ("maxLength",),
        f"{REQUEST}.preferred": ("maxLength",),
        f"{REQUEST}.podSetSliceRequiredTopology": ("maxLength",),
        f"{REQUEST}.podSetSliceSize": ("minimum",),
        f"{REQUEST}.podSetGroupName": ("maxLength",),
        f"{REQUEST}.podIndexLabel": ("maxLength",),
        f"{REQUEST}.subGroupIndexLabel": ("maxLength",),
        f"{REQUEST}.subGroupCount": ("minimum",),
    },
}


@pytest.mark.parametrize(("kind", "path"), [(kind, path) for kind in LACKS for path in LACKS[kind]])
def test_the_old_version_lacks_a_limit(kind: str, path: str) -> None:
    for limit in LACKS[kind][path]:
        assert limit in fields(kind, NEW)[path]
        assert limit not in fields(kind, OLD)[path]


def test_pod_sets_are_required_in_the_old_version_only() -> None:
    required = {each: fields("Workload", each)["spec"].get("required") for each in (OLD, NEW)}
    assert required == {OLD: ["podSets"], NEW: None}


def is_elsewhere(path: str, kind: str) -> bool:
    """Whether the old version has a field under another name, or not at all."""
    gone = [each for each, want in OLD_FIELDS.get(kind, {}).items() if want is None]
    return any(path == each or path.startswith(f"{each}.") for each in gone)


@pytest.mark.parametrize("kind", KINDS)
def test_the_old_version_has_all_other_fields(kind: str) -> None:
    old = fields(kind, OLD)
    assert [p for p in fields(kind, NEW) if p not in old and not is_elsewhere(p, kind)] == []


def test_workloads_are_selected_by_their_cluster_queue() -> None:
    fields_of = {kind: version(kind, NEW).get("selectableFields") for kind in KINDS}
    want = [{"jsonPath": ".status.admission.clusterQueue"}]
    assert {kind: each for kind, each in fields_of.items() if each} == {"Workload": want}


def test_the_old_version_warns() -> None:
    for kind in KINDS:
        old = version(kind, OLD)
        assert old["deprecated"]
        assert "v1beta2" in old["deprecationWarning"]
