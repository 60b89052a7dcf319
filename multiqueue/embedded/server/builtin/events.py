"""core/v1 Event."""

from collections.abc import Callable, Mapping
from typing import Any

from multiqueue.embedded.server.causes import FieldCause, invalid
from multiqueue.embedded.server.kinds import Hooks, JsonObject, RequestContext

Json = Mapping[str, Any]


def _validate(event: JsonObject, _context: RequestContext) -> list[FieldCause]:
    """An event lives in the namespace of its object, or in "default" for objects without one."""
    namespace = event.get("involvedObject", {}).get("namespace", "")
    own = event["metadata"].get("namespace", "")
    if namespace == own or (not namespace and own in {"", "default", "kube-system"}):
        return []
    return [invalid("involvedObject.namespace", namespace, "does not match event.namespace")]


EVENT_HOOKS = Hooks(validate_create=_validate)


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

EVENT_FIELDS: Mapping[str, Callable[[Json], str]] = {
    **{f"involvedObject.{name}": _at("involvedObject", name) for name in _REFERENCE},
    "reason": _at("reason"),
    "reportingComponent": _at("reportingComponent"),
    "source": _source,
    "type": _at("type"),
}
