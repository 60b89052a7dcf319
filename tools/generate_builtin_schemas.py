"""Write the field tables of the built-in kinds to multiqueue/embedded/server/schema/data.

Names, types and required fields come from the model classes of kubernetes_asyncio. What those
classes do not say (integer widths, quantities, bytes, merge keys) is in the tables below. No
descriptions are copied. Run from the repository's root:

    .venv/bin/python tools/generate_builtin_schemas.py
"""

import inspect
import json
import re
from pathlib import Path
from typing import Any

from kubernetes_asyncio import client

TARGET = Path(__file__).parent.parent / "multiqueue" / "embedded" / "server" / "schema" / "data"

# A type belongs to the first package one of whose roots reaches it: meta and core lend to others.
PACKAGES: dict[str, tuple[str, tuple[str, ...]]] = {
    "meta": (
        "io.k8s.apimachinery.pkg.apis.meta.v1",
        (
            *("V1ObjectMeta", "V1ListMeta", "V1LabelSelector", "V1Condition"),
            *("V1DeleteOptions", "V1FieldSelectorRequirement"),
        ),
    ),
    "core": (
        "io.k8s.api.core.v1",
        (
            *("V1Namespace", "V1Node", "V1Pod", "V1PodTemplate", "V1Secret", "V1ConfigMap"),
            *("CoreV1Event", "V1Service", "V1ServiceAccount", "V1LimitRange"),
            *("V1ResourceQuota", "V1Binding", "V1PersistentVolumeClaim"),
        ),
    ),
    "apps": (
        "io.k8s.api.apps.v1",
        ("V1Deployment", "V1ReplicaSet", "V1StatefulSet"),
    ),
    "batch": ("io.k8s.api.batch.v1", ("V1Job", "V1CronJob")),
    "autoscaling": ("io.k8s.api.autoscaling.v1", ("V1Scale",)),
    "authentication": (
        "io.k8s.api.authentication.v1",
        ("AuthenticationV1TokenRequest", "V1TokenReview", "V1SelfSubjectReview"),
    ),
    "authorization": (
        "io.k8s.api.authorization.v1",
        (
            "V1SelfSubjectAccessReview",
            "V1SelfSubjectRulesReview",
            "V1SubjectAccessReview",
        ),
    ),
    "coordination": ("io.k8s.api.coordination.v1", ("V1Lease",)),
    "scheduling": ("io.k8s.api.scheduling.v1", ("V1PriorityClass",)),
    "node": ("io.k8s.api.node.v1", ("V1RuntimeClass",)),
    "policy": ("io.k8s.api.policy.v1", ("V1PodDisruptionBudget", "V1Eviction")),
    "rbac": (
        "io.k8s.api.rbac.v1",
        ("V1Role", "V1RoleBinding", "V1ClusterRole", "V1ClusterRoleBinding"),
    ),
    "admissionregistration": (
        "io.k8s.api.admissionregistration.v1",
        ("V1MutatingWebhookConfiguration", "V1ValidatingWebhookConfiguration"),
    ),
    "apiextensions": (
        "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1",
        ("V1CustomResourceDefinition",),
    ),
    "apiregistration": (
        "io.k8s.kube-aggregator.pkg.apis.apiregistration.v1",
        ("V1APIService",),
    ),
}

# Published as an open object: recursive, and checked by builtin/crd.py.
OPAQUE = {"V1JSONSchemaProps"}

# Integers are 32 bits wide except these.
INT64 = {
    "activeDeadlineSeconds", "capacity", "deletionGracePeriodSeconds", "expirationSeconds",
    "fsGroup", "generation", "gid", "gracePeriodSeconds", "observedGeneration", "runAsGroup",
    "runAsUser", "seconds", "sizeBytes", "startingDeadlineSeconds", "supplementalGroups",
    "terminationGracePeriodSeconds", "tolerationSeconds", "uid",
}  # fmt: skip

QUANTITY_MAPS = {
    "ContainerStatus.allocatedResources", "LimitRangeItem.default",
    "LimitRangeItem.defaultRequest", "LimitRangeItem.max",
    "LimitRangeItem.maxLimitRequestRatio", "LimitRangeItem.min",
    "NodeAllocatableResourceClaimStatus.resources", "NodeStatus.allocatable",
    "NodeStatus.capacity", "Overhead.podFixed",
    "PersistentVolumeClaimStatus.allocatedResources", "PersistentVolumeClaimStatus.capacity",
    "PodSpec.overhead", "PodStatus.allocatedResources",
    "ResourceQuotaSpec.hard", "ResourceQuotaStatus.hard", "ResourceQuotaStatus.used",
    "ResourceRequirements.limits", "ResourceRequirements.requests",
    "VolumeResourceRequirements.limits", "VolumeResourceRequirements.requests",
}  # fmt: skip
QUANTITIES = {"ResourceFieldSelector.divisor", "EmptyDirVolumeSource.sizeLimit"}
BYTES_MAPS = {"Secret.data", "ConfigMap.binaryData"}
BYTES = {"WebhookClientConfig.caBundle", "APIServiceSpec.caBundle"}
MICRO_TIMES = {
    "LeaseSpec.acquireTime",
    "LeaseSpec.renewTime",
    "Event.eventTime",
    "EventSeries.lastObservedTime",
}
INT_OR_STRING = {
    "HTTPGetAction.port", "TCPSocketAction.port", "ServicePort.targetPort",
    "PodDisruptionBudgetSpec.maxUnavailable", "PodDisruptionBudgetSpec.minAvailable",
    "RollingUpdateDeployment.maxSurge", "RollingUpdateDeployment.maxUnavailable",
    "RollingUpdateStatefulSetStrategy.maxUnavailable",
}  # fmt: skip

SPECIAL_MAPS = dict.fromkeys(QUANTITY_MAPS, "quantity") | dict.fromkeys(BYTES_MAPS, "bytes")
SPECIAL = (
    dict.fromkeys(QUANTITIES, "quantity")
    | dict.fromkeys(BYTES, "bytes")
    | dict.fromkeys(MICRO_TIMES, "microTime")
    | dict.fromkeys(INT_OR_STRING, "intOrString")
)
SCALARS = {
    "str": "string",
    "int": "int32",
    "bool": "boolean",
    "float": "number",
    "datetime": "time",
    "object": "open",
}

# (list type, its keys, strategic merge key, patch strategy); a list that is not here is atomic.
LISTS: dict[str, tuple[str, tuple[str, ...], str, str]] = {
    "ObjectMeta.finalizers": ("set", (), "", "merge"),
    "ObjectMeta.ownerReferences": ("map", ("uid",), "uid", "merge"),
    "PodSpec.containers": ("map", ("name",), "name", "merge"),
    "PodSpec.initContainers": ("map", ("name",), "name", "merge"),
    "PodSpec.ephemeralContainers": ("map", ("name",), "name", "merge"),
    "PodSpec.volumes": ("map", ("name",), "name", "merge,retainKeys"),
    "PodSpec.imagePullSecrets": ("map", ("name",), "name", "merge"),
    "PodSpec.hostAliases": ("map", ("ip",), "ip", "merge"),
    "PodSpec.topologySpreadConstraints": (
        "map",
        ("topologyKey", "whenUnsatisfiable"),
        "topologyKey",
        "merge",
    ),
    "PodSpec.schedulingGates": ("map", ("name",), "name", "merge"),
    "PodSpec.resourceClaims": ("map", ("name",), "name", "merge,retainKeys"),
    "Container.env": ("map", ("name",), "name", "merge"),
    "Container.ports": ("map", ("containerPort", "protocol"), "containerPort", "merge"),
    "Container.volumeMounts": ("map", ("mountPath",), "mountPath", "merge"),
    "Container.volumeDevices": ("map", ("devicePath",), "devicePath", "merge"),
    "EphemeralContainer.env": ("map", ("name",), "name", "merge"),
    "EphemeralContainer.ports": ("map", ("containerPort", "protocol"), "containerPort", "merge"),
    "EphemeralContainer.volumeMounts": ("map", ("mountPath",), "mountPath", "merge"),
    "EphemeralContainer.volumeDevices": ("map", ("devicePath",), "devicePath", "merge"),
    "ResourceRequirements.claims": ("map", ("name",), "", ""),
    "TopologySpreadConstraint.matchLabelKeys": ("atomic", (), "", ""),
    "PodStatus.conditions": ("map", ("type",), "type", "merge"),
    "PodStatus.podIPs": ("map", ("ip",), "ip", "merge"),
    "PodStatus.hostIPs": ("atomic", (), "ip", "merge"),
    "PodStatus.resourceClaimStatuses": ("map", ("name",), "name", "merge,retainKeys"),
    "NodeSpec.podCIDRs": ("set", (), "", "merge"),
    "NodeStatus.conditions": ("map", ("type",), "type", "merge"),
    "NodeStatus.addresses": ("map", ("type",), "type", "merge"),
    "NamespaceStatus.conditions": ("map", ("type",), "type", "merge"),
    "PersistentVolumeClaimStatus.conditions": ("map", ("type",), "type", "merge"),
    "ServiceSpec.ports": ("map", ("port", "protocol"), "port", "merge"),
    "ServiceStatus.conditions": ("map", ("type",), "type", "merge"),
    "ServiceAccount.secrets": ("map", ("name",), "name", "merge"),
    "DeploymentStatus.conditions": ("map", ("type",), "type", "merge"),
    "ReplicaSetStatus.conditions": ("map", ("type",), "type", "merge"),
    "StatefulSetStatus.conditions": ("map", ("type",), "type", "merge"),
    "JobStatus.conditions": ("atomic", (), "type", "merge"),
    "PodFailurePolicyOnExitCodesRequirement.values": ("set", (), "", ""),
    "ContainerRestartRuleOnExitCodes.values": ("set", (), "", ""),
    "ContainerStatus.allocatedResourcesStatus": ("map", ("name",), "name", "merge"),
    "ContainerStatus.volumeMounts": ("map", ("mountPath",), "mountPath", "merge"),
    "ResourceStatus.resources": ("map", ("resourceID",), "", ""),
    "NodeAllocatableResourceClaimStatus.containers": ("set", (), "", ""),
    "UncountedTerminatedPods.failed": ("set", (), "", ""),
    "UncountedTerminatedPods.succeeded": ("set", (), "", ""),
    "PodDisruptionBudgetStatus.conditions": ("map", ("type",), "type", "merge"),
    "MutatingWebhookConfiguration.webhooks": ("map", ("name",), "name", "merge"),
    "ValidatingWebhookConfiguration.webhooks": ("map", ("name",), "name", "merge"),
    "MutatingWebhook.matchConditions": ("map", ("name",), "name", "merge"),
    "ValidatingWebhook.matchConditions": ("map", ("name",), "name", "merge"),
    "CustomResourceDefinitionStatus.conditions": ("map", ("type",), "", ""),
    "APIServiceStatus.conditions": ("map", ("type",), "type", "merge"),
}
RETAIN_KEYS = {"DeploymentSpec.strategy"}
MAP_TYPES = {
    "PodSpec.nodeSelector": "atomic",
    "ServiceSpec.selector": "atomic",
    "Scheduling.nodeSelector": "atomic",
}
ATOMIC_OBJECTS = {
    "LabelSelector", "NodeSelector", "NodeSelectorTerm", "LocalObjectReference",
    "ObjectReference", "SecretKeySelector", "ConfigMapKeySelector", "ObjectFieldSelector",
    "ResourceFieldSelector", "TypedLocalObjectReference", "SecretReference", "ScopeSelector",
    "FileKeySelector", "OwnerReference", "RoleRef", "Subject",
}  # fmt: skip


def main() -> None:
    """Write one file per package."""
    owner: dict[str, str] = {}
    for package, (_, roots) in PACKAGES.items():
        for root in roots:
            for reached in reachable(root):
                owner.setdefault(reached, package)
    TARGET.mkdir(parents=True, exist_ok=True)
    for package, (prefix, _) in PACKAGES.items():
        mine = sorted((name for name in owner if owner[name] == package), key=go_name)
        types = {go_name(name): table(name, owner) for name in mine}
        path = TARGET / f"{package}.json"
        path.write_text(dump({"package": prefix, "types": types}))
        print(f"{path}: {len(types)} types")


def reachable(root: str) -> list[str]:
    """The class and all classes it refers to."""
    found: dict[str, None] = {}
    todo = [root]
    while todo:
        name = todo.pop()
        if name in found or name in OPAQUE:
            continue
        found[name] = None
        for type_name in getattr(client, name).openapi_types.values():
            todo += re.findall(r"[A-Z]\w+", type_name)
    return list(found)


def go_name(name: str) -> str:
    """``CoreV1Event`` and ``V1Event`` are ``Event``."""
    return re.sub(r"^.*?V1(?=[A-Z])", "", name)


def table(name: str, owner: dict[str, str]) -> dict[str, Any]:
    """Fields of one class as short type expressions, and what else there is to know."""
    model = getattr(client, name)
    short = go_name(name)
    fields = {}
    lists = {}
    for attribute, wire in sorted(model.attribute_map.items(), key=lambda item: item[1]):
        path = f"{short}.{wire}"
        fields[wire] = expression(path, wire, model.openapi_types[attribute], owner)
        if path in LISTS:
            kind, keys, merge_key, strategy = LISTS[path]
            facts = {"type": kind, "keys": list(keys), "mergeKey": merge_key, "strategy": strategy}
            lists[wire] = {key: value for key, value in facts.items() if value}
        elif path in RETAIN_KEYS:
            lists[wire] = {"strategy": "retainKeys"}
        elif path in MAP_TYPES:
            lists[wire] = {"mapType": MAP_TYPES[path]}
    attributes = sorted(model.attribute_map.items())
    needed = [wire for attribute, wire in attributes if is_required(model, attribute)]
    result: dict[str, Any] = {"fields": fields}
    if needed:
        result["required"] = needed
    if lists:
        result["lists"] = lists
    if short in ATOMIC_OBJECTS:
        result["atomic"] = True
    return result


def expression(path: str, wire: str, type_name: str, owner: dict[str, str]) -> str:
    """``string``, ``int32``, ``[]core.Container``, ``{}quantity``."""
    if match := re.fullmatch(r"list\[(.*)\]", type_name):
        return "[]" + expression(path, wire, match[1], owner)
    if match := re.fullmatch(r"dict\(str, (.*)\)", type_name):
        return "{}" + (SPECIAL_MAPS.get(path) or expression(path, wire, match[1], owner))
    if type_name in owner:
        return f"{owner[type_name]}.{go_name(type_name)}"
    if path in SPECIAL:
        return SPECIAL[path]
    if type_name == "int" and wire in INT64:
        return "int64"
    return "open" if type_name in OPAQUE else SCALARS[type_name]


def is_required(model: type, attribute: str) -> bool:
    """Whether the setter refuses None."""
    prop = inspect.getattr_static(model, attribute)
    return "must not be `None`" in inspect.getsource(prop.fset)


def dump(document: dict[str, Any]) -> str:
    """JSON with one type a line, so that diffs are readable."""
    compact = (",", ":")
    lines = [
        f' "{name}": {json.dumps(value, separators=compact)}'
        for name, value in document["types"].items()
    ]
    body = ",\n".join(lines)
    return f'{{"package": "{document["package"]}", "types": {{\n{body}\n}}}}\n'


if __name__ == "__main__":
    main()
