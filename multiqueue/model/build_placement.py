"""Reads node selector, required node affinity and tolerations out of a pod template."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from multiqueue.api.v1beta2.meta import LabelSelectorRequirement, Toleration
from multiqueue.model.placement import ANYWHERE, NodeSelectorTerm, Placement

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
