"""What one cluster has of a Workload, and why it should not be sent there.

Reads only and never awaits, as everything in `observe`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from multiqueue.api import names
from multiqueue.api import v1beta2 as api
from multiqueue.capacity.filters import Candidate, why_not
from multiqueue.dispatch.decide.cluster_state import ClusterState, RemoteJob, RemoteWorkload
from multiqueue.dispatch.decide.view import LocalWorkload
from multiqueue.dispatch.observe.departures import Departures
from multiqueue.dispatch.observe.fitting import FITS, Fitting
from multiqueue.dispatch.observe.memory import GroupMemory
from multiqueue.dispatch.observe.view_build import build_copy, build_job_end
from multiqueue.jobs.framework.gvk import GroupVersionKind
from multiqueue.workers.connections.session import CREATE_JOB, WorkerSession

if TYPE_CHECKING:  # as in `jobs.context`
    from multiqueue.jobs.context import ManagerContext
    from multiqueue.workers.connections.fleet import Fleet

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterQuestion:
    """One observation of a Workload: the part that is the same for each cluster.

    Attributes:
        key: The key of the Workload.
        memory: The memory of the Workload.
        now: The time.
        local: Its state on the manager; None: it is gone.
        configured: Clusters of its MultiKueueConfig.
        workload: The Workload.
        job: The job that it stands for.
        kind: The kind of the job.
        never: Clusters that could never hold it, and why.
        only_asks: Nothing will be sent: no place on a worker on probation is taken for it.
    """

    key: str
    memory: GroupMemory
    now: datetime
    local: LocalWorkload | None = None
    configured: tuple[str, ...] = ()
    workload: api.Workload | None = None
    job: Json | None = None
    kind: GroupVersionKind | None = None
    never: Mapping[str, str] = field(default_factory=dict)
    only_asks: bool = False


class ClusterObserver:
    """Observes the state of clusters.

    Args:
        context: The manager's context.
        fleet: The workers.
        fitting: Says whether a copy fits its worker.
        departures: The Workloads that must leave a worker.
    """

    def __init__(
        self, context: ManagerContext, fleet: Fleet, fitting: Fitting, departures: Departures
    ) -> None:
        self._context = context
        self._fleet = fleet
        self._fitting = fitting
        self._departures = departures

    def observe(self, name: str, look: ClusterQuestion) -> ClusterState:
        """Return the state of one cluster for the rules."""
        cluster = self._context.informers.multikueue_clusters.store.get(name)
        session, local, memory = self._fleet.find_session(name), look.local, look.memory
        configured = cluster is not None and name in look.configured
        if session is None:
            lost_for, chance = self._fleet.lost_for(name), self._fleet.first_chance_left(name)
            return ClusterState(
                name=name,
                configured=configured,
                reachable=False,
                lost_at=look.now - lost_for if lost_for is not None else None,
                first_chance_until=look.now + chance if chance is not None else None,
                job_known=False,
                may_run_unseen=local is not None
                and memory.may_run_unseen(name, local, self._fleet.seen),
            )
        kind = look.kind
        copy = build_copy(session.find_copy(look.key))
        blind = session.blind_for(kind) if kind is not None else None
        # A worker that never serves a kind must not delay jobs on other workers, so an unseen job
        # is assumed there only with evidence. A worker that fails to list is treated as unseen.
        fails = kind is not None and not session.hides(kind)
        stopping = memory.stopping_for(name, local, asyncio.get_running_loop().time())
        departure = self._departures.find(name, look.key)
        self._keep_off(name, look)
        misfit = FITS
        if look.workload is not None:
            misfit = self._fitting.find_misfit(name, look.workload, look.now)
        return ClusterState(
            name=name,
            configured=configured,
            lost_at=look.now - timedelta(seconds=blind) if blind is not None else None,
            may_run_unseen=blind is not None
            and local is not None
            and (
                (copy is not None and copy.had_job)
                or memory.has_evidence(name, local)
                or (fails and memory.may_run_unseen(name, local, ()))
            ),
            workload=copy,
            job=self._find_job(session, look),
            job_known=kind is not None and session.knows_jobs(kind),
            refusal=self._find_refusal(name, session, cluster, copy, look),
            misfit=misfit.why,
            misfit_at=misfit.again_at,
            stopping_since=look.now - stopping if stopping is not None else None,
            leave=departure.reason if departure is not None else "",
            stop=departure.stop if departure is not None else None,
            jobs=session.job_count,
            creating=session.is_doing(CREATE_JOB, look.key),
        )

    # ------------------------------------------------------------ refusals

    def _keep_off(self, name: str, look: ClusterQuestion) -> None:
        """Refuse a worker that the Workload left for another one, once it waits again."""
        local, kept_off = look.local, self._departures.find_kept_off(name, look.key, look.now)
        if kept_off is None or local is None or not local.is_pending or local.cluster_name:
            return
        if name not in look.memory.refusals:
            look.memory.refuse(name, *kept_off)

    def _find_refusal(
        self,
        name: str,
        session: WorkerSession,
        cluster: api.MultiKueueCluster | None,
        copy: RemoteWorkload | None,
        look: ClusterQuestion,
    ) -> str:
        refusal = look.memory.refusal(name, look.now) or self._why_not_now(name, copy, look)
        workload = look.workload
        if look.kind is not None and not session.serves(look.kind):
            refusal = f"does not serve {look.kind}"
        elif cluster is not None and workload is not None and not refusal:
            refusal = why_not(Candidate(cluster=cluster, workload=workload, job=look.job))
        if not refusal and (copy is None or not copy.quota_reserved):
            # A worker that gave it quota knows better.
            refusal = look.never.get(name, "")
        return refusal

    def _why_not_now(self, name: str, copy: RemoteWorkload | None, look: ClusterQuestion) -> str:
        """Why a worker is not sent the Workload now; a copy on its way there stays."""
        local = look.local
        if local is None or not local.is_pending or local.cluster_name is not None:
            return ""
        if copy is not None and copy.quota_reserved:
            return ""
        has_copy = copy is not None
        return self._fleet.find_refusal(name, look.key, has_copy=has_copy, only_asks=look.only_asks)

    # ------------------------------------------------------------ jobs

    def _find_job(self, session: WorkerSession, look: ClusterQuestion) -> RemoteJob | None:
        # Until the slice has quota, the job of an earlier slice does not concern it (M-85).
        local = look.local
        has_heritage = local is not None and local.has_quota and not local.finished
        earlier = local.earlier if local is not None and has_heritage else ()
        for name in (look.key, *earlier):
            found = self._read_job(session, name, earlier_key=name if name != look.key else "")
            if found is not None:
                return found
        return None

    def _read_job(self, session: WorkerSession, key: str, *, earlier_key: str) -> RemoteJob | None:
        found = session.find_job(key)
        if found is None:
            return None
        kind, job = found
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
