"""Converts a v1beta1 configuration file to v1beta2.

Parity: config.kueue.x-k8s.io/v1beta1, which turned features on with ``enable`` flags.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from multiqueue.api.config.types import FINAL_SHARE, INITIAL_SHARE, V1BETA2

_NEWER = (
    "visibilityServer",
    "resources.quotaCheckStrategy",
    "resources.deviceClassMappings[].sources",
    "metrics.customLabels[].sourceKind",
    "metrics.customLabels[].trackedValues",
    "multiKueue.clusterProfile",
    "multiKueue.incrementalDispatcherConfig",
)
"""Fields that v1beta1 does not have."""


def take_newer(body: dict[str, Any]) -> Iterator[str]:
    """Remove fields that only v1beta2 has from a v1beta1 file; yield an error for each."""
    for path in _NEWER:
        *parents, last = path.split(".")
        places: list[Any] = [body]
        for parent in parents:
            name = parent.removesuffix("[]")
            found = [place[name] for place in places if isinstance(place, dict) and name in place]
            lists = parent.endswith("[]")
            places = [item for value in found for item in _list(value)] if lists else found
        for place in places:
            if isinstance(place, dict) and place.pop(last, None) is not None:
                yield f"{path}: is no field of v1beta1; set apiVersion: {V1BETA2}"


def find_wrong_flags(body: Mapping[str, Any]) -> Iterator[str]:
    """Yield an error for each ``enable`` that is neither true nor false; the upgrade drops them."""
    for section in ("fairSharing", "waitForPodsReady"):
        flags = body.get(section)
        if isinstance(flags, Mapping) and not isinstance(flags.get("enable"), bool | None):
            yield f"{section}.enable: {flags['enable']!r} must be true or false"


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def upgrade(body: Mapping[str, Any]) -> tuple[dict[str, Any], bool]:
    """Return the v1beta2 body, and whether waitForPodsReady is off."""
    new = dict(body)
    new.pop("queueVisibility", None)  # without effect for long; replaced by the visibility API
    if isinstance(integrations := new.get("integrations"), Mapping):
        new["integrations"] = {k: v for k, v in integrations.items() if k != "podOptions"}
    _upgrade_fair_sharing(new)
    return new, _upgrade_wait_for_pods_ready(new)


def _upgrade_fair_sharing(new: dict[str, Any]) -> None:
    section = new.get("fairSharing")
    if not isinstance(section, Mapping):
        return
    section = dict(section)
    if not section.pop("enable", False):
        del new["fairSharing"]
        return
    if not section.get("preemptionStrategies"):
        section["preemptionStrategies"] = [FINAL_SHARE, INITIAL_SHARE]
    new["fairSharing"] = section


def _upgrade_wait_for_pods_ready(new: dict[str, Any]) -> bool:
    section = new.get("waitForPodsReady")
    if not isinstance(section, Mapping):
        return section is None
    section = dict(section)
    enabled = section.pop("enable", False)
    section.setdefault("timeout", "5m")
    section.setdefault("blockAdmission", True)
    new["waitForPodsReady"] = section
    return not enabled
