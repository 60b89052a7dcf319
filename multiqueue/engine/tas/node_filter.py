"""Whether pods may run on a node: taints, node selector, node affinity (E-131)."""

from __future__ import annotations

from typing import NamedTuple

from multiqueue.api.cluster_taints import format_taint
from multiqueue.api.v1beta2.meta import Toleration
from multiqueue.engine.eligibility import PlacementError, find_untolerated, meets
from multiqueue.model.placement import NodeSelectorTerm, Placement
from multiqueue.model.resource_flavor import ResourceFlavor
from multiqueue.model.topology import Node

SELECTOR, AFFINITY = "nodeSelector", "affinity"


class NodeFilter(NamedTuple):
    """What pods demand of a node, and (``preferred``) wish with a weight."""

    tolerations: tuple[Toleration, ...]
    node_selector: tuple[tuple[str, str], ...]
    affinity_terms: tuple[NodeSelectorTerm, ...] | None
    preferred: tuple[tuple[int, NodeSelectorTerm], ...] = ()

    def refuse(self, node: Node) -> str:
        """Return why pods may not run on the node, in the words of E-144; empty if they may."""
        taint = find_untolerated(node.taints, self.tolerations)
        if taint is not None:
            return f'taint "{format_taint(taint)}"'
        if any(node.labels.get(key) != value for key, value in self.node_selector):
            return SELECTOR
        terms = self.affinity_terms
        if terms is not None and not any(_matches(term, node) for term in terms):
            return AFFINITY
        return ""

    def score(self, node: Node) -> int:
        """Return the sum of the weights of the wishes that the node meets."""
        return sum(weight for weight, term in self.preferred if _matches(term, node))


def build_filter(
    placement: Placement, flavor: ResourceFlavor, *, respects_preferred: bool = False
) -> NodeFilter:
    """Return the filter of pods that are placed in a flavor.

    Args:
        placement: what the pods themselves ask for.
        flavor: its tolerations are given to the pods.
        respects_preferred: gate TASRespectNodeAffinityPreferred.
    """
    return NodeFilter(
        tolerations=(*placement.tolerations, *flavor.tolerations),
        node_selector=placement.node_selector,
        affinity_terms=placement.affinity_terms,
        preferred=placement.preferred_terms if respects_preferred else (),
    )


def _matches(term: NodeSelectorTerm, node: Node) -> bool:
    """Whether all of a term holds; an empty one matches nothing, as in Kubernetes."""
    try:
        return bool(term) and all(meets(requirement, node.labels) for requirement in term)
    except PlacementError:
        return False  # the flavor search has refused it already, with the reason
