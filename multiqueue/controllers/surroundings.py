"""LimitRanges, RuntimeClasses and devices as last seen, summarized per namespace."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from multiqueue.api import v1beta2 as api
from multiqueue.model.devices import EMPTY_CATALOG, DeviceCatalog, choose_classes
from multiqueue.model.pod_template import read_pod_template
from multiqueue.model.surroundings import NOTHING, NamespaceSurroundings, summarize_limit_ranges

Json = Mapping[str, Any]


class SurroundingsCache:
    """Written by the cache feed; a summary is made when a Workload of the namespace is read.

    Args:
        with_devices: Whether DeviceClasses and claim templates are watched.
    """

    def __init__(self, *, with_devices: bool = False) -> None:
        self._default = NamespaceSurroundings(devices=EMPTY_CATALOG) if with_devices else NOTHING
        self._limit_ranges: dict[str, dict[str, Json]] = {}
        self._overheads: dict[str, Json] = {}
        self._device_classes: dict[str, Json] = {}
        self._extended: dict[str, str] = {}
        self._claims: dict[str, dict[str, Json]] = {}
        self._summaries: dict[str, NamespaceSurroundings] = {}

    def set_limit_range(self, namespace: str, name: str, obj: Json | None) -> None:
        """Take over a LimitRange; None if it is gone."""
        known = self._limit_ranges.setdefault(namespace, {})
        known.pop(name, None)
        if obj is not None:
            known[name] = obj
        self._summaries.pop(namespace, None)

    def set_runtime_class(self, name: str, obj: Json | None) -> None:
        """Take over a RuntimeClass; None if it is gone."""
        overhead = ((obj or {}).get("overhead") or {}).get("podFixed")
        self._overheads.pop(name, None)
        if overhead:
            self._overheads[name] = overhead
        self._summaries.clear()

    def set_device_class(self, name: str, obj: Json | None) -> frozenset[str]:
        """Take over a DeviceClass, None if it is gone; return the extended resources it changes."""
        self._device_classes.pop(name, None)
        if obj is not None:
            self._device_classes[name] = obj
        known, self._extended = self._extended, choose_classes(self._device_classes.values())
        changed = known.items() ^ self._extended.items()
        if changed:
            self._summaries.clear()
        return frozenset(resource for resource, _ in changed)

    def set_claim_template(self, namespace: str, name: str, obj: Json | None) -> None:
        """Take over a ResourceClaimTemplate; None if it is gone."""
        known = self._claims.setdefault(namespace, {})
        known.pop(name, None)
        if obj is not None:
            known[name] = (obj.get("spec") or {}).get("spec") or {}
        elif not known:
            del self._claims[namespace]
        self._summaries.pop(namespace, None)

    def of(self, namespace: str) -> NamespaceSurroundings:
        """Return the defaults, limits and overheads for pods of the namespace."""
        by_namespace = (self._limit_ranges, self._claims)
        if not (self._overheads or self._extended or any(namespace in m for m in by_namespace)):
            return self._default
        found = self._summaries.get(namespace)
        if found is None:
            found = self._summaries[namespace] = NamespaceSurroundings(
                limits=summarize_limit_ranges(self._limit_ranges.get(namespace, {}).values()),
                overheads=dict(self._overheads),
                devices=self._default.devices
                and DeviceCatalog(
                    templates=dict(self._claims.get(namespace, {})), extended=self._extended
                ),
            )
        return found


def uses_runtime_class(workload: api.Workload, name: str) -> bool:
    """Whether some pod of the Workload runs in the RuntimeClass."""
    return any(
        (pod_set.template.get("spec") or {}).get("runtimeClassName") == name
        for pod_set in workload.spec.pod_sets
    )


def claims_by_template(workload: api.Workload, name: str) -> bool:
    """Whether some pod of the Workload names the ResourceClaimTemplate."""
    return any(
        claim.get("resourceClaimTemplateName") == name
        for pod_set in workload.spec.pod_sets
        for claim in (pod_set.template.get("spec") or {}).get("resourceClaims") or ()
    )


def requests_any(workload: api.Workload, resources: frozenset[str]) -> bool:
    """Whether some pod of the Workload requests one of the extended resources."""
    return any(
        not resources.isdisjoint(read_pod_template(pod_set.template).pod.requests)
        for pod_set in workload.spec.pod_sets
    )
