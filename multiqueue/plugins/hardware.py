"""Whether a flavor is the hardware that a pod set asked for.

Two sources ask for hardware: the job (node selector, affinity) and the flavor that the manager
reserved. As in the admission engine, only labels that the flavors of a resource group declare are
compared. A selector on a label that no flavor declares says nothing about flavors.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

from multiqueue.api.v1beta2.meta import LabelSelectorRequirement
from multiqueue.model.placement import NodeSelectorTerm
from multiqueue.plugins.view import FlavorView, PodSetView, QueueView, ResourceGroupView


class Grade(IntEnum):
    """How well a flavor suits; larger is better."""

    MISMATCH = 0
    """The flavor is other hardware than was asked for."""
    SILENT = 1
    """Nothing was asked for, the flavor declares nothing, or it is declared as equivalent."""
    MATCH = 2
    """The flavor declares that it is the hardware that was asked for."""


def grade_flavor(
    pod_set: PodSetView, queue: QueueView, group: ResourceGroupView, flavor: FlavorView
) -> Grade:
    """Compare one flavor of a resource group with what a pod set asks for."""
    return grade_against(pod_set, group, list_declared_labels(queue, group), flavor)


def grade_against(
    pod_set: PodSetView, group: ResourceGroupView, declared: frozenset[str], flavor: FlavorView
) -> Grade:
    """Do the same, given the labels that the flavors of the group declare."""
    if _is_untolerated(pod_set, flavor):
        return Grade.MISMATCH
    own = _grade_own_constraint(pod_set, declared, flavor.node_labels)
    reserved = _grade_reserved(pod_set, group, declared, flavor)
    if own is Grade.MISMATCH or reserved is Grade.MISMATCH:
        return Grade.MISMATCH
    return max(own, reserved)


def preference_of(pod_set: PodSetView, flavor: FlavorView) -> int:
    """Return the sum of the weights of the preferred affinity terms that a flavor meets."""
    if not pod_set.preferred:
        return 0
    return sum(
        wanted.weight
        for wanted in pod_set.preferred
        if any(requirement.key in flavor.node_labels for requirement in wanted.term)
        and _term_holds(wanted.term, frozenset(flavor.node_labels), flavor.node_labels)
    )


def describe_constraint(pod_set: PodSetView) -> str:
    """Return the pod set's hardware constraints, as ``accelerator=a100``; empty if none."""
    constraints = [f"{key}={value}" for key, value in pod_set.placement.node_selector]
    for term in pod_set.placement.affinity_terms or ():
        constraints += [_describe(requirement) for requirement in term]
    for flavor in pod_set.reserved.values():
        constraints += [f"{key}={value}" for key, value in sorted(flavor.node_labels.items())]
    return ", ".join(dict.fromkeys(constraints))


def list_declared_labels(queue: QueueView, group: ResourceGroupView) -> frozenset[str]:
    """Return the label keys that the flavors of a resource group declare."""
    found = [queue.flavors[name].node_labels for name in group.flavors if name in queue.flavors]
    return frozenset().union(*found)


def _is_untolerated(pod_set: PodSetView, flavor: FlavorView) -> bool:
    if not flavor.node_taints:
        return False
    return any(
        taint.effect in {"NoSchedule", "NoExecute"}
        and not any(
            (not wanted.key or wanted.key == taint.key)
            and (wanted.operator == "Exists" or wanted.value == taint.value)
            and wanted.effect in {"", taint.effect}
            for wanted in (*pod_set.placement.tolerations, *flavor.tolerations)
        )
        for taint in flavor.node_taints
    )


def _grade_own_constraint(
    pod_set: PodSetView, declared: frozenset[str], labels: Mapping[str, str]
) -> Grade:
    asked = False
    for key, value in pod_set.placement.node_selector:
        if key in declared:
            asked = True
            if labels.get(key) != value:
                return Grade.MISMATCH
    terms = pod_set.placement.affinity_terms
    if terms is not None:
        relevant = any(requirement.key in declared for term in terms for requirement in term)
        if relevant and not any(_term_holds(term, declared, labels) for term in terms):
            return Grade.MISMATCH
        asked = asked or relevant
    return Grade.MATCH if asked else Grade.SILENT


def _grade_reserved(
    pod_set: PodSetView,
    group: ResourceGroupView,
    declared: frozenset[str],
    flavor: FlavorView,
) -> Grade:
    grade = Grade.SILENT
    for resource in group.resources:
        reserved = pod_set.reserved.get(resource)
        if reserved is None or not pod_set.requests.get(resource):
            continue
        common = reserved.node_labels.keys() & declared
        if any(flavor.node_labels.get(key) != reserved.node_labels[key] for key in common):
            if any(_has_labels(flavor, labels, declared) for labels in reserved.equivalents):
                continue
            return Grade.MISMATCH
        # Flavor names of manager and worker are unrelated. Without labels, an equal name is a hint.
        if common or flavor.name == reserved.name:
            grade = Grade.MATCH
    return grade


def _has_labels(flavor: FlavorView, labels: Mapping[str, str], declared: frozenset[str]) -> bool:
    """Whether a flavor has the given labels, as far as flavors of its group declare them."""
    common = labels.keys() & declared
    return bool(common) and all(flavor.node_labels.get(key) == labels[key] for key in common)


def _term_holds(
    term: NodeSelectorTerm, declared: frozenset[str], labels: Mapping[str, str]
) -> bool:
    return all(
        _requirement_holds(requirement, labels)
        for requirement in term
        if requirement.key in declared
    )


def _requirement_holds(requirement: LabelSelectorRequirement, labels: Mapping[str, str]) -> bool:
    value = labels.get(requirement.key)
    match requirement.operator:
        case "In":
            return value in requirement.values
        case "NotIn":
            return value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
    return _compare(requirement, value)


def _compare(requirement: LabelSelectorRequirement, value: str | None) -> bool:
    try:
        number, bound = int(value or ""), int(requirement.values[0])
    except (ValueError, IndexError):
        return False
    return number > bound if requirement.operator == "Gt" else number < bound


def _describe(requirement: LabelSelectorRequirement) -> str:
    values = ",".join(requirement.values)
    if requirement.operator == "In" and len(requirement.values) == 1:
        return f"{requirement.key}={values}"
    if not values:
        return f"{requirement.key} {requirement.operator}"
    return f"{requirement.key} {requirement.operator} ({values})"
