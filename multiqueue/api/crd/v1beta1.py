"""Schemas of the deprecated version v1beta1, derived from those of v1beta2.

Parity: v1beta1 of Kueue 0.20. `multiqueue.api.conversion` changes the objects in the same way.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

from multiqueue.api.markers import SUBDOMAIN_PATTERN, SchemaRule
from multiqueue.api.v1beta2.workload import WAS_RESERVED, both_have, stays

Schema = dict[str, Any]


def downgrade_schema(kind: str, schema: Schema) -> Schema:
    """Return the v1beta1 schema of a kind; the argument is not changed."""
    result = copy.deepcopy(schema)
    change = _CHANGES.get(kind)
    if change is not None:
        change(result)
    return result


def _properties(schema: Schema, *path: str) -> dict[str, Schema]:
    """Return the properties at a path of field names, also inside of lists."""
    for name in path:
        schema = schema["properties"][name]
        schema = schema.get("items", schema)
    properties: dict[str, Schema] = schema["properties"]
    return properties


def _cluster_queue(schema: Schema) -> None:
    spec = _properties(schema, "spec")
    spec["cohort"] = spec.pop("cohortName")
    del spec["concurrentAdmissionPolicy"]
    spec["admissionChecks"] = {
        "type": "array",
        "description": "Names of AdmissionChecks for all flavors; not with "
        "admissionChecksStrategy.",
        "items": {"type": "string", "maxLength": 316},
    }
    strategy = spec["admissionChecksStrategy"]
    rules = strategy["properties"]["admissionChecks"]
    _allow(strategy, "required")
    _allow(rules, "minItems", "maxItems", "x-kubernetes-list-type", "x-kubernetes-list-map-keys")
    _allow(rules["items"]["properties"]["name"], "minLength")
    _allow(rules["items"]["properties"]["onFlavors"], "maxItems", "x-kubernetes-list-type")
    _allow(spec["admissionScope"], "required")
    _allow(spec["admissionScope"]["properties"]["admissionMode"], "enum")
    fungibility = _properties(schema, "spec", "flavorFungibility")
    fungibility["whenCanBorrow"]["enum"].append("Borrow")
    fungibility["whenCanPreempt"]["enum"].append("Preempt")
    preemption = _properties(schema, "spec", "preemption")
    _allow_empty(
        fungibility["whenCanBorrow"],
        fungibility["whenCanPreempt"],
        preemption["reclaimWithinCohort"],
        preemption["withinClusterQueue"],
        _properties(schema, "spec", "preemption", "borrowWithinCohort")["policy"],
        spec["queueingStrategy"],
    )
    spec["preemption"]["x-kubernetes-validations"][0]["rule"] = (
        "!((!has(self.reclaimWithinCohort) || self.reclaimWithinCohort in ['', 'Never']) && "
        "has(self.borrowWithinCohort) && has(self.borrowWithinCohort.policy) && "
        "!(self.borrowWithinCohort.policy in ['', 'Never']))"
    )
    _properties(schema, "status")["pendingWorkloadsStatus"] = {
        "type": "object",
        "description": "Not used; the visibility API shows pending workloads.",
        "x-kubernetes-preserve-unknown-fields": True,
    }


def _allow(schema: Schema, *limits: str) -> None:
    """Remove limits that the old version never had: manifests in use may break them."""
    for limit in limits:
        del schema[limit]


def _allow_empty(*fields: Schema) -> None:
    """Allow empty texts, which old clients wrote for absent enums; conversion drops them."""
    for field in fields:
        field["enum"].append("")


def _local_queue(schema: Schema) -> None:
    status = _properties(schema, "status")
    status["flavorUsage"] = status.pop("flavorsUsage")
    status["flavors"] = {
        "type": "array",
        "description": "Not used; look at the ResourceFlavors.",
        "items": {
            "type": "object",
            "properties": _flavor_status(),
            "required": ["name"],
        },
        "maxItems": 64,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
    }


def _flavor_status() -> Schema:
    name = {"type": "string", "maxLength": 253, "pattern": SUBDOMAIN_PATTERN}
    text = {"type": "string"}
    taint = {"key": text, "value": text, "effect": text}
    taint["timeAdded"] = {"type": "string", "format": "date-time"}
    levels = {"type": "array", "items": text, "minItems": 1, "maxItems": 16}
    return {
        "name": name,
        "resources": {
            "type": "array",
            "items": text,
            "maxItems": 64,
            "x-kubernetes-list-type": "set",
        },
        "nodeLabels": {
            "type": "object",
            "additionalProperties": text,
            "maxProperties": 8,
            "x-kubernetes-map-type": "atomic",
        },
        "nodeTaints": {
            "type": "array",
            "items": {"type": "object", "properties": taint, "required": ["effect", "key"]},
            "maxItems": 8,
            "x-kubernetes-list-type": "atomic",
        },
        "topology": {
            "type": "object",
            "properties": {"name": name, "levels": {**levels, "x-kubernetes-list-type": "atomic"}},
            "required": ["levels", "name"],
        },
    }


def _workload(schema: Schema) -> None:
    spec = _properties(schema, "spec")
    del spec["priorityClassRef"], spec["preemptionGates"]
    spec["priorityClassName"] = {
        "type": "string",
        "description": "Name of the class that the priority came from.",
        "maxLength": 253,
        "pattern": SUBDOMAIN_PATTERN,
    }
    spec["priorityClassSource"] = {
        "type": "string",
        "description": "Kind of the class that the priority came from.",
        "enum": [
            "kueue.x-k8s.io/workloadpriorityclass",
            "scheduling.k8s.io/priorityclass",
            "",
        ],
    }
    schema["properties"]["spec"]["required"] = ["podSets"]
    schema["properties"]["spec"]["x-kubernetes-validations"] = [
        {
            "rule": "has(self.priorityClassName) ? has(self.priority) : true",
            "message": "priority should not be nil when priorityClassName is set",
        }
    ]
    rules = schema["x-kubernetes-validations"]
    schema["x-kubernetes-validations"] = [
        *(rule for rule in rules if "priorityClassRef" not in rule["rule"]),
        *(rule.as_dict() for rule in _CLASS_RULES),
    ]
    request = _properties(schema, "spec", "podSets", "topologyRequest")
    del request["podsetSliceRequiredTopologyConstraints"]
    _allow(request["podSetSliceSize"], "minimum")
    _allow(request["subGroupCount"], "minimum")
    for field in ("required", "preferred", "podIndexLabel", "subGroupIndexLabel"):
        _allow(request[field], "maxLength")
    for field in ("podSetGroupName", "podSetSliceRequiredTopology"):
        _allow(request[field], "maxLength")
    status = _properties(schema, "status")
    del status["preemptionGates"]
    status["accumulatedPastExexcutionTimeSeconds"] = status.pop(
        "accumulatedPastExecutionTimeSeconds"
    )
    assignment = _properties(schema, "status", "admission", "podSetAssignments")
    assignment["topologyAssignment"] = _TOPOLOGY_ASSIGNMENT


_HELD_SOURCE = f"{WAS_RESERVED} && {both_have('priorityClassSource')}"
_CLASS_RULES = (
    SchemaRule(
        f"{_HELD_SOURCE} ? {stays('priorityClassSource')} : true",
        "priorityClassSource is immutable while workload quota reserved",
    ),
    SchemaRule(
        f"{_HELD_SOURCE} && {both_have('priorityClassName')} && "
        "self.spec.priorityClassSource != 'kueue.x-k8s.io/workloadpriorityclass' ? "
        f"{stays('priorityClassName')} : true",
        "priorityClassName is immutable while workload quota reserved and priorityClassSource is "
        "not equal to kueue.x-k8s.io/workloadpriorityclass",
    ),
)
_TOPOLOGY_ASSIGNMENT: Schema = {
    "type": "object",
    "description": "Topology domains that the pods were placed in.",
    "required": ["levels", "domains"],
    "properties": {
        "levels": {
            "type": "array",
            "description": "Node labels of the levels, from the widest to the narrowest.",
            "items": {"type": "string"},
            "minItems": 1,
            "maxItems": 16,
            "x-kubernetes-list-type": "atomic",
        },
        "domains": {
            "type": "array",
            "description": "The domains with their number of pods.",
            "items": {
                "type": "object",
                "required": ["count", "values"],
                "properties": {
                    "count": {
                        "type": "integer",
                        "format": "int32",
                        "minimum": 1,
                        "description": "Pods in the domain.",
                    },
                    "values": {
                        "type": "array",
                        "description": "Value of the node label of each level.",
                        "items": {"type": "string"},
                        "minItems": 1,
                        "maxItems": 16,
                        "x-kubernetes-list-type": "atomic",
                    },
                },
            },
            "maxItems": 100_000,
            "x-kubernetes-list-type": "atomic",
        },
    },
}


def _admission_check(schema: Schema) -> None:
    _allow(_properties(schema, "spec")["controllerName"], "minLength", "maxLength")
    _properties(schema, "spec")["retryDelayMinutes"] = {
        "type": "integer",
        "format": "int64",
        "description": "Not used.",
        "default": 15,
    }


def _multikueue_cluster(schema: Schema) -> None:
    spec = schema["properties"]["spec"]
    source = spec["properties"].pop("clusterSource")["properties"]
    spec["properties"].update(source)
    spec["required"] = ["kubeConfig"]
    location = source["kubeConfig"]["properties"]["location"]
    del location["minLength"], location["maxLength"]


def _multikueue_config(schema: Schema) -> None:
    spec = _properties(schema, "spec")
    del spec["quotaManagement"]
    del spec["clusters"]["x-kubernetes-validations"]
    spec["clusters"]["x-kubernetes-list-type"] = "set"
    _allow(spec["clusters"]["items"], "maxLength")


def _provisioning_request_config(schema: Schema) -> None:
    selector = _properties(schema, "spec", "podSetUpdates")["nodeSelector"]
    _allow(selector, "x-kubernetes-list-type", "x-kubernetes-list-map-keys")


def _topology(schema: Schema) -> None:
    rules = _properties(schema, "spec")["levels"]["x-kubernetes-validations"]
    rules[-1] = SchemaRule("self == oldSelf", "field is immutable").as_dict()


_CHANGES: Mapping[str, Callable[[Schema], None]] = {
    "AdmissionCheck": _admission_check,
    "ClusterQueue": _cluster_queue,
    "LocalQueue": _local_queue,
    "MultiKueueCluster": _multikueue_cluster,
    "MultiKueueConfig": _multikueue_config,
    "ProvisioningRequestConfig": _provisioning_request_config,
    "Topology": _topology,
    "Workload": _workload,
}
