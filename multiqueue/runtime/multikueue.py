"""Assembles what sends Workloads to other clusters."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import structlog

from multiqueue.api.cluster_orders import Pace
from multiqueue.api.config import Gate
from multiqueue.capacity.quota_automation_controller import QuotaAutomation
from multiqueue.dispatch.admission_check import AdmissionCheckReconciler
from multiqueue.dispatch.ask.decision_service import DispatchDesk
from multiqueue.dispatch.garbage_collector import GarbageCollector
from multiqueue.dispatch.worker_metrics import WorkerFigures
from multiqueue.dispatch.workload_reconciler import WorkloadReconciler
from multiqueue.dispatcher_host.choice import DispatcherChoice
from multiqueue.dispatcher_host.profile_status import ProfileReconciler
from multiqueue.dispatcher_host.registry import Dispatchers
from multiqueue.drain.controller import DrainReconciler
from multiqueue.engine.engine import Engine
from multiqueue.jobs.build_options import build_options
from multiqueue.jobs.context import ManagerContext, Runnable
from multiqueue.kube.call_thread import OpenThread, PluginThread
from multiqueue.kube.transport import OpenTransport, Transport
from multiqueue.workers.clusters.reconciler import ClusterReconciler
from multiqueue.workers.connections.capability_book import CapabilityBook
from multiqueue.workers.connections.fleet import Fleet
from multiqueue.workers.kubeconfigs.credentials import PATH_PREFIX

log = structlog.get_logger("multiqueue.dispatch")


def build_multikueue(
    context: ManagerContext,
    dispatchers: Dispatchers | None = None,
    *,
    path_prefix: Path = PATH_PREFIX,
    open_transport: OpenTransport = Transport,
    open_thread: OpenThread = PluginThread,
) -> list[Runnable]:
    """Connect to the manager's informers, and return what has to run while this manager leads.

    Call it before the informers run. Nothing is written, and no worker is connected to, before the
    runnables run. A dispatcher that is not installed is no reason to stop: it is logged, Workloads
    stay pending and say so.

    Args:
        context: Of the manager.
        dispatchers: What there is to choose from; by default all that are installed.
        path_prefix: Where kubeconfig files may be.
        open_transport: Makes what requests to workers are sent with.
        open_thread: Makes the threads that dispatchers run in.
    """
    settings = context.config.multi_kueue
    options = build_options(context.config)
    fleet = Fleet(
        adapters=context.integrations.adapters,
        origin=settings.origin,
        clock=context.clock,
        options=options,
        metrics=context.metrics,
        open_transport=open_transport,
        grace=settings.worker_lost_timeout,
    )
    choice = DispatcherChoice(
        dispatchers or Dispatchers(),
        context.config,
        context.metrics,
        now=context.clock.now,
        profiles=context.informers.dispatch_profiles,
        open_thread=open_thread,
    )
    workloads = WorkloadReconciler(context, fleet, choice, options)
    automates = context.config.gates.enabled(Gate.MULTIKUEUE_MANAGER_QUOTA_AUTOMATION)
    return [
        fleet,
        ClusterReconciler(context, fleet, path_prefix=path_prefix),
        AdmissionCheckReconciler(context),
        workloads,
        ProfileReconciler(context, choice),
        choice,
        DrainReconciler(
            context,
            fleet,
            options,
            enqueue=workloads.enqueue,
            pace=Pace(every=settings.drain_period, at_once=settings.drain_at_once),
        ),
        CapabilityBook(context, fleet),
        GarbageCollector(context, fleet, enqueue=workloads.enqueue),
        WorkerFigures(context),
        *([QuotaAutomation(context, fleet)] if automates else []),
    ]


def build_desk(engine: Engine, parts: Iterable[Runnable]) -> DispatchDesk:
    """Build what answers questions about decisions from the parts that `build_multikueue` made."""
    workloads = next(part for part in parts if isinstance(part, WorkloadReconciler))
    return workloads.open_desk(engine)
