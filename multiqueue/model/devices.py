"""Devices that pods ask for by dynamic resource allocation, counted as quota (E-175 to E-177).

A pod names ResourceClaimTemplates, which ask for devices of a DeviceClass, or it requests an
extended resource that a DeviceClass offers. Both count as the resource to which the Configuration
maps the class. Pure; templates are opaque dicts in wire format. Nothing here raises: a claim that
cannot be counted becomes a problem, which keeps the Workload from being admitted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from multiqueue.lib.amount import Amount, add
from multiqueue.lib.quantity import NANO, QuantityError, parse_quantity
from multiqueue.model.resources import clamp_request

Json = Mapping[str, Any]

DISABLED = (
    "Workload uses DRA resources but the KueueDRAIntegration feature gate is not enabled; "
    "enable it, or remove spec.resourceClaims from the pods"
)
EXACT, ALL = "ExactCount", "All"
"""Allocation modes of a device request."""
_ONE_REQUEST = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceRules:
    """How the Configuration has devices counted.

    Attributes:
        counted: Gate KueueDRAIntegration.
        refused: Without that gate: KueueDRARejectWorkloadsWhenDRADisabled.
        extended: Gate KueueDRAIntegrationExtendedResource.
        resources: The quota resource of each mapped DeviceClass.
    """

    counted: bool = False
    refused: bool = False
    extended: bool = False
    resources: Mapping[str, str] = field(default_factory=dict)


NOT_COUNTED = DeviceRules()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceCatalog:
    """The objects that say what the pods of a namespace ask for.

    Attributes:
        templates: The spec of the claim of each ResourceClaimTemplate in the namespace.
        extended: The DeviceClass that offers each extended resource.
    """

    templates: Mapping[str, Json] = field(default_factory=dict)
    extended: Mapping[str, str] = field(default_factory=dict)


EMPTY_CATALOG = DeviceCatalog()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceCharge:
    """What the devices of one pod count as.

    Attributes:
        requests: Devices of one pod by quota resource.
        replaced: Extended resources that are counted there, and no longer under their own name.
        problems: Why they cannot be counted.
    """

    requests: Mapping[str, Amount] = field(default_factory=dict)
    replaced: frozenset[str] = frozenset()
    problems: tuple[str, ...] = ()

    def replace_in(self, requests: Mapping[str, Amount]) -> dict[str, Amount]:
        """Return the requests of one pod, with its devices under the names that count (E-177)."""
        kept = {name: value for name, value in requests.items() if name not in self.replaced}
        _add(kept, self.requests)
        return dict(sorted(kept.items()))


NO_DEVICES = DeviceCharge()


class _ClaimError(Exception):
    """A claim that cannot be counted; the message says why and what to do."""


def choose_classes(classes: Iterable[Json]) -> dict[str, str]:
    """Return the DeviceClass that offers each extended resource.

    If several offer one, Kubernetes takes the newest; of those of the same second, the first name.
    """
    chosen: dict[str, str] = {}
    by_name = sorted(classes, key=lambda obj: str(obj["metadata"]["name"]), reverse=True)
    for obj in sorted(by_name, key=lambda obj: str(obj["metadata"].get("creationTimestamp"))):
        name = (obj.get("spec") or {}).get("extendedResourceName")
        if name:
            chosen[name] = str(obj["metadata"]["name"])
    return dict(sorted(chosen.items()))


def charge_devices(
    template: Json,
    requests: Mapping[str, Amount],
    rules: DeviceRules,
    catalog: DeviceCatalog | None,
) -> DeviceCharge:
    """Return what the devices of one pod count as.

    Args:
        template: The pod template.
        requests: What one pod requests, before transformations.
        rules: How the Configuration has devices counted.
        catalog: The claim templates of its namespace, and the DeviceClasses; None if they are not
            known, so that nothing can be counted.

    Parity: E-175, KEP-2941. Deviates: the selectors of a request are left to the scheduler of pods.
    """
    spec = template.get("spec")
    spec = spec if isinstance(spec, Mapping) else {}
    claims = [claim for claim in spec.get("resourceClaims") or () if isinstance(claim, Mapping)]
    if not rules.counted:
        return DeviceCharge(problems=(DISABLED,)) if claims and rules.refused else NO_DEVICES
    if catalog is None:
        return NO_DEVICES
    offered = {name: requests[name] for name in catalog.extended.keys() & requests.keys()}
    if not claims and not (offered and rules.extended):
        return NO_DEVICES
    charge: dict[str, Amount] = {}
    try:
        for claim in claims:
            _add(charge, _charge_claim(claim, rules, catalog))
        replaced = _charge_extended(charge, spec, offered, rules, catalog)
    except _ClaimError as error:
        return DeviceCharge(problems=(str(error),))
    return DeviceCharge(requests=dict(sorted(charge.items())), replaced=frozenset(replaced))


def _charge_claim(claim: Json, rules: DeviceRules, catalog: DeviceCatalog) -> dict[str, Amount]:
    """Return the devices of one entry of ``spec.resourceClaims`` by quota resource (E-176)."""
    if claim.get("resourceClaimName"):
        raise _ClaimError(
            f'resource claim "{claim["resourceClaimName"]}": a ResourceClaim that pods share is '
            "not supported; name a ResourceClaimTemplate instead"
        )
    name = claim.get("resourceClaimTemplateName")
    if not name:
        return {}
    wanted = catalog.templates.get(name)
    if wanted is None:
        raise _ClaimError(f'ResourceClaimTemplate "{name}" not found; create it in the namespace')
    charge: dict[str, Amount] = {}
    for i, request in enumerate((wanted.get("devices") or {}).get("requests") or ()):
        try:
            device_class, count = _read_request(request)
            if not device_class:
                continue
            resource = _find_resource(device_class, rules)
        except _ClaimError as error:
            message = f'ResourceClaimTemplate "{name}": devices.requests[{i}]: {error}'
            raise _ClaimError(message) from error
        _add(charge, {resource: count})
    return charge


def _find_resource(device_class: str, rules: DeviceRules) -> str:
    if device_class in rules.resources:
        return rules.resources[device_class]
    raise _ClaimError(
        f'DeviceClass "{device_class}" is not mapped; add it to resources.deviceClassMappings of '
        "the Configuration"
    )


def _read_request(request: Json) -> tuple[str, Amount]:
    """Return DeviceClass and number of devices; no class if nothing counts."""
    if request.get("firstAvailable"):
        raise _ClaimError("firstAvailable is not supported; use exactly")
    exactly = request.get("exactly")
    if not isinstance(exactly, Mapping):
        raise _ClaimError("exactly is missing; set it")
    if exactly.get("adminAccess"):
        return "", 0  # it looks at devices that others use
    mode = exactly.get("allocationMode") or EXACT
    if mode != EXACT:
        raise _ClaimError(f'allocationMode "{mode}" is not supported; use {EXACT}')
    count = exactly.get("count")
    return str(exactly.get("deviceClassName") or ""), _ONE_REQUEST if count is None else int(count)


def _charge_extended(
    charge: dict[str, Amount],
    spec: Json,
    offered: Mapping[str, Amount],
    rules: DeviceRules,
    catalog: DeviceCatalog,
) -> list[str]:
    """Add extended resources that DeviceClasses offer; return the requested ones (E-177)."""
    replaced = []
    for name in sorted(offered) if rules.extended else ():
        if offered[name] <= 0:
            continue
        for quantity in _asked_of(spec, name):
            if not _is_whole(quantity):
                raise _ClaimError(
                    f"requests.{name}: {quantity}: a number of devices must be an integer"
                )
        _add(charge, {rules.resources.get(catalog.extended[name], name): offered[name]})
        replaced.append(name)
    return replaced


def _asked_of(spec: Json, resource: str) -> Iterator[Any]:
    """Yield what each container requests of a resource, as written."""
    for which in ("containers", "initContainers"):
        for container in spec.get(which) or ():
            resources = container.get("resources") if isinstance(container, Mapping) else None
            for part in ("requests", "limits"):
                found = ((resources or {}).get(part) or {}).get(resource)
                if found is not None:
                    yield found


def _is_whole(raw: Any) -> bool:
    try:
        return parse_quantity(raw).nano % NANO == 0
    except QuantityError:
        return True  # the reader of requests has reported it


def _add(charge: dict[str, Amount], more: Mapping[str, Amount]) -> None:
    for resource, count in more.items():
        charge[resource] = clamp_request(add(charge.get(resource, 0), count))
