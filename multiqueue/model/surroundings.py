"""What LimitRanges and RuntimeClasses add to pods before quota is requested (E-2, E-10).

Kubernetes does the same when it admits a Pod. A Workload has only templates, which request less
than the pods will. Pure; templates are opaque dicts in wire format and are copied where they
change.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from multiqueue.lib.quantity import Quantity, QuantityError, parse_quantity
from multiqueue.model.devices import DeviceCatalog
from multiqueue.model.pod_template import sum_pod_requests
from multiqueue.model.resources import amount_of, format_amount

Json = Mapping[str, Any]

CONTAINER, POD = "Container", "Pod"


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeLimits:
    """Defaults and bounds for one type, over all LimitRanges of a namespace.

    Shape: the first default counts, the lowest maximum, the highest minimum.
    """

    default: Mapping[str, Any] = field(default_factory=dict)
    default_request: Mapping[str, Any] = field(default_factory=dict)
    minimum: Mapping[str, Quantity] = field(default_factory=dict)
    maximum: Mapping[str, Quantity] = field(default_factory=dict)


NO_LIMITS = RangeLimits()


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceSurroundings:
    """Defaults, bounds and overheads for pods of one namespace.

    Shape: ``limits`` by type; ``overheads`` of a pod by RuntimeClass, in wire format;
    ``devices`` are the claim templates of the namespace and the DeviceClasses, None if nobody
    watches them.
    """

    limits: Mapping[str, RangeLimits] = field(default_factory=dict)
    overheads: Mapping[str, Json] = field(default_factory=dict)
    devices: DeviceCatalog | None = None


NOTHING = NamespaceSurroundings()


def summarize_limit_ranges(limit_ranges: Iterable[Json]) -> dict[str, RangeLimits]:
    """Merge the LimitRanges of a namespace, by type, in the order of their names."""
    summary: dict[str, RangeLimits] = {}
    for limit_range in sorted(limit_ranges, key=lambda obj: str(obj["metadata"]["name"])):
        for item in (limit_range.get("spec") or {}).get("limits") or ():
            known = summary.get(item.get("type", ""), NO_LIMITS)
            summary[item.get("type", "")] = RangeLimits(
                default={**(item.get("default") or {}), **known.default},
                default_request={**(item.get("defaultRequest") or {}), **known.default_request},
                minimum=_merge(known.minimum, item.get("min"), max),
                maximum=_merge(known.maximum, item.get("max"), min),
            )
    return summary


def adjust_template(template: Json, surroundings: NamespaceSurroundings) -> Json:
    """Return the template with the pods' overhead and defaults (E-2a, E-2b)."""
    spec = template.get("spec")
    if not isinstance(spec, Mapping) or not (surroundings.limits or surroundings.overheads):
        return template
    changed = dict(spec)
    overhead = surroundings.overheads.get(spec.get("runtimeClassName") or "")
    if overhead and not spec.get("overhead"):
        changed["overhead"] = overhead
    container = surroundings.limits.get(CONTAINER)
    if container is not None:
        for which in ("containers", "initContainers"):
            if isinstance(spec.get(which), list):
                changed[which] = [_with_defaults(item, container) for item in spec[which]]
    pod = surroundings.limits.get(POD)
    if pod is not None and isinstance(spec.get("resources"), Mapping):
        changed = dict(_with_defaults(changed, pod))
    return {**template, "spec": changed}


def find_broken_limits(template: Json, surroundings: NamespaceSurroundings) -> Iterator[str]:
    """Yield the fields of an adjusted template that violate the namespace's LimitRanges (E-10)."""
    spec = template.get("spec")
    if not isinstance(spec, Mapping) or not surroundings.limits:
        return
    container = surroundings.limits.get(CONTAINER)
    if container is not None:
        for which, word in (("containers", "container"), ("initContainers", "init container")):
            for item in spec.get(which) or ():
                if isinstance(item, Mapping):
                    yield from _broken_by(item, container, f'{word} "{item.get("name")}"')
    pod = surroundings.limits.get(POD)
    if pod is not None:
        yield from _broken_total(template, pod)


def _broken_by(container: Json, limits: RangeLimits, where: str) -> Iterator[str]:
    resources = container.get("resources") or {}
    requests, most = (_quantities(resources.get(key)) for key in ("requests", "limits"))
    for resource in sorted(requests.keys() | most.keys()):
        asked = [side[resource] for side in (requests, most) if resource in side]
        low, high = limits.minimum.get(resource), limits.maximum.get(resource)
        if low is not None and min(asked) < low:
            yield _words(where, min(asked), resource, f"less than the minimum {low}")
        if high is not None and max(asked) > high:
            yield _words(where, max(asked), resource, f"more than the maximum {high}")


def _broken_total(template: Json, limits: RangeLimits) -> Iterator[str]:
    requests = sum_pod_requests(template).requests
    for resource in sorted(requests):
        low, high = limits.minimum.get(resource), limits.maximum.get(resource)
        if low is not None and requests[resource] < amount_of(resource, low):
            asked = format_amount(resource, requests[resource])
            yield _words("the pod", asked, resource, f"less than the minimum {low}")
        if high is not None and requests[resource] > amount_of(resource, high):
            asked = format_amount(resource, requests[resource])
            yield _words("the pod", asked, resource, f"more than the maximum {high}")


def _words(where: str, asked: object, resource: str, problem: str) -> str:
    return f"{where} asks for {asked} {resource}, {problem} of the namespace's LimitRanges"


def _with_defaults(holder: Any, limits: RangeLimits) -> Any:
    if not isinstance(holder, Mapping):
        return holder
    resources = holder.get("resources")
    resources = resources if isinstance(resources, Mapping) else {}
    filled = {
        **resources,
        "limits": {**limits.default, **(resources.get("limits") or {})},
        "requests": {**limits.default_request, **(resources.get("requests") or {})},
    }
    return {**holder, "resources": {key: value for key, value in filled.items() if value}}


def _merge(known: Mapping[str, Quantity], raw: Any, choose: Any) -> dict[str, Quantity]:
    merged = dict(known)
    for resource, value in _quantities(raw).items():
        merged[resource] = choose(merged[resource], value) if resource in merged else value
    return merged


def _quantities(raw: Any) -> dict[str, Quantity]:
    """Parse the valid quantities; `sum_pod_requests` reports the others."""
    parsed = {}
    for resource, text in (raw or {}).items():
        try:
            parsed[resource] = parse_quantity(text)
        except QuantityError:
            continue
    return parsed
