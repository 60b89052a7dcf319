"""Finds the node for a pod: resources, node selectors, required affinity and taints. Pure.

`NodeLedger` mirrors nodes and the pods on them incrementally; a placement costs one pass over the
nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from multiqueue.embedded.cluster.requests import Amounts, parse_amounts, pod_requests

UNSCHEDULABLE_TAINT = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
_HARD_EFFECTS = ("NoSchedule", "NoExecute")


@dataclass(slots=True)
class _Node:
    name: str
    labels: Mapping[str, str]
    taints: Sequence[Mapping[str, str]]
    is_ready: bool
    free: Amounts
    allocatable: Amounts
    pods: dict[str, Amounts] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PodPlacement:
    """The outcome for one pod: a node, or why none fits, in kube-scheduler's wording."""

    node: str | None
    message: str = ""


class NodeLedger:
    """Free resources per node. Pods are known by uid; every call may be repeated."""

    def __init__(self) -> None:
        self._nodes: dict[str, _Node] = {}
        self._node_of: dict[str, str] = {}
        self._waiting: dict[str, dict[str, Amounts]] = {}

    def upsert_node(self, node: Mapping[str, Any]) -> None:
        """Add or replace a node; pods that were placed on it before stay counted."""
        name = node["metadata"]["name"]
        old = self._nodes.get(name)
        pods = old.pods if old is not None else self._waiting.pop(name, {})
        allocatable = parse_amounts((node.get("status") or {}).get("allocatable"))
        free = dict(allocatable)
        for requests in pods.values():
            _subtract(free, requests)
        spec = node.get("spec") or {}
        taints = [
            taint for taint in spec.get("taints") or () if taint.get("effect") in _HARD_EFFECTS
        ]
        if spec.get("unschedulable"):
            taints.append(UNSCHEDULABLE_TAINT)
        self._nodes[name] = _Node(
            name=name,
            labels=node["metadata"].get("labels") or {},
            taints=taints,
            is_ready=is_ready(node),
            free=free,
            allocatable=allocatable,
            pods=pods,
        )

    def delete_node(self, name: str) -> None:
        """Forget a node; its pods stay known in case it comes back."""
        node = self._nodes.pop(name, None)
        if node is not None and node.pods:
            self._waiting[name] = node.pods

    def occupy(self, uid: str, node_name: str, requests: Amounts) -> None:
        """Count a pod on a node, once."""
        if self._node_of.get(uid) == node_name:
            return
        self.release(uid)
        self._node_of[uid] = node_name
        node = self._nodes.get(node_name)
        if node is None:
            self._waiting.setdefault(node_name, {})[uid] = requests
            return
        node.pods[uid] = requests
        _subtract(node.free, requests)

    def release(self, uid: str) -> bool:
        """Stop counting a pod; returns whether it was counted."""
        node_name = self._node_of.pop(uid, None)
        if node_name is None:
            return False
        node = self._nodes.get(node_name)
        if node is None:
            self._waiting.get(node_name, {}).pop(uid, None)
            return True
        for name, amount in node.pods.pop(uid).items():
            node.free[name] = node.free.get(name, 0) + amount
        return True

    def knows(self, uid: str) -> bool:
        """Whether a pod is counted on some node."""
        return uid in self._node_of

    def place(self, pod: Mapping[str, Any]) -> PodPlacement:
        """Find a node for a pod: the fullest that fits, then by name, to keep gangs together."""
        requests = pod_requests(pod)
        spec = pod.get("spec") or {}
        refusals: dict[str, int] = {}
        best: tuple[float, str] | None = None
        for node in self._nodes.values():
            refusal = _refusal(node, spec, requests)
            if refusal is not None:
                for text in refusal:
                    refusals[text] = refusals.get(text, 0) + 1
                continue
            rank = (_free_share(node, requests), node.name)
            if best is None or rank < best:
                best = rank
        if best is not None:
            return PodPlacement(node=best[1])
        details = ", ".join(f"{count} {text}" for text, count in sorted(refusals.items()))
        suffix = f": {details}." if details else "."
        return PodPlacement(node=None, message=f"0/{len(self._nodes)} nodes are available{suffix}")


def pod_shape(pod: Mapping[str, Any]) -> str:
    """Return a key that is equal for pods which fit the same nodes."""
    spec = pod.get("spec") or {}
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    parts = (
        sorted(pod_requests(pod).items()),
        sorted((spec.get("nodeSelector") or {}).items()),
        affinity.get("requiredDuringSchedulingIgnoredDuringExecution"),
        spec.get("tolerations"),
    )
    return repr(parts)


def is_ready(node: Mapping[str, Any]) -> bool:
    """Whether a node reports that it can run pods."""
    conditions = (node.get("status") or {}).get("conditions") or ()
    return any(c.get("type") == "Ready" and c.get("status") == "True" for c in conditions)


def _subtract(free: Amounts, requests: Mapping[str, int]) -> None:
    for name, amount in requests.items():
        free[name] = free.get(name, 0) - amount


def _free_share(node: _Node, requests: Mapping[str, int]) -> float:
    """Return the free share of the scarcest requested resource; accelerators precede cpu."""
    extended = [name for name in requests if "/" in name]
    judged = extended or ["cpu"]
    return max(
        (node.free.get(name, 0) - requests.get(name, 0)) / max(1, node.allocatable.get(name, 0))
        for name in judged
    )


def _refusal(node: _Node, spec: Mapping[str, Any], requests: Mapping[str, int]) -> list[str] | None:
    if not node.is_ready:
        return ["node(s) were not ready"]
    if not _matches_selectors(node, spec):
        return ["node(s) didn't match Pod's node affinity/selector"]
    tolerations = spec.get("tolerations") or ()
    for taint in node.taints:
        if not any(_tolerates(toleration, taint) for toleration in tolerations):
            key, value = taint.get("key", ""), taint.get("value", "")
            return [f"node(s) had untolerated taint {{{key}: {value}}}"]
    short = [name for name, amount in requests.items() if amount > max(0, node.free.get(name, 0))]
    if short:
        return ["Too many pods" if name == "pods" else f"Insufficient {name}" for name in short]
    return None


def _matches_selectors(node: _Node, spec: Mapping[str, Any]) -> bool:
    wanted = spec.get("nodeSelector") or {}
    if any(node.labels.get(key) != value for key, value in wanted.items()):
        return False
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if required is None:
        return True
    return any(_matches_term(node, term) for term in required.get("nodeSelectorTerms") or ())


def _matches_term(node: _Node, term: Mapping[str, Any]) -> bool:
    expressions = term.get("matchExpressions") or ()
    fields = term.get("matchFields") or ()
    if not expressions and not fields:
        return False
    own_fields = {"metadata.name": node.name}
    return all(_matches(node.labels, e) for e in expressions) and all(
        _matches(own_fields, f) for f in fields
    )


def _matches(labels: Mapping[str, str], expression: Mapping[str, Any]) -> bool:
    value = labels.get(expression.get("key", ""))
    wanted: Iterable[str] = expression.get("values") or ()
    match expression.get("operator"):
        case "In":
            return value is not None and value in wanted
        case "NotIn":
            return value is None or value not in wanted
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt" as operator:
            return _compares(value, wanted, greater=operator == "Gt")
    return False


def _compares(value: str | None, wanted: Iterable[str], *, greater: bool) -> bool:
    try:
        have, bound = int(value or ""), int(next(iter(wanted), ""))
    except ValueError:
        return False
    return have > bound if greater else have < bound


def _tolerates(toleration: Mapping[str, Any], taint: Mapping[str, str]) -> bool:
    if toleration.get("effect") and toleration["effect"] != taint.get("effect"):
        return False
    key = toleration.get("key") or ""
    is_exists = toleration.get("operator") == "Exists"
    if not key:
        return is_exists
    if key != taint.get("key"):
        return False
    return is_exists or (toleration.get("value") or "") == (taint.get("value") or "")
