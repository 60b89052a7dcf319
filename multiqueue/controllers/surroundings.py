"""LimitRanges and RuntimeClasses as last seen, summarized per namespace."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from multiqueue.api import v1beta2 as api
from multiqueue.model.surroundings import NOTHING, NamespaceSurroundings, summarize_limit_ranges

Json = Mapping[str, Any]


class SurroundingsCache:
    """Written by the cache feed; a summary is made when a Workload of the namespace is read."""

    def __init__(self) -> None:
        self._limit_ranges: dict[str, dict[str, Json]] = {}
        self._overheads: dict[str, Json] = {}
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

    def of(self, namespace: str) -> NamespaceSurroundings:
        """Return the defaults, limits and overheads for pods of the namespace."""
        if not self._overheads and namespace not in self._limit_ranges:
            return NOTHING
        found = self._summaries.get(namespace)
        if found is None:
            found = self._summaries[namespace] = NamespaceSurroundings(
                limits=summarize_limit_ranges(self._limit_ranges.get(namespace, {}).values()),
                overheads=dict(self._overheads),
            )
        return found


def uses_runtime_class(workload: api.Workload, name: str) -> bool:
    """Whether some pod of the Workload runs in the RuntimeClass."""
    return any(
        (pod_set.template.get("spec") or {}).get("runtimeClassName") == name
        for pod_set in workload.spec.pod_sets
    )
