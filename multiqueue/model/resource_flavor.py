"""ResourceFlavor as the engine sees it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

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
