"""A worker's queue as dispatchers see it."""

from __future__ import annotations

from collections.abc import Mapping

from multiqueue.plugins.view import FlavorView, QueueView, QuotaView, ResourceGroupView
from tests.builders.queues import GPU


def make_queue_view(sizes: Mapping[str, int], labels: Mapping[str, Mapping[str, str]]) -> QueueView:
    """One group of GPU flavors: the most of each, and the node labels of each."""
    return QueueView(
        name="cq",
        groups=(ResourceGroupView(resources=(GPU,), flavors=tuple(sizes)),),
        flavors={name: FlavorView(name=name, node_labels=labels.get(name, {})) for name in sizes},
        quotas={(name, GPU): QuotaView(most=most) for name, most in sizes.items()},
    )
