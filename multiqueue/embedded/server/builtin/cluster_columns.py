"""The columns of nodes, events, configuration and policy kinds."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from multiqueue.embedded.server.ages import UNKNOWN, age
from multiqueue.embedded.server.builtin.columns import (
    AGE,
    CREATED_AT,
    NONE,
    at,
    column,
    condition,
    count_at,
    labels_text,
)

Json = Mapping[str, Any]

_ROLE_PREFIX = "node-role.kubernetes.io/"


def node_status(node: Json, _now: datetime) -> str:
    """Ready, NotReady or Unknown, and whether new Pods may come."""
    ready = condition(node, "Ready").get("status")
    words = ["Unknown" if ready is None else "Ready" if ready == "True" else "NotReady"]
    if node.get("spec", {}).get("unschedulable"):
        words.append("SchedulingDisabled")
    return ",".join(words)


def _roles(node: Json, _now: datetime) -> str:
    labels = node["metadata"].get("labels", {})
    roles = {key.removeprefix(_ROLE_PREFIX) for key in labels if key.startswith(_ROLE_PREFIX)}
    return ",".join(sorted(filter(None, roles))) or NONE


def _address(kind: str) -> Any:
    def cell(node: Json, _now: datetime) -> str:
        addresses = node.get("status", {}).get("addresses", ())
        return next((found["address"] for found in addresses if found["type"] == kind), NONE)

    return cell


def _info(field: str) -> Any:
    return at("status", "nodeInfo", field, default=UNKNOWN)


NODE_COLUMNS = (
    column("Status", node_status),
    column("Roles", _roles),
    AGE,
    column("Version", at("status", "nodeInfo", "kubeletVersion")),
    column("Internal-IP", _address("InternalIP"), wide=True),
    column("External-IP", _address("ExternalIP"), wide=True),
    column("OS-Image", _info("osImage"), wide=True),
    column("Kernel-Version", _info("kernelVersion"), wide=True),
    column("Container-Runtime", _info("containerRuntimeVersion"), wide=True),
)
NAMESPACE_COLUMNS = (column("Status", at("status", "phase")), AGE)
SECRET_COLUMNS = (column("Type", at("type")), column("Data", count_at("data"), kind="integer"), AGE)


def _config_size(config: Json, _now: datetime) -> int:
    return len(config.get("data", ())) + len(config.get("binaryData", ()))


CONFIG_MAP_COLUMNS = (column("Data", _config_size, kind="integer"), AGE)


def _last_seen(event: Json, now: datetime) -> str:
    series = event.get("series", {})
    seen = series.get("lastObservedTime") or event.get("lastTimestamp") or _first_time(event)
    return age(seen, now)


def _first_time(event: Json) -> Any:
    created = event["metadata"].get("creationTimestamp")
    return event.get("firstTimestamp") or event.get("eventTime") or created


def _first_seen(event: Json, now: datetime) -> str:
    return age(_first_time(event), now)


def _object(event: Json, _now: datetime) -> str:
    about = event.get("involvedObject") or {}
    return f"{about.get('kind', '').lower()}/{about.get('name', '')}"


def _subobject(event: Json, _now: datetime) -> str:
    return str((event.get("involvedObject") or {}).get("fieldPath", ""))


def _source(event: Json, _now: datetime) -> str:
    source = event.get("source") or {}
    parts = (source.get("component") or event.get("reportingComponent"), source.get("host"))
    return ", ".join(filter(None, parts))


def _message(event: Json, _now: datetime) -> str:
    return str(event.get("message") or "").strip()


def _count(event: Json, _now: datetime) -> int:
    series = event.get("series", {})
    return int(series.get("count") or event.get("count") or 1)


EVENT_COLUMNS = (
    column("Last Seen", _last_seen),
    column("Type", at("type")),
    column("Reason", at("reason")),
    column("Object", _object),
    column("Subobject", _subobject, wide=True),
    column("Source", _source, wide=True),
    column("Message", _message),
    column("First Seen", _first_seen, wide=True),
    column("Count", _count, kind="integer", wide=True),
    column("Name", at("metadata", "name"), wide=True),
)


def _ports(service: Json, _now: datetime) -> str:
    shown = [
        f"{port['port']}:{port['nodePort']}/{port['protocol']}"
        if port.get("nodePort")
        else f"{port['port']}/{port['protocol']}"
        for port in service["spec"].get("ports", ())
    ]
    return ",".join(shown) or NONE


SERVICE_COLUMNS = (
    column("Type", at("spec", "type")),
    column("Cluster-IP", at("spec", "clusterIP", default=NONE)),
    column("External-IP", at("spec", "externalName", default=NONE)),
    column("Port(s)", _ports),
    AGE,
    column("Selector", lambda obj, _now: labels_text(obj["spec"].get("selector", {})), wide=True),
)
SERVICE_ACCOUNT_COLUMNS = (AGE,)


LIMIT_RANGE_COLUMNS = (CREATED_AT,)


def _quota(*, limits: bool) -> Any:
    def cell(quota: Json, _now: datetime) -> str:
        used = quota.get("status", {}).get("used", {})
        hard = quota.get("spec", {}).get("hard", {})
        return ", ".join(
            f"{name}: {used.get(name, '0')}/{amount}"
            for name, amount in sorted(hard.items())
            if name.startswith("limits.") is limits
        )

    return cell


QUOTA_COLUMNS = (column("Request", _quota(limits=False)), column("Limit", _quota(limits=True)), AGE)
PRIORITY_CLASS_COLUMNS = (
    column("Value", at("value"), kind="integer"),
    column("Global-Default", lambda obj, _now: bool(obj.get("globalDefault")), kind="boolean"),
    AGE,
    column("PreemptionPolicy", at("preemptionPolicy")),
)
RUNTIME_CLASS_COLUMNS = (column("Handler", at("handler")), AGE)
LEASE_COLUMNS = (column("Holder", at("spec", "holderIdentity")), AGE)
BUDGET_COLUMNS = (
    column("Min Available", lambda obj, _now: str(obj["spec"].get("minAvailable", "N/A"))),
    column("Max Unavailable", lambda obj, _now: str(obj["spec"].get("maxUnavailable", "N/A"))),
    column("Allowed Disruptions", at("status", "disruptionsAllowed", default=0), kind="integer"),
    AGE,
)


def _role(binding: Json, _now: datetime) -> str:
    return f"{binding['roleRef'].get('kind', '')}/{binding['roleRef'].get('name', '')}"


def _subjects(kind: str) -> Any:
    def cell(binding: Json, _now: datetime) -> str:
        return ", ".join(
            f"{found['namespace']}/{found['name']}" if found.get("namespace") else found["name"]
            for found in binding.get("subjects", ())
            if found.get("kind") == kind
        )

    return cell


ROLE_COLUMNS = (CREATED_AT,)
ROLE_BINDING_COLUMNS = (
    column("Role", _role),
    AGE,
    column("Users", _subjects("User"), wide=True),
    column("Groups", _subjects("Group"), wide=True),
    column("ServiceAccounts", _subjects("ServiceAccount"), wide=True),
)
WEBHOOK_COLUMNS = (column("Webhooks", count_at("webhooks"), kind="integer"), AGE)
CRD_COLUMNS = (CREATED_AT,)
