"""Moves a running Workload to another worker so that a gang, which waits for its room, starts now.

Who moves leaves as in a drain: it may save its work first, its check says Retry, and room is kept
for it elsewhere. A migration is known in memory only. A new manager takes its notices back; who was
stopped already is dispatched as any other.

Deviates: from P-93 to P-99. One Workload moves for a gang, so nobody is stopped for nothing because
another one stays. The gain is that of the policy of who moves, so that nobody is moved whose queue
does not want it. There is one gang at a time on each worker. Who moves keeps its flavor of the
manager. It may go to any worker but the one that it left, for two minutes. After its stop the
manager's quota is not kept for it, and it has no first rank for a claim: it waits in its queue.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import structlog

from multiqueue.api import v1beta2 as api
from multiqueue.api.conditions import PREEMPTION_NOTICE, find_condition
from multiqueue.api.disruptions import Stop, StopCause
from multiqueue.api.notices import parse_notice
from multiqueue.api.workload_state import is_admitted, is_evicted, is_finished
from multiqueue.capacity.worker_state import WorkerState
from multiqueue.capacity.workload_view import usage_of
from multiqueue.dispatch.observe.departures import Departures
from multiqueue.dispatch.wake.global_queue import GlobalQueue
from multiqueue.drain.moves import MigrationResult, Movable, list_worthy
from multiqueue.drain.pace import Bucket
from multiqueue.drain.relocation import RelocationProspect
from multiqueue.drain.run import Drainer
from multiqueue.drain.state import EXPECT_SECONDS, DrainRun
from multiqueue.drain.stop_time import find_stop_time
from multiqueue.engine.engine import Engine
from multiqueue.forecast.asked import Asking
from multiqueue.forecast.worker_forecast import WorkerForecast
from multiqueue.jobs.context import ManagerContext
from multiqueue.jobs.framework.job_source import BY_OWNER
from multiqueue.jobs.informers import BY_CLUSTER
from multiqueue.kube.reconciler import DONE, Result
from multiqueue.model.build_workload import BuildOptions, effective_priority
from multiqueue.model.turn import count_devices
from multiqueue.plugins import ClusterClaim
from multiqueue.plugins.global_queue import name_for
from multiqueue.workers.connections.fleet import Fleet

LOOK = timedelta(minutes=1)
"""How often each worker is looked at, at most (P-94)."""
MOST_JUDGED = 32
"""Candidates for which room is looked for elsewhere; the cheapest ones come first."""
KEPT_OFF = timedelta(minutes=2)
"""How long after its stop a Workload is not sent back to the worker that it left."""
LEFT_ALONE = timedelta(minutes=15)
"""How long a Workload is told nothing after a notice that was taken back: it saved for nothing."""
GIVE_UP = timedelta(minutes=5)
"""After this time over that of its stop, who still runs there may stay."""
NOT_MOVED = "nobody needs its room any more"

Fits = Callable[[frozenset[str]], bool]
"""Whether the gang would start if the Workloads with these keys were gone."""

log = structlog.get_logger("multiqueue.dispatch")


@dataclass(slots=True, kw_only=True)
class GangMove:
    """The Workload that leaves a worker for a gang.

    Attributes:
        gang: Key of the gang's Workload.
        queue: Its ClusterQueue on the manager.
        movable: Who leaves the worker.
        run: How far it is.
        is_stopped: Whether it was stopped; before that it may stay.
    """

    gang: str
    queue: str
    movable: Movable
    run: DrainRun
    is_stopped: bool = False

    @property
    def key(self) -> str:
        """Key of the Workload that leaves."""
        return self.movable.key


class Migrations:
    """Finds and carries out migrations, one at a time on each worker.

    Args:
        context: The manager's context.
        fleet: The workers.
        drainer: Moves the Workloads.
        departures: Receives the Workloads that must leave a worker.
        engine: Knows what a stop costs, and whom policies protect.
        global_queue: Who waits for room on which worker.
        options: How the resource requests of Workloads are read.
        enqueue: Asks for a reconcile of a Workload.
    """

    def __init__(
        self,
        context: ManagerContext,
        fleet: Fleet,
        drainer: Drainer,
        departures: Departures,
        *,
        engine: Engine,
        global_queue: GlobalQueue,
        options: BuildOptions,
        enqueue: Callable[[str], None],
    ) -> None:
        self._context = context
        self._fleet = fleet
        self._drainer = drainer
        self._departures = departures
        self._engine = engine
        self._global_queue = global_queue
        self._options = options
        self._enqueue = enqueue
        self._moves: dict[str, GangMove] = {}
        self._looked_at: dict[str, datetime] = {}

    def list_concerned(self, key: str) -> Iterator[str]:
        """Yield the workers that a Workload leaves."""
        for name, move in self._moves.items():
            if key in {move.key, move.gang}:
                yield name

    def end(self, name: str) -> None:
        """Move nobody more off a worker, such as one that is drained from now on."""
        move = self._moves.pop(name, None)
        if move is None:
            return
        self._global_queue.promise(name, move.gang, None)
        self._departures.retain(name, ())
        self._engine.plan_move(move.key, None)
        self._drainer.end(name)
        entry = move.run.leaving.get(move.key)
        if entry is not None and not move.is_stopped:
            self._drainer.relocation.forget(move.key, entry.cluster)

    async def reconcile(self, name: str) -> Result:
        """Begin a migration off a worker, or go on with one."""
        move, now = self._moves.get(name), self._context.clock.now()
        told = {move.key} if move is not None else ()
        await self._drainer.notices.take_all_back(name, NOT_MOVED, but=told)
        if move is None:
            policies = self._context.informers.disruption_policies.store.list()
            if not any(policy.spec.migration.gain for policy in policies):
                return DONE
            wait = self._looked_at.get(name, now - LOOK) + LOOK - now
            if wait > timedelta():
                return Result(requeue_after=wait.total_seconds())
            self._looked_at[name] = now
            move = await self._begin(name)
            if move is None:
                return Result(requeue_after=LOOK.total_seconds())
        await self._go_on(name, move)
        return Result(requeue_after=EXPECT_SECONDS if name in self._moves else 1.0)

    # ------------------------------------------------------------ who moves

    async def _begin(self, name: str) -> GangMove | None:
        claim = next(iter(self._global_queue.list_claims(name, without="")), None)
        if claim is None or claim.start is None:
            return None
        gang = self._context.informers.workloads.store.get(claim.key)
        now, fits = self._context.clock.now(), self._ask(name, claim.key)
        if gang is None or gang.status.admission is None or fits is None or fits(frozenset()):
            return None
        here = self._context.informers.workloads.store.by_index(BY_CLUSTER, name)
        keys = [w.metadata.key for w in here if self._may_leave(w, claim, now)]
        weighed = [found for key in keys if (found := self._weigh(key, now)) is not None]
        devices = count_devices(self._drainer.relocation.view(gang).totals().items())
        wait = (claim.start - now).total_seconds()
        for each in list_worthy(weighed, devices=devices, wait=wait)[:MOST_JUDGED]:
            await asyncio.sleep(0)
            movable = self._weigh(each.key, now)
            if movable is None or not fits(frozenset({each.key})):
                continue
            place = self._find_place(movable, name)
            if place is None:
                continue
            only = frozenset({movable.key})
            run = DrainRun(name=name, bucket=Bucket.full(now), only=only, arrival=KEPT_OFF)
            queue = gang.status.admission.cluster_queue
            move = GangMove(gang=claim.key, queue=queue, movable=movable, run=run)
            return move if await self._tell(move, place, now) else None
        return None

    def _may_leave(self, workload: api.Workload, claim: ClusterClaim, now: datetime) -> bool:
        status, by_index = workload.status, self._context.informers.workloads.store.by_index
        if not is_admitted(status) or is_evicted(status) or is_finished(status):
            return False
        told = find_condition(status.conditions, PREEMPTION_NOTICE)
        was_told = told is not None and now < told.transitioned_at + LEFT_ALONE
        if was_told or parse_notice(status.conditions) or workload.metadata.deletion_timestamp:
            return False
        owners = workload.metadata.owner_references
        is_alone = all(len(list(by_index(BY_OWNER, owner.uid))) == 1 for owner in owners)
        return is_alone and effective_priority(workload, self._options) <= claim.priority

    def _weigh(self, key: str, now: datetime) -> Movable | None:
        weight = self._engine.weigh_move(key, now)
        workload = self._context.informers.workloads.store.get(key)
        if weight is None or weight.hold_off is not None or workload is None:
            return None
        return Movable(
            key=key,
            devices=weight.loss.devices,
            cost=weight.loss.cost,
            notice=weight.notice,
            stop=int(find_stop_time(workload).total_seconds()),
            gain=weight.gain,
        )

    def _ask(self, name: str, gang: str) -> Fits | None:
        """Return a way to ask whether a gang would start on a worker; None: that is not known."""
        workload = self._context.informers.workloads.store.get(gang)
        forecast = self._fleet.find_part(name, WorkerForecast)
        state = self._fleet.find_part(name, WorkerState)
        if workload is None or forecast is None or state is None:
            return None
        view = self._drainer.relocation.view(workload)
        queue = state.queue_view(view.namespace, view.queue, without=gang)
        asking = Asking(view, self._context.clock.now())
        return None if queue is None else lambda gone: forecast.fits_without(asking, queue, gone)

    def _find_place(self, movable: Movable, name: str) -> RelocationProspect | None:
        """Return where a Workload would run at once, and take no room that is kept for others."""
        workload = self._context.informers.workloads.store.get(movable.key)
        if workload is None:
            return None
        others = (connection.name for connection in self._fleet.connections)
        taken = [other for other in others if not self._is_open(other)]
        self._drainer.read_quota(but=movable.key)
        found = self._drainer.relocation.judge(
            movable.key, leaving=name, notice=movable.notice, avoid=taken
        )
        if found.why or not found.cluster or found.claim is None:
            return None
        return found if found.claim.taken.keys() <= usage_of(workload).keys() else None

    def _is_open(self, name: str) -> bool:
        state = self._fleet.find_part(name, WorkerState)
        if state is None or not state.is_known or name in self._moves:
            return False
        return not self._global_queue.list_claims(name, without="")

    # ------------------------------------------------------------ how it moves

    async def _tell(self, move: GangMove, place: RelocationProspect, now: datetime) -> bool:
        """Keep room for a Workload and tell it to leave; return whether it does.

        If that fails, nothing is left of the move, and the next reconcile takes the notice back.
        """
        name, key, notice = move.run.name, move.key, None
        workload = self._context.informers.workloads.store.get(key)
        if workload is None:
            return False
        gang = name_for(move.gang, workload.metadata.namespace)
        words = f'It moves off cluster "{name}" so that {gang} starts'
        resident = self._drainer.resident(move.run, workload, now)
        self._moves[name] = move
        self._engine.plan_move(key, self._stop(move, now))
        self._global_queue.promise(name, move.gang, now + timedelta(seconds=move.movable.seconds))
        self._drainer.let_go(move.run, resident, place, None, now, words=words)
        is_told = False
        try:
            if move.movable.notice:
                notice = await self._drainer.notices.give(workload, move.movable.notice, words)
            is_told = not move.movable.notice or (notice is not None and notice.is_of_drain)
        finally:
            if not is_told:
                self.end(name)
        if not is_told:
            return False
        move.run.leaving[key] = replace(move.run.leaving[key], notice=notice)
        log.info("workload moves for a gang", gang=move.gang, worker=name, workload=key)
        return True

    async def _go_on(self, name: str, move: GangMove) -> None:
        run, now = move.run, self._context.clock.now()
        late = [key for key, (_, until) in run.arriving.items() if now > until]
        self._drainer.follow(run, now)
        for workload in map(self._context.informers.workloads.store.get, late):
            status = workload.status if workload is not None else None
            if status is not None and not is_finished(status) and status.cluster_name is None:
                self._count(name, move.key, MigrationResult.NOT_STARTED)
        if move.is_stopped:
            late = [key for key, each in run.leaving.items() if now >= each.until + GIVE_UP]
            for key in late:
                del run.leaving[key]
        elif why := self._find_objection(move, now):
            await self._take_back(move, why)
            return
        else:
            self._drainer.end_notices(run, now)
            self._send_away(move, now)
        self._departures.retain(name, run.leaving)
        if not run.leaving and (not run.arriving or not move.is_stopped):
            self.end(name)

    def _find_objection(self, move: GangMove, now: datetime) -> str:
        """Return why who is not stopped yet should run on; empty if it should not (P-56)."""
        name, key = move.run.name, move.key
        entry, weight = move.run.leaving.get(key), self._engine.weigh_move(key, now)
        workload = self._context.informers.workloads.store.get(key)
        if entry is None or workload is None or is_evicted(workload.status):
            return "it leaves anyway"
        if self._global_queue.find_own(move.gang) != name:
            return NOT_MOVED
        if self._fleet.find_session(name) is None:
            return "its cluster cannot be reached"
        if weight is None:
            return "its policy does not move it any more"
        if weight.hold_off is not None:
            return weight.hold_off.words
        fits = self._ask(name, move.gang)
        if fits is None or fits(frozenset()):
            return NOT_MOVED
        if not fits(frozenset({key})):
            return "its room is not enough any more"
        place = self._find_place(move.movable, name)
        if place is None or place.claim is None or place.cluster != entry.cluster:
            return f'cluster "{entry.cluster}" has no room for it any more'
        self._drainer.relocation.take(place.claim)
        return ""

    async def _take_back(self, move: GangMove, why: str) -> None:
        """Let who was told run on; if that cannot be written, the next reconcile does it."""
        workload = self._context.informers.workloads.store.get(move.key)
        is_there = move.key in move.run.leaving
        self.end(move.run.name)
        if is_there and workload is not None:
            self._count(move.run.name, move.key, MigrationResult.RESCINDED)
            await self._drainer.notices.take_back(workload, why)

    def _send_away(self, move: GangMove, now: datetime) -> None:
        """Stop who has had its notice, and keep it off the room that it leaves."""
        name, key, entry = move.run.name, move.key, move.run.leaving.get(move.key)
        if entry is None or entry.notice is not None:
            return
        stop, move.is_stopped = self._stop(move, now), True
        self._engine.plan_move(key, stop)
        self._departures.add(name, key, entry.message, stop)
        why = f"is left to {name_for(move.gang, key.partition('/')[0])} for now"
        self._departures.keep_off(name, key, why, entry.until + KEPT_OFF)
        self._count(name, key, MigrationResult.MOVED)
        self._enqueue(key)

    def _stop(self, move: GangMove, now: datetime) -> Stop:
        """Return the stop for the record of who moves, as if it were now."""
        weight = self._engine.weigh_move(move.key, now)
        cost = weight.loss.cost if weight is not None else move.movable.cost
        namespace = move.gang.partition("/")[0]
        at = now.replace(microsecond=0)
        return Stop(at, StopCause.MIGRATION, cost, move.queue, namespace=namespace)

    def _count(self, name: str, key: str, result: MigrationResult) -> None:
        self._context.metrics.migrations_total.child(name, result).inc()
        log.info("migration", workload=key, worker=name, result=result)
