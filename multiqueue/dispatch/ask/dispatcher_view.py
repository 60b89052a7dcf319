"""Builds the view that a dispatcher gets, and records its answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from functools import lru_cache
from typing import Any

from multiqueue.api import v1beta2 as api
from multiqueue.api.cluster_orders import read_orders
from multiqueue.capacity.filters import Candidate, why_avoid
from multiqueue.capacity.worker_state import WorkerState
from multiqueue.capacity.workload_view import build_workload_view
from multiqueue.dispatch.decide.cluster_state import ClusterState, RemoteWorkload
from multiqueue.dispatch.decide.view import LocalWorkload
from multiqueue.dispatch.observe.memory import GroupMemory
from multiqueue.dispatch.observe.observe import Observation
from multiqueue.dispatch.wake.global_queue import GlobalQueue
from multiqueue.forecast.forecasts import Forecasts
from multiqueue.jobs.context import ManagerContext
from multiqueue.jobs.framework.gvk import GroupVersionKind
from multiqueue.model.build_workload import BuildOptions
from multiqueue.plugins import (
    ClusterView,
    CopyState,
    DispatchView,
    Nomination,
    WorkloadView,
)
from multiqueue.workers.connections.fleet import Fleet

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
"""The whole manifest once more; no decision depends on it."""


class DispatchViews:
    """Builds views from the live state of the workers.

    Args:
        context: The manager's context.
        fleet: The workers.
        forecasts: Forecasts what each worker would do with a Workload.
        options: How the resource requests of Workloads are read.
        global_queue: The Workloads that wait for room.
    """

    def __init__(
        self,
        context: ManagerContext,
        fleet: Fleet,
        forecasts: Forecasts,
        *,
        options: BuildOptions,
        global_queue: GlobalQueue,
    ) -> None:
        self._context = context
        self._fleet = fleet
        self._options = options
        self._global_queue = global_queue
        self._forecasts = forecasts

    def build(self, seen: Observation, workload: api.Workload, memory: GroupMemory) -> DispatchView:
        """Return everything known about a Workload and its clusters now.

        The name and the arguments of the dispatcher are filled in later, for each dispatcher asked.

        Args:
            seen: The observation of the Workload, here and on the clusters.
            workload: The Workload to dispatch.
            memory: The memory of the Workload.
        """
        local = seen.view.local
        shown = build_workload_view(
            workload,
            kind=seen.adapter.gvk.dotted if seen.adapter is not None else "",
            find_flavor=self._context.informers.resource_flavors.store.get,
            options=self._options,
        )
        shown = replace(shown, annotations={**_annotations(seen.job), **shown.annotations})
        shown = self._forecasts.complete_workload(shown, workload, tells=not seen.imagined)
        asking = self._forecasts.ask(shown)
        clusters = self._context.informers.multikueue_clusters.store
        return DispatchView(
            workload=shown,
            clusters=tuple(
                self._forecasts.complete_cluster(
                    self._cluster(name, seen, shown, memory), clusters.get(name), asking
                )
                for name in seen.clusters
            ),
            nominated=local.nominated if local is not None else (),
            claim=self._global_queue.find_own(shown.key),
            history=memory.rounds,
            usual_speeds=self._forecasts.history.usual.by_hardware(),
            now=self._context.clock.now(),
        )

    def accept(
        self,
        view: DispatchView,
        nomination: Nomination,
        memory: GroupMemory,
        fleet: tuple[int, tuple[str, ...]],
    ) -> None:
        """Remember a nomination, and count its copies as in flight."""
        memory.asked_at = view.now
        memory.ask_again_at = nomination.ask_again_at
        memory.fleet = fleet
        memory.room_changed = False
        memory.followed = view.nominated if nomination.external else None
        memory.add_round(view.now, nomination.clusters)
        self._global_queue.note(view, nomination)
        for cluster in view.clusters:
            state = self._fleet.find_part(cluster.name, WorkerState)
            if state is None:
                continue
            if cluster.name in nomination.clusters and not cluster.unusable:
                state.intend(view.workload)
                self._forecasts.send(cluster, view.workload)
            else:
                state.forget_intent(view.workload.key)
                self._forecasts.withhold(cluster.name, view.workload.key)

    def withdraw(self, key: str) -> bool:
        """Count nothing as on its way for a Workload; whether room was kept for it somewhere."""
        counted = False
        for connection in self._fleet.connections:
            state = self._fleet.find_part(connection.name, WorkerState)
            if state is not None and state.forget_intent(key):
                self._forecasts.withhold(connection.name, key)
                counted = True
        return counted

    def postpone(
        self, memory: GroupMemory, until: datetime | None, fleet: tuple[int, tuple[str, ...]]
    ) -> None:
        """Remember that the dispatcher gave no answer, and when to ask it again."""
        memory.asked_at = self._context.clock.now()
        memory.ask_again_at = until
        memory.fleet = fleet
        memory.room_changed = False

    def _cluster(
        self, name: str, seen: Observation, workload: WorkloadView, memory: GroupMemory
    ) -> ClusterView:
        state = seen.view.find_cluster(name)
        found = self._context.informers.multikueue_clusters.store.get(name)
        labels = found.metadata.labels if found is not None else {}
        cordoned = found is not None and read_orders(found.metadata.annotations).cordoned
        unusable = _why_unusable(state, exists=found is not None)
        session = self._fleet.find_session(name)
        queues = self._fleet.find_part(name, WorkerState)
        if state is None or session is None or queues is None:
            return ClusterView(
                name=name,
                labels=labels,
                connected=False,
                cordoned=cordoned,
                unusable=unusable or "is not connected",
                queue_known=False,
            )
        copy = _find_copy(state, seen.view.local)
        running, waiting = queues.count_copies(without=workload.key)
        known = queues.is_known
        return ClusterView(
            name=name,
            labels=labels,
            cordoned=cordoned,
            unusable=unusable,
            kinds=_name_kinds(
                tuple(each.gvk for each in self._fleet.adapters if session.serves(each.gvk))
            ),
            queue=queues.queue_view(workload.namespace, workload.queue, without=workload.key)
            if known
            else None,
            queue_known=known,
            copy=_copy_state(copy),
            offered_at=_offered_at(copy, memory.offered_since(name)),
            avoid=_why_avoid(found, seen),
            health=self._score(name),
            running=running,
            waiting=waiting,
            neighbours=queues.count_neighbours(
                workload.namespace, workload.queue, without=workload.key
            ),
            claims=self._global_queue.list_claims(name, without=workload.key),
        )

    def _score(self, name: str) -> float:
        health = self._fleet.find_health(name)
        return health.score if health is not None else 1.0


@lru_cache(maxsize=64)
def _name_kinds(kinds: tuple[GroupVersionKind, ...]) -> frozenset[str]:
    """Return the names of kinds, one set for all views of clusters that serve the same ones."""
    return frozenset(kind.dotted for kind in kinds)


def _annotations(job: Mapping[str, Any] | None) -> Mapping[str, str]:
    given = (job["metadata"].get("annotations") or {}) if job is not None else {}
    return {name: text for name, text in given.items() if name != LAST_APPLIED}


def _why_unusable(state: ClusterState | None, *, exists: bool) -> str:
    if not exists:
        return "has no MultiKueueCluster"
    if state is None or not state.reachable:
        return "is not connected"
    return state.refusal


def _why_avoid(cluster: api.MultiKueueCluster | None, seen: Observation) -> str:
    if cluster is None or seen.workload is None:
        return ""
    return why_avoid(Candidate(cluster=cluster, workload=seen.workload, job=seen.job))


def _find_copy(state: ClusterState, local: LocalWorkload | None) -> RemoteWorkload | None:
    """Return the copy that counts; a copy of an earlier reservation does not."""
    copy = state.copy
    if copy is None or local is None or copy.epoch not in {"", local.epoch}:
        return None
    return copy


def _offered_at(copy: RemoteWorkload | None, since: datetime | None) -> datetime | None:
    """Return the earlier of what this process knows and what the copy says."""
    made = copy.offered_at if copy is not None else None
    return min((at for at in (since, made) if at is not None), default=None)


def _copy_state(copy: RemoteWorkload | None) -> CopyState:
    if copy is None:
        return CopyState.ABSENT
    return CopyState.RESERVED if copy.quota_reserved else CopyState.PENDING
