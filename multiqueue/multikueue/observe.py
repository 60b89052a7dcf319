"""Builds the view of one Workload from what the informers of manager and workers know.

Reads only, and never awaits: what is read belongs together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from multiqueue.api import names
from multiqueue.api import v1beta2 as api
from multiqueue.api.config import Gate
from multiqueue.api.slices import is_elastic, list_earlier
from multiqueue.jobs.context import ManagerContext
from multiqueue.jobs.framework.gvk import GroupVersionKind
from multiqueue.jobs.framework.multikueue import MultiKueueAdapter
from multiqueue.jobs.informers import BY_REPLACED
from multiqueue.multikueue.capacity.fleet_capacity import FleetCapacity, Prospects
from multiqueue.multikueue.chain import Heir, find_heir
from multiqueue.multikueue.checks import ClusterList, find_multikueue_check, list_clusters
from multiqueue.multikueue.cluster_state import ClusterState, RemoteJob, RemoteWorkload
from multiqueue.multikueue.connections.fleet import Fleet
from multiqueue.multikueue.connections.session import WorkerSession
from multiqueue.multikueue.dispatching.references import (
    NO_REFERENCE,
    Reference,
    find_reference,
)
from multiqueue.multikueue.filters import why_not
from multiqueue.multikueue.filters.candidate import Candidate, list_wishes
from multiqueue.multikueue.fitting import Fitting
from multiqueue.multikueue.group import GroupView, LocalJob, LocalWorkload
from multiqueue.multikueue.group_build import build_copy, build_job_end, build_local
from multiqueue.multikueue.memory import GroupMemory, is_ask_due
from multiqueue.multikueue.owners import find_job, find_kind

Json = dict[str, Any]
NEVER = datetime.fromtimestamp(0, UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """A view, and the objects that it was built from, for those who act on it.

    Attributes:
        view: What the rules see.
        workload: The Workload on the manager.
        job: Its job on the manager.
        adapter: Of the job's kind.
        clusters: Names in the order of the MultiKueueConfig.
        reference: Who chooses among them, as queues and MultiKueueConfig say.
        imagined: Whether the Workload is not there: nothing is told of it, or kept for it.
    """

    view: GroupView
    workload: api.Workload | None = None
    job: Json | None = None
    adapter: MultiKueueAdapter | None = None
    clusters: tuple[str, ...] = ()
    reference: Reference = NO_REFERENCE
    imagined: bool = False


class Observer:
    """Looks at Workloads.

    Args:
        context: Of the manager.
        fleet: The workers.
        capacity: What these could hold; None where nobody is to be sent anywhere.
    """

    def __init__(
        self, context: ManagerContext, fleet: Fleet, capacity: FleetCapacity | None = None
    ) -> None:
        self._context = context
        self._fleet = fleet
        self._capacity = capacity
        self._fitting = Fitting(context, fleet)
        self._elastic = context.config.gates.enabled(Gate.ELASTIC_JOBS_VIA_WORKLOAD_SLICES)

    def observe(self, key: str, memory: GroupMemory, fleet_version: int) -> Observation:
        """Return the view of one Workload, and bring the memory of it up to date."""
        informers = self._context.informers
        now = self._context.clock.now()
        workload = informers.workloads.store.get(key)
        if workload is None:
            states = [self._state(name, key, memory, now) for name in self._holders(key)]
            return Observation(
                view=GroupView(key=key, clusters=tuple(states), heir=self._find_heir(key, None))
            )
        job = find_job(workload, self._context)
        return self._observe(workload, job, memory, fleet_version)

    def foresee(
        self, reserved: api.Workload, memory: GroupMemory, fleet_version: int
    ) -> Observation:
        """Return the view of a Workload as it will be with the quota that it is about to get."""
        return self._observe(reserved, find_job(reserved, self._context), memory, fleet_version)

    def imagine(self, workload: api.Workload, job: Json) -> Observation:
        """Return the view of a Workload and its job as if they were there."""
        return self._observe(workload, job, GroupMemory(), 0, imagined=True)

    def _observe(
        self,
        workload: api.Workload,
        job: Json | None,
        memory: GroupMemory,
        fleet_version: int,
        *,
        imagined: bool = False,
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
            self._local_job(workload, kind, adapter, job),
            elastic=self._elastic and is_elastic(workload),
            earlier=self._list_earlier(workload),
        )
        memory.note(local, self._fleet.seen)
        memory.hear(list_wishes(workload, job))
        prospects = self._look_ahead(workload, local, configured)
        names_ = {
            *configured,
            *self._holders(key),
            *memory.suspects,
            *filter(None, (local.cluster_name, memory.last_cluster)),
        }
        states = [
            self._state(
                name,
                key,
                memory,
                now,
                local=local,
                configured=configured,
                workload=workload,
                job=job,
                never=prospects.never if prospects is not None else {},
                imagined=imagined,
            )
            for name in sorted(names_)
        ]
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
            heir=self._find_heir(key, workload),
            ask_due=is_ask_due(memory, local, states, (fleet_version, configured), now),
        )
        return Observation(
            view=view,
            workload=workload,
            job=job,
            adapter=adapter,
            clusters=configured,
            reference=find_reference(workload, listed.reference, informers),
            imagined=imagined,
        )

    def _look_ahead(
        self, workload: api.Workload, local: LocalWorkload, clusters: tuple[str, ...]
    ) -> Prospects | None:
        """Return what the clusters could hold, while that decides where it goes."""
        waits = local.is_pending and local.has_quota and local.cluster_name is None
        if not waits or self._capacity is None:
            return None
        return self._capacity.look(workload, clusters)

    def _list_earlier(self, workload: api.Workload) -> tuple[str, ...]:
        if not self._elastic or not is_elastic(workload):
            return ()
        return tuple(list_earlier(workload, self._context.informers.workloads.store.get))

    def _find_heir(self, key: str, workload: api.Workload | None) -> Heir | None:
        """Return the slice that took over, for one that has something there."""
        if not self._elastic:
            return None
        informers = self._context.informers
        check = find_multikueue_check(workload, informers) if workload is not None else None
        store = informers.workloads.store
        return find_heir(
            key, partial(store.by_index, BY_REPLACED), check.name if check is not None else ""
        )

    # ------------------------------------------------------------ manager

    def _local_job(
        self,
        workload: api.Workload,
        kind: GroupVersionKind | None,
        adapter: MultiKueueAdapter | None,
        job: Json | None,
    ) -> LocalJob | None:
        if kind is None:
            return LocalJob(
                refusal=f'Workload "{workload.metadata.key}" has no owner; MultiKueue runs jobs'
            )
        if adapter is None:
            return LocalJob(refusal=f"MultiKueue cannot run jobs of {kind} with this configuration")
        integration = self._context.integrations.find_by_gvk(kind)
        if job is None or integration is None:
            return None
        return LocalJob(
            refusal=adapter.refusal(job) or "",
            active=integration.is_active(job),
            suspended=integration.is_suspended(job),
            finished=integration.finished(job) is not None,
        )

    def _find_clusters(self, check: api.AdmissionCheckState | None) -> ClusterList:
        informers = self._context.informers
        found = informers.admission_checks.store.get(check.name) if check is not None else None
        return list_clusters(found, informers) if found is not None else ClusterList()

    # ------------------------------------------------------------ workers

    def _holders(self, key: str) -> Iterator[str]:
        return iter(sorted(self._fleet.find_holders(key)))

    def _state(
        self,
        name: str,
        key: str,
        memory: GroupMemory,
        now: datetime,
        *,
        local: LocalWorkload | None = None,
        configured: tuple[str, ...] = (),
        workload: api.Workload | None = None,
        job: Json | None = None,
        never: Mapping[str, str] | None = None,
        imagined: bool = False,
    ) -> ClusterState:
        cluster = self._context.informers.multikueue_clusters.store.get(name)
        session = self._fleet.find_session(name)
        kind = find_kind(workload) if workload is not None else None
        usable = cluster is not None and name in configured
        if session is None:
            return ClusterState(
                name=name,
                configured=usable,
                reachable=False,
                lost_at=self._fleet.lost_at(name),
                first_chance_until=self._fleet.first_chance_until(name),
                job_known=False,
                may_run_unseen=local is not None
                and memory.may_run_unseen(name, local, self._fleet.seen),
            )
        copy = build_copy(session.find_copy(key))
        refusal = memory.refusal(name, now)
        refusal = refusal or self._find_refusal(name, key, local, copy, only_asks=imagined)
        if kind is not None and not session.serves(kind):
            refusal = f"does not serve {kind}"
        elif cluster is not None and workload is not None and not refusal:
            refusal = why_not(Candidate(cluster=cluster, workload=workload, job=job))
        if not refusal and (copy is None or not copy.quota_reserved):
            # A worker that gave it quota knows better.
            refusal = (never or {}).get(name, "")
        blind = session.blind_for(kind) if kind is not None else None
        # A worker that never serves a kind must not hold up what runs elsewhere: there a sign is
        # wanted. One that fails to list it is like one that was not seen yet.
        fails = kind is not None and not session.hides(kind)
        return ClusterState(
            name=name,
            configured=usable,
            lost_at=now - timedelta(seconds=blind) if blind is not None else None,
            may_run_unseen=blind is not None
            and local is not None
            and (
                (copy is not None and copy.had_job)
                or memory.may_run_unseen(name, local, () if fails else self._fleet.seen)
            ),
            workload=copy,
            job=self._remote_job(session, key, local),
            job_known=kind is not None and session.knows_jobs(kind),
            refusal=refusal,
            misfit=self._fitting.find_misfit(name, workload, now) if workload is not None else "",
            leave=self._fleet.leaving.get((name, key), ""),
            jobs=session.job_count,
            creating=session.is_doing("job", key),
        )

    def _find_refusal(
        self,
        name: str,
        key: str,
        local: LocalWorkload | None,
        copy: RemoteWorkload | None,
        *,
        only_asks: bool,
    ) -> str:
        """Why a worker is not sent the Workload now; what is on its way there stays."""
        if local is None or not local.is_pending or local.cluster_name is not None:
            return ""
        if copy is not None and copy.quota_reserved:
            return ""
        has_copy = copy is not None
        return self._fleet.find_refusal(name, key, has_copy=has_copy, only_asks=only_asks)

    def _remote_job(
        self, session: WorkerSession, key: str, local: LocalWorkload | None
    ) -> RemoteJob | None:
        # Before it has the quota, what runs is none of its business (M-85).
        has_heritage = local is not None and local.has_quota and not local.finished
        earlier = local.earlier if local is not None and has_heritage else ()
        for name in (key, *earlier):
            found = self._read_job(session, name, earlier_key=name if name != key else "")
            if found is not None:
                return found
        return None

    def _read_job(
        self, session: WorkerSession, key: str, *, earlier_key: str
    ) -> RemoteJob | None:
        for kind, job in session.find_jobs(key):
            integration = self._context.integrations.find_by_gvk(kind)
            end = integration.finished(job) if integration is not None else None
            metadata = job["metadata"]
            return RemoteJob(
                earlier_key=earlier_key,
                earlier_copy=build_copy(session.find_copy(key)) if earlier_key else None,
                uid=metadata.get("uid", ""),
                epoch=(metadata.get("annotations") or {}).get(names.DISPATCH_EPOCH, ""),
                deleting=bool(metadata.get("deletionTimestamp")),
                finished=build_job_end(job, end) if end is not None else None,
            )
        return None
