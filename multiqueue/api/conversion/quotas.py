"""Rewrites the quantities of our objects to their canonical form.

v1beta1 clients may write numbers; the reference answers with canonical strings in both versions.
"""

from __future__ import annotations

from typing import Any

from multiqueue.api.conversion.stash import items, mapping
from multiqueue.lib.quantity import QuantityError, parse_quantity

Object = dict[str, Any]


def normalize_quota_spec(spec: Object) -> None:
    """Make the quantities of a ClusterQueue or Cohort spec canonical; malformed ones stay."""
    for group in items(spec, "resourceGroups"):
        for flavor in items(group, "flavors"):
            for resource in items(flavor, "resources"):
                normalize(resource, "nominalQuota", "borrowingLimit", "lendingLimit")
    normalize(mapping(spec, "fairSharing"), "weight")


def normalize(parent: Object, *names: str) -> None:
    """Make some quantities of a mapping canonical."""
    for name in names:
        value = parent.get(name)
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            continue
        try:
            parent[name] = str(parse_quantity(value))
        except QuantityError:
            continue
