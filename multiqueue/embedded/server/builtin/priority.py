"""scheduling.k8s.io/v1 PriorityClass, and how a Pod's priority comes from it."""

from collections.abc import Mapping
from typing import Any

from multiqueue.embedded.server.causes import FieldCause, forbidden, invalid, not_supported
from multiqueue.embedded.server.kinds import AdmissionRefused, Hooks, JsonObject, RequestContext

GROUP, PLURAL = "scheduling.k8s.io", "priorityclasses"
HIGHEST_USER_VALUE = 1_000_000_000
SYSTEM_CLASSES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
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


def _validate_create(obj: JsonObject, context: RequestContext) -> list[FieldCause]:
    name, value = obj["metadata"]["name"], obj["value"]
    causes = []
    if name.startswith("system-") and SYSTEM_CLASSES.get(name) != value:
        text = (
            "priority class names with 'system-' prefix are reserved for system use only. "
            f"error: {name} is not a known system priority class"
        )
        causes.append(forbidden("metadata.name", text))
    elif value > HIGHEST_USER_VALUE and name not in SYSTEM_CLASSES:
        text = f"maximum allowed value of a user defined priority is {HIGHEST_USER_VALUE}"
        causes.append(forbidden("value", text))
    if obj["preemptionPolicy"] not in PREEMPTION_POLICIES:
        causes.append(
            not_supported("preemptionPolicy", obj["preemptionPolicy"], PREEMPTION_POLICIES)
        )
    return causes + _one_default(obj, context)


def _one_default(obj: JsonObject, context: RequestContext) -> list[FieldCause]:
    other = _global_default(context) if obj.get("globalDefault") else None
    if other is None or other["metadata"]["name"] == obj["metadata"]["name"]:
        return []
    name = other["metadata"]["name"]
    text = f"PriorityClass {name} is already marked as default. Only one default can exist"
    return [forbidden("globalDefault", text)]


def _validate_update(
    new: JsonObject, old: Mapping[str, Any], context: RequestContext
) -> list[FieldCause]:
    causes = [
        forbidden(field, "may not be changed in an update.")
        if field == "value"
        else invalid(field, new.get(field), "field is immutable")
        for field in ("value", "preemptionPolicy")
        if new.get(field) != old.get(field)
    ]
    return causes + _one_default(new, context)


PRIORITY_CLASS_HOOKS = Hooks(
    default=_default, validate_create=_validate_create, validate_update=_validate_update
)
