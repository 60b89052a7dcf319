"""Nodes and topology domains as the engine sees them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from multiqueue.api.v1beta2.meta import Taint
from multiqueue.lib.amount import Amount

HOSTNAME = "kubernetes.io/hostname"
"""The level whose domains are single nodes; it can only be the lowest (E-129)."""

PENDING, READY = "Pending", "Ready"
"""Values of ``delayedTopologyRequest`` (E-134)."""


@dataclass(frozen=True, slots=True, order=True)
class TopologyDomain:
    """Pods in one domain; ``values`` are those of the levels of its assignment."""

    values: tuple[str, ...]
    count: int


@dataclass(frozen=True, slots=True)
class TopologyAssignment:
    """Where the pods of a pod set run.

    Shape: ``levels`` are node labels, widest first; only the hostname if that is the lowest level
    (E-143). ``domains`` are sorted by their values.
    """

    levels: tuple[str, ...]
    domains: tuple[TopologyDomain, ...]

    @property
    def names_nodes(self) -> bool:
        """Whether each domain is a node."""
        return self.levels[-1:] == (HOSTNAME,)

    def nodes(self) -> tuple[str, ...]:
        """Return the hostnames of the domains; empty if the domains are wider than a node."""
        return tuple(d.values[-1] for d in self.domains) if self.names_nodes else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A machine on which pods may run.

    Shape: ``allocatable`` by resource, with ``pods``; ``schedulable`` is false while cordoned.
    """

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    allocatable: Mapping[str, Amount] = field(default_factory=dict)
    ready: bool = True
    schedulable: bool = True
