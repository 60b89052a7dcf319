"""The nodes that a flavor selects, and their resources and taints."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from multiqueue.api.validation.access import Object, items, mapping, quantity, text
from multiqueue.lib.quantity import Quantity
from multiqueue.lint.quotas import ZERO, runs_elsewhere
from multiqueue.lint.world import LintInput, labels_of

_TRANSIENT = "node.kubernetes.io/"
"""Taints that Kubernetes itself sets and removes: not ready, cordoned, out of disk."""


def matching_nodes(flavor: Object, world: LintInput) -> Sequence[Object]:
    """Return the nodes that have all labels of a flavor."""
    wanted = mapping(flavor, "spec", "nodeLabels").items()
    return [node for node in world.all("Node") if wanted <= labels_of(node).items()]


def needs_nodes(flavor: str, world: LintInput) -> bool:
    """Whether some queue uses this flavor for pods that run on nodes of this cluster."""
    queues = world.queues_by_flavor.get(flavor, ())
    return any(not runs_elsewhere(queue, world) for queue in queues)


def allocatable(nodes: Sequence[Object], resource: str) -> Quantity:
    """Return the sum of a resource over nodes."""
    total, format_ = 0, ZERO.format
    for node in nodes:
        amount = quantity(mapping(node, "status", "allocatable").get(resource))
        if amount is not None:
            total, format_ = total + amount.nano, amount.format
    return Quantity(total, format_)


def has_taint(node: Object) -> bool:
    """Whether a lasting taint keeps pods away that do not tolerate it."""
    taints = (taint for _, taint in items(mapping(node, "spec").get("taints")))
    return any(
        taint.get("effect") != "PreferNoSchedule"
        and not text(taint.get("key")).startswith(_TRANSIENT)
        for taint in taints
    )


def uncovered_taints(node: Object, flavor: Object) -> Iterator[str]:
    """Yield the taints that keep pods away, and that the flavor neither lists nor tolerates."""
    spec = mapping(flavor, "spec")
    named = {(t.get("key"), t.get("effect")) for _, t in items(spec.get("nodeTaints"))}
    for _, taint in items(mapping(node, "spec").get("taints")):
        key, effect = text(taint.get("key")), text(taint.get("effect"))
        if effect == "PreferNoSchedule" or key.startswith(_TRANSIENT) or (key, effect) in named:
            continue
        if not any(tolerates(t, taint) for _, t in items(spec.get("tolerations"))):
            yield f"{key}:{effect}"


def tolerates(toleration: Object, taint: Object) -> bool:
    """Whether a pod's toleration covers a taint, by the rules of the Kubernetes scheduler."""
    if text(toleration.get("effect")) not in {"", text(taint.get("effect"))}:
        return False
    key, exists = text(toleration.get("key")), toleration.get("operator") == "Exists"
    if not key:
        return exists
    same_value = text(toleration.get("value")) == text(taint.get("value"))
    return key == text(taint.get("key")) and (exists or same_value)
