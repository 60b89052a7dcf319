"""apiregistration.k8s.io/v1 APIService: who serves a version of a group."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from multiqueue.embedded.server.builtin.columns import AGE, column, condition
from multiqueue.embedded.server.builtin.pod_defaults import child
from multiqueue.embedded.server.causes import FieldCause, invalid, required
from multiqueue.embedded.server.kinds import Hooks, JsonObject, RequestContext
from multiqueue.lib import object_names as names

Json = Mapping[str, Any]

KEY = ("apiregistration.k8s.io", "apiservices")
AVAILABLE = "Available"
LOCAL = {
    "type": AVAILABLE,
    "status": "True",
    "reason": "Local",
    "message": "Local APIServices are always available",
}
DEFAULT_PORT = 443
_LIMITS = (("groupPriorityMinimum", 20_000), ("versionPriority", 1000))


def _default(obj: JsonObject) -> None:
    spec = child(obj, "spec")
    for field, _ in _LIMITS:
        spec.setdefault(field, 0)
    if isinstance(service := spec.get("service"), dict):
        service.setdefault("port", DEFAULT_PORT)


def _prepare_create(obj: JsonObject, _context: RequestContext) -> None:
    obj["status"] = {}


def _validate(obj: JsonObject) -> list[FieldCause]:
    spec, name = obj["spec"], obj["metadata"].get("name", "")
    group, version = spec.get("group", ""), spec.get("version", "")
    causes = []
    if name != f"{version}.{group}":
        text = f'must be `spec.version+"."+spec.group`: "{version}.{group}"'
        causes.append(invalid("metadata.name", name, text))
    if group:
        causes += [invalid("spec.group", group, text) for text in names.subdomain(group)]
    elif version != "v1":
        text = "only v1 may have an empty group and it better be legacy kube"
        causes.append(required("spec.group", text))
    causes += [invalid("spec.version", version, text) for text in names.label_1035(version)]
    causes += [
        invalid(f"spec.{field}", spec[field], f"must be positive and less than {limit}")
        for field, limit in _LIMITS
        if not 0 < spec[field] <= limit
    ]
    return causes + _validate_client(spec)


def _validate_client(spec: Json) -> list[FieldCause]:
    service, path = spec.get("service"), "spec.insecureSkipTLSVerify"
    skips = spec.get("insecureSkipTLSVerify", False)
    if service is None:
        causes = []
        if spec.get("caBundle"):
            text = "local APIServices may not have a caBundle"
            causes.append(invalid("spec.caBundle", spec["caBundle"], text))
        if skips:
            text = "local APIServices may not have insecureSkipTLSVerify"
            causes.append(invalid(path, skips, text))
        return causes
    causes = [
        required(f"spec.service.{field}")
        for field in ("namespace", "name")
        if not service.get(field)
    ]
    if texts := names.port_number(service["port"]):
        text = f"port is not valid: {texts[0]}"
        causes.append(invalid("spec.service.port", service["port"], text))
    if skips and spec.get("caBundle"):
        causes.append(invalid(path, skips, "may not be true if caBundle is present"))
    return causes


def _service(obj: Json, _now: datetime) -> str:
    service = obj["spec"].get("service")
    return f"{service['namespace']}/{service['name']}" if service else "Local"


def _available(obj: Json, _now: datetime) -> str:
    found = condition(obj, AVAILABLE)
    status = str(found.get("status", "Unknown"))
    return status if status == "True" or not found else f"{status} ({found.get('reason', '')})"


API_SERVICE_HOOKS = Hooks(
    default=_default,
    prepare_create=_prepare_create,
    validate_create=lambda obj, _context: _validate(obj),
    validate_update=lambda obj, _old, _context: _validate(obj),
)
API_SERVICE_COLUMNS = (column("Service", _service), column("Available", _available), AGE)
