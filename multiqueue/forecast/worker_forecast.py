"""Keep the replica of one worker up to date during a session.

Handlers are synchronous, and their cost depends on the change only. If the manager may not read
everything on the worker, the replica stays unknown and is not asked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Any, Self

import structlog

from multiqueue.api import v1beta2 as api
from multiqueue.api.names import MULTIKUEUE_ORIGIN
from multiqueue.api.serde import decode
from multiqueue.capacity.worker_state import QueueInformers
from multiqueue.forecast.asked import Asking
from multiqueue.forecast.curve import scale
from multiqueue.forecast.history import RuntimeHistory, speed_on
from multiqueue.forecast.node_informers import NodeInformers
from multiqueue.forecast.other_workload import CheckTimes, OtherWorkload, read_other_workload
from multiqueue.forecast.replica import Replica
from multiqueue.forecast.traits import Traits
from multiqueue.jobs.context import ManagerContext
from multiqueue.kube.informer import Informer
from multiqueue.kube.resources import WORKLOADS
from multiqueue.kube.sizes import MAX_SKIMMED_BYTES
from multiqueue.lib.quantity import QuantityError
from multiqueue.model.build_workload import DEFAULT_OPTIONS, BuildOptions
from multiqueue.model.cluster_queue import build_cluster_queue, build_cohort, build_local_queue
from multiqueue.model.resource_flavor import build_resource_flavor
from multiqueue.plugins import Forecast, QueueView, Runtime, WorkloadView
from multiqueue.workers.connections.fleet import Fleet
from multiqueue.workers.connections.session import WorkerSession

INTENT = timedelta(seconds=10)
"""How long a Workload that was sent there counts as admitted while it is not reported."""

BACKLOG = 64
"""Most changed copies that may wait to be read; the next question reads them, at 0.1 ms each."""

log = structlog.get_logger("multiqueue.dispatch")

FindTraits = Callable[[str], Traits | None]
"""Finds the traits of one of this manager's Workloads by its key."""


class WorkerForecast:
    """Forecasts for Workloads on one worker.

    Args:
        informers: The informers of the worker's queues and of this manager's Workloads there.
        others: The informer of all other Workloads there.
        nodes: The node informers, used if flavors have topologies.
        history: Runtimes learned from finished Workloads.
        find_traits: Finds the traits of this manager's Workloads.
        now: Returns the current time.
        options: How requests are read.
        on_room: Called when nodes changed, or another owner's Workload freed quota.
    """

    def __init__(
        self,
        informers: QueueInformers,
        others: Informer[OtherWorkload],
        nodes: NodeInformers,
        history: RuntimeHistory,
        *,
        find_traits: FindTraits,
        now: Callable[[], datetime],
        options: BuildOptions,
        on_room: Callable[[], None] = lambda: None,
    ) -> None:
        self._informers = informers
        self.others = others
        self.nodes = nodes
        self._history = history
        self._find_traits = find_traits
        self._now = now
        self._options = options
        self._on_room = on_room
        self._replica = Replica()
        self._check_times = CheckTimes()
        self._assumed: dict[str, datetime] = {}
        self._changed: dict[str, api.Workload] = {}
        replica = self._replica
        follow(
            informers.flavors,
            lambda obj: replica.upsert_flavor(build_resource_flavor(obj)),
            replica.delete_flavor,
        )
        follow(
            informers.cohorts,
            lambda obj: replica.upsert_cohort(build_cohort(obj)),
            replica.delete_cohort,
        )
        follow(
            informers.cluster_queues,
            lambda obj: replica.upsert_cluster_queue(build_cluster_queue(obj)),
            replica.delete_cluster_queue,
        )
        follow(
            informers.local_queues,
            lambda obj: replica.upsert_local_queue(build_local_queue(obj)),
            replica.delete_local_queue,
        )
        nodes.follow(informers.flavors, replica.node_model, on_room=on_room)
        informers.workloads.add_handler(self._on_copy)
        others.add_handler(self._on_other)

    async def run(self) -> None:
        """Watch other Workloads and the nodes until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.others.run(), name="worker workloads of others")
            tasks.create_task(self.nodes.run(), name="worker nodes")

    @property
    def is_known(self) -> bool:
        """Whether all Workloads on the worker are known."""
        return self.others.synced.is_set() and self._informers.workloads.synced.is_set()

    def forecast(self, asking: Asking, queue: QueueView) -> Forecast | None:
        """Return the forecast of a Workload; None if its queue is missing or closed.

        Args:
            asking: The decision about the Workload.
            queue: The ClusterQueue behind its LocalQueue.
        """
        self._catch_up()
        self._expire(asking.now)
        built = asking.build_for(queue)
        found = self._replica.forecast_built(built, asking.now, budget=asking.budget)
        if found is None or not queue.checks:
            return found
        held = self._replica.find_held(built.key)
        if held is None:
            return self._check_times.apply(found, queue.name, queue.checks)
        if held.admitted:
            return found
        waited = max(timedelta(), asking.now - held.reserved_at)
        return self._check_times.apply(found, queue.name, queue.checks, waited)

    def fits_without(self, asking: Asking, queue: QueueView, gone: Collection[str]) -> bool:
        """Whether a Workload would get quota there now if these Workloads were gone."""
        self._catch_up()
        self._expire(asking.now)
        return self.is_known and self._replica.fits_without(asking.build_for(queue), gone)

    def assume(self, sent: WorkloadView, queue: QueueView) -> None:
        """Count a Workload that is sent there until the worker reports it."""
        self._catch_up()
        now = self._now()
        built = Asking(sent, now).build_for(queue)
        self._replica.assume(built, now, runtime=sent.runtime)
        if sent.key in self._replica.assumed:
            self._assumed.setdefault(sent.key, now)

    def forget(self, key: str) -> None:
        """Stop counting a Workload that was sent elsewhere."""
        self._catch_up()
        if self._assumed.pop(key, None) is not None:
            self._replica.forget(key, self._now())

    def take_over(self, old: Self) -> None:
        """Take over the assumed Workloads of an earlier session, with their original times."""
        self._catch_up()
        old._catch_up()
        for key, since in old._assumed.items():
            workload = old._replica.find_assumed(key)
            if workload is not None:
                self._replica.assume(workload, since)
                if key in self._replica.assumed:
                    self._assumed[key] = since

    def _expire(self, now: datetime) -> None:
        for key, since in list(self._assumed.items()):
            if key not in self._replica.assumed:
                del self._assumed[key]
            elif now - since > INTENT:
                self.forget(key)

    # ------------------------------------------------------------ events

    def _on_copy(self, old: api.Workload | None, new: api.Workload | None) -> None:
        """Remember a changed copy; it is read later, as copies change several times in a row."""
        if new is not None:
            self._changed[new.metadata.key] = new
            if len(self._changed) >= BACKLOG:
                self._catch_up()
        elif old is not None:
            self._changed.pop(old.metadata.key, None)
            self._replica.delete_workload(old.metadata.key, self._now())

    def _catch_up(self) -> None:
        """Read the copies that changed since the last question."""
        changed, self._changed = self._changed, {}
        for key, copy in changed.items():
            try:
                seen = read_other_workload(copy, self._options)
                self._put(seen, self._find_traits(key) or seen.traits)
            except Exception:  # one malformed copy must not hide the others
                log.exception("copy cannot be foreseen", workload=key)

    def _on_other(self, old: OtherWorkload | None, new: OtherWorkload | None) -> None:
        if new is not None:
            self._put(new, new.traits)
            if new.run is not None:
                self._history.learn(new.run)
        elif old is not None:
            self._replica.delete_workload(old.identity.key, self._now())
        if _holds(old) and not _holds(new):
            self._on_room()

    def _put(self, seen: OtherWorkload, traits: Traits | None) -> None:
        now, workload = self._now(), seen.workload
        if workload is None or traits is None:
            self._replica.delete_workload(seen.identity.key, now)
            return
        used: Mapping[tuple[str, str], int] = {}
        if workload.reservation is not None:
            used = workload.reservation.admission.usage()
            if seen.check_time is not None:
                queue = workload.reservation.admission.cluster_queue
                self._check_times.learn(queue, seen.identity.uid, seen.check_time)
        runtime = self._runtime(traits, used)
        self._replica.upsert_workload(workload, now, runtime=runtime)

    def _runtime(self, traits: Traits, used: Mapping[tuple[str, str], int]) -> Runtime:
        return runtime_on(self._history, traits, used, self._informers.flavors)


def runtime_on(
    history: RuntimeHistory,
    traits: Traits,
    used: Mapping[tuple[str, str], int],
    flavors: Informer[api.ResourceFlavor],
) -> Runtime:
    """Return how long a Workload runs on what it uses; on the reference hardware if on nothing.

    Args:
        history: Runtimes learned from finished Workloads.
        traits: The Workload's traits.
        used: What it uses, by flavor and resource.
        flavors: The informer of the flavors.
    """
    runtime = history.runtime(traits)
    speeds = history.speeds(traits)
    if not used or not speeds:
        return runtime
    flavor = min(("/" not in resource, resource, flavor) for flavor, resource in used)[2]
    known = flavors.store.get(flavor)
    labels = known.spec.node_labels.values() if known is not None else ()
    return scale(runtime, speed_on(speeds, flavor, labels))


def _holds(seen: OtherWorkload | None) -> bool:
    return seen is not None and seen.workload is not None and seen.workload.reservation is not None


def follow(
    informer: Informer[Any], upsert: Callable[[Any], None], delete: Callable[[str], None]
) -> None:
    """Mirror a collection of queues; an object with unreadable quotas counts as deleted."""

    def handle(old: Any, new: Any) -> None:
        try:
            if new is not None:
                upsert(new)
                return
        except QuantityError:
            delete(new.metadata.key)
            return
        delete(old.metadata.key)

    informer.add_handler(handle)


def follow_workers(
    fleet: Fleet,
    history: RuntimeHistory,
    *,
    find_traits: FindTraits,
    context: ManagerContext,
    options: BuildOptions,
) -> None:
    """Keep a `WorkerForecast` for each worker: ``fleet.find_part(name, WorkerForecast)``.

    Args:
        fleet: The workers.
        history: Runtimes learned from finished Workloads.
        find_traits: Finds the traits of this manager's Workloads.
        context: The manager's context.
        options: How requests are read.
    """

    def attach(name: str, session: WorkerSession) -> None:
        others: Informer[OtherWorkload] = Informer(
            session.client,
            WORKLOADS,
            label_selector=f"{MULTIKUEUE_ORIGIN}!={session.owner.origin}",
            decode=lambda data: read_other_workload(decode(api.Workload, data), DEFAULT_OPTIONS),
            meta=attrgetter("identity"),
            on_restart=context.metrics.watch_observer(WORKLOADS.plural, name),
            max_bytes=MAX_SKIMMED_BYTES,
        )
        fleet.watch_others(name, others, attrgetter("identity"))
        forecast = WorkerForecast(
            session.informers,
            others,
            NodeInformers(session.client, context.metrics, name),
            history,
            find_traits=find_traits,
            now=context.clock.now,
            options=options,
            on_room=fleet.tell_room,
        )
        session.add_part(forecast)
        session.start(forecast.run(), name="worker forecast")

    fleet.add_session_hook(attach)
