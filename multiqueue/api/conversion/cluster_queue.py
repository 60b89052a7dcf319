"""ClusterQueue: cohort, admissionChecks and the old words of flavorFungibility."""

from __future__ import annotations

from typing import Any

from multiqueue.api.conversion.quotas import normalize_quota_spec
from multiqueue.api.conversion.stash import V1BETA1_ONLY, V1BETA2_ONLY, mapping, put, rename, take

Object = dict[str, Any]

_OLD_WORDS = {"Borrow": "MayStopSearch", "Preempt": "MayStopSearch"}


def upgrade(obj: Object) -> None:
    """From v1beta1 to v1beta2, in place."""
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
    """From v1beta2 to v1beta1, in place."""
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
    """The plain list becomes rules without flavors, and wins over a strategy beside it."""
    checks = spec.get("admissionChecks")
    if not isinstance(checks, list):
        return
    del spec["admissionChecks"]
    if checks:
        strategy = mapping(spec, "admissionChecksStrategy")
        rules = [{"name": name} for name in checks]
        spec["admissionChecksStrategy"] = {**strategy, "admissionChecks": rules}


def _drop_empty_enums(spec: Object) -> None:
    """Empty texts stood for absent values; the defaults of v1beta2 fill the gaps."""
    preemption = mapping(spec, "preemption")
    for parent, fields in (
        (spec, ("queueingStrategy", "stopPolicy")),
        (mapping(spec, "flavorFungibility"), ("whenCanBorrow", "whenCanPreempt")),
        (preemption, ("reclaimWithinCohort", "withinClusterQueue")),
        (mapping(preemption, "borrowWithinCohort"), ("policy",)),
    ):
        for field in fields:
            if parent.get(field) == "":
                parent[field] = _DEFAULTS[field]


_DEFAULTS = {
    "queueingStrategy": "BestEffortFIFO",
    "stopPolicy": "None",
    "whenCanBorrow": "MayStopSearch",
    "whenCanPreempt": "TryNextFlavor",
    "reclaimWithinCohort": "Never",
    "withinClusterQueue": "Never",
    "policy": "Never",
}
