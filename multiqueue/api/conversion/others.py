"""Conversion of the kinds whose versions differ little (M-15)."""

from __future__ import annotations

from typing import Any

from multiqueue.api.conversion.quotas import normalize, normalize_quota_spec
from multiqueue.api.conversion.stash import (
    V1BETA1_ONLY,
    V1BETA2_ONLY,
    drop_empty,
    mapping,
    put,
    rename,
    take,
)

Object = dict[str, Any]

DEFAULT_RETRY_DELAY_MINUTES = 15


def keep(_obj: Object) -> None:
    """Change nothing, because both versions are the same."""


def upgrade_cohort(obj: Object) -> None:
    """Convert from v1beta1 to v1beta2, in place."""
    if obj.get("spec") is None:
        obj["spec"] = {}
    spec = mapping(obj, "spec")
    drop_empty(spec, "resourceGroups", list)
    normalize_quota_spec(spec)


def upgrade_resource_flavor(obj: Object) -> None:
    """Convert from v1beta1 to v1beta2, in place."""
    if obj.get("spec") is None:
        obj["spec"] = {}


def upgrade_admission_check(obj: Object) -> None:
    """Convert from v1beta1 to v1beta2, in place."""
    spec = mapping(obj, "spec")
    delay = spec.pop("retryDelayMinutes", DEFAULT_RETRY_DELAY_MINUTES)
    if delay != DEFAULT_RETRY_DELAY_MINUTES:
        put(obj, V1BETA1_ONLY, {"retryDelayMinutes": delay})


def downgrade_admission_check(obj: Object) -> None:
    """Convert from v1beta2 to v1beta1, in place."""
    kept = take(obj, V1BETA1_ONLY)
    if "spec" in obj:
        delay = kept.get("retryDelayMinutes", DEFAULT_RETRY_DELAY_MINUTES)
        mapping(obj, "spec").setdefault("retryDelayMinutes", delay)


def upgrade_local_queue(obj: Object) -> None:
    """Convert from v1beta1 to v1beta2, in place."""
    if obj.get("spec") is None:
        obj["spec"] = {}
    spec, status = mapping(obj, "spec"), mapping(obj, "status")
    normalize(mapping(spec, "fairSharing"), "weight")
    rename(status, "flavorUsage", "flavorsUsage")
    if "flavors" in status:
        put(obj, V1BETA1_ONLY, {"flavors": status.pop("flavors")})


def downgrade_local_queue(obj: Object) -> None:
    """Convert from v1beta2 to v1beta1, in place."""
    rename(mapping(obj, "status"), "flavorsUsage", "flavorUsage")
    kept = take(obj, V1BETA1_ONLY)
    if isinstance(flavors := kept.get("flavors"), list):
        obj.setdefault("status", {}).setdefault("flavors", flavors)


_SOURCES = ("kubeConfig", "clusterProfileRef")


def upgrade_multikueue_cluster(obj: Object) -> None:
    """Convert from v1beta1 to v1beta2, in place: the flat fields move into clusterSource."""
    spec = mapping(obj, "spec")
    source = mapping(take(obj, V1BETA2_ONLY), "clusterSource")
    if _is_no_location(spec.get("kubeConfig")):
        del spec["kubeConfig"]
    for name in _SOURCES:
        if (value := spec.pop(name, None)) is not None:
            source[name] = value
    if source:
        spec.setdefault("clusterSource", source)


def downgrade_multikueue_cluster(obj: Object) -> None:
    """Convert from v1beta2 to v1beta1, in place; v1beta1 always has a kubeConfig."""
    if obj.get("spec") is None:
        obj["spec"] = {}
    spec = mapping(obj, "spec")
    source = spec.pop("clusterSource", None)
    if isinstance(source, dict):
        for name in _SOURCES:
            if (value := source.pop(name, None)) is not None:
                spec[name] = value
        if source:
            put(obj, V1BETA2_ONLY, {"clusterSource": source})
    if spec.get("kubeConfig") is None:
        spec["kubeConfig"] = {"location": "", "locationType": ""}


def _is_no_location(kube_config: Any) -> bool:
    """Whether a kubeConfig has v1beta1's values for an absent one."""
    return (
        isinstance(kube_config, dict)
        and kube_config.get("location") == ""
        and not set(kube_config) - {"location", "locationType"}
    )


def upgrade_multikueue_config(obj: Object) -> None:
    """Convert from v1beta1 to v1beta2, in place."""
    kept = take(obj, V1BETA2_ONLY)
    if isinstance(management := kept.get("quotaManagement"), str) and "spec" in obj:
        mapping(obj, "spec").setdefault("quotaManagement", management)


def downgrade_multikueue_config(obj: Object) -> None:
    """Convert from v1beta2 to v1beta1, in place."""
    spec = mapping(obj, "spec")
    if "quotaManagement" in spec:
        put(obj, V1BETA2_ONLY, {"quotaManagement": spec.pop("quotaManagement")})
