"""The views that dispatchers get of a simulated fleet, the same as for a real one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from multiqueue.api import v1beta2 as api
from multiqueue.api.names import DISPATCHER_ALL_AT_ONCE, DISPATCHER_INCREMENTAL, INCREMENTAL
from multiqueue.capacity import quota_view
from multiqueue.capacity.quota_view import QueueObject
from multiqueue.dispatch.decide.cluster_state import ClusterState
from multiqueue.dispatch.wake.global_queue import GlobalQueue
from multiqueue.forecast.estimates import Budget
from multiqueue.plugins import (
    ClusterView,
    CopyState,
    DispatchView,
    Nomination,
    PodSetView,
    QueueView,
    ReservedFlavor,
    WorkloadView,
)
from multiqueue.simulation.agenda import SimulationAgenda
from multiqueue.simulation.fleet import HARDWARE_LABEL
from multiqueue.simulation.knowledge import Knowledge
from multiqueue.simulation.manager import Managed
from multiqueue.simulation.queues import LOCAL_QUEUE
from multiqueue.simulation.worker import SimulatedWorker

KIND = "Job.v1.batch"
MAX_MISSES = 20
WITHOUT_FORECAST = frozenset(
    {"all-at-once", DISPATCHER_ALL_AT_ONCE, INCREMENTAL, DISPATCHER_INCREMENTAL}
)
"""Upstream's dispatchers look at clusters as they are, not at forecasts or who waits there. So
they need not be asked when room changes, either: `incremental` then writes 1 % less of what it
explains. All that is most of the time of a run."""


class Views:
    """Builds views.

    Attributes:
        has_forecasts: Whether the dispatcher uses forecasts.

    Args:
        agenda: The virtual clock.
        workers: The workers by name, in the order of the MultiKueueConfig.
        knowledge: What is known of runtimes.
        dispatcher: The configured name of the dispatcher.
        arguments: The dispatcher's arguments.
    """

    def __init__(
        self,
        agenda: SimulationAgenda,
        workers: Mapping[str, SimulatedWorker],
        *,
        knowledge: Knowledge,
        dispatcher: str,
        arguments: Mapping[str, Any],
    ) -> None:
        self.has_forecasts = dispatcher not in WITHOUT_FORECAST
        self._agenda = agenda
        self._workers = workers
        self._knowledge = knowledge
        self._dispatcher = dispatcher
        self._arguments = arguments
        self._workloads: dict[str, tuple[str, WorkloadView]] = {}
        self.global_queue = GlobalQueue(lambda _: True)
        self._queues: dict[str, tuple[int, dict[str, QueueView]]] = {}

    def build(self, managed: Managed, states: Mapping[str, ClusterState]) -> DispatchView:
        """Return the view of a Workload and its clusters now."""
        workload = self.show(managed)
        budget = Budget()
        return DispatchView(
            workload=workload,
            clusters=tuple(
                self._cluster(worker, workload, managed, states[name], budget)
                for name, worker in self._workers.items()
                if worker.lost_at is None
            ),
            nominated=managed.nominated,
            claim=self.global_queue.find_own(managed.key),
            history=managed.memory.rounds,
            usual_speeds=self._knowledge.usual_speeds(),
            arguments=self._arguments,
            dispatcher=self._dispatcher,
            now=self._agenda.now,
        )

    def show(self, managed: Managed) -> WorkloadView:
        """Return the view of a Workload alone."""
        known = self._workloads.get(managed.key)
        runtime = self._knowledge.find(managed.progress.job)
        if known is not None and known[0] == managed.epoch and known[1].runtime == runtime:
            return known[1]
        job, workload = managed.progress.job, managed.workload
        flavors = managed.admission.pod_sets[0].flavors if managed.admission is not None else {}
        shown = WorkloadView(
            key=workload.key,
            uid=workload.uid,
            queue=LOCAL_QUEUE,
            kind=KIND,
            priority=workload.priority,
            created_at=managed.submitted_at,
            pod_sets=tuple(
                PodSetView(
                    name=pod_set.name,
                    count=pod_set.count,
                    requests=pod_set.requests,
                    placement=pod_set.placement,
                    reserved={
                        resource: ReservedFlavor(name=flavor)
                        for resource, flavor in flavors.items()
                    },
                    alternatives={name: n for name, n in pod_set.alternatives if name},
                )
                for pod_set in workload.pod_sets
            ),
            runtime=runtime,
            speeds=job.speeds,
        )
        self._workloads[managed.key] = (managed.epoch, shown)
        return shown

    def _cluster(
        self,
        worker: SimulatedWorker,
        workload: WorkloadView,
        managed: Managed,
        state: ClusterState,
        budget: Budget,
    ) -> ClusterView:
        copy = state.copy
        if copy is not None and copy.epoch != managed.epoch:
            copy = None
        holding = sum(each.admission is not None for each in worker.copies.values())
        return ClusterView(
            name=state.name,
            kinds=frozenset({KIND}),
            queue=self._queue(worker, workload),
            copy=CopyState.ABSENT
            if copy is None
            else CopyState.RESERVED
            if copy.quota_reserved
            else CopyState.PENDING,
            offered_at=managed.memory.offered_since(state.name),
            running=holding,
            waiting=len(worker.copies) - holding,
            prices=worker.cluster.prices,
            claims=self.global_queue.list_claims(state.name, without=workload.key),
            forecast=worker.mirror.forecast(workload, self._agenda.now, budget)
            if self.has_forecasts
            else None,
        )

    def accept(self, view: DispatchView, nomination: Nomination) -> None:
        """Count what is about to be sent, so that the next Workload does not see the same room."""
        if not self.has_forecasts:
            return
        self.global_queue.note(view, nomination)
        for name, worker in self._workers.items():
            if name in nomination.clusters:
                worker.mirror.assume(view.workload, view.now)
            else:
                worker.mirror.forget(view.workload.key, view.now)

    # ------------------------------------------------------------ queues

    def _queue(self, worker: SimulatedWorker, workload: WorkloadView) -> QueueView:
        """Return the queue of a Workload's team, with the backlog of its waiting copies."""
        view = self._read(worker)[workload.namespace]
        misses = 0
        for copy in worker.copies.values() if self.has_forecasts else ():
            key = copy.workload.key
            waits = copy.admission is None and copy.finish is None and not copy.deactivating
            if key == workload.key or not waits or copy.workload.namespace != workload.namespace:
                continue
            shown = self._workloads[key][1]
            before = view
            view = quota_view.with_demand(view, shown, look=misses < MAX_MISSES)
            misses = misses + 1 if view.quotas is before.quotas else 0
        return view

    def _read(self, worker: SimulatedWorker) -> dict[str, QueueView]:
        name = worker.cluster.name
        known = self._queues.get(name)
        if known is not None and known[0] == worker.version:
            return known[1]
        objects = [_read_queue(worker, queue.name) for queue in worker.queues]
        pools = quota_view.build_pools(objects, ())
        flavors = {flavor: _flavor(flavor) for flavor in worker.cluster.gpus}
        views = {
            each.queue.name: quota_view.build_queue_view(each, flavors, pools) for each in objects
        }
        self._queues[name] = (worker.version, views)
        return views


def _read_queue(worker: SimulatedWorker, name: str) -> QueueObject:
    state = worker.engine.cluster_queue_state(name)
    assert state is not None
    used = {
        (flavor, resource): amount.total
        for flavor, resources in state.reservation.items()
        for resource, amount in resources.items()
    }
    queue = next(queue for queue in worker.queues if queue.name == name)
    return QueueObject(queue=queue, used=used, pending=state.pending)


def _flavor(name: str) -> api.ResourceFlavor:
    return api.ResourceFlavor(
        metadata=api.ObjectMeta(name=name),
        spec=api.ResourceFlavorSpec(node_labels={HARDWARE_LABEL: name}),
    )
