"""Carries out the drain of one worker: which Workloads run, leave, and leave next.

Only the Workloads that are leaving are remembered; everything else is read again. A Workload
without a latch that a starting manager finds on the worker counts as leaving, so that no more than
the limit are moved at a time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime

from multiqueue.api import v1beta2 as api
from multiqueue.api.cluster_orders import DrainOrder
from multiqueue.api.conditions import NoticeEnd, WorkloadCondition
from multiqueue.api.notices import Notice
from multiqueue.api.slices import is_replaced
from multiqueue.api.workload_state import find, has_quota, is_finished
from multiqueue.capacity.own_quota import QuotaClaim
from multiqueue.dispatch.observe.observe import Observer
from multiqueue.drain.notices import DrainNotices, find_notice, was_taken_back
from multiqueue.drain.pace import Resident, sort_residents
from multiqueue.drain.relocation import Relocation, RelocationProspect
from multiqueue.drain.state import DrainRun, Leaving
from multiqueue.drain.stop_time import find_stop_time
from multiqueue.jobs.context import ManagerContext
from multiqueue.jobs.informers import BY_CLUSTER
from multiqueue.model.build_workload import BuildOptions
from multiqueue.model.resources import is_accelerator
from multiqueue.workers.connections.fleet import Fleet

AT_A_TIME = 10
"""Workloads to judge before other tasks get a turn: each takes up to a millisecond."""


class Drainer:
    """Carries out drains.

    Args:
        context: The manager's context.
        fleet: The workers.
        observer: Builds the view of a Workload.
        options: How the resource requests of Workloads are read.
    """

    def __init__(
        self, context: ManagerContext, fleet: Fleet, observer: Observer, options: BuildOptions
    ) -> None:
        self._context = context
        self._fleet = fleet
        self._options = options
        self.relocation = Relocation(context, fleet, observer, options)
        self.notices = DrainNotices(context, fleet)
        self._claims: dict[tuple[str, str], QuotaClaim] = {}

    def follow(self, run: DrainRun, now: datetime) -> list[Resident]:
        """Update which Workloads have left; return those that still run, in leaving order."""
        workloads = self._context.informers.workloads.store
        for key in () if run.only is not None else list(self._find_leaving(run)):
            run.leaving.setdefault(key, Leaving(until=now))
        if run.unaccounted and self._fleet.find_session(run.name) is not None:
            here = workloads.by_index(BY_CLUSTER, run.name)
            told = sum(find_notice(each) is not None for each in here)
            run.moved += max(0, run.unaccounted - len(run.leaving) - told)
            run.unaccounted = 0
        for key, entry in list(run.leaving.items()):
            workload = workloads.get(key)
            if self._is_there(run.name, key) and not _is_elsewhere(workload, run.name):
                continue
            del run.leaving[key]
            if workload is not None and not is_finished(workload.status):
                if entry.by_force:
                    run.stopped += 1
                else:
                    run.moved += 1
                run.arriving[key] = (entry.cluster, now + run.arrival)
        self._expect(run, now)
        on_their_way = run.leaving.keys() | run.arriving.keys()
        for name, key in list(self._claims):
            if name == run.name and key not in on_their_way:
                del self._claims[name, key]
        there = (
            workload
            for workload in workloads.by_index(BY_CLUSTER, run.name)
            if workload.metadata.key not in run.leaving and _runs(workload, run.name)
            if run.only is None or workload.metadata.key in run.only
        )
        residents = sort_residents(self.resident(run, workload, now) for workload in there)
        for key in run.residents.keys() - {resident.key for resident in residents}:
            del run.residents[key]
        return residents

    async def pick(
        self, run: DrainRun, order: DrainOrder, residents: list[Resident], now: datetime
    ) -> None:
        """Let the Workloads whose turn it is leave, and note why others stay."""
        run.staying, run.chances, run.looked_at = {}, {}, now
        self.read_quota()
        for index, resident in enumerate(residents):
            if index % AT_A_TIME == AT_A_TIME - 1:
                await asyncio.sleep(0)
            workload = self._context.informers.workloads.store.get(resident.key)
            if workload is None:
                continue
            seconds = self.notices.length_for(workload)
            prospect = self.relocation.judge(resident.key, leaving=run.name, notice=seconds)
            known = find_notice(workload)
            if prospect.why and not order.force:
                run.staying[resident.key] = prospect.why
                run.chances[resident.key] = prospect.chance
                if known is not None:
                    await self.notices.take_back(workload, prospect.why)
                continue
            if known is None:  # who was told by an earlier manager had its turn
                is_full = len(run.leaving) >= order.pace.at_once
                if is_full or not run.bucket.has_one(order.pace, now):
                    continue
                if seconds:
                    words = f"The cluster that runs it, {run.name}, is being drained"
                    known = await self.notices.give(workload, seconds, words)
                    if known is None:
                        continue  # it runs no more
                run.bucket = run.bucket.take(order.pace, now)
            words = f'Cluster "{run.name}" is being drained'
            self.let_go(run, resident, prospect, known, now, words=words)

    def end_notices(self, run: DrainRun, now: datetime) -> None:
        """Let the Workloads leave that have saved their work, or had their time for it (P-52)."""
        for key, entry in list(run.leaving.items()):
            notice, resident = entry.notice, entry.resident
            workload = self._context.informers.workloads.store.get(key)
            if notice is None or resident is None or workload is None:
                continue
            if was_taken_back(workload, notice):  # by the engine: it is judged again
                del run.leaving[key]
                run.looked_at = None
                continue
            saved_at = self.notices.saved_at(workload, notice, now)
            if saved_at is None and now.timestamp() < notice.by:
                continue
            if saved_at is not None:
                resident = replace(resident, admitted_at=saved_at)
            lost = resident.lost_gpu_seconds(now)
            run.lost_gpu_seconds += lost
            run.leaving[key] = replace(
                entry, notice=None, lost_gpu_seconds=lost, until=now + resident.stop
            )
            if notice.is_of_drain:  # those of preemptions are counted where they end
                saved = NoticeEnd.TIMED_OUT if saved_at is None else NoticeEnd.SAVED
                self.notices.count(workload, saved)

    def let_go(
        self,
        run: DrainRun,
        resident: Resident,
        prospect: RelocationProspect,
        notice: Notice | None,
        now: datetime,
        *,
        words: str,
    ) -> None:
        """Let a Workload leave, once its notice is over; ``words`` say why."""
        lost = 0.0 if notice is not None else resident.lost_gpu_seconds(now)
        run.lost_gpu_seconds += lost
        stops = now if notice is None else datetime.fromtimestamp(notice.by, UTC)
        told = prospect.why
        run.leaving[resident.key] = Leaving(
            until=stops + resident.stop,
            message=f"{words}, by force: {told}" if told else words,
            by_force=not prospect.cluster,
            cluster=prospect.cluster,
            lost_gpu_seconds=lost,
            notice=notice,
            resident=resident,
        )
        if prospect.claim is not None:
            self._claims[run.name, resident.key] = prospect.claim
            self.relocation.take(prospect.claim)
        workload = self._context.informers.workloads.store.get(resident.key)
        if workload is not None and prospect.cluster:
            self.relocation.expect(workload, prospect.cluster)

    def read_quota(self, *, but: str = "") -> None:
        """Read the manager's quota again; it counts all who leave some worker, but one."""
        claims = (claim for (_, key), claim in self._claims.items() if key != but)
        self.relocation.refresh(claims)

    def end(self, name: str) -> None:
        """Keep no quota any more for who leaves a worker."""
        self._claims = {at: claim for at, claim in self._claims.items() if at[0] != name}

    def _find_leaving(self, run: DrainRun) -> Iterator[str]:
        """Yield Workloads whose job is there though it may not run: they are leaving.

        The job of a replaced slice belongs to its successor slice, and moves with that.
        """
        session = self._fleet.find_session(run.name)
        if session is None:
            return
        store = self._context.informers.workloads.store
        for key in session.keys:
            workload = store.get(key)
            if workload is not None and (_runs(workload, run.name) or is_replaced(workload.status)):
                continue
            if next(session.find_jobs(key), None) is not None:
                yield key

    def _is_there(self, name: str, key: str) -> bool:
        """Whether an object of the Workload is there, or may be."""
        session = self._fleet.find_session(name)
        if session is None or session.find_copy(key) is not None:
            return True
        return next(session.find_jobs(key), None) is not None

    def _expect(self, run: DrainRun, now: datetime) -> None:
        """Keep room for the Workloads that are on their way."""
        store = self._context.informers.workloads.store
        for key, (_, until) in list(run.arriving.items()):
            workload = store.get(key)
            if workload is None or workload.status.cluster_name is not None or now > until:
                del run.arriving[key]
        expected = {key: entry.cluster for key, entry in run.leaving.items()}
        expected.update((key, cluster) for key, (cluster, _) in run.arriving.items())
        for key, cluster in expected.items():
            workload = store.get(key)
            if workload is not None and cluster:
                self.relocation.expect(workload, cluster)

    def resident(self, run: DrainRun, workload: api.Workload, now: datetime) -> Resident:
        """Return a Workload as a drain sees it."""
        key, version = workload.metadata.key, workload.metadata.resource_version
        known = run.residents.get(key)
        if known is not None and known[0] == version:
            return known[1]
        shown = self.relocation.view(workload)
        admitted = find(workload.status, WorkloadCondition.ADMITTED)
        resident = Resident(
            key=key,
            priority=shown.priority,
            gpus=sum(n for resource, n in shown.totals().items() if is_accelerator(resource)),
            admitted_at=admitted.transitioned_at if admitted is not None else now,
            stop=find_stop_time(workload),
        )
        run.residents[key] = (version, resident)
        return resident


def _runs(workload: api.Workload, name: str) -> bool:
    """Whether it runs on that worker, and should."""
    status = workload.status
    return (
        status.cluster_name == name
        and has_quota(status)
        and not is_finished(status)
        and not workload.metadata.deletion_timestamp
    )


def _is_elsewhere(workload: api.Workload | None, name: str) -> bool:
    return workload is not None and workload.status.cluster_name not in {None, name}
