"""The queues of one worker and the Workloads on their way there, from its informers.

A worker need not grant the right to read its queues; then they are unknown, and dispatch goes on
without them. Some hundred milliseconds pass between a nomination and the worker's next ClusterQueue
status. In this time a burst of jobs would see the same room, so the Workloads that this manager
sent there meanwhile are counted as in flight.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Protocol, Self

from multiqueue.api import v1beta2 as api
from multiqueue.api.names import key_of
from multiqueue.api.workload_state import has_quota, is_finished
from multiqueue.capacity import quota_view
from multiqueue.capacity.intents import INTENT_SECONDS, Intents
from multiqueue.capacity.quota_view import QueueObject
from multiqueue.capacity.workload_view import build_workload_view, usage_of
from multiqueue.model import cluster_queue as model
from multiqueue.model.build_workload import BuildOptions
from multiqueue.plugins import QueueView, WorkloadView

if TYPE_CHECKING:  # as in `jobs.context`
    from multiqueue.kube.informer import Informer
    from multiqueue.workers.connections.fleet import Fleet
    from multiqueue.workers.connections.session import WorkerSession

SETTLE_SECONDS = 1.0
"""How long a copy that just got quota counts as missing in the ClusterQueue's status, unless that
status changes before."""
MAX_MISSES = 20
"""After this many waiting copies in a row without room, the rest counts as without room too."""


class QueueInformers(Protocol):
    """The informers from which a worker's queues are read."""

    @property
    def workloads(self) -> Informer[api.Workload]:
        """Our copies."""
        ...

    @property
    def local_queues(self) -> Informer[api.LocalQueue]:
        """LocalQueues."""
        ...

    @property
    def cluster_queues(self) -> Informer[api.ClusterQueue]:
        """ClusterQueues."""
        ...

    @property
    def cohorts(self) -> Informer[api.Cohort]:
        """Cohorts."""
        ...

    @property
    def flavors(self) -> Informer[api.ResourceFlavor]:
        """ResourceFlavors."""
        ...


class WorkerState:
    """The queues of one worker.

    Args:
        informers: The worker's informers.
        on_change: Called when room may have changed.
        monotonic: A clock that never jumps, in seconds.
        call_at: Calls back at a time of that clock.
        options: How requests are read.
    """

    def __init__(
        self,
        informers: QueueInformers,
        *,
        on_change: Callable[[], None],
        monotonic: Callable[[], float],
        call_at: Callable[[float, Callable[[], None]], object],
        options: BuildOptions,
    ) -> None:
        self._informers = informers
        self._on_change = on_change
        self._monotonic = monotonic
        self._call_at = call_at
        self._expires_at: float | None = None
        self._told_of = 0
        self._options = options
        self._queues: dict[str, QueueObject | None] = {}
        self._cohorts: dict[str, model.Cohort] = {}
        self._views: dict[str, QueueView | None] = {}
        self._copies: dict[str, WorkloadView] = {}
        self._recent: dict[str, float] = {}
        self._holding: set[str] = set()
        self._by_local_queue: Counter[str] = Counter()
        self._intents = Intents(monotonic)
        # Views with everything that is in flight, for Workloads without a copy here; and until when
        # they are valid.
        self._demand: dict[str, tuple[QueueView, float]] = {}
        informers.workloads.add_handler(self._on_copy)
        informers.local_queues.add_handler(self._on_local_queue)
        informers.cluster_queues.add_handler(self._on_cluster_queue)
        informers.cohorts.add_handler(self._on_cohort)
        informers.flavors.add_handler(self._on_flavor)

    # ------------------------------------------------------------ reading

    @property
    def is_known(self) -> bool:
        """Whether the queues are known."""
        known = (
            self._informers.local_queues,
            self._informers.cluster_queues,
            self._informers.flavors,
        )
        # Old workers have no Cohorts; their trees are built without them.
        cohorts: Informer[Any] = self._informers.cohorts
        return all(informer.synced.is_set() for informer in known) and (
            cohorts.synced.is_set() or not cohorts.available
        )

    def queue_view(self, namespace: str, local_queue: str, *, without: str) -> QueueView | None:
        """Return the queue behind a LocalQueue as the Workload ``without`` sees it.

        Its own copy, or the intent to make one, neither uses room nor is in flight. None: there is
        no such queue.
        """
        found = self._informers.local_queues.store.get(key_of(namespace, local_queue))
        if found is None:
            return None
        name = found.spec.cluster_queue
        if name not in self._views:
            self._views[name] = self._build(name)
        view = self._views[name]
        if view is None:
            return None
        if without in self._copies or without in self._holding or without in self._intents:
            return self._with_demand(view, name, without=without)
        known = self._demand.get(name)
        now = self._monotonic()
        if known is None or known[1] <= now:
            horizon = SETTLE_SECONDS if self._recent else INTENT_SECONDS
            known = (self._with_demand(view, name, without=""), now + horizon)
            self._demand[name] = known
        return known[0]

    def count_copies(self, *, without: str) -> tuple[int, int]:
        """Return how many other Workloads of ours hold quota there and how many wait.

        A Workload that was just nominated counts as waiting; otherwise a burst would see the same
        numbers.
        """
        self._intents.expire()
        waiting = len(self._copies) + len(self._intents)
        is_waiting = without in self._copies or without in self._intents
        return len(self._holding) - (without in self._holding), waiting - is_waiting

    def count_neighbours(self, namespace: str, local_queue: str, *, without: str) -> int:
        """Return how many Workloads of a LocalQueue hold quota or wait, except for one."""
        key = key_of(namespace, local_queue)
        self._intents.expire()
        own = self._informers.workloads.store.get(without)
        is_counted = _is_of(own) == key or self._intents.is_of(without, key)
        return self._by_local_queue[key] + self._intents.count(key) - is_counted

    # ------------------------------------------------------------ nominated Workloads

    def intend(self, workload: WorkloadView) -> None:
        """Count a Workload that was just nominated here, until its copy shows up."""
        if workload.key in self._copies or workload.key in self._holding:
            return
        is_new = self._intents.add(workload)
        name = self._queue_of(workload)
        if is_new and name in self._demand:
            view, until = self._demand[name]
            self._demand[name] = (quota_view.with_demand(view, workload), until)
        self._plan_expiry()

    def forget_intent(self, key: str) -> bool:
        """Stop counting it: it was sent elsewhere, or is gone; whether it was counted."""
        if self._intents.pop(key) is None:
            return False
        self._demand.clear()
        return True

    def _plan_expiry(self) -> None:
        """Have it told when a nomination counts no more: somebody may wait for its room."""
        oldest = next(iter(self._intents), None)
        if oldest is not None and self._expires_at is None:
            self._expires_at = oldest.until
            self._call_at(oldest.until, self._expire)

    def _expire(self) -> None:
        self._expires_at = None
        self._intents.expire()
        if self._intents.expired > self._told_of:
            self._told_of = self._intents.expired
            self._demand.clear()
            self._on_change()
        self._plan_expiry()

    def take_over(self, old: Self) -> None:
        """Count the Workloads that an earlier state of the worker counts, until the same time."""
        for intent in old._intents:
            if intent.workload.key not in self._copies and intent.workload.key not in self._holding:
                self._intents.take(intent)
        self._demand.clear()
        self._plan_expiry()

    # ------------------------------------------------------------ building

    def _build(self, name: str) -> QueueView | None:
        member = self._queues.get(name)
        if member is None:
            return None
        flavors = self._informers.flavors.store
        found = {
            flavor.name: value
            for group in member.queue.resource_groups
            for flavor in group.flavors
            if (value := flavors.get(flavor.name)) is not None
        }
        readable = (other for other in self._queues.values() if other is not None)
        pools = quota_view.pools_of(member, readable, self._cohorts)
        return quota_view.build_queue_view(member, found, pools)

    def _with_demand(self, view: QueueView, name: str, *, without: str) -> QueueView:
        own = self._informers.workloads.store.get(without)
        if own is not None and has_quota(own.status) and not is_finished(own.status):
            view = quota_view.with_usage(view, usage_of(own))
        for workload in self._late(name, without):
            view = quota_view.with_in_flight(view, usage_of(workload))
        misses = 0
        for workload_view in self._waiting(name, without):
            before = view
            view = quota_view.with_demand(view, workload_view, look=misses < MAX_MISSES)
            misses = misses + 1 if view.quotas is before.quotas else 0
        return view

    def _late(self, queue: str, without: str) -> Iterator[api.Workload]:
        """Yield copies with quota that the queue's status does not count yet."""
        now = self._monotonic()
        for key, since in list(self._recent.items()):
            if now - since > SETTLE_SECONDS:
                del self._recent[key]
                continue
            workload = self._informers.workloads.store.get(key)
            if workload is None or key == without:
                continue
            if workload.status.admission and workload.status.admission.cluster_queue == queue:
                yield workload

    def _waiting(self, queue: str, without: str) -> Iterator[WorkloadView]:
        """Yield our Workloads for this queue that hold no quota there yet, the oldest first."""
        self._intents.expire()
        yield from (
            intent.workload
            for intent in self._intents
            if intent.workload.key != without and self._queue_of(intent.workload) == queue
        )
        yield from (
            view
            for key, view in self._copies.items()
            if key != without and key not in self._intents and self._queue_of(view) == queue
        )

    def _queue_of(self, workload: WorkloadView) -> str:
        store = self._informers.local_queues.store
        found = store.get(key_of(workload.namespace, workload.queue))
        return found.spec.cluster_queue if found is not None else ""

    # ------------------------------------------------------------ events

    def _on_copy(self, old: api.Workload | None, new: api.Workload | None) -> None:
        workload = new or old
        assert workload is not None
        key = workload.metadata.key
        self._by_local_queue[_is_of(old)] -= 1
        self._by_local_queue[_is_of(new)] += 1
        # Its queue's status may never tell: what begins and ends between two writes of it, and what
        # only waited for the room.
        is_over = new is None or is_finished(new.status)
        counts = key in self._copies or key in self._intents
        gives_room = (key in self._holding and not _holds(new)) or (is_over and counts)
        if new is None or is_finished(new.status):
            self._forget_copy(key)
            self._intents.pop(key)
        elif has_quota(new.status):
            if key not in self._holding:
                self._forget_copy(key)
                self._holding.add(key)
                if old is not None:
                    self._recent[key] = self._monotonic()
            self._intents.pop(key)
        elif key not in self._copies:
            # A Workload that was an intent until now is already counted.
            known = self._intents.pop(key)
            if known is None or key in self._holding:
                self._forget_copy(key)
            self._copies[key] = build_workload_view(
                new, kind="", find_flavor=lambda _: None, options=self._options
            )
        if gives_room:
            self._on_change()

    def _forget_copy(self, key: str) -> None:
        self._copies.pop(key, None)
        self._recent.pop(key, None)
        self._holding.discard(key)
        self._demand.clear()

    def _on_local_queue(self, old: api.LocalQueue | None, new: api.LocalQueue | None) -> None:
        before = old.spec.cluster_queue if old is not None else None
        after = new.spec.cluster_queue if new is not None else None
        if before != after:
            self._demand.clear()
            self._on_change()

    def _on_cluster_queue(self, old: api.ClusterQueue | None, new: api.ClusterQueue | None) -> None:
        known = new or old
        assert known is not None
        name = known.metadata.name
        before = self._queues.get(name)
        after = quota_view.read_queue(new) if new is not None else None
        if new is None:
            self._queues.pop(name, None)
        else:
            self._queues[name] = after
        if before == after:
            return
        cohorts = {member.queue.cohort for member in (before, after) if member is not None} - {""}
        if cohorts:
            self._views.clear()
        else:
            self._views.pop(name, None)
        self._settle(name)
        self._demand.clear()
        self._on_change()

    def _settle(self, queue: str) -> None:
        """Assume that a new status counts everything that got quota before it."""
        for key in list(self._recent):
            workload = self._informers.workloads.store.get(key)
            admission = workload.status.admission if workload is not None else None
            if admission is None or admission.cluster_queue == queue:
                del self._recent[key]

    def _on_cohort(self, old: api.Cohort | None, new: api.Cohort | None) -> None:
        known = new or old
        assert known is not None
        cohort = quota_view.read_cohort(new) if new is not None else None
        if cohort is None:
            self._cohorts.pop(known.metadata.name, None)
        else:
            self._cohorts[known.metadata.name] = cohort
        self._views.clear()
        self._demand.clear()
        self._on_change()

    def _on_flavor(self, old: api.ResourceFlavor | None, new: api.ResourceFlavor | None) -> None:
        if old is not None and new is not None and old.spec == new.spec:
            return
        self._views.clear()
        self._demand.clear()
        self._on_change()


def _holds(workload: api.Workload | None) -> bool:
    return workload is not None and has_quota(workload.status) and not is_finished(workload.status)


def _is_of(workload: api.Workload | None) -> str:
    """Return the LocalQueue that a copy counts for; empty if it counts no more."""
    if workload is None or is_finished(workload.status):
        return ""
    return key_of(workload.metadata.namespace, workload.spec.queue_name)


def follow_workers(fleet: Fleet, options: BuildOptions) -> None:
    """Keep a `WorkerState` for each connected worker: ``fleet.find_part(name, WorkerState)``.

    Args:
        fleet: The workers.
        options: How the resource requests of Workloads are read.
    """

    def attach(_: str, session: WorkerSession) -> None:
        loop = asyncio.get_running_loop()
        session.add_part(
            WorkerState(
                session.informers,
                on_change=fleet.tell_room,
                monotonic=loop.time,
                call_at=loop.call_at,
                options=options,
            )
        )

    fleet.add_session_hook(attach)
