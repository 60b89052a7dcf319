"""Builds the view of one Workload from what the informers of manager and workers know.

Reads only, and never awaits: what is read belongs together.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from multiqueue.api import names
from multiqueue.api import v1beta2 as api
from multiqueue.api.conditions import CheckState, Reason, WorkloadCondition, find_condition
from multiqueue.api.v1beta2.meta import Condition, parse_time
from multiqueue.api.workload_state import has_quota, is_finished
from multiqueue.jobs.context import ManagerContext
from multiqueue.jobs.framework.gvk import GroupVersionKind
from multiqueue.jobs.framework.multikueue import MultiKueueAdapter
from multiqueue.multikueue.checks import find_multikueue_check, list_clusters, other_checks_ready
from multiqueue.multikueue.clone import digest_of, epoch_of
from multiqueue.multikueue.fleet import Fleet
from multiqueue.multikueue.group import (
    Check,
    ClusterState,
    Finish,
    GroupView,
    LocalJob,
    LocalWorkload,
    Priority,
    RemoteJob,
    RemoteWorkload,
)
from multiqueue.multikueue.memory import GroupMemory
from multiqueue.multikueue.session import WorkerSession

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
    """

    view: GroupView
    workload: api.Workload | None = None
    job: Json | None = None
    adapter: MultiKueueAdapter | None = None
    clusters: tuple[str, ...] = ()


class Observer:
    """Looks at Workloads.

    Args:
        context: Of the manager.
        fleet: The workers.
    """

    def __init__(self, context: ManagerContext, fleet: Fleet) -> None:
        self._context = context
        self._fleet = fleet

    def observe(self, key: str, memory: GroupMemory, fleet_version: int) -> Observation:
        """Return the view of one Workload, and bring the memory of it up to date."""
        informers = self._context.informers
        now = self._context.clock.now()
        workload = informers.workloads.store.get(key)
        if workload is None:
            states = [self._state(name, key, None, memory, now) for name in self._holders(key)]
            return Observation(view=GroupView(key=key, clusters=tuple(states)))
        kind, adapter = self._find_kind(workload)
        job = self._find_job(workload, kind)
        check = find_multikueue_check(workload, informers)
        configured = self._find_clusters(check)
        local = build_local(workload, check, self._local_job(workload, kind, adapter, job))
        memory.note(local, self._fleet.seen)
        names_ = {
            *configured,
            *self._holders(key),
            *memory.suspects,
            *filter(None, (local.cluster_name, memory.last_cluster)),
        }
        states = [
            self._state(name, key, kind, memory, now, local=local, configured=configured)
            for name in sorted(names_)
        ]
        for state in states:
            memory.see(state)
        view = GroupView(
            key=key,
            local=local,
            clusters=tuple(states),
            last_cluster=memory.last_cluster,
            ask_again_at=memory.ask_again_at,
            ask_due=is_ask_due(memory, local, states, (fleet_version, configured), now),
        )
        return Observation(
            view=view, workload=workload, job=job, adapter=adapter, clusters=configured
        )

    # ------------------------------------------------------------ manager

    def _find_kind(
        self, workload: api.Workload
    ) -> tuple[GroupVersionKind | None, MultiKueueAdapter | None]:
        """Return kind and adapter of the job: the controller owner's, or the first owner's (M-81).

        Deviates: annotations that name an owner are not believed; whoever may write them could have
        the jobs of others deleted (upstream #12548).
        """
        owners = workload.metadata.owner_references
        owner = next((o for o in owners if o.controller), owners[0] if owners else None)
        if owner is None:
            return None, None
        kind = GroupVersionKind.of(owner.api_version, owner.kind)
        return kind, self._context.integrations.find_adapter(kind)

    def _find_job(self, workload: api.Workload, kind: GroupVersionKind | None) -> Json | None:
        integration = self._context.integrations.find_by_gvk(kind) if kind is not None else None
        if integration is None:
            return None
        store = self._context.informers.jobs[integration.name].store
        for owner in workload.metadata.owner_references:
            job = store.get(names.key_of(workload.metadata.namespace, owner.name))
            if job is not None and job["metadata"].get("uid") == owner.uid:
                return job
        return None

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
            finished=integration.finished(job) is not None,
        )

    def _find_clusters(self, check: api.AdmissionCheckState | None) -> tuple[str, ...]:
        informers = self._context.informers
        found = informers.admission_checks.store.get(check.name) if check is not None else None
        return list_clusters(found, informers).clusters if found is not None else ()

    # ------------------------------------------------------------ workers

    def _holders(self, key: str) -> Iterator[str]:
        return iter(sorted(self._fleet.find_holders(key)))

    def _state(
        self,
        name: str,
        key: str,
        kind: GroupVersionKind | None,
        memory: GroupMemory,
        now: datetime,
        *,
        local: LocalWorkload | None = None,
        configured: tuple[str, ...] = (),
    ) -> ClusterState:
        exists = self._context.informers.multikueue_clusters.store.get(name) is not None
        session = self._fleet.find_session(name)
        usable = exists and name in configured
        if session is None:
            return ClusterState(
                name=name,
                configured=usable,
                reachable=False,
                lost_at=self._fleet.lost_at(name),
                job_known=False,
                may_run_unseen=local is not None
                and memory.may_run_unseen(name, local, self._fleet.seen),
            )
        served = kind is None or session.serves(kind)
        return ClusterState(
            name=name,
            configured=usable,
            workload=build_copy(session.informers.workloads.store.get(key)),
            job=self._remote_job(session, key),
            job_known=kind is not None and session.knows_jobs(kind),
            refusal=memory.refusal(name, now) if served else f"does not serve {kind}",
        )

    def _remote_job(self, session: WorkerSession, key: str) -> RemoteJob | None:
        for kind, job in session.find_jobs(key):
            integration = self._context.integrations.find_by_gvk(kind)
            end = integration.finished(job) if integration is not None else None
            metadata = job["metadata"]
            return RemoteJob(
                uid=metadata.get("uid", ""),
                epoch=(metadata.get("annotations") or {}).get(names.DISPATCH_EPOCH, ""),
                deleting=bool(metadata.get("deletionTimestamp")),
                finished=Finish(
                    success=end.success,
                    reason=Reason.SUCCEEDED if end.success else Reason.FAILED,
                    message=end.message,
                    at=_end_of(job),
                )
                if end is not None
                else None,
            )
        return None


def is_ask_due(
    memory: GroupMemory,
    local: LocalWorkload,
    clusters: list[ClusterState],
    fleet: tuple[int, tuple[str, ...]],
    now: datetime,
) -> bool:
    """Whether the dispatcher is to be asked: for the first time, again as it wished, or anew.

    A copy that holds quota on its worker is on its way; then only its cluster's loss counts.
    """
    if memory.asked_at is None:
        return True
    by_name = {cluster.name: cluster for cluster in clusters}
    for name in local.nominated:
        cluster = by_name.get(name)
        if cluster is None or not cluster.configured or not cluster.reachable or cluster.refusal:
            return True
    if any(c.copy is not None and c.copy.quota_reserved for c in clusters):
        return False
    if memory.ask_again_at is not None and now >= memory.ask_again_at:
        return True
    return memory.fleet != fleet


def build_local(
    workload: api.Workload, check: api.AdmissionCheckState | None, job: LocalJob | None
) -> LocalWorkload:
    """Return the Workload on the manager as the rules see it."""
    status = workload.status
    evicted = _true(status.conditions, WorkloadCondition.EVICTED)
    return LocalWorkload(
        uid=workload.metadata.uid,
        deleting=bool(workload.metadata.deletion_timestamp),
        finished=is_finished(status),
        has_quota=has_quota(status),
        epoch=epoch_of(workload),
        digest=digest_of(workload),
        evicted_at=evicted.transitioned_at if evicted is not None else None,
        was_evicted=evicted is not None
        or (status.scheduling_stats is not None and bool(status.scheduling_stats.evictions)),
        cluster_name=status.cluster_name,
        nominated=status.nominated_cluster_names,
        check=Check(
            name=check.name,
            state=CheckState(check.state),
            message=check.message,
            retry_count=check.retry_count or 0,
        )
        if check is not None
        else None,
        other_checks_ready=check is None or other_checks_ready(workload, check.name),
        priority=_priority(workload),
        job=job,
    )


def build_copy(workload: api.Workload | None) -> RemoteWorkload | None:
    """Return a copy as the rules see it."""
    if workload is None:
        return None
    conditions, annotations = workload.status.conditions, workload.metadata.annotations
    admitted = _true(conditions, WorkloadCondition.ADMITTED)
    evicted = _true(conditions, WorkloadCondition.EVICTED)
    finished = _true(conditions, WorkloadCondition.FINISHED)
    return RemoteWorkload(
        uid=workload.metadata.uid,
        epoch=annotations.get(names.DISPATCH_EPOCH, ""),
        digest=annotations.get(names.DISPATCH_DIGEST, ""),
        deleting=bool(workload.metadata.deletion_timestamp),
        quota_reserved=has_quota(workload.status),
        admitted_at=admitted.transitioned_at if admitted is not None else None,
        evicted_at=evicted.transitioned_at if evicted is not None else None,
        evicted_why=evicted.message if evicted is not None else "",
        finished=Finish(
            success=finished.reason == Reason.SUCCEEDED,
            reason=finished.reason,
            message=finished.message,
            at=finished.transitioned_at,
        )
        if finished is not None
        else None,
        deactivating=not workload.spec.active
        or _true(conditions, WorkloadCondition.DEACTIVATION_TARGET) is not None,
        priority=_priority(workload),
    )


def _priority(workload: api.Workload) -> Priority:
    reference = workload.spec.priority_class_ref
    return Priority(
        value=workload.spec.priority,
        kind=reference.kind if reference is not None else "",
        name=reference.name if reference is not None else "",
    )


def _true(conditions: tuple[Condition, ...], type_: str) -> Condition | None:
    condition = find_condition(conditions, type_)
    return condition if condition is not None and condition.status == "True" else None


def _end_of(job: Json) -> datetime:
    """When a job ended, as far as it says so."""
    status = job.get("status") or {}
    times = [condition.get("lastTransitionTime") for condition in status.get("conditions") or ()]
    found = [moment for text in times if (moment := parse_time(text)) is not None]
    created = parse_time(job["metadata"].get("creationTimestamp"))
    return max(found, default=created or NEVER)
