"""A Workload that is not there yet, as the engine of a worker would see it. Pure."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from multiqueue.api.names import key_of
from multiqueue.model.workload import PodSet, Workload
from multiqueue.plugins.view import PodSetView, WorkloadView


def build_asked(asked: WorkloadView | Workload, now: datetime) -> Workload:
    """Return the Workload as if it were submitted to a worker now, and had nothing there."""
    if isinstance(asked, WorkloadView):
        return Workload(
            key=asked.key,
            uid=asked.uid,
            queue=key_of(asked.namespace, asked.queue),
            priority=asked.priority,
            created_at=now,
            queue_order_at=now,
            pod_sets=tuple(map(_pod_set, asked.pod_sets)),
        )
    return replace(
        asked,
        created_at=now,
        queue_order_at=now,
        reservation=None,
        checks={},
        pod_sets=tuple(replace(pod_set, topology_request=None) for pod_set in asked.pod_sets),
    )


def _pod_set(view: PodSetView) -> PodSet:
    return PodSet(
        name=view.name,
        count=view.count,
        min_count=view.min_count,
        requests=view.requests,
        placement=view.placement,
    )
