"""Predicts what a drain would do with each Workload. Pure. Parity: S-39.

``clusters drain --dry-run`` and the dashboard's question before a drain show it. It uses the
manager's rules on the objects that the manager and the workers serve. Objects that the user may not
read count as unknown, and an unknown worker may take anything.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from multiqueue.api import v1beta2 as api
from multiqueue.api.cluster_orders import DrainOrder
from multiqueue.api.conditions import ACTIVE, WorkloadCondition, find_condition
from multiqueue.api.names import MULTIKUEUE_CONTROLLER, key_of
from multiqueue.api.v1beta2.meta import format_time
from multiqueue.api.workload_state import find, has_quota, is_finished
from multiqueue.capacity.filters import Candidate, why_not
from multiqueue.capacity.own_quota import OwnQuota, QuotaClaim
from multiqueue.capacity.workload_view import build_workload_view
from multiqueue.drain.chance import Chance
from multiqueue.drain.pace import Bucket, Resident, estimate_begins, sort_residents
from multiqueue.drain.relocation import (
    RelocationProspect,
    judge_ways,
    list_ways,
    with_flavors,
)
from multiqueue.drain.stop_time import find_cut_off, find_stop_time
from multiqueue.model.build_workload import BuildOptions
from multiqueue.plugins import ClusterView, WorkloadView, place
from multiqueue.views.workloads import view_workload

Json = Mapping[str, Any]


class Fate(StrEnum):
    """What a drain would do with a Workload."""

    MOVES = "Moves"
    WAITS = "Waits"
    """Another worker can hold it, but has no room yet."""
    STAYS = "Stays"
    """It stays until somebody acts."""
    STOPS = "Stops"
    """It is stopped by force, and no worker can take it."""


_LEAVES = frozenset({Fate.MOVES, Fate.STOPS})


@dataclass(frozen=True, slots=True, kw_only=True)
class Quotas:
    """The queues of one cluster.

    Attributes:
        quota: Its ClusterQueues; None if they may not be read.
        local_queues: Its LocalQueues by key.
        problem: Why the queues cannot be read; empty if they were read.
    """

    quota: OwnQuota | None = None
    local_queues: Mapping[str, api.LocalQueue] = field(default_factory=dict)
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainSurroundings:
    """The objects that were read of the manager and of the workers, by name.

    Attributes:
        workloads: Those on the worker; see `is_resident`.
        jobs: Their jobs, by uid; a job may declare how long a checkpoint takes.
        own: The queues of the manager.
        workers: The queues of each worker.
        notice_length: Returns the seconds of notice that a drain gives a Workload.
    """

    workloads: Sequence[api.Workload] = ()
    jobs: Mapping[str, Json] = field(default_factory=dict)
    clusters: Mapping[str, api.MultiKueueCluster] = field(default_factory=dict)
    checks: Mapping[str, api.AdmissionCheck] = field(default_factory=dict)
    configs: Mapping[str, api.MultiKueueConfig] = field(default_factory=dict)
    flavors: Mapping[str, api.ResourceFlavor] = field(default_factory=dict)
    own: OwnQuota
    workers: Mapping[str, Quotas] = field(default_factory=dict)
    notice_length: Callable[[api.Workload], int] = lambda _: 0

    def job_of(self, workload: api.Workload) -> Json | None:
        """Return the job of a Workload, if it was read."""
        owners = (self.jobs.get(owner.uid) for owner in workload.metadata.owner_references)
        return next(filter(None, owners), None)

    def clusters_of(self, workload: api.Workload) -> Sequence[str]:
        """Return the clusters that may take it; all clusters if that may not be read."""
        for state in workload.status.admission_checks:
            check = self.checks.get(state.name)
            if check is None or check.spec.controller_name != MULTIKUEUE_CONTROLLER:
                continue
            parameters = check.spec.parameters
            config = self.configs.get(parameters.name) if parameters else None
            if config is not None:
                return config.spec.clusters
        return sorted(self.clusters)


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A Workload on the worker.

    Attributes:
        to: The cluster that is expected to run it then; empty: none yet.
        certain: Whether that cluster's queues were read.
        why: Why it does not move now; empty if it does.
        notice: For how long it is told before it is stopped.
        told_until: When its notice ends at the latest; None: it gets none.
    """

    resident: Resident
    cut_off: str
    fate: Fate
    to: str = ""
    certain: bool = True
    why: str = ""
    notice: timedelta = timedelta()
    told_until: datetime | None = None

    @property
    def then(self) -> str:
        """What becomes of it, in words."""
        told = f", told until {format_time(self.told_until)}" if self.told_until else ""
        if self.fate is Fate.MOVES:
            return f"moves to {self.to}{'' if self.certain else ', maybe'}{told}"
        words = {Fate.WAITS: "waits for room", Fate.STAYS: "stays", Fate.STOPS: "is stopped"}
        return words[self.fate] + told

    def to_dict(self, now: datetime) -> dict[str, Any]:
        """Return the move for programs."""
        resident = self.resident
        return {
            "workload": resident.key,
            "fate": str(self.fate),
            "then": self.then,
            "to": self.to or None,
            "certain": self.certain,
            "why": self.why or None,
            "priority": resident.priority,
            "gpus": resident.gpus,
            "admitted": resident.admitted_at.isoformat(),
            "lostGpuHours": round(resident.lost_gpu_seconds(now) / 3600, 2),
            "graceSeconds": resident.stop.total_seconds(),
            "checkpointProblem": self.cut_off or None,
            "noticeSeconds": self.notice.total_seconds(),
            "noticeUntil": format_time(self.told_until) if self.told_until else None,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainForecast:
    """The result of a drain.

    Attributes:
        worker: The worker's name.
        order: The options of the drain.
        now: The time of the forecast.
        moves: The Workloads there, in the drain's order.
        unread: Why workers could not be read, by worker: no right, or no answer.
    """

    worker: str
    order: DrainOrder
    now: datetime
    moves: Sequence[Move]
    unread: Mapping[str, str]

    @property
    def ends_at(self) -> datetime | None:
        """When the last Workload that can leave has stopped; None if none can."""
        begins = _estimate_begins(self.moves, self.order, self.now)
        ends = [begin + move.notice + move.resident.stop for move, begin in begins]
        return max(ends, default=None)

    def to_dict(self) -> dict[str, Any]:
        """Return the forecast for programs."""
        order, ends_at = self.order, self.ends_at
        return {
            "worker": self.worker,
            "order": {
                "atOnce": order.pace.at_once,
                "periodSeconds": order.pace.every.total_seconds(),
                "notBefore": format_time(order.not_before) if order.not_before else None,
                "force": order.force,
            },
            "estimatedEnd": format_time(ends_at) if ends_at is not None else None,
            "lostGpuHours": round(self._lost(), 2),
            "counts": {fate.lower(): self._count(fate) for fate in Fate},
            "workloads": [move.to_dict(self.now) for move in self.moves],
            "unread": dict(self.unread),
        }

    def sentences(self) -> list[str]:
        """Return the forecast in sentences, for people."""
        if not self.moves:
            return [f"Nothing of this manager runs on {self.worker}."]
        told = [self._sum_up(), *self._tell_pace()]
        told += [
            f"What {name} has room for is not known here: {why}"
            for name, why in self.unread.items()
            if name != self.worker
        ]
        return told

    def _sum_up(self) -> str:
        words = {
            Fate.MOVES: "would be moved",
            Fate.WAITS: "would be moved as soon as another worker has room",
            Fate.STAYS: "would stay until somebody acts; --force stops it all the same",
            Fate.STOPS: "would be stopped by force, with nowhere to go",
        }
        parts = [f"{n} {said}" for fate, said in words.items() if (n := self._count(fate))]
        return f"{', '.join(parts)}."

    def _tell_pace(self) -> list[str]:
        ends_at, pace = self.ends_at, self.order.pace
        if ends_at is None:
            return []
        begins = self.order.not_before
        later = f", not before {format_time(begins)}" if begins and begins > self.now else ""
        told = (
            f"They go in this order, at most {pace.at_once} at a time and one every "
            f"{pace.every.total_seconds():g} s{later}. At most {self._lost():.2f} GPU-hours of "
            "work would be lost, and the last of those that can go now has stopped at about "
            f"{format_time(ends_at)}."
        )
        return [told]

    def _count(self, fate: Fate) -> int:
        return sum(move.fate is fate for move in self.moves)

    def _lost(self) -> float:
        leaving = (move.resident for move in self.moves if move.fate in _LEAVES)
        return sum(resident.lost_gpu_seconds(self.now) for resident in leaving) / 3600


def is_resident(workload: api.Workload, worker: str) -> bool:
    """Whether a Workload is on a worker, so that a drain of this worker is about it."""
    status = workload.status
    return status.cluster_name == worker and has_quota(status) and not is_finished(status)


async def build_plan(
    name: str, around: DrainSurroundings, order: DrainOrder, now: datetime
) -> DrainForecast:
    """Return what a drain of a worker would do with the Workloads there.

    Other tasks get a turn after each Workload: the manager serves the dashboard, too.

    Args:
        name: The worker's name.
        around: The objects that were read.
        order: The options of the drain.
        now: The time.
    """
    there = {workload.metadata.key: workload for workload in around.workloads}
    moves = []
    for resident in sort_residents(_resident(workload, now) for workload in there.values()):
        moves.append(_plan(there[resident.key], resident, name, around, order))
        await asyncio.sleep(0)
    begins = {move.resident.key: begin for move, begin in _estimate_begins(moves, order, now)}
    moves = [_tell(move, begins.get(move.resident.key)) for move in moves]
    unread = {worker: q.problem for worker, q in around.workers.items() if q.problem}
    return DrainForecast(worker=name, order=order, now=now, moves=moves, unread=unread)


def _estimate_begins(
    moves: Iterable[Move], order: DrainOrder, now: datetime
) -> list[tuple[Move, datetime]]:
    """Return those that can leave, and when each begins to: when it is told, or is stopped."""
    leaving = [move for move in moves if move.fate in _LEAVES]
    first = max(now, order.not_before or now)
    begins = estimate_begins(
        [],
        [move.notice + move.resident.stop for move in leaving],
        bucket=Bucket.full(first),
        pace=order.pace,
        now=first,
    )
    return list(zip(leaving, begins, strict=True))


def _tell(move: Move, begins: datetime | None) -> Move:
    return replace(move, told_until=begins + move.notice) if begins and move.notice else move


def _plan(
    workload: api.Workload,
    resident: Resident,
    name: str,
    around: DrainSurroundings,
    order: DrainOrder,
) -> Move:
    job, notice = around.job_of(workload), around.notice_length(workload)
    cut_off = find_cut_off(workload, job, notice=notice)
    prospect = _judge(workload, job, name, around, cut_off)
    fate = _fate(prospect, order)
    if fate in _LEAVES:
        _take(workload, prospect, around)
    quotas = around.workers.get(prospect.cluster)
    certain = not prospect.cluster or (quotas is not None and not quotas.problem)
    return Move(
        resident=resident,
        cut_off=cut_off,
        fate=fate,
        to=prospect.cluster if fate is Fate.MOVES else "",
        certain=certain or fate is not Fate.MOVES,
        why=prospect.why,
        notice=timedelta(seconds=notice),
    )


def _fate(prospect: RelocationProspect, order: DrainOrder) -> Fate:
    if prospect.cluster and (order.force or not prospect.why):
        return Fate.MOVES
    if order.force:
        return Fate.STOPS
    return Fate.WAITS if prospect.chance is Chance.ROOM else Fate.STAYS


def _judge(
    workload: api.Workload, job: Json | None, name: str, around: DrainSurroundings, cut_off: str
) -> RelocationProspect:
    others = [other for other in around.clusters_of(workload) if other != name]
    ways = []
    shown = _view(with_flavors(workload, None), around)
    for choice, asked in list_ways(workload, around.own.choices(workload, shown)):
        view = _view(asked, around)
        clusters = [_cluster(other, asked, view, job, around) for other in others]
        ways.append((choice, view, clusters))
    return judge_ways(ways, cut_off=cut_off)


def _cluster(
    name: str, asked: api.Workload, view: WorkloadView, job: Json | None, around: DrainSurroundings
) -> ClusterView:
    cluster = around.clusters.get(name)
    if cluster is None:
        return ClusterView(name=name, connected=False, unusable="has no MultiKueueCluster")
    active = find_condition(cluster.status.conditions, ACTIVE)
    if active is None or active.status != "True":
        return ClusterView(name=name, connected=False, unusable="is not connected")
    quotas = around.workers.get(name) or Quotas()
    found = quotas.local_queues.get(key_of(view.namespace, view.queue))
    known = quotas.quota is not None
    return ClusterView(
        name=name,
        unusable=why_not(Candidate(cluster=cluster, workload=asked, job=job)),
        queue=quotas.quota.find(found.spec.cluster_queue)
        if quotas.quota is not None and found is not None
        else None,
        queue_known=known,
    )


def _take(workload: api.Workload, prospect: RelocationProspect, around: DrainSurroundings) -> None:
    """Count a Workload that moves, here and at its new cluster, before the next is judged."""
    if prospect.claim is not None:
        around.own.take(prospect.claim)
    quotas = around.workers.get(prospect.cluster)
    if quotas is None or quotas.quota is None:
        return
    view = _view(with_flavors(workload, None), around)
    found = quotas.local_queues.get(key_of(view.namespace, view.queue))
    queue = quotas.quota.find(found.spec.cluster_queue) if found is not None else None
    assignment = place(view, queue) if queue is not None else None
    if queue is not None and assignment is not None:
        quotas.quota.take(QuotaClaim(queue=queue.name, taken=assignment.taken))


def _view(workload: api.Workload, around: DrainSurroundings) -> WorkloadView:
    return build_workload_view(
        workload, kind="", find_flavor=around.flavors.get, options=BuildOptions()
    )


def _resident(workload: api.Workload, now: datetime) -> Resident:
    view = view_workload(workload)
    admitted = find(workload.status, WorkloadCondition.ADMITTED)
    return Resident(
        key=view.key,
        priority=view.priority,
        gpus=view.gpus,
        admitted_at=admitted.transitioned_at if admitted is not None else now,
        stop=find_stop_time(workload),
    )
