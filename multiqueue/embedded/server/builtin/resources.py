"""Validation of resource requests and limits."""

from collections.abc import Mapping
from typing import Any

from multiqueue.embedded.server.causes import FieldCause, invalid, required
from multiqueue.embedded.server.schema.metadata import check_name
from multiqueue.lib import object_names as names
from multiqueue.lib.quantity import NANO, parse_quantity

_STANDARD = {"cpu", "memory", "ephemeral-storage"}
_NATIVE_DOMAIN = "kubernetes.io/"


def is_extended(name: str) -> bool:
    """Whether a resource comes from a device plugin, such as ``nvidia.com/gpu``: counted whole."""
    return "/" in name and _NATIVE_DOMAIN not in name and not name.startswith("requests.")


def cannot_overcommit(name: str) -> bool:
    """Whether request and limit must be equal."""
    return is_extended(name) or name.startswith("hugepages-")


def validate_resources(resources: Mapping[str, Any], path: str) -> list[FieldCause]:
    """Requests and limits of a container."""
    limits, requests = resources.get("limits", {}), resources.get("requests", {})
    causes = []
    for name, amount in limits.items():
        causes += _resource(name, amount, f"{path}.limits")
    for name, amount in requests.items():
        causes += _resource(name, amount, f"{path}.requests")
        causes += _against_limit(name, amount, limits.get(name), path)
    return causes


def _resource(name: str, amount: str, path: str) -> list[FieldCause]:
    causes = check_name(name, path, names.qualified_name)
    if "/" not in name and name not in _STANDARD and not name.startswith("hugepages-"):
        text = "must be a standard resource for containers"
        causes.append(invalid(path, name, text))
    return causes + validate_amount(name, amount, f"{path}[{name}]")


def validate_amount(name: str, amount: str, path: str) -> list[FieldCause]:
    """An amount of a resource: not negative, and whole where it is counted in pieces."""
    quantity = parse_quantity(amount)
    if quantity.sign < 0:
        return [invalid(path, amount, "must be greater than or equal to 0")]
    if is_extended(name) and quantity.nano % NANO:
        return [invalid(path, amount, "must be an integer")]
    return []


def _against_limit(name: str, amount: str, limit: str | None, path: str) -> list[FieldCause]:
    where = f"{path}.requests"
    if limit is None:
        if cannot_overcommit(name):
            return [
                required(f"{path}.limits", "Limit must be set for non overcommitable resources")
            ]
        return []
    request, bound = parse_quantity(amount), parse_quantity(limit)
    if cannot_overcommit(name) and request != bound:
        return [invalid(where, amount, f"must be equal to {name} limit of {limit}")]
    if request > bound:
        return [invalid(where, amount, f"must be less than or equal to {name} limit of {limit}")]
    return []
