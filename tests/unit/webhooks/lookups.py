"""A world of queues for webhook tests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Queues:
    """LocalQueues as ``namespace/name`` and which of them lead to workers."""

    local: frozenset[str] = frozenset()
    multikueue: frozenset[str] = frozenset()
    labels: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def has_local_queue(self, namespace: str, name: str) -> bool:
        return f"{namespace}/{name}" in self.local | self.multikueue

    def leads_to_multikueue(self, namespace: str, name: str) -> bool:
        return f"{namespace}/{name}" in self.multikueue

    def namespace_labels(self, namespace: str) -> Mapping[str, str]:
        return self.labels.get(namespace, {})
