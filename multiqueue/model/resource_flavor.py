"""ResourceFlavor and Topology as the engine sees them, and how they are read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from multiqueue.api import v1beta2 as api
from multiqueue.api.v1beta2.meta import Taint, Toleration


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceFlavor:
    """One kind of hardware: the labels and taints of its nodes."""

    name: str
    node_labels: Mapping[str, str] = field(default_factory=dict)
    node_taints: tuple[Taint, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    topology_name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """Levels of a data centre, from the widest to the narrowest node label."""

    name: str
    levels: tuple[str, ...] = ()


def build_resource_flavor(obj: api.ResourceFlavor) -> ResourceFlavor:
    """Turn a ResourceFlavor into the engine's value."""
    spec = obj.spec
    return ResourceFlavor(
        name=obj.metadata.name,
        node_labels=spec.node_labels,
        node_taints=spec.node_taints,
        tolerations=spec.tolerations,
        topology_name=spec.topology_name,
    )


def build_topology(obj: api.Topology) -> Topology:
    """Turn a Topology into the engine's value."""
    return Topology(
        name=obj.metadata.name, levels=tuple(level.node_label for level in obj.spec.levels)
    )
