"""A Workload that is not on a worker yet, as the worker's engine would see it. Pure."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from multiqueue.api.alternatives import OTHERWISE
from multiqueue.api.names import key_of
from multiqueue.capacity.copy_selectors import find_selectors
from multiqueue.forecast.estimates import Budget
from multiqueue.model.workload import PodSet, Workload
from multiqueue.plugins.view import PodSetView, QueueView, WorkloadView

SyncRequest = tuple[tuple[str, str], ...]
"""Node labels for the copy selectors of a pod set."""


def build_asked(asked: WorkloadView | Workload, now: datetime) -> Workload:
    """Return the Workload as if it were submitted to a worker now and held nothing there."""
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
    return replace(asked, created_at=now, queue_order_at=now, reservation=None, checks={})


def without_topology(workload: Workload) -> Workload:
    """Return a Workload that requests quota only."""
    if all(pod_set.topology_request is None for pod_set in workload.pod_sets):
        return workload
    pod_sets = tuple(replace(pod_set, topology_request=None) for pod_set in workload.pod_sets)
    return replace(workload, pod_sets=pod_sets)


def resize(workload: Workload, which: PodSet, count: int) -> Workload:
    """Return a Workload with another number of pods in one of its pod sets."""
    pod_sets = tuple(
        replace(pod_set, count=count, min_count=None) if pod_set is which else pod_set
        for pod_set in workload.pod_sets
    )
    return replace(workload, pod_sets=pod_sets)


class Asking:
    """One decision: a Workload whose forecast is needed on many workers.

    Args:
        view: The Workload.
        now: The current time.

    Attributes:
        budget: What may be spent on estimates, over all workers.
    """

    def __init__(self, view: WorkloadView, now: datetime) -> None:
        self.view = view
        self.now = now
        self.budget = Budget()
        self._built: dict[tuple[SyncRequest, ...], Workload] = {}

    def build_for(self, queue: QueueView) -> Workload:
        """Return the Workload with the copy selectors that it gets for this queue."""
        constraints = tuple(
            tuple(sorted(find_selectors(pod_set, queue).items())) for pod_set in self.view.pod_sets
        )
        built = self._built.get(constraints)
        if built is None:
            steered = tuple(map(_steer, self.view.pod_sets, constraints))
            built = build_asked(replace(self.view, pod_sets=steered), self.now)
            self._built[constraints] = built
        return built


def _steer(pod_set: PodSetView, wanted: SyncRequest) -> PodSetView:
    if not wanted:
        return pod_set
    selector = dict(wanted) | dict(pod_set.placement.node_selector)
    placement = replace(pod_set.placement, node_selector=tuple(sorted(selector.items())))
    return replace(pod_set, placement=placement)


def _pod_set(view: PodSetView) -> PodSet:
    return PodSet(
        name=view.name,
        count=view.count,
        min_count=view.min_count,
        requests=view.requests,
        placement=view.placement,
        topology_request=view.topology,
        alternatives=tuple(sorted({**view.alternatives, OTHERWISE: view.count}.items()))
        if view.alternatives
        else (),
    )
