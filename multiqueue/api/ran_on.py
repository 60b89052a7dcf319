"""The annotation that says on which flavors a Workload runs, where not on those of its admission.

``status.admission`` is immutable while quota is reserved; so what a worker ran it on instead stands
here, beside the reservation that it is about. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from multiqueue.api.names import RAN_ON

RanOn = Mapping[tuple[str, str], str]
"""Flavor of the ClusterQueue by pod set and resource."""

NOWHERE_ELSE: RanOn = MappingProxyType({})


def format_ran_on(reserved_at: str, flavors: RanOn) -> str:
    """Return the value of the annotation.

    Args:
        reserved_at: When quota was reserved, as the condition has it.
        flavors: What it runs on.
    """
    parts = (f"{name}:{resource}={flavor}" for (name, resource), flavor in sorted(flavors.items()))
    return " ".join((reserved_at, *parts))


def read_ran_on(annotations: Mapping[str, str], reserved_at: str) -> RanOn:
    """Return what it runs on; nothing where the annotation is about another reservation."""
    text = annotations.get(RAN_ON)
    if text is None:
        return NOWHERE_ELSE
    since, *parts = text.split(" ")
    if since != reserved_at:
        return NOWHERE_ELSE
    found: dict[tuple[str, str], str] = {}
    for part in parts:
        where, _, flavor = part.rpartition("=")
        name, _, resource = where.partition(":")
        if name and resource and flavor:
            found[name, resource] = flavor
    return found
