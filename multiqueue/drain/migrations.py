"""Moves running Workloads to other workers so that a gang, which waits for their room, starts now.

Who moves leaves as in a drain: it may save its work first, its check says Retry, and room is kept
for it elsewhere. A migration is known in memory only. A new manager takes its notices back; who was
stopped already is dispatched as any other.

Deviates: from P-93 to P-99. The gain is that of the policy of who moves, so that nobody is moved
whose queue does not want it. There is one gang at a time on each worker. Who moves keeps its flavor
of the manager. It may go to any worker but the one that it left, for two minutes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

import structlog

from multiqueue.api import v1beta2 as api
from multiqueue.api.disruptions import Stop, StopCause
from multiqueue.api.notices import parse_notice
from multiqueue.api.workload_state import is_admitted, is_evicted, is_finished
from multiqueue.capacity.worker_state import WorkerState
from multiqueue.capacity.workload_view import usage_of
from multiqueue.dispatch.observe.departures import Departures
from multiqueue.dispatch.wake.global_queue import GlobalQueue
from multiqueue.drain.moves import (
    MigrationResult,
    Movable,
    is_worth_it,
    list_cheapest,
    pick_moves,
)
from multiqueue.drain.pace import Bucket
from multiqueue.drain.relocation import RelocationProspect
from multiqueue.drain.run import AT_A_TIME, Drainer
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
from multiqueue.plugins import ClusterClaim, WorkloadView
from multiqueue.workers.connections.fleet import Fleet

LOOK = timedelta(minutes=1)
"""How often each worker is looked at, at most (P-94)."""
MOST_JUDGED = 32
"""Candidates for which room is looked for elsewhere; the cheapest ones come first."""
KEPT_OFF = timedelta(minutes=2)
"""How long after its stop a Workload is not sent back to the worker that it left."""
GIVE_UP = timedelta(minutes=5)
"""After this time over that of its stop, who still runs there may stay."""
NOT_MOVED = "nobody needs its room any more"

log = structlog.get_logger("multiqueue.dispatch")


@dataclass(frozen=True, slots=True, kw_only=True)
class GangMove:
    """The Workloads that leave a worker for a gang.

    Attributes:
        gang: Key of the gang's Workload.
        queue: Its ClusterQueue on the manager.
        run: Who leaves the worker.
    """

    gang: str
    queue: str
    run: DrainRun


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
            if move.run.concerns(key) or move.gang == key:
                yield name

    def end(self, name: str) -> None:
        """Move nobody more off a worker, such as one that is drained from now on."""
        move = self._moves.pop(name, None)
        if move is not None:
            self._global_queue.promise(move.gang, None)
            self._departures.retain(name, ())

    async def reconcile(self, name: str) -> Result:
        """Begin a migration off a worker, or go on with one."""
        move, now = self._moves.get(name), self._context.clock.now()
        told = move.run.leaving if move is not None else ()
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
        now = self._context.clock.now()
        movables = await self._list_movables(name, claim, now)
        gang = self._context.informers.workloads.store.get(claim.key)
        if gang is None or gang.status.admission is None or not movables:
            return None
        view = self._drainer.relocation.view(gang)
        moves = self._pick(name, view, movables, now)
        wait = (claim.start - now).total_seconds()
        devices = count_devices(view.totals().items())
        if not moves or not is_worth_it(moves, devices=devices, wait=wait):
            return None
        places = self._reserve(name, moves, now)
        if places is None:
            return None
        keys = frozenset(each.key for each in moves)
        run = DrainRun(name=name, bucket=Bucket.full(now), only=keys, arrival=KEPT_OFF)
        move = GangMove(gang=claim.key, queue=gang.status.admission.cluster_queue, run=run)
        self._moves[name] = move
        seconds = max(each.seconds for each in moves)
        self._global_queue.promise(claim.key, now + timedelta(seconds=seconds))
        log.info("workloads move for a gang", gang=claim.key, worker=name, workloads=sorted(keys))
        for each in moves:
            if not await self._tell(move, each, places[each.key]):
                await self._take_back(move, f"{each.key} does not leave")
                break
        return move

    async def _list_movables(self, name: str, claim: ClusterClaim, now: datetime) -> list[Movable]:
        """Return who may leave a worker for a claim, and has room elsewhere (P-95)."""
        here = self._context.informers.workloads.store.by_index(BY_CLUSTER, name)
        keys = [w.metadata.key for w in here if self._may_leave(w, claim)]
        weighed = [found for key in keys if (found := self._weigh(key, now)) is not None]
        self._drainer.relocation.refresh(())
        movables = []
        for index, each in enumerate(list_cheapest(weighed)[:MOST_JUDGED]):
            if index % AT_A_TIME == AT_A_TIME - 1:
                await asyncio.sleep(0)
            if self._find_place(each, name) is not None:
                movables.append(each)
        return movables

    def _may_leave(self, workload: api.Workload, claim: ClusterClaim) -> bool:
        status, by_index = workload.status, self._context.informers.workloads.store.by_index
        if not is_admitted(status) or is_evicted(status) or is_finished(status):
            return False
        if parse_notice(status.conditions) is not None or workload.metadata.deletion_timestamp:
            return False
        owners = workload.metadata.owner_references
        is_alone = all(len(list(by_index(BY_OWNER, owner.uid))) == 1 for owner in owners)
        return is_alone and effective_priority(workload, self._options) <= claim.priority

    def _weigh(self, key: str, now: datetime) -> Movable | None:
        (weight,) = self._engine.weigh_moves([key], now)
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

    def _pick(
        self, name: str, gang: WorkloadView, movables: list[Movable], now: datetime
    ) -> tuple[Movable, ...]:
        forecast = self._fleet.find_part(name, WorkerForecast)
        state = self._fleet.find_part(name, WorkerState)
        if forecast is None or state is None:
            return ()
        queue = state.queue_view(gang.namespace, gang.queue, without=gang.key)
        asking = Asking(gang, now)
        if queue is None or forecast.fits_without(asking, queue, frozenset()):
            return ()
        return pick_moves(movables, lambda gone: forecast.fits_without(asking, queue, gone))

    def _find_place(self, movable: Movable, name: str) -> RelocationProspect | None:
        """Return where a Workload would run at once, and take no room that is kept for others."""
        workload = self._context.informers.workloads.store.get(movable.key)
        if workload is None:
            return None
        others = (connection.name for connection in self._fleet.connections)
        taken = [other for other in others if not self._is_open(other)]
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

    def _reserve(
        self, name: str, moves: tuple[Movable, ...], now: datetime
    ) -> dict[str, RelocationProspect] | None:
        """Keep room for all of them elsewhere; None if one has none beside the others."""
        weights = self._engine.weigh_moves([each.key for each in moves], now)
        if any(weight is None or weight.hold_off is not None for weight in weights):
            return None
        relocation, found = self._drainer.relocation, dict[str, RelocationProspect]()
        relocation.refresh(())
        for each in moves:
            place = self._find_place(each, name)
            workload = self._context.informers.workloads.store.get(each.key)
            if place is None or place.claim is None or workload is None:
                for key, earlier in found.items():
                    relocation.forget(key, earlier.cluster)
                return None
            found[each.key] = place
            relocation.take(place.claim)
            relocation.expect(workload, place.cluster)
        return found

    # ------------------------------------------------------------ how they move

    async def _tell(self, move: GangMove, movable: Movable, place: RelocationProspect) -> bool:
        """Let a Workload leave, after its notice; return whether it does."""
        workload = self._context.informers.workloads.store.get(movable.key)
        if workload is None:
            return False
        words = f'It moves off cluster "{move.run.name}" so that {_name(move, movable.key)} starts'
        notices, notice, now = self._drainer.notices, None, self._context.clock.now()
        if movable.notice:
            notice = await notices.give(workload, movable.notice, words)
            if notice is None or not notice.is_of_drain:
                return False
        resident = self._drainer.resident(move.run, workload, now)
        self._drainer.let_go(move.run, resident, place, notice, now, words=words)
        return True

    async def _go_on(self, name: str, move: GangMove) -> None:
        run, now = move.run, self._context.clock.now()
        late = [key for key, (_, until) in run.arriving.items() if now > until]
        self._drainer.follow(run, now)
        for key in late:
            self._count(name, key, MigrationResult.NOT_STARTED)
        run.leaving = {
            key: entry
            for key, entry in run.leaving.items()
            if entry.notice is not None or now < entry.until + GIVE_UP
        }
        why = self._find_objection(move, now)
        if why:
            await self._take_back(move, why)
        self._drainer.end_notices(run, now)
        self._send_away(move, now)
        if not run.leaving and not run.arriving:
            self.end(name)

    def _find_objection(self, move: GangMove, now: datetime) -> str:
        """Return why those who were told should run on; empty if they should not (P-56)."""
        run = move.run
        told = [key for key, entry in run.leaving.items() if entry.notice is not None]
        if not told:
            return ""
        if self._global_queue.find_own(move.gang) != run.name:
            return NOT_MOVED
        if self._fleet.find_session(run.name) is None:
            return "its cluster cannot be reached"
        for weight in self._engine.weigh_moves(told, now):
            if weight is None or weight.hold_off is not None:
                return (
                    weight.hold_off.words if weight and weight.hold_off else "it may not be moved"
                )
        self._drainer.relocation.refresh(())
        for key in told:
            prospect = self._drainer.relocation.judge(key, leaving=run.name)
            if not prospect.cluster:
                return prospect.why
        return ""

    async def _take_back(self, move: GangMove, why: str) -> None:
        for key, entry in list(move.run.leaving.items()):
            workload = self._context.informers.workloads.store.get(key)
            if entry.notice is None:
                continue
            del move.run.leaving[key]
            self._drainer.relocation.forget(key, entry.cluster)
            self._count(move.run.name, key, MigrationResult.RESCINDED)
            if workload is not None:
                await self._drainer.notices.take_back(workload, why)

    def _send_away(self, move: GangMove, now: datetime) -> None:
        """Stop those whose notice is over, and keep them off the room that they leave."""
        name, namespace = move.run.name, move.gang.partition("/")[0]
        for key, entry in move.run.leaving.items():
            if entry.notice is not None or self._departures.find(name, key) is not None:
                continue
            (weight,) = self._engine.weigh_moves([key], now)
            cost = weight.loss.cost if weight is not None else 0
            at = now.replace(microsecond=0)
            stop = Stop(at, StopCause.MIGRATION, cost, move.queue, namespace=namespace)
            self._departures.add(name, key, entry.message, stop)
            why = f"is left to {_name(move, key)} for now"
            self._departures.keep_off(name, key, why, entry.until + KEPT_OFF)
            self._count(name, key, MigrationResult.MOVED)
            self._enqueue(key)
        self._departures.retain(name, move.run.leaving)

    def _count(self, name: str, key: str, result: MigrationResult) -> None:
        self._context.metrics.migrations_total.child(name, result).inc()
        log.info("migration", workload=key, worker=name, result=result)


def _name(move: GangMove, key: str) -> str:
    """Name the gang, but only to users of its own namespace."""
    namespace, _, name = move.gang.partition("/")
    if key.partition("/")[0] == namespace:
        return f'Workload "{name}"'
    return "a Workload of another namespace"
