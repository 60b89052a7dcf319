"""Assembles the parts that dispatch Workloads to worker clusters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from multiqueue.api.cluster_orders import DrainPace
from multiqueue.api.config import Gate
from multiqueue.capacity.fleet_capacity import FleetCapacity
from multiqueue.capacity.fleet_limits import FleetLimits
from multiqueue.capacity.quota_automation_controller import QuotaAutomation
from multiqueue.capacity.worker_state import follow_workers
from multiqueue.dispatch.admission_check import AdmissionCheckReconciler
from multiqueue.dispatch.garbage_collector import GarbageCollector
from multiqueue.dispatch.observe.departures import Departures
from multiqueue.dispatch.observe.fitting import Fitting
from multiqueue.dispatch.observe.observe import Observer
from multiqueue.dispatch.worker_gpus import WorkerGpus
from multiqueue.dispatch.worker_metrics import WorkerFigures
from multiqueue.dispatch.workload_reconciler import WorkloadReconciler
from multiqueue.dispatcher_host.choice import DispatcherChoice
from multiqueue.dispatcher_host.profile_status import ProfileReconciler
from multiqueue.dispatcher_host.registry import Dispatchers
from multiqueue.drain.controller import DrainReconciler
from multiqueue.engine.engine import Engine
from multiqueue.forecast.forecasts import Forecasts
from multiqueue.jobs.build_options import build_options
from multiqueue.jobs.context import ManagerContext, Runnable
from multiqueue.jobs.fleet_gate import FleetGate
from multiqueue.jobs.framework.multikueue import MultiKueueAdapter
from multiqueue.jobs.registry import SupportedKind
from multiqueue.kube.call_thread import OpenThread, PluginThread
from multiqueue.kube.transport import HttpTransport, OpenTransport
from multiqueue.workers.clusters.reconciler import ClusterReconciler
from multiqueue.workers.connections.capability_book import CapabilityBook
from multiqueue.workers.connections.fleet import Fleet
from multiqueue.workers.kubeconfigs.credentials import PATH_PREFIX
from multiqueue.workers.own_cluster import OwnCluster


@dataclass(frozen=True, slots=True, kw_only=True)
class MultiKueueParts:
    """The parts that dispatch Workloads to worker clusters.

    Attributes:
        parts: The components that run while this manager leads.
        gate: Answers the engine's shell about the workers.
        fleet: The workers.
        capacity: What the workers could hold.
        workloads: The controller that dispatches Workloads.
        dispatchers: The dispatchers, and which of them decides.
        forecasts: Forecasts for Workloads, and the runtimes that they rest on.
    """

    parts: tuple[Runnable, ...]
    gate: FleetGate
    fleet: Fleet
    capacity: FleetCapacity
    workloads: WorkloadReconciler
    dispatchers: DispatcherChoice
    forecasts: Forecasts


def build_multikueue(
    context: ManagerContext,
    engine: Engine,
    dispatchers: Dispatchers | None = None,
    *,
    path_prefix: Path = PATH_PREFIX,
    open_transport: OpenTransport = HttpTransport,
    open_thread: OpenThread = PluginThread,
) -> MultiKueueParts:
    """Connect to the manager's informers, and return the components to run while it leads.

    Call it before the informers run. Nothing is written, and no worker is connected to, before the
    components run. If a dispatcher is not installed, that is logged; its Workloads stay pending and
    their status gives the reason.

    Args:
        context: The manager's context.
        engine: The manager's engine.
        dispatchers: The dispatchers to choose from; by default all installed ones.
        path_prefix: The folder in which kubeconfig files must be.
        open_transport: Makes the transport for requests to a worker.
        open_thread: Makes the threads in which dispatchers run.
    """
    settings = context.config.multi_kueue
    options = build_options(context.config)
    own_cluster = OwnCluster(context.informers)
    fleet = Fleet(
        adapters=context.integrations.adapters,
        origin=settings.origin,
        clock=context.clock,
        metrics=context.metrics,
        open_transport=open_transport,
        grace=settings.worker_lost_timeout,
        is_here=own_cluster.has,
        count_left=own_cluster.count_left,
    )
    context.integrations.add_listener(
        on_added=partial(_with_adapter, fleet.follow_kind),
        on_removed=partial(_with_adapter, fleet.forget_kind),
    )
    choice = DispatcherChoice(
        dispatchers or Dispatchers(),
        context.config,
        context.metrics,
        now=context.clock.now,
        profiles=context.informers.dispatch_profiles,
        open_thread=open_thread,
    )
    follow_workers(fleet, options)
    WorkerGpus(context, fleet)
    limits = FleetLimits(fleet)
    capacity = FleetCapacity(context, fleet, limits, options)
    fitting, departures = Fitting(context, fleet, limits), Departures()
    forecasts = Forecasts(context, fleet, options)
    engine.ask_run_times(forecasts.find_expected_run)
    workloads = WorkloadReconciler(
        context,
        fleet,
        limits=limits,
        capacity=capacity,
        forecasts=forecasts,
        dispatchers=choice,
        observer=Observer(context, fleet, fitting, departures, capacity),
        fitting=fitting,
        options=options,
    )
    drains = DrainReconciler(
        context,
        fleet,
        Observer(context, fleet, fitting, departures),
        departures,
        options=options,
        enqueue=workloads.enqueue,
        engine=engine,
        global_queue=workloads.global_queue,
        pace=DrainPace(every=settings.drain_period, at_once=settings.drain_at_once),
    )
    automates = context.config.gates.enabled(Gate.MULTIKUEUE_MANAGER_QUOTA_AUTOMATION)
    parts: list[Runnable] = [
        fleet,
        ClusterReconciler(context, fleet, path_prefix=path_prefix),
        AdmissionCheckReconciler(context),
        workloads,
        ProfileReconciler(context, choice),
        choice,
        drains,
        CapabilityBook(context, fleet),
        GarbageCollector(context, fleet, enqueue=workloads.enqueue),
        WorkerFigures(context),
        *([QuotaAutomation(context, fleet, limits)] if automates else []),
    ]
    return MultiKueueParts(
        parts=tuple(parts),
        gate=workloads.gate,
        fleet=fleet,
        capacity=capacity,
        workloads=workloads,
        dispatchers=choice,
        forecasts=forecasts,
    )


def _with_adapter(do: Callable[[MultiKueueAdapter], None], kind: SupportedKind) -> None:
    if kind.adapter is not None:
        do(kind.adapter)
