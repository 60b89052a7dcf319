"""Canonical form of our objects: canonical quantities, zero values, no empty objects.

Parity: upstream's defaulting webhooks decode into Go types and answer with what those print, so
stored objects have canonical quantities and an explicit ``nominalQuota: "0"``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from multiqueue.api.conversion.quotas import normalize_quota_spec
from multiqueue.api.conversion.stash import items

Object = dict[str, Any]


def complete_quota_spec(spec: Object) -> None:
    """Add missing nominal quotas and make quantities canonical, in place; malformed ones stay."""
    for group in items(spec, "resourceGroups"):
        for flavor in items(group, "flavors"):
            for resource in items(flavor, "resources"):
                if resource.get("nominalQuota") is None:
                    resource["nominalQuota"] = "0"
    normalize_quota_spec(spec)


def without_empty(value: Any) -> Any:
    """Return the value without nulls and empty objects or lists, which Go reads the same."""
    if isinstance(value, Mapping):
        pruned = {name: without_empty(item) for name, item in value.items()}
        return {name: item for name, item in pruned.items() if item not in (None, {}, [])}
    if isinstance(value, list | tuple):
        return [without_empty(item) for item in value]
    return value


def add_finalizer(obj: Object, finalizer: str) -> None:
    """Append a finalizer unless it is there."""
    metadata = obj.get("metadata")
    if not isinstance(metadata, dict):
        metadata = obj["metadata"] = {}
    finalizers = metadata.get("finalizers") or []
    if isinstance(finalizers, list) and finalizer not in finalizers:
        metadata["finalizers"] = [*finalizers, finalizer]
