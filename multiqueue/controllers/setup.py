"""Assembles the controllers that make a manager a job queue, with topologies and provisioning."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from multiqueue.api.config import Gate
from multiqueue.controllers.admission_log import AdmissionLog
from multiqueue.controllers.cache_feed import CacheFeed
from multiqueue.controllers.cluster_queue_controller import ClusterQueueController
from multiqueue.controllers.cohort_controller import CohortController
from multiqueue.controllers.config_changes import ConfigChanges
from multiqueue.controllers.device_watch import DeviceWatch
from multiqueue.controllers.disruption.notice_hooks import NoticeHooks
from multiqueue.controllers.disruption.notice_teller import NoticeTeller
from multiqueue.controllers.disruption.policy_controller import DisruptionPolicyController
from multiqueue.controllers.disruption.save_feed import SaveFeed
from multiqueue.controllers.elastic.ungater import ElasticUngater
from multiqueue.controllers.evictions import EvictionWriter
from multiqueue.controllers.failure_recovery import FailureRecovery
from multiqueue.controllers.in_use_controller import build_in_use_controllers
from multiqueue.controllers.local_queue_controller import LocalQueueController
from multiqueue.controllers.metrics.phase_counts import PhaseCounts
from multiqueue.controllers.metrics.workload_counts import WorkloadCounts
from multiqueue.controllers.notifications.late_starts import FindStart, LateStarts
from multiqueue.controllers.notifications.notifier import Notifier
from multiqueue.controllers.plan_applier import PlanApplier
from multiqueue.controllers.provisioning.check_controller import ProvisioningCheckController
from multiqueue.controllers.provisioning.controller import ProvisioningController
from multiqueue.controllers.provisioning.watch import RequestWatch
from multiqueue.controllers.quota_plan.controller import QuotaPlanController
from multiqueue.controllers.scheduler_loop import SchedulerLoop
from multiqueue.controllers.status_ticker import StatusTicker
from multiqueue.controllers.topology.failure_controller import NodeFailureController
from multiqueue.controllers.topology.feed import TopologyFeed
from multiqueue.controllers.topology.ungater import TopologyUngater
from multiqueue.controllers.topology.watch import TopologyWatch
from multiqueue.controllers.traces import TraceExporter
from multiqueue.controllers.transitions import TransitionRecorder
from multiqueue.controllers.usage_reports import UsageReports
from multiqueue.controllers.variants.controller import build_variants
from multiqueue.controllers.workload.controller import WorkloadController
from multiqueue.engine.engine import Engine
from multiqueue.jobs.build_options import build_options
from multiqueue.jobs.context import ManagerContext, Runnable
from multiqueue.jobs.fleet_gate import FleetGate, NoFleet
from multiqueue.jobs.framework.reconciler import JobReconciler
from multiqueue.jobs.machines.mirror import NodeMirror

__all__ = ["build_controllers", "build_notifications"]


T = TypeVar("T")


def build_controllers(
    context: ManagerContext, engine: Engine, gate: FleetGate | None = None
) -> list[Runnable]:
    """Connect engine and informers, and return the components to run while this manager leads.

    Call it before the informers run. The engine is fed from then on, also on a standby, so that a
    new leader can decide at once. Nothing is written before the components run.

    Args:
        context: The manager's context.
        engine: The engine that decides.
        gate: Answers questions about workers; None if nothing is sent to workers.
    """
    fleet = gate or NoFleet()
    # The parts call each other; a function stands in for a part that is built later.
    applier: PlanApplier
    loop: SchedulerLoop
    ticker: StatusTicker

    def on_change() -> None:
        loop.wake()
        ticker.touch()

    def on_broken(error: Exception) -> None:
        loop.fail(error)

    devices = _device_watch(context)
    feed = CacheFeed(
        context,
        engine,
        options=build_options(context.config),
        on_change=on_change,
        on_broken=on_broken,
        devices=next(iter(devices), None),
    )

    def is_admitting(key: str) -> bool:
        return applier.find_unwritten(key) is not None

    workloads = WorkloadController(context, engine, is_admitting=is_admitting)
    applier = PlanApplier(
        context, engine, fleet, on_pending=workloads.enqueue, on_forgotten=on_change
    )
    local_queues = LocalQueueController(context, engine, on_sampled=on_change)

    def on_activity(cluster_queue: str) -> None:
        workloads.enqueue_cluster_queue(cluster_queue)
        local_queues.enqueue_cluster_queue(cluster_queue)

    cluster_queues = ClusterQueueController(context, engine, on_activity=on_activity)
    cohorts = CohortController(context, engine)
    ticker = StatusTicker(
        engine,
        on_cluster_queue=cluster_queues.enqueue,
        on_local_queue=local_queues.enqueue,
        on_cohort=cohorts.enqueue,
    )

    def on_failed(victim: str) -> bool:
        engine.preemption_failed(victim, context.clock.now())
        on_change()
        return True

    evictions = EvictionWriter(
        context,
        find_unwritten=applier.find_unwritten,
        take_back=_guard(applier.take_back, on_broken),
        on_failed=_guard(on_failed, on_broken),
    )
    topology = build_topology(context, engine, on_change=on_change)
    inputs: list[Callable[[], Awaitable[None]]] = [watch.until_known for watch in devices]
    if topology.until_fed is not None:
        inputs.append(topology.until_fed)
    report = AdmissionLog(context, engine).report
    loop = SchedulerLoop(context, engine, applier, evictions, report=report, until_fed=inputs)
    feed.attach()
    SaveFeed(context, engine, fleet, on_change=on_change)

    def on_fleet_change() -> None:
        engine.fleet_changed()
        on_change()

    engine.ask_fleet(fleet.ask)
    fleet.add_listener(on_fleet_change)
    return [
        applier,
        evictions,
        loop,
        workloads,
        cluster_queues,
        cohorts,
        local_queues,
        ticker,
        TransitionRecorder(context, cohorts_above=engine.cohorts_above),
        WorkloadCounts(context, engine.local_queue_target),
        DisruptionPolicyController(context),
        NoticeTeller(context, fleet, engine, on_change=on_change),
        NoticeHooks(context, fleet),
        PhaseCounts(context, engine.local_queue_target),
        ConfigChanges(context),
        UsageReports(context),
        *([TraceExporter(context)] if context.config.traces.endpoint else ()),
        QuotaPlanController(context),
        *build_in_use_controllers(context),
        *build_provisioning(context),
        *topology.runnables,
        *devices,
        *_failure_recovery(context),
        *_elastic_jobs(context),
        *build_variants(context, on_family=workloads.enqueue),
        *_job_reconcilers(context, dispatches=gate is not None),
    ]


def _job_reconcilers(context: ManagerContext, *, dispatches: bool) -> Iterator[Runnable]:
    for kind in context.integrations.kinds:
        if kind.controllers is None:
            yield JobReconciler(context, kind.integration, dispatches=dispatches)
        else:
            yield from kind.controllers(context)


def _guard(
    change: Callable[[T], bool], on_broken: Callable[[Exception], None]
) -> Callable[[T], bool]:
    """Have an error of a change that a timer makes in the engine end the scheduler."""

    def call(of: T) -> bool:
        try:
            return change(of)
        except Exception as error:  # noqa: BLE001 - the scheduler raises it
            on_broken(error)
            return False

    return call


def _device_watch(context: ManagerContext) -> list[DeviceWatch]:
    wanted = context.config.gates.enabled(Gate.KUEUE_DRA_INTEGRATION)
    return [DeviceWatch(context)] if wanted else []


def _failure_recovery(context: ManagerContext) -> list[Runnable]:
    wanted = context.config.gates.enabled(Gate.FAILURE_RECOVERY_POLICY)
    return [FailureRecovery(context)] if wanted else []


def _elastic_jobs(context: ManagerContext) -> list[Runnable]:
    wanted = context.config.gates.enabled(Gate.ELASTIC_JOBS_VIA_WORKLOAD_SLICES)
    return [ElasticUngater(context)] if wanted else []


@dataclass(frozen=True, slots=True)
class TopologyParts:
    """The components to run while this manager leads, and what scheduling waits for."""

    runnables: tuple[Runnable, ...] = ()
    until_fed: Callable[[], Awaitable[None]] | None = None


def build_topology(
    context: ManagerContext, engine: NodeMirror, *, on_change: Callable[[], None]
) -> TopologyParts:
    """Connect nodes and pods with the engine; no components if the gate is off.

    Args:
        context: The manager's context.
        engine: The engine to feed.
        on_change: Called after each change of the engine.
    """
    gates = context.config.gates
    if not gates.enabled(Gate.TOPOLOGY_AWARE_SCHEDULING):
        return TopologyParts()
    watch = TopologyWatch(context)
    feed = TopologyFeed(context, watch, engine, on_change=on_change)
    runnables: list[Runnable] = [watch, feed, TopologyUngater(context, watch)]
    if gates.enabled(Gate.TAS_FAILED_NODE_REPLACEMENT):
        runnables.append(NodeFailureController(context, watch))
    return TopologyParts(tuple(runnables), feed.until_fed)


def build_provisioning(context: ManagerContext) -> list[Runnable]:
    """Return what has to run while this manager leads."""
    watch = RequestWatch(context)
    return [
        watch,
        ProvisioningCheckController(context, watch),
        ProvisioningController(context, watch, jitter=random.random),
    ]


def build_notifications(context: ManagerContext, find_start: FindStart | None) -> list[Runnable]:
    """Return what has to run while this manager leads; nothing without receivers.

    Args:
        context: The manager's context.
        find_start: Estimates when a Workload starts; None: nobody is told that it is late.
    """
    if not context.config.notifications.receivers:
        return []
    notifier = Notifier(context)
    late = [LateStarts(context, notifier, find_start)] if find_start is not None else []
    return [notifier, *late]
