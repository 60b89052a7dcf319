"""scheduling.k8s.io/v1 PriorityClass, and how a Pod's priority comes from it."""

from collections.abc import Mapping
from typing import Any

from multiqueue.embedded.server.causes import FieldCause, forbidden, invalid, not_supported
from multiqueue.embedded.server.kinds import AdmissionRefused, Hooks, JsonObject, RequestContext

GROUP, PLURAL = "scheduling.k8s.io", "priorityclasses"
PREEMPTION_POLICIES = ("PreemptLowerPriority", "Never")


def resolve_priority(spec: JsonObject, context: RequestContext) -> None:
    """Set priority and preemptionPolicy of a Pod spec from its class, or from the global default.

    Raises:
        AdmissionRefused: there is no such class, or the Pod names another priority than its class.
    """
    name = spec.get("priorityClassName")
    found = context.get(GROUP, PLURAL, None, name) if name else _global_default(context)
    if name and found is None:
        raise AdmissionRefused(f"no PriorityClass with name {name} was found")
    priority = found["value"] if found else 0
    policy = (found or {}).get("preemptionPolicy", PREEMPTION_POLICIES[0])
    _take(spec, "priority", priority, "the integer value of priority")
    _take(spec, "preemptionPolicy", policy, "the string value of PreemptionPolicy")
    if found and not name:
        spec["priorityClassName"] = found["metadata"]["name"]


def _take(spec: JsonObject, field: str, value: Any, words: str) -> None:
    if spec.get(field, value) != value:
        raise AdmissionRefused(
            f"{words} ({spec[field]}) must not be provided in pod spec; "
            f"priority admission controller computed {value} from the given PriorityClass name"
        )
    spec[field] = value


def _global_default(context: RequestContext) -> Mapping[str, Any] | None:
    """The global default; of several, the lowest."""
    classes = [found for found in context.list(GROUP, PLURAL, None) if found.get("globalDefault")]
    return min(classes, key=lambda found: (found["value"], found["metadata"]["name"]), default=None)


def _default(obj: JsonObject) -> None:
    obj.setdefault("preemptionPolicy", PREEMPTION_POLICIES[0])
    obj.setdefault("value", 0)


def _validate_create(obj: JsonObject, _context: RequestContext) -> list[FieldCause]:
    policy = obj["preemptionPolicy"]
    if policy in PREEMPTION_POLICIES:
        return []
    return [not_supported("preemptionPolicy", policy, PREEMPTION_POLICIES)]


def _validate_update(
    new: JsonObject, old: Mapping[str, Any], _context: RequestContext
) -> list[FieldCause]:
    return [
        forbidden(field, "may not be changed in an update.")
        if field == "value"
        else invalid(field, new.get(field), "field is immutable")
        for field in ("value", "preemptionPolicy")
        if new.get(field) != old.get(field)
    ]


PRIORITY_CLASS_HOOKS = Hooks(
    default=_default, validate_create=_validate_create, validate_update=_validate_update
)
