"""What the engine needs of a pod template: fields, and requests of one pod (E-2c, E-3, E-10).

Requests are added up as the Kubernetes scheduler does, over containers, init containers, sidecars,
pod-level resources and overhead. Nothing here raises: an invalid field becomes a problem. A
Workload is read again at each change of its status, by several readers, and many jobs have equal
pods, so equal templates are read once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from multiqueue.lib.amount import Amount
from multiqueue.lib.quantity import Quantity, QuantityError, parse_quantity
from multiqueue.model.placement import Placement, read_placement
from multiqueue.model.resources import amount_of, clamp_request

REMEMBERED = 4096
"""Templates to remember; the least recently used one is dropped."""
LONGEST = 16_384
"""Size limit in bytes of a remembered template; one with a script may be a hundred times larger."""


class PodTemplate(NamedTuple):
    """The fields that were read. Shared, so they must not be changed.

    Attributes:
        pod: The requests of one pod.
        placement: Where the pod may run.
        problems: The invalid fields of its placement.
    """

    pod: PodRequests
    placement: Placement
    problems: tuple[str, ...]


def read_pod_template(template: Mapping[str, Any]) -> PodTemplate:
    """Read the requests of a template, and where its pods may run."""
    spec = msgspec.json.encode(template.get("spec"))
    return _recall(spec) if len(spec) <= LONGEST else _read(spec)


def _read(spec: bytes) -> PodTemplate:
    template = {"spec": msgspec.json.decode(spec)}
    return PodTemplate(sum_pod_requests(template), *read_placement(template))


_recall = lru_cache(maxsize=REMEMBERED)(_read)


Totals = dict[str, int]
"""Exact units by resource."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodRequests:
    """Requests of one pod, and the problems that prevent its admission."""

    requests: Mapping[str, Amount] = field(default_factory=dict)
    problems: tuple[str, ...] = ()


def sum_pod_requests(template: Mapping[str, Any]) -> PodRequests:
    """Add up what one pod of the template requests."""
    spec = _mapping(template.get("spec"))
    problems: list[str] = []
    containers = [_requests(c, problems, "container") for c in _list(spec.get("containers"))]
    total = _sum(containers)
    started: Totals = {}  # sidecars that run beside the current init container
    peak: Totals = {}
    for container in _list(spec.get("initContainers")):
        requests = _requests(container, problems, "init container")
        if container.get("restartPolicy") == "Always":
            total = _sum((total, requests))
            started = _sum((started, requests))
            peak = _maximum(peak, started)
        else:
            peak = _maximum(peak, _sum((started, requests)))
    total = _maximum(total, peak)
    pod_level = {"name": "", "resources": spec.get("resources")}
    total.update(_requests(pod_level, problems, "pod"))
    overhead = _quantities(_mapping(spec.get("overhead")), problems, "pod overhead")
    total = _sum((total, {name: amount_of(name, value) for name, value in overhead.items()}))
    return PodRequests(
        requests={name: clamp_request(value) for name, value in sorted(total.items())},
        problems=tuple(problems),
    )


def _requests(container: Mapping[str, Any], problems: list[str], what: str) -> Totals:
    """Return the requests of a container; a missing one is copied from its limit (E-2c)."""
    name = container.get("name")
    where = f'{what} "{name}"' if name else what
    resources = _mapping(container.get("resources"))
    limits = _quantities(_mapping(resources.get("limits")), problems, f"limits of {where}")
    requests = _quantities(_mapping(resources.get("requests")), problems, f"requests of {where}")
    for resource, limit in sorted(limits.items()):
        if requests.setdefault(resource, limit) > limit:
            problems.append(
                f"{where} requests {requests[resource]} {resource}, more than its limit {limit}; "
                "lower the request or raise the limit"
            )
    return {resource: amount_of(resource, value) for resource, value in requests.items()}


def _quantities(raw: Mapping[str, Any], problems: list[str], where: str) -> dict[str, Quantity]:
    quantities: dict[str, Quantity] = {}
    for resource, text in sorted(raw.items()):
        try:
            quantity = parse_quantity(text)
        except QuantityError as error:
            problems.append(f"{where}: {resource}: {error}")
            continue
        if quantity.sign < 0:
            problems.append(f"{where}: {resource}: {text} is negative; use 0 or more")
            continue
        quantities[resource] = quantity
    return quantities


def _sum(parts: Iterable[Mapping[str, int]]) -> Totals:
    total: Totals = {}
    for part in parts:
        for resource, value in part.items():
            total[resource] = total.get(resource, 0) + value
    return total


def _maximum(left: Totals, right: Totals) -> Totals:
    return {name: max(left.get(name, 0), right.get(name, 0)) for name in [*left, *right]}


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: Any) -> list[Mapping[str, Any]]:
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []
