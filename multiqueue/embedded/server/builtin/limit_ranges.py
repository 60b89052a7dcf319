"""core/v1 LimitRange: defaults and bounds for the containers and Pods of a namespace."""

from collections.abc import Iterable, Mapping
from typing import Any

from multiqueue.embedded.server.builtin.pod_defaults import child
from multiqueue.embedded.server.causes import FieldCause, invalid, not_supported
from multiqueue.embedded.server.kinds import AdmissionRefused, Hooks, JsonObject, RequestContext
from multiqueue.lib.quantity import Quantity, parse_quantity

Json = Mapping[str, Any]

_TYPES = ("Pod", "Container", "PersistentVolumeClaim")


def apply_limit_ranges(pod: JsonObject, context: RequestContext) -> None:
    """Fill in the defaults of the namespace's LimitRanges, then check their bounds.

    Raises:
        AdmissionRefused: a bound is broken; all reasons are listed.
    """
    items = [
        item
        for limit_range in context.list("", "limitranges", pod["metadata"].get("namespace"))
        for item in limit_range.get("spec", {}).get("limits", ())
    ]
    if not items:
        return
    containers = [*pod["spec"].get("initContainers", ()), *pod["spec"].get("containers", ())]
    for item in items:
        if item.get("type") == "Container":
            for container in containers:
                _fill(child(container, "resources"), item)
    reasons = list(_broken_bounds(items, pod["spec"], containers))
    if reasons:
        text = reasons[0] if len(reasons) == 1 else f"[{', '.join(reasons)}]"
        raise AdmissionRefused(text)


def _fill(resources: JsonObject, item: Json) -> None:
    for field, defaults in (("limits", "default"), ("requests", "defaultRequest")):
        for name, amount in item.get(defaults, {}).items():
            child(resources, field).setdefault(name, amount)


def _broken_bounds(
    items: Iterable[Json], spec: Json, containers: list[JsonObject]
) -> Iterable[str]:
    for item in items:
        if item.get("type") == "Container":
            for container in containers:
                yield from _broken(item, container["resources"], "Container")
        elif item.get("type") == "Pod":
            yield from _broken(item, _total(spec.get("containers", ())), "Pod")


def _total(containers: Iterable[Json]) -> JsonObject:
    total: dict[str, dict[str, Quantity]] = {"requests": {}, "limits": {}}
    for container in containers:
        for field, amounts in total.items():
            for name, amount in container.get("resources", {}).get(field, {}).items():
                quantity = parse_quantity(amount)
                amounts[name] = amounts[name] + quantity if name in amounts else quantity
    return {
        field: {name: str(amount) for name, amount in amounts.items()}
        for field, amounts in total.items()
    }


def _broken(item: Json, resources: Json, subject: str) -> Iterable[str]:
    requests, limits = resources.get("requests", {}), resources.get("limits", {})
    for name, bound in item.get("min", {}).items():
        given = requests.get(name)
        if given is None:
            yield f"minimum {name} usage per {subject} is {bound}.  No request is specified"
        elif parse_quantity(given) < parse_quantity(bound):
            yield f"minimum {name} usage per {subject} is {bound}, but request is {given}"
    for name, bound in item.get("max", {}).items():
        given = limits.get(name)
        if given is None:
            yield f"maximum {name} usage per {subject} is {bound}.  No limit is specified"
        elif parse_quantity(given) > parse_quantity(bound):
            yield f"maximum {name} usage per {subject} is {bound}, but limit is {given}"


def _default(limit_range: JsonObject) -> None:
    """For containers: default follows from max, defaultRequest from default or min."""
    for item in limit_range.get("spec", {}).get("limits", ()):
        if item.get("type") != "Container":
            continue
        for name, amount in item.get("max", {}).items():
            child(item, "default").setdefault(name, amount)
        for source in ("default", "min"):
            for name, amount in item.get(source, {}).items():
                child(item, "defaultRequest").setdefault(name, amount)


def _validate(limit_range: JsonObject) -> list[FieldCause]:
    causes = []
    for index, item in enumerate(limit_range.get("spec", {}).get("limits", ())):
        path = f"spec.limits[{index}]"
        kind = item.get("type", "")
        if kind not in _TYPES and "/" not in kind:
            causes.append(not_supported(f"{path}.type", kind, _TYPES))
        for low, high in (("min", "max"), ("defaultRequest", "default"), ("default", "max")):
            causes += _ordered(item, low, high, path)
    return causes


def _ordered(item: Json, low: str, high: str, path: str) -> list[FieldCause]:
    return [
        invalid(
            f"{path}.{low}[{name}]",
            amount,
            f"{low} value {amount} is greater than {high} value {item[high][name]}",
        )
        for name, amount in item.get(low, {}).items()
        if name in item.get(high, {}) and parse_quantity(amount) > parse_quantity(item[high][name])
    ]


LIMIT_RANGE_HOOKS = Hooks(
    default=_default,
    validate_create=lambda obj, _context: _validate(obj),
    validate_update=lambda obj, _old, _context: _validate(obj),
)
