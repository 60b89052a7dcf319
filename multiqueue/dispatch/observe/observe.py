"""Builds the view of one Workload from the informers of the manager and the workers.

Reads only, and never awaits, so that all objects are read at the same moment (M-83).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

from multiqueue.api import v1beta2 as api
from multiqueue.api.config import Gate
from multiqueue.api.slices import is_elastic
from multiqueue.capacity.checks import ClusterList, find_multikueue_check, list_clusters
from multiqueue.capacity.filters import list_constraints
from multiqueue.capacity.fleet_capacity import FleetCapacity, Prospects
from multiqueue.capacity.owners import find_job, find_kind
from multiqueue.dispatch.decide.slice_chain import Successor
from multiqueue.dispatch.decide.view import GroupView, LocalJob, LocalWorkload
from multiqueue.dispatch.observe.departures import Departures
from multiqueue.dispatch.observe.fitting import Fitting
from multiqueue.dispatch.observe.lineage import Lineage
from multiqueue.dispatch.observe.memory import GroupMemory, is_ask_due
from multiqueue.dispatch.observe.observe_cluster import ClusterObserver, ClusterQuestion
from multiqueue.dispatch.observe.view_build import build_local
from multiqueue.dispatcher_host.references import (
    NO_REFERENCE,
    Reference,
    find_reference,
)
from multiqueue.jobs.framework.gvk import GroupVersionKind
from multiqueue.jobs.framework.multikueue import MultiKueueAdapter

if TYPE_CHECKING:  # as in `jobs.context`
    from multiqueue.jobs.context import ManagerContext
    from multiqueue.workers.connections.fleet import Fleet

Json = dict[str, Any]


class ObservedClusters(Enum):
    """Which clusters a view has."""

    CONCERNED = "Concerned"
    """Those that a decision about the Workload may depend on."""
    EVERYWHERE = "Everywhere"
    """Also every cluster of its configuration."""
    IMAGINED = "Imagined"
    """The same, for a Workload that does not exist."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """A view, and the objects from which it was built, for the code that acts on it.

    Attributes:
        view: The view for the rules.
        workload: The Workload on the manager.
        job: Its job on the manager.
        adapter: The adapter of the job's kind.
        clusters: Names in the order of the MultiKueueConfig.
        reference: The dispatcher that queues and MultiKueueConfig name.
        imagined: Whether the Workload does not exist: nothing is reported or kept for it.
    """

    view: GroupView
    workload: api.Workload | None = None
    job: Json | None = None
    adapter: MultiKueueAdapter | None = None
    clusters: tuple[str, ...] = ()
    reference: Reference = NO_REFERENCE
    imagined: bool = False


class Observer:
    """Builds views of Workloads.

    Args:
        context: The manager's context.
        fleet: The workers.
        fitting: Says whether a copy fits its worker.
        departures: The Workloads that must leave a worker.
        capacity: The limits of the workers; None if observations do not lead to dispatches.
    """

    def __init__(
        self,
        context: ManagerContext,
        fleet: Fleet,
        fitting: Fitting,
        departures: Departures,
        capacity: FleetCapacity | None = None,
    ) -> None:
        self._context = context
        self._fleet = fleet
        self._capacity = capacity
        self._lineage = Lineage(context.informers, fleet)
        self._clusters = ClusterObserver(context, fleet, fitting, departures)
        self._elastic = context.config.gates.enabled(Gate.ELASTIC_JOBS_VIA_WORKLOAD_SLICES)

    def observe(self, key: str, memory: GroupMemory, fleet_version: int) -> Observation:
        """Return the view of one Workload, and bring the memory of it up to date."""
        workload = self._context.informers.workloads.store.get(key)
        if workload is None:
            return self._observe_gone(key, memory)
        return self._observe(workload, find_job(workload, self._context), memory, fleet_version)

    def survey(self, key: str) -> Observation:
        """Return the view of one Workload with every cluster, even if it runs on one."""
        workload = self._context.informers.workloads.store.get(key)
        if workload is None:
            return self._observe_gone(key, GroupMemory())
        job = find_job(workload, self._context)
        return self._observe(workload, job, GroupMemory(), 0, ObservedClusters.EVERYWHERE)

    def foresee(
        self, reserved: api.Workload, memory: GroupMemory, fleet_version: int
    ) -> Observation:
        """Return the view of a Workload with the quota that it is about to get."""
        return self._observe(reserved, find_job(reserved, self._context), memory, fleet_version)

    def imagine(self, workload: api.Workload, job: Json, memory: GroupMemory) -> Observation:
        """Return the view of a Workload and its job as if they existed."""
        return self._observe(workload, job, memory, 0, ObservedClusters.IMAGINED)

    def _observe_gone(self, key: str, memory: GroupMemory) -> Observation:
        look = ClusterQuestion(key=key, memory=memory, now=self._context.clock.now())
        holders = sorted(self._fleet.find_holders(key))
        states = tuple(self._clusters.observe(name, look) for name in holders)
        return Observation(
            view=GroupView(key=key, clusters=states, successor=self._find_successor(key, None))
        )

    def _observe(
        self,
        workload: api.Workload,
        job: Json | None,
        memory: GroupMemory,
        fleet_version: int,
        scope: ObservedClusters = ObservedClusters.CONCERNED,
    ) -> Observation:
        informers, key = self._context.informers, workload.metadata.key
        now = self._context.clock.now()
        kind = find_kind(workload)
        adapter = self._context.integrations.find_adapter(kind) if kind is not None else None
        check = find_multikueue_check(workload, informers)
        listed = self._find_clusters(check)
        configured = listed.clusters
        local = build_local(
            workload,
            check,
            self._local_job(workload, kind, adapter, job, dispatched=check is not None),
            elastic=self._elastic and is_elastic(workload),
            earlier=self._list_earlier(workload),
        )
        memory.note(local, lambda name: self._fleet.find_session(name) is not None)
        memory.hear(list_constraints(workload, job))
        prospects = self._look_ahead(workload, local, configured)
        look = ClusterQuestion(
            key=key,
            memory=memory,
            now=now,
            local=local,
            configured=configured,
            workload=workload,
            job=job,
            kind=kind,
            never=prospects.never if prospects is not None else {},
            only_asks=scope is ObservedClusters.IMAGINED,
        )
        concerned = self._list_concerned(look, local, scope)
        states = [self._clusters.observe(name, look) for name in concerned]
        for state in states:
            memory.see(state)
        view = GroupView(
            key=key,
            local=local,
            clusters=tuple(states),
            last_cluster=memory.last_cluster,
            hopeless=prospects.hopeless if prospects is not None else "",
            ask_again_at=memory.ask_again_at,
            opening=memory.opening,
            successor=self._find_successor(key, workload),
            ask_due=is_ask_due(memory, local, states, (fleet_version, configured), now),
        )
        return Observation(
            view=view,
            workload=workload,
            job=job,
            adapter=adapter,
            clusters=configured,
            reference=find_reference(workload, listed.config, informers),
            imagined=scope is ObservedClusters.IMAGINED,
        )

    def _list_concerned(
        self, look: ClusterQuestion, local: LocalWorkload, scope: ObservedClusters
    ) -> list[str]:
        """Return the clusters that a decision may depend on, sorted.

        A running Workload is not sent elsewhere. Then a configured cluster counts only if it has
        objects of ours, or may have some. A Workload that was evicted before this process began may
        run on any cluster: its MultiKueueConfig may have changed, or be gone.
        """
        memory = look.memory
        found = {*self._fleet.find_holders(look.key), *memory.suspects, *local.nominated}
        found |= set(filter(None, (local.cluster_name, memory.last_cluster)))
        if scope is not ObservedClusters.CONCERNED or not local.is_settled:
            found.update(look.configured)
        if memory.inherited and local.was_evicted:
            found.update(self._context.informers.multikueue_clusters.store.keys())
        return sorted(found)

    def _look_ahead(
        self, workload: api.Workload, local: LocalWorkload, clusters: tuple[str, ...]
    ) -> Prospects | None:
        """Return what the clusters could hold, as long as the Workload can be sent to any."""
        waits = local.is_pending and local.has_quota and local.cluster_name is None
        if not waits or self._capacity is None:
            return None
        return self._capacity.look(workload, clusters)

    def _list_earlier(self, workload: api.Workload) -> tuple[str, ...]:
        if not self._elastic:
            return ()
        return self._lineage.list_earlier(workload)

    def _find_successor(self, key: str, workload: api.Workload | None) -> Successor | None:
        """Return the slice that took over from a slice that has objects there."""
        return self._lineage.find_successor(key, workload) if self._elastic else None

    # ------------------------------------------------------------ manager

    def _local_job(
        self,
        workload: api.Workload,
        kind: GroupVersionKind | None,
        adapter: MultiKueueAdapter | None,
        job: Json | None,
        *,
        dispatched: bool,
    ) -> LocalJob | None:
        if kind is None:
            return LocalJob(
                refusal=f'Workload "{workload.metadata.key}" has no owner; MultiKueue runs jobs'
            )
        if adapter is None:
            if self._context.integrations.is_awaited(kind):
                return None
            return LocalJob(refusal=f"MultiKueue cannot run jobs of {kind} with this configuration")
        integration = self._context.integrations.find_by_gvk(kind)
        if job is None or integration is None:
            return None
        refusal = adapter.refusal(job) or ""
        if not (refusal or dispatched or integration.managed_by(job)):
            refusal = f"the queue of the {kind.kind} sends nothing to workers"
        return LocalJob(
            refusal=refusal,
            active=integration.is_active(job),
            suspended=integration.is_suspended(job),
            finished=integration.finished(job) is not None,
        )

    def _find_clusters(self, check: api.AdmissionCheckState | None) -> ClusterList:
        informers = self._context.informers
        found = informers.admission_checks.store.get(check.name) if check is not None else None
        return list_clusters(found, informers) if found is not None else ClusterList()
