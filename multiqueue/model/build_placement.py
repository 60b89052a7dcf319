"""Reads node selector, required node affinity and tolerations out of a pod template."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from multiqueue.api.v1beta2.meta import LabelSelectorRequirement, Toleration
from multiqueue.model.placement import ANYWHERE, NodeSelectorTerm, Placement


def build_placement(template: Mapping[str, Any]) -> Placement:
    """Return where pods of the template may run; equal wishes share one object."""
    spec = template.get("spec") or {}
    selector = tuple(sorted((spec.get("nodeSelector") or {}).items()))
    terms = _affinity_terms(spec)
    tolerations = tuple(_toleration(item) for item in spec.get("tolerations") or ())
    if not selector and terms is None and not tolerations:
        return ANYWHERE
    return _intern(Placement(node_selector=selector, affinity_terms=terms, tolerations=tolerations))


@lru_cache(maxsize=4096)
def _intern(placement: Placement) -> Placement:
    return placement


def _affinity_terms(spec: Mapping[str, Any]) -> tuple[NodeSelectorTerm, ...] | None:
    node_affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = node_affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if not required:
        return None
    return tuple(
        tuple(
            LabelSelectorRequirement(
                key=item.get("key", ""),
                operator=item.get("operator", ""),
                values=tuple(item.get("values") or ()),
            )
            for item in term.get("matchExpressions") or ()
        )
        for term in required.get("nodeSelectorTerms") or ()
    )


def _toleration(item: Mapping[str, Any]) -> Toleration:
    return Toleration(
        key=item.get("key", ""),
        operator=item.get("operator", ""),
        value=item.get("value", ""),
        effect=item.get("effect", ""),
        toleration_seconds=item.get("tolerationSeconds"),
    )
