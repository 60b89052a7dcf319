"""Where the pods of a pod set may run: the part of a pod template that is matched with flavors.

It is read from node selector, node affinity and tolerations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

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


Reader = Callable[[Mapping[str, Any]], Any]


def build_placement(template: Mapping[str, Any]) -> Placement:
    """Return where pods of the template may run; equal placements share one object."""
    return read_placement(template)[0]


def read_placement(template: Mapping[str, Any]) -> tuple[Placement, tuple[str, ...]]:
    """Return where pods of the template may run, and which fields are invalid.

    Invalid fields are left out: the problems keep the Workload from being admitted.
    """
    spec = template.get("spec") or {}
    found: dict[str, Any] = {}
    problems: list[str] = []
    for field, read in _FIELDS.items():
        try:
            found[field] = read(spec)
            hash(found[field])
        except (AttributeError, KeyError, TypeError, ValueError):
            found[field] = _NOTHING[field]
            problems.append(f"template.spec.{field} cannot be read; write it as the Pod API has it")
    affinity, preferred = found["affinity"]
    placement = Placement(
        node_selector=found["nodeSelector"],
        affinity_terms=affinity,
        tolerations=found["tolerations"],
        preferred_terms=preferred,
    )
    return (ANYWHERE if placement == ANYWHERE else _intern(placement), tuple(problems))


def _node_selector(spec: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((spec.get("nodeSelector") or {}).items()))


@lru_cache(maxsize=4096)
def _intern(placement: Placement) -> Placement:
    return placement


def _node_affinity(spec: Mapping[str, Any]) -> tuple[Any, Any]:
    """Return the required terms (None if unset), and the preferred ones with their weights."""
    node_affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = node_affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    preferred = node_affinity.get("preferredDuringSchedulingIgnoredDuringExecution")
    return (
        tuple(_term(term) for term in required.get("nodeSelectorTerms") or ())
        if required
        else None,
        tuple((int(wanted["weight"]), _term(wanted["preference"])) for wanted in preferred or ()),
    )


def _term(term: Mapping[str, Any]) -> NodeSelectorTerm:
    return tuple(
        LabelSelectorRequirement(
            key=item.get("key", ""),
            operator=item.get("operator", ""),
            values=tuple(item.get("values") or ()),
        )
        for item in term.get("matchExpressions") or ()
    )


def _tolerations(spec: Mapping[str, Any]) -> tuple[Toleration, ...]:
    return tuple(_toleration(item) for item in spec.get("tolerations") or ())


def _toleration(item: Mapping[str, Any]) -> Toleration:
    return Toleration(
        key=item.get("key", ""),
        operator=item.get("operator", ""),
        value=item.get("value", ""),
        effect=item.get("effect", ""),
        toleration_seconds=item.get("tolerationSeconds"),
    )


_FIELDS: Mapping[str, Reader] = {
    "nodeSelector": _node_selector,
    "affinity": _node_affinity,
    "tolerations": _tolerations,
}
_NOTHING: Mapping[str, Any] = {"nodeSelector": (), "affinity": (None, ()), "tolerations": ()}
