"""Cordons and drains workers, as the annotations of their MultiKueueClusters order it.

Workloads also leave a worker that is not drained if a gang starts in their place (`migrations`).

A drain moves the running Workloads off the worker, a few at a time; the rule `drain` dispatches
each of them again. Everything that a later manager must know is in the conditions ``Cordoned`` and
``Drained``, which are written before anything is moved: a manager that starts during a drain goes
on at the same pace.

A cluster that is removed from the MultiKueueConfig, or whose MultiKueueCluster is deleted, is not
drained: its jobs are followed to their end. Only an explicit drain order stops a job.
"""

from __future__ import annotations

from collections.abc import Callable

import structlog

from multiqueue.api import v1beta2 as api
from multiqueue.api.cluster_orders import (
    DEFAULT_PACE,
    DrainOrder,
    DrainPace,
    Orders,
    read_orders,
)
from multiqueue.api.v1beta2.meta import Condition
from multiqueue.dispatch.observe.departures import Departures
from multiqueue.dispatch.observe.observe import Observer
from multiqueue.dispatch.wake.global_queue import GlobalQueue
from multiqueue.drain.conditions import (
    build_conditions,
    describe_drain,
    find_unfinished,
    with_conditions,
)
from multiqueue.drain.events import DrainEvents
from multiqueue.drain.migrations import NOT_MOVED, Migrations
from multiqueue.drain.run import Drainer
from multiqueue.drain.state import (
    RECHECK_SECONDS,
    DrainRun,
    begin,
    may_pick,
    next_recheck,
    report_on,
)
from multiqueue.engine.engine import Engine
from multiqueue.jobs.context import ManagerContext
from multiqueue.jobs.framework.reconciler import wait_settled
from multiqueue.kube.reconciler import DONE, Reconciler, Result
from multiqueue.model.build_workload import BuildOptions
from multiqueue.workers.clusters.conditions import write_conditions
from multiqueue.workers.connections.fleet import Fleet, FleetListener

log = structlog.get_logger("multiqueue.dispatch")


class DrainReconciler:
    """Carries out cordons and drains.

    Args:
        context: The manager's context.
        fleet: The workers.
        observer: Builds the view of a Workload.
        departures: Receives the Workloads that must leave a worker.
        options: How the resource requests of Workloads are read.
        enqueue: Asks for a reconcile of a Workload.
        engine: Knows what a move costs, and whom policies protect.
        global_queue: Who waits for room on which worker.
        pace: The pace of drains whose order names none.
    """

    name = "multikueue-drains"

    def __init__(
        self,
        context: ManagerContext,
        fleet: Fleet,
        observer: Observer,
        departures: Departures,
        *,
        options: BuildOptions,
        enqueue: Callable[[str], None],
        engine: Engine,
        global_queue: GlobalQueue,
        pace: DrainPace = DEFAULT_PACE,
    ) -> None:
        self._context = context
        self._fleet = fleet
        self._enqueue = enqueue
        self._pace = pace
        self._departures = departures
        self._drainer = Drainer(context, fleet, observer, options)
        self._migrations = Migrations(
            context,
            fleet,
            self._drainer,
            departures,
            engine=engine,
            global_queue=global_queue,
            options=options,
            enqueue=enqueue,
        )
        self._runs: dict[str, DrainRun] = {}
        self._events = DrainEvents(context)
        self._reconciler: Reconciler[str] = Reconciler(
            self.name, self.reconcile, metrics=context.metrics
        )
        context.informers.multikueue_clusters.add_handler(self._on_cluster)
        context.informers.multikueue_configs.add_handler(lambda _old, _new: self._look_at_all())
        context.informers.disruption_policies.add_handler(self._on_policy)
        context.informers.workloads.add_handler(self._on_workload)
        fleet.add_listener(
            FleetListener(
                on_remote=self._on_key,
                on_connection=lambda _: self._look_at_all(),
                on_room=self._on_room,
            )
        )

    async def run(self) -> None:
        """Work until cancelled."""
        informers = self._context.informers
        await wait_settled(informers.multikueue_clusters, informers.workloads)
        await self._reconciler.run()

    async def reconcile(self, name: str) -> Result:
        """Bring one worker closer to its ordered state."""
        cluster = self._context.informers.multikueue_clusters.store.get(name)
        gauge = self._context.metrics.worker_cordoned
        if cluster is None or cluster.metadata.deletion_timestamp:
            gauge.forget(cluster=name)
            self._end(name)
            self._migrations.end(name)
            await self._drainer.notices.take_all_back(name, NOT_MOVED)
            return DONE
        orders = read_orders(cluster.metadata.annotations, self._pace)
        gauge.child(name).set(orders.cordoned)
        if orders.drain is None:
            self._end(name)
            await self._write(cluster, orders, None)
            return await self._migrations.reconcile(name)
        self._migrations.end(name)
        return await self._drain(cluster, orders, orders.drain)

    async def _drain(
        self, cluster: api.MultiKueueCluster, orders: Orders, order: DrainOrder
    ) -> Result:
        name, now = cluster.metadata.name, self._context.clock.now()
        run = self._runs.get(name)
        if run is None:
            known = find_unfinished(cluster)
            run = begin(name, resumed=known, pace=order.pace, now=now)
            self._runs[name] = run
            if known is None:
                first = report_on(run, order, self._drainer.follow(run, now), now, trouble="")
                await self._write(cluster, orders, describe_drain(run.chances, first))
                cluster = self._context.informers.multikueue_clusters.store.get(name) or cluster
        run.obey(order, now)
        residents = self._drainer.follow(run, now)
        trouble = self._find_trouble(name, order)
        if not trouble and may_pick(run, order, now):
            await self._drainer.pick(run, order, residents, now)
        self._drainer.end_notices(run, now)
        report = report_on(run, order, residents, now, trouble=trouble)
        await self._write(cluster, orders, describe_drain(run.chances, report))
        self._send_away(run)
        self._events.tell_staying(run)
        metrics = self._context.metrics
        metrics.worker_drain_left.child(name).set(report.left + report.moving)
        if not residents and not run.leaving:
            return DONE
        return Result(requeue_after=next_recheck(run, order, residents, now))

    def _find_trouble(self, name: str, order: DrainOrder) -> str:
        now = self._context.clock.now()
        if order.not_before is not None and order.not_before > now:
            return f"nothing is moved before {order.not_before:%Y-%m-%dT%H:%M:%SZ}"
        if self._fleet.find_session(name) is None:
            return (
                "the worker cannot be reached, so nothing there can be stopped; what runs there is "
                "moved once it answers, or taken for lost after workerLostTimeout"
            )
        return ""

    def _send_away(self, run: DrainRun) -> None:
        """Reconcile the Workloads whose turn it is; the conditions already record it."""
        metrics = self._context.metrics
        for key, entry in run.leaving.items():
            if entry.notice is not None:
                continue  # it may save its work first
            if entry.message and self._departures.add(run.name, key, entry.message):
                metrics.drain_moves_total.child(run.name).inc()
                metrics.drain_lost_gpu_seconds_total.child(run.name).inc(entry.lost_gpu_seconds)
                log.info("workload leaves", workload=key, worker=run.name, reason=entry.message)
                self._enqueue(key)
        self._departures.retain(run.name, run.leaving)

    def _end(self, name: str) -> None:
        """Move no more Workloads; those that already leave go to any cluster that fits."""
        if self._runs.pop(name, None) is None:
            return
        self._drainer.end(name)
        self._context.metrics.worker_drain_left.forget(cluster=name)
        self._departures.retain(name, ())
        self._events.forget(name)

    # ------------------------------------------------------------ conditions

    async def _write(
        self, cluster: api.MultiKueueCluster, orders: Orders, drained: Condition | None
    ) -> None:
        """Write both conditions if they changed; a later manager reads only them."""
        before = cluster.status.conditions
        after = with_conditions(
            before,
            build_conditions(cluster.metadata.name, orders, drained),
            now=self._context.clock.now(),
            generation=cluster.metadata.generation,
        )
        if await write_conditions(self._context, cluster, after):
            self._events.tell(cluster, before, after)

    # ------------------------------------------------------------ events

    def _on_cluster(
        self, old: api.MultiKueueCluster | None, new: api.MultiKueueCluster | None
    ) -> None:
        cluster = new or old
        assert cluster is not None
        if old is not None and new is not None and _same_marks(old, new):
            return
        self._reconciler.queue.add(cluster.metadata.name)
        self._look_at_all()

    def _on_policy(self, _old: object, _new: object) -> None:
        for cluster in self._context.informers.multikueue_clusters.store.list():
            self._reconciler.queue.add(cluster.metadata.name)

    def _on_workload(self, old: api.Workload | None, new: api.Workload | None) -> None:
        for workload in (old, new):
            name = workload.status.cluster_name if workload is not None else None
            if name is not None and name in self._runs:
                self._reconciler.queue.add_after(name, RECHECK_SECONDS)
        workload = new or old
        assert workload is not None
        self._on_key(workload.metadata.key)

    def _on_key(self, key: str) -> None:
        for name, run in self._runs.items():
            if run.concerns(key):
                self._reconciler.queue.add(name)
        for name in self._migrations.list_concerned(key):
            self._reconciler.queue.add(name)

    def _on_room(self) -> None:
        for name, run in self._runs.items():
            if run.staying:
                self._reconciler.queue.add_after(name, RECHECK_SECONDS)

    def _look_at_all(self) -> None:
        for name in self._runs:
            self._reconciler.queue.add(name)


def _same_marks(old: api.MultiKueueCluster, new: api.MultiKueueCluster) -> bool:
    return (old.metadata.uid, old.metadata.annotations, old.metadata.labels) == (
        new.metadata.uid,
        new.metadata.annotations,
        new.metadata.labels,
    )
