"""A compact schema of PodTemplateSpec: the fields of a pod and a container, opaque below.

The full schema is 8,000 lines in each CRD. This one still refuses unknown fields where typos
happen, and has types for the fields that quota depends on (requests, limits, overhead). Other
fields are checked when pods are created.
"""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]

_OPAQUE: Schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_STRING: Schema = {"type": "string"}
_NAMED: Schema = {**_OPAQUE, "required": ["name"], "properties": {"name": _STRING}}
_BOOLEAN: Schema = {"type": "boolean"}
_INT32: Schema = {"type": "integer", "format": "int32"}
_INT64: Schema = {"type": "integer", "format": "int64"}
_LABELS: Schema = {"type": "object", "additionalProperties": _STRING}
_QUANTITY: Schema = {
    "anyOf": [{"type": "integer"}, {"type": "string"}],
    "pattern": (
        r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
        r"(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
    ),
    "x-kubernetes-int-or-string": True,
}
_RESOURCES: Schema = {"type": "object", "additionalProperties": _QUANTITY}


def _list(item: Schema, description: str = "") -> Schema:
    result: Schema = {"type": "array", "items": item, "x-kubernetes-list-type": "atomic"}
    return {**result, "description": description} if description else result


def _by_name(item: Schema, description: str = "") -> Schema:
    """Return a list in which no name occurs twice; the items have a name."""
    return {
        **_list(item, description),
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
    }


def _of(names: str, schema: Schema) -> Schema:
    return {name: dict(schema) for name in names.split()}


_REQUIREMENTS: Schema = {
    "type": "object",
    "description": "Resources of the container.",
    "properties": {
        "claims": _list(_OPAQUE),
        "limits": {**_RESOURCES, "description": "Most that may be used."},
        "requests": {**_RESOURCES, "description": "What is counted against quota."},
    },
}

_CONTAINER: Schema = {
    "type": "object",
    "description": "A container, as in core/v1.",
    "required": ["name"],
    "properties": {
        **_of(
            "image imagePullPolicy name restartPolicy targetContainerName terminationMessagePath "
            "terminationMessagePolicy workingDir",
            _STRING,
        ),
        **_of("stdin stdinOnce tty", _BOOLEAN),
        **_of("args command", _list(_STRING)),
        **_of(
            "env envFrom ports resizePolicy restartPolicyRules volumeDevices volumeMounts",
            _list(_OPAQUE),
        ),
        **_of("lifecycle livenessProbe readinessProbe securityContext startupProbe", _OPAQUE),
        "resources": _REQUIREMENTS,
    },
}

_TOLERATION: Schema = {
    "type": "object",
    "properties": {**_of("effect key operator value", _STRING), "tolerationSeconds": _INT64},
}

_POD_SPEC: Schema = {
    "type": "object",
    "description": "The pod, as in core/v1. Fields below containers are not described here.",
    "required": ["containers"],
    "properties": {
        **_of(
            "dnsPolicy hostname hostnameOverride nodeName preemptionPolicy priorityClassName "
            "restartPolicy runtimeClassName schedulerName serviceAccount serviceAccountName "
            "subdomain",
            _STRING,
        ),
        **_of(
            "automountServiceAccountToken enableServiceLinks hostIPC hostNetwork hostPID hostUsers "
            "setHostnameAsFQDN shareProcessNamespace",
            _BOOLEAN,
        ),
        **_of("activeDeadlineSeconds terminationGracePeriodSeconds", _INT64),
        **_of("affinity dnsConfig os schedulingGroup securityContext workloadRef", _OPAQUE),
        **_of(
            "hostAliases imagePullSecrets readinessGates topologySpreadConstraints",
            _list(_OPAQUE),
        ),
        **_of("resourceClaims schedulingGates volumes", _by_name(_NAMED)),
        "containers": _by_name(_CONTAINER, "Containers of the pod."),
        "ephemeralContainers": _by_name(_CONTAINER),
        "initContainers": _by_name(_CONTAINER, "Containers that run before the others."),
        "nodeSelector": {
            **_LABELS,
            "description": "Node labels; also decides which flavors fit.",
            "x-kubernetes-map-type": "atomic",
        },
        "overhead": {**_RESOURCES, "description": "What the runtime itself uses."},
        "priority": _INT32,
        "resources": {**_REQUIREMENTS, "description": "Resources of the pod as a whole."},
        "tolerations": _list(_TOLERATION, "Taints that the pod tolerates."),
    },
}

POD_TEMPLATE: Schema = {
    "type": "object",
    "properties": {
        "metadata": {
            "type": "object",
            "description": "Labels and annotations of the pods.",
            "properties": {
                "annotations": _LABELS,
                "labels": _LABELS,
                "finalizers": _list(_STRING),
                **_of("generateName name namespace", _STRING),
            },
        },
        "spec": _POD_SPEC,
    },
}
"""A PodTemplateSpec without the description of the field that contains it."""
