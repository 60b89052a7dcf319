"""Events: one stored object, shown as core/v1 and as events.k8s.io/v1."""

from collections.abc import Callable, Mapping
from typing import Any

from multiqueue.embedded.server.causes import FieldCause, invalid, required
from multiqueue.embedded.server.kinds import Hooks, JsonObject, RequestContext

Json = Mapping[str, Any]

_RENAMED = (
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
)


def to_core(event: JsonObject) -> JsonObject:
    """From events.k8s.io/v1 to the stored form."""
    names = {new: old for old, new in _RENAMED}
    renamed = {names.get(key, key): value for key, value in event.items()}
    return {**renamed, "apiVersion": "v1", "kind": "Event"}


def from_core(event: JsonObject) -> JsonObject:
    """From the stored form to events.k8s.io/v1."""
    names = dict(_RENAMED)
    renamed = {names.get(key, key): value for key, value in event.items()}
    return {**renamed, "apiVersion": "events.k8s.io/v1", "kind": "Event"}


def _validate_core(event: JsonObject, _context: RequestContext) -> list[FieldCause]:
    """An event lives in the namespace of its object, or in "default" for objects without one."""
    namespace = event.get("involvedObject", {}).get("namespace", "")
    own = event["metadata"].get("namespace", "")
    if namespace == own or (not namespace and own in {"", "default", "kube-system"}):
        return []
    return [invalid("involvedObject.namespace", namespace, "does not match event.namespace")]


def _validate_new(event: JsonObject, context: RequestContext) -> list[FieldCause]:
    causes = _validate_core({**event, "involvedObject": event.get("regarding", {})}, context)
    causes += [
        required(field)
        for field in ("eventTime", "reportingController", "reportingInstance", "action", "reason")
        if not event.get(field)
    ]
    if event.get("type") not in {"Normal", "Warning"}:
        causes.append(invalid("type", event.get("type", ""), "has invalid value: "))
    return causes


CORE_EVENT_HOOKS = Hooks(validate_create=_validate_core)
NEW_EVENT_HOOKS = Hooks(validate_create=_validate_new)


def _at(*path: str) -> Callable[[Json], str]:
    def read(obj: Json) -> str:
        value: Any = obj
        for name in path:
            value = value.get(name, "") if isinstance(value, Mapping) else ""
        return str(value or "")

    return read


def _source(event: Json) -> str:
    return _at("source", "component")(event) or _at("reportingComponent")(event)


_REFERENCE = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")

CORE_EVENT_FIELDS: Mapping[str, Callable[[Json], str]] = {
    **{f"involvedObject.{name}": _at("involvedObject", name) for name in _REFERENCE},
    "reason": _at("reason"),
    "reportingComponent": _at("reportingComponent"),
    "source": _source,
    "type": _at("type"),
}
NEW_EVENT_FIELDS: Mapping[str, Callable[[Json], str]] = {
    **{f"regarding.{name}": _at("regarding", name) for name in _REFERENCE},
    "reason": _at("reason"),
    "reportingController": _at("reportingController"),
    "type": _at("type"),
}
