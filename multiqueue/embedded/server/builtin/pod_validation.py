"""Validation of Pod specs, with Kubernetes' words.

Checked is what Kueue, the scheduler and the kubelets here read. What only a container would find
(variables, ports, volumes and their mounts) is stored as it is.
"""

from collections.abc import Mapping
from typing import Any

from multiqueue.embedded.server.builtin.resources import validate_resources
from multiqueue.embedded.server.builtin.tolerations import validate_tolerations
from multiqueue.embedded.server.causes import (
    FieldCause,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
)
from multiqueue.embedded.server.schema.metadata import (
    check_name,
    validate_annotations,
    validate_labels,
)
from multiqueue.lib import object_names as names

Json = Mapping[str, Any]

RESTART_POLICIES = ("Always", "OnFailure", "Never")


def validate_template(template: Json, path: str) -> list[FieldCause]:
    """A Pod template."""
    metadata = template.get("metadata", {})
    return [
        *validate_labels(metadata.get("labels", {}), f"{path}.labels"),
        *validate_annotations(metadata.get("annotations", {}), f"{path}.annotations"),
        *validate_pod_spec(template.get("spec", {}), f"{path}.spec"),
    ]


def validate_pod_spec(spec: Json, path: str) -> list[FieldCause]:
    """A Pod spec with its defaults."""
    return [
        *_containers(spec, path),
        *_restart_policy(spec, path),
        *_grace_period(spec, path),
        *_names(spec, path),
        *validate_labels(spec.get("nodeSelector", {}), f"{path}.nodeSelector"),
        *validate_tolerations(spec.get("tolerations", ()), f"{path}.tolerations"),
        *_affinity(spec.get("affinity", {}), f"{path}.affinity"),
        *_gates(spec, path),
    ]


def _restart_policy(spec: Json, path: str) -> list[FieldCause]:
    value, where = spec.get("restartPolicy", ""), f"{path}.restartPolicy"
    if not value:
        return [required(where)]
    return [] if value in RESTART_POLICIES else [not_supported(where, value, RESTART_POLICIES)]


def _grace_period(spec: Json, path: str) -> list[FieldCause]:
    grace = spec.get("terminationGracePeriodSeconds")
    if grace is None or grace >= 0:
        return []
    text = "must be greater than or equal to 0"
    return [invalid(f"{path}.terminationGracePeriodSeconds", grace, text)]


def _names(spec: Json, path: str) -> list[FieldCause]:
    causes = []
    for field, rule in (
        ("serviceAccountName", names.subdomain),
        ("nodeName", names.subdomain),
        ("priorityClassName", names.subdomain),
        ("runtimeClassName", names.subdomain),
        ("hostname", names.label),
        ("subdomain", names.label),
    ):
        if spec.get(field):
            causes += check_name(spec[field], f"{path}.{field}", rule)
    return causes


def _gates(spec: Json, path: str) -> list[FieldCause]:
    causes = []
    seen: set[str] = set()
    for index, gate in enumerate(spec.get("schedulingGates", ())):
        name = gate.get("name", "")
        where = f"{path}.schedulingGates[{index}]"
        causes += check_name(name, where, names.qualified_name)
        if name in seen:
            causes.append(duplicate(where, name))
        seen.add(name)
    if spec.get("schedulingGates") and spec.get("nodeName"):
        text = "cannot be set until all schedulingGates have been cleared"
        causes.append(forbidden(f"{path}.nodeName", text))
    return causes


def _containers(spec: Json, path: str) -> list[FieldCause]:
    causes: list[FieldCause] = []
    seen: set[str] = set()
    if not spec.get("containers"):
        causes.append(required(f"{path}.containers"))
    for field in ("initContainers", "containers", "ephemeralContainers"):
        for index, container in enumerate(spec.get(field, ())):
            where = f"{path}.{field}[{index}]"
            causes += _container(container, where)
            name = container.get("name", "")
            if name and name in seen:
                causes.append(duplicate(f"{where}.name", name))
            seen.add(name)
    return causes


def _container(container: Json, path: str) -> list[FieldCause]:
    causes = []
    name, image = container.get("name", ""), container.get("image", "")
    if name:
        causes += check_name(name, f"{path}.name", names.label)
    else:
        causes.append(required(f"{path}.name"))
    if not image:
        causes.append(required(f"{path}.image"))
    elif image != image.strip():
        text = "must not have leading or trailing whitespace"
        causes.append(invalid(f"{path}.image", image, text))
    return causes + validate_resources(container.get("resources", {}), f"{path}.resources")


def _affinity(affinity: Json, path: str) -> list[FieldCause]:
    node = affinity.get("nodeAffinity", {})
    where = f"{path}.nodeAffinity"
    hard = "requiredDuringSchedulingIgnoredDuringExecution"
    causes = []
    if hard in node:
        terms = node[hard].get("nodeSelectorTerms", ())
        if not terms:
            text = "must have at least one node selector term"
            causes.append(required(f"{where}.{hard}.nodeSelectorTerms", text))
        for index, term in enumerate(terms):
            causes += _node_term(term, f"{where}.{hard}.nodeSelectorTerms[{index}]")
    return causes


_NODE_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")


def _node_term(term: Json, path: str) -> list[FieldCause]:
    causes = []
    for index, expression in enumerate(term.get("matchExpressions", ())):
        where = f"{path}.matchExpressions[{index}]"
        operator, values = expression.get("operator", ""), expression.get("values", ())
        if operator not in _NODE_OPERATORS:
            causes.append(invalid(f"{where}.operator", operator, "not a valid selector operator"))
        elif operator in {"In", "NotIn"} and not values:
            text = "must be specified when `operator` is 'In' or 'NotIn'"
            causes.append(required(f"{where}.values", text))
        elif operator in {"Exists", "DoesNotExist"} and values:
            text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            causes.append(forbidden(f"{where}.values", text))
        elif operator in {"Gt", "Lt"} and len(values) != 1:
            text = "must be specified single value when `operator` is 'Lt' or 'Gt'"
            causes.append(required(f"{where}.values", text))
        causes += check_name(expression.get("key", ""), f"{where}.key", names.qualified_name)
    return causes
