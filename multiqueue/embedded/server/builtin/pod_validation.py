"""Validation of Pod specs: what users get wrong most, with Kubernetes' words."""

from collections.abc import Iterable, Mapping
from typing import Any

from multiqueue.embedded.server.builtin.resources import validate_resources
from multiqueue.embedded.server.builtin.tolerations import validate_tolerations
from multiqueue.embedded.server.causes import (
    FieldCause,
    duplicate,
    forbidden,
    invalid,
    not_found,
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
_PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_DNS_POLICIES = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_PROTOCOLS = ("SCTP", "TCP", "UDP")
_MESSAGE_POLICIES = ("File", "FallbackToLogsOnError")
_VOLUME_SOURCES_TEXT = "must specify a volume type"


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
    volumes = {volume.get("name", "") for volume in spec.get("volumes", ())}
    return [
        *_volumes(spec.get("volumes", ()), f"{path}.volumes"),
        *_containers(spec, path, volumes),
        *_policies(spec, path),
        *_numbers(spec, path),
        *_names(spec, path),
        *_node_selector(spec.get("nodeSelector", {}), f"{path}.nodeSelector"),
        *validate_tolerations(spec.get("tolerations", ()), f"{path}.tolerations"),
        *_affinity(spec.get("affinity", {}), f"{path}.affinity"),
        *_gates(spec, path),
    ]


def _policies(spec: Json, path: str) -> list[FieldCause]:
    causes = []
    for field, supported in (("restartPolicy", RESTART_POLICIES), ("dnsPolicy", _DNS_POLICIES)):
        value = spec.get(field, "")
        if not value:
            causes.append(required(f"{path}.{field}"))
        elif value not in supported:
            causes.append(not_supported(f"{path}.{field}", value, supported))
    return causes


def _numbers(spec: Json, path: str) -> list[FieldCause]:
    causes = []
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline <= 2**31 - 1:
        text = "must be between 1 and 2147483647, inclusive"
        causes.append(invalid(f"{path}.activeDeadlineSeconds", deadline, text))
    grace = spec.get("terminationGracePeriodSeconds")
    if grace is not None and grace < 0:
        text = "must be greater than or equal to 0"
        causes.append(invalid(f"{path}.terminationGracePeriodSeconds", grace, text))
    return causes


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


def _node_selector(selector: Mapping[str, str], path: str) -> list[FieldCause]:
    return validate_labels(selector, path)


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


def _containers(spec: Json, path: str, volumes: set[str]) -> list[FieldCause]:
    causes: list[FieldCause] = []
    seen: set[str] = set()
    if not spec.get("containers"):
        causes.append(required(f"{path}.containers"))
    for field in ("initContainers", "containers", "ephemeralContainers"):
        for index, container in enumerate(spec.get(field, ())):
            where = f"{path}.{field}[{index}]"
            causes += _container(container, where, volumes)
            name = container.get("name", "")
            if name and name in seen:
                causes.append(duplicate(f"{where}.name", name))
            seen.add(name)
    return causes


def _container(container: Json, path: str, volumes: set[str]) -> list[FieldCause]:
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
    for field, supported in (
        ("imagePullPolicy", _PULL_POLICIES),
        ("terminationMessagePolicy", _MESSAGE_POLICIES),
    ):
        if container.get(field) not in supported:
            causes.append(
                not_supported(f"{path}.{field}", container.get(field, ""), sorted(supported))
            )
    causes += _ports(container.get("ports", ()), f"{path}.ports")
    causes += _environment(container.get("env", ()), f"{path}.env")
    causes += _mounts(container.get("volumeMounts", ()), f"{path}.volumeMounts", volumes)
    causes += validate_resources(container.get("resources", {}), f"{path}.resources")
    return causes


def _ports(ports: Iterable[Json], path: str) -> list[FieldCause]:
    causes = []
    seen: set[str] = set()
    for index, port in enumerate(ports):
        where = f"{path}[{index}]"
        if port.get("name"):
            causes += check_name(port["name"], f"{where}.name", names.port_name)
            if port["name"] in seen:
                causes.append(duplicate(f"{where}.name", port["name"]))
            seen.add(port["name"])
        number = port.get("containerPort", 0)
        if number == 0:
            causes.append(required(f"{where}.containerPort"))
        else:
            causes += [
                invalid(f"{where}.containerPort", number, text)
                for text in names.port_number(number)
            ]
        if port.get("protocol") not in _PROTOCOLS:
            causes.append(not_supported(f"{where}.protocol", port.get("protocol", ""), _PROTOCOLS))
    return causes


def _environment(variables: Iterable[Json], path: str) -> list[FieldCause]:
    causes = []
    for index, variable in enumerate(variables):
        where = f"{path}[{index}]"
        if not variable.get("name"):
            causes.append(required(f"{where}.name"))
        else:
            causes += check_name(variable["name"], f"{where}.name", names.environment_name)
        source = variable.get("valueFrom")
        if source is None:
            continue
        if len(source) != 1:
            text = (
                "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or "
                "`secretKeyRef`"
                if not source
                else "may not have more than one field specified at a time"
            )
            causes.append(invalid(f"{where}.valueFrom", "", text))
        elif variable.get("value"):
            text = "may not be specified when `value` is not empty"
            causes.append(invalid(f"{where}.valueFrom", "", text))
    return causes


def _mounts(mounts: Iterable[Json], path: str, volumes: set[str]) -> list[FieldCause]:
    causes = []
    seen: set[str] = set()
    for index, mount in enumerate(mounts):
        where = f"{path}[{index}]"
        name, mount_path = mount.get("name", ""), mount.get("mountPath", "")
        if not name:
            causes.append(required(f"{where}.name"))
        elif name not in volumes:
            causes.append(not_found(f"{where}.name", name))
        if not mount_path:
            causes.append(required(f"{where}.mountPath"))
        elif mount_path in seen:
            causes.append(invalid(f"{where}.mountPath", mount_path, "must be unique"))
        seen.add(mount_path)
    return causes


def _volumes(volumes: Iterable[Json], path: str) -> list[FieldCause]:
    causes = []
    seen: set[str] = set()
    for index, volume in enumerate(volumes):
        where = f"{path}[{index}]"
        name = volume.get("name", "")
        if not name:
            causes.append(required(f"{where}.name"))
        else:
            causes += check_name(name, f"{where}.name", names.label)
        if name in seen:
            causes.append(duplicate(f"{where}.name", name))
        seen.add(name)
        sources = [field for field in volume if field != "name"]
        if not sources:
            causes.append(required(where, _VOLUME_SOURCES_TEXT))
        for extra in sources[1:]:
            text = "may not specify more than 1 volume type"
            causes.append(forbidden(f"{where}.{extra}", text))
    return causes


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
    soft = "preferredDuringSchedulingIgnoredDuringExecution"
    for index, preferred in enumerate(node.get(soft, ())):
        if not 1 <= preferred.get("weight", 0) <= 100:
            text = "must be in the range 1-100"
            causes.append(
                invalid(f"{where}.{soft}[{index}].weight", preferred.get("weight", 0), text)
            )
        causes += _node_term(preferred.get("preference", {}), f"{where}.{soft}[{index}].preference")
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
