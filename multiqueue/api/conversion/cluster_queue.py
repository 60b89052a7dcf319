"""Conversion of ClusterQueues: cohort, admissionChecks and old values of flavorFungibility."""

from __future__ import annotations

from typing import Any

from multiqueue.api.conversion.quotas import normalize_quota_spec
from multiqueue.api.conversion.stash import (
    V1BETA1_ONLY,
    V1BETA2_ONLY,
    drop_empty,
    items,
    mapping,
    put,
    rename,
    take,
)

Object = dict[str, Any]

_OLD_WORDS = {"Borrow": "MayStopSearch", "Preempt": "MayStopSearch"}


def upgrade(obj: Object) -> None:
    """Convert from v1beta1 to v1beta2, in place."""
    if obj.get("spec") is None:
        obj["spec"] = {}
    spec = mapping(obj, "spec")
    rename(spec, "cohort", "cohortName")
    _upgrade_checks(spec)
    _drop_empty_enums(spec)
    fungibility = mapping(spec, "flavorFungibility")
    for field in ("whenCanBorrow", "whenCanPreempt"):
        word = fungibility.get(field)
        if isinstance(word, str):
            fungibility[field] = _OLD_WORDS.get(word, word)
    drop_empty(spec, "resourceGroups", list)
    selector = mapping(spec, "namespaceSelector")
    drop_empty(selector, "matchLabels", dict)
    drop_empty(selector, "matchExpressions", list)
    normalize_quota_spec(spec)
    lost: Object = {}
    status = mapping(obj, "status")
    if "pendingWorkloadsStatus" in status:
        lost["pendingWorkloadsStatus"] = status.pop("pendingWorkloadsStatus")
    kept = take(obj, V1BETA2_ONLY)
    if isinstance(policy := kept.get("concurrentAdmissionPolicy"), dict):
        spec.setdefault("concurrentAdmissionPolicy", policy)
    put(obj, V1BETA1_ONLY, lost)


def downgrade(obj: Object) -> None:
    """Convert from v1beta2 to v1beta1, in place."""
    spec = mapping(obj, "spec")
    rename(spec, "cohortName", "cohort")
    lost: Object = {}
    if "concurrentAdmissionPolicy" in spec:
        lost["concurrentAdmissionPolicy"] = spec.pop("concurrentAdmissionPolicy")
    kept = take(obj, V1BETA1_ONLY)
    if isinstance(pending := kept.get("pendingWorkloadsStatus"), dict):
        obj.setdefault("status", {}).setdefault("pendingWorkloadsStatus", pending)
    put(obj, V1BETA2_ONLY, lost)


def _upgrade_checks(spec: Object) -> None:
    """Turn the plain list into rules without flavors; it takes precedence over a strategy."""
    checks, strategy = spec.get("admissionChecks"), mapping(spec, "admissionChecksStrategy")
    if isinstance(checks, list):
        del spec["admissionChecks"]
        if checks:
            rules = [{"name": name} for name in checks]
            strategy = spec["admissionChecksStrategy"] = {**strategy, "admissionChecks": rules}
    drop_empty(strategy, "admissionChecks", list)
    for rule in items(strategy, "admissionChecks"):
        if rule.get("name") is None:  # as Go reads it: a check with an empty name
            rule["name"] = ""
        drop_empty(rule, "onFlavors", list)


def _drop_empty_enums(spec: Object) -> None:
    """Remove empty texts, which meant absent values; v1beta2 fills in its defaults."""
    preemption = mapping(spec, "preemption")
    for parent, fields in (
        (spec, ("queueingStrategy",)),
        (mapping(spec, "flavorFungibility"), ("whenCanBorrow", "whenCanPreempt")),
        (preemption, ("reclaimWithinCohort", "withinClusterQueue")),
        (mapping(preemption, "borrowWithinCohort"), ("policy",)),
    ):
        for field in fields:
            if parent.get(field) == "":
                parent[field] = _DEFAULTS[field]


_DEFAULTS = {
    "queueingStrategy": "BestEffortFIFO",
    "whenCanBorrow": "MayStopSearch",
    "whenCanPreempt": "TryNextFlavor",
    "reclaimWithinCohort": "Never",
    "withinClusterQueue": "Never",
    "policy": "Never",
}
