"""Where the pods of a pod set may run: the part of a pod template that is matched with flavors."""

from __future__ import annotations

from dataclasses import dataclass, replace

from multiqueue.api.v1beta2.meta import LabelSelectorRequirement, Toleration

NodeSelectorTerm = tuple[LabelSelectorRequirement, ...]
"""Requirements that must all hold; also ``Gt`` and ``Lt``, which only nodes know."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Node selector, node affinity and tolerations of a pod set.

    Shape: ``node_selector`` is sorted pairs; ``affinity_terms`` are ORed, and None means that
    there is no required affinity (an empty tuple of terms matches no node). ``preferred_terms``
    are preferences with their weights.
    """

    node_selector: tuple[tuple[str, str], ...] = ()
    affinity_terms: tuple[NodeSelectorTerm, ...] | None = None
    tolerations: tuple[Toleration, ...] = ()
    preferred_terms: tuple[tuple[int, NodeSelectorTerm], ...] = ()


ANYWHERE = Placement()
"""No constraint at all, as for most pods."""


def merge(placement: Placement, update: Placement | None) -> Placement:
    """Add node selectors and tolerations of an update; its values override those of equal keys."""
    if update is None:
        return placement
    selector = dict(placement.node_selector) | dict(update.node_selector)
    return replace(
        placement,
        node_selector=tuple(sorted(selector.items())),
        tolerations=(*placement.tolerations, *update.tolerations),
    )
