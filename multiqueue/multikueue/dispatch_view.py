"""Puts together what a dispatcher is shown, and takes in what it answers."""

from __future__ import annotations

from datetime import datetime

from multiqueue.api import v1beta2 as api
from multiqueue.jobs.context import ManagerContext
from multiqueue.jobs.framework.gvk import GroupVersionKind
from multiqueue.model.build import BuildOptions
from multiqueue.multikueue.fleet import Fleet
from multiqueue.multikueue.group import ClusterState
from multiqueue.multikueue.memory import GroupMemory
from multiqueue.multikueue.observe import Observation
from multiqueue.multikueue.workload_view import build_workload_view
from multiqueue.plugins import (
    ClusterView,
    CopyState,
    DispatchView,
    Nomination,
    WorkloadView,
)


class DispatchViews:
    """Builds views from the live state of the workers.

    Args:
        context: Of the manager.
        fleet: The workers.
        options: How requests of Workloads are read.
    """

    def __init__(self, context: ManagerContext, fleet: Fleet, options: BuildOptions) -> None:
        self._context = context
        self._fleet = fleet
        self._options = options

    def build(self, seen: Observation, workload: api.Workload, memory: GroupMemory) -> DispatchView:
        """Return what there is to know about a Workload and its clusters now."""
        local = seen.view.local
        shown = build_workload_view(
            workload,
            kind=describe_kind(seen.adapter.gvk) if seen.adapter is not None else "",
            find_flavor=self._context.informers.resource_flavors.store.get,
            options=self._options,
        )
        return DispatchView(
            workload=shown,
            clusters=tuple(
                self._cluster(name, seen.view.find_cluster(name), shown) for name in seen.clusters
            ),
            nominated=local.nominated if local is not None else (),
            history=memory.rounds,
            arguments=self._context.config.multi_kueue.dispatcher_arguments,
            now=self._context.clock.now(),
        )

    def accept(
        self,
        view: DispatchView,
        nomination: Nomination,
        memory: GroupMemory,
        fleet: tuple[int, tuple[str, ...]],
    ) -> None:
        """Remember an answer, and count what is on its way."""
        memory.asked_at = view.now
        memory.ask_again_at = nomination.ask_again_at
        memory.fleet = fleet
        memory.room_changed = False
        memory.add_round(view.now, nomination.clusters)
        for cluster in view.clusters:
            state = self._fleet.find_state(cluster.name)
            if state is None:
                continue
            if cluster.name in nomination.clusters and not cluster.unusable:
                state.intend(view.workload)
            else:
                state.forget_intent(view.workload.key)

    def postpone(
        self, memory: GroupMemory, until: datetime | None, fleet: tuple[int, tuple[str, ...]]
    ) -> None:
        """Remember that there was no answer, and when to ask again."""
        memory.asked_at = self._context.clock.now()
        memory.ask_again_at = until
        memory.fleet = fleet
        memory.room_changed = False

    def _cluster(
        self, name: str, state: ClusterState | None, workload: WorkloadView
    ) -> ClusterView:
        found = self._context.informers.multikueue_clusters.store.get(name)
        labels = found.metadata.labels if found is not None else {}
        unusable = _why_unusable(state, exists=found is not None)
        session = self._fleet.find_session(name)
        queues = self._fleet.find_state(name)
        if state is None or session is None or queues is None:
            return ClusterView(
                name=name,
                labels=labels,
                connected=False,
                unusable=unusable or "is not connected",
                queue_known=False,
            )
        running, waiting = queues.count_copies()
        known = queues.is_known
        return ClusterView(
            name=name,
            labels=labels,
            unusable=unusable,
            kinds=frozenset(
                describe_kind(adapter.gvk)
                for adapter in self._fleet.adapters
                if session.serves(adapter.gvk)
            ),
            queue=queues.queue_view(workload.namespace, workload.queue, without=workload.key)
            if known
            else None,
            queue_known=known,
            copy=_copy_state(state),
            running=running,
            waiting=waiting,
        )


def describe_kind(kind: GroupVersionKind) -> str:
    """``Job.v1.batch``, as configurations name kinds."""
    return ".".join(part for part in (kind.kind, kind.version, kind.group) if part)


def _why_unusable(state: ClusterState | None, *, exists: bool) -> str:
    if not exists:
        return "has no MultiKueueCluster"
    if state is None or not state.reachable:
        return "is not connected"
    return state.refusal


def _copy_state(state: ClusterState) -> CopyState:
    copy = state.copy
    if copy is None:
        return CopyState.ABSENT
    return CopyState.RESERVED if copy.quota_reserved else CopyState.PENDING
