"""The resource requests of pods.

Units: cpu in milli, everything else in whole base units.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from multiqueue.lib.quantity import parse_quantity

Amounts = dict[str, int]


@lru_cache(maxsize=4096)
def _amount(resource: str, text: str) -> int:
    quantity = parse_quantity(text)
    return quantity.milli_value() if resource == "cpu" else quantity.value()


def parse_amounts(resources: Mapping[str, Any] | None) -> Amounts:
    """Return a resource list in integers."""
    return {name: _amount(name, str(value)) for name, value in (resources or {}).items()}


def pod_requests(pod: Mapping[str, Any]) -> Amounts:
    """Return a pod's requests as the scheduler counts them.

    These are the sum of containers and sidecars, or the largest init step.

    Parity: Kubernetes' PodRequests, with pod-level resources and overhead.
    """
    spec = pod.get("spec") or {}
    total: Amounts = {}
    _add_all(total, (_container_requests(container) for container in spec.get("containers") or ()))
    sidecars: Amounts = {}
    largest_step: Amounts = {}
    for container in spec.get("initContainers") or ():
        requests = _container_requests(container)
        if container.get("restartPolicy") == "Always":
            _add_all(sidecars, (requests,))
            _add_all(total, (requests,))
            _raise_to(largest_step, sidecars)
        else:
            step = dict(sidecars)
            _add_all(step, (requests,))
            _raise_to(largest_step, step)
    _raise_to(total, largest_step)
    total.update(parse_amounts((spec.get("resources") or {}).get("requests")))
    _add_all(total, (parse_amounts(spec.get("overhead")),))
    total["pods"] = 1
    return total


def _container_requests(container: Mapping[str, Any]) -> Amounts:
    resources = container.get("resources") or {}
    amounts = parse_amounts(resources.get("limits"))
    amounts.update(parse_amounts(resources.get("requests")))
    return amounts


def _add_all(total: Amounts, parts: Iterable[Mapping[str, int]]) -> None:
    for part in parts:
        for name, amount in part.items():
            total[name] = total.get(name, 0) + amount


def _raise_to(total: Amounts, floor: Mapping[str, int]) -> None:
    for name, amount in floor.items():
        total[name] = max(total.get(name, 0), amount)
