"""A world of queues for webhook tests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Queues:
    """LocalQueues as ``namespace/name`` and which of them lead to workers."""

    local: frozenset[str] = frozenset()
    multikueue: frozenset[str] = frozenset()
    labels: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    classes: frozenset[str] = frozenset()
    queued_kinds: frozenset[str] = frozenset({"Job", "JobSet"})
    children: frozenset[str] = frozenset()
    """Names of jobs that an owner manages."""

    def has_local_queue(self, namespace: str, name: str) -> bool:
        return f"{namespace}/{name}" in self.local | self.multikueue

    def leads_to_multikueue(self, namespace: str, name: str) -> bool:
        return f"{namespace}/{name}" in self.multikueue

    def namespace_labels(self, namespace: str) -> Mapping[str, str]:
        return self.labels.get(namespace, {})

    def has_priority_class(self, name: str) -> bool:
        return name in self.classes

    def is_queued_kind(self, api_version: str, kind: str) -> bool:
        return bool(api_version) and kind in self.queued_kinds

    def has_ancestor(self, job: Mapping[str, Any]) -> bool:
        return job["metadata"]["name"] in self.children
