"""The manager: from a configuration to a working queue, in one process.

The manager starts these in order: client, health, check of the served kinds, informers (which feed
the engine), webhooks, leadership, controllers. A standby does everything but the last, so it takes
over at once. A failed component is started again; `components` lists the failures that end the
process.
"""

from __future__ import annotations

import asyncio
import os
import socket
import uuid
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import structlog

from multiqueue.api import names
from multiqueue.api.config import Configuration, Gate
from multiqueue.controllers.declared.catalog import DeclaredKinds
from multiqueue.controllers.declared.controller import DeclaredJobs
from multiqueue.controllers.engine_setup import build_engine
from multiqueue.controllers.setup import build_controllers, build_notifications
from multiqueue.engine.engine import Engine
from multiqueue.forecast.kept_factors import KeptFactors
from multiqueue.forecast.manager_starts import ManagerStarts
from multiqueue.jobs.build_options import build_options
from multiqueue.jobs.context import ManagerContext, Runnable
from multiqueue.jobs.informers import build_informers
from multiqueue.jobs.setup import build_registry
from multiqueue.jobs.workload_writer import WorkloadWriter
from multiqueue.kube.client import KubeClient
from multiqueue.kube.clock import Clock, SystemClock
from multiqueue.kube.credentials import Credentials
from multiqueue.kube.events import EventRecorder
from multiqueue.kube.leader_election import LeaderElector, LeadershipEnd
from multiqueue.kube.limiter import RateLimiter
from multiqueue.kube.retries import KINDS
from multiqueue.kube.write_fence import WriteFence
from multiqueue.observability.loop_lag import LoopLag
from multiqueue.observability.metrics import ManagerMetrics
from multiqueue.observability.server import HealthChecks, ObservabilityServer
from multiqueue.runtime.addresses import parse_bind_address
from multiqueue.runtime.components import Component, Supervisor, TaskScope, open_scope
from multiqueue.runtime.live_whatifs import LiveWhatIfs
from multiqueue.runtime.metrics_endpoint import MetricsEndpoint
from multiqueue.runtime.multikueue import MultiKueueParts, build_multikueue
from multiqueue.runtime.preconditions import (
    can_reach_webhooks,
    ensure_namespace,
    find_missing_kinds,
    list_informers,
    tune_garbage_collector,
    wait_until_settled,
)
from multiqueue.visibility.setup import VisibilityService, build_visibility, find_address
from multiqueue.webhooks.setup import WebhookService, build_webhooks
from multiqueue.workers.kubeconfigs.worker_clients import WorkerAccess

if TYPE_CHECKING:
    from multiqueue.dashboard.service import DashboardService

NOT_SYNCED = "informers are not synced"
WEBHOOK_SECONDS = 10.0
"""How long a new leader waits for its webhooks; a wrong registration blocks its writes."""

log = structlog.get_logger("multiqueue.runtime")


class LeadershipLost(Exception):  # noqa: N818 - a fact, which ends the process
    """Another manager may lead now; this process must stop at once and start again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagerOptions:
    """Options of a manager beside its configuration.

    Attributes:
        identity: The manager's name in the Lease; made up by default.
        webhooks: Whether to serve and register admission webhooks; None: if the API server can
            reach them.
        clock: The clock for times in objects.
        drain_seconds: How long requests are still answered after the end was asked for.
    """

    identity: str = ""
    webhooks: bool | None = None
    clock: Clock = field(default_factory=SystemClock)
    drain_seconds: float = 0.0


class Manager:
    """Runs until cancelled, or until a failure that restarting a component cannot solve.

    Attributes:
        serving: Set once metrics and health are served.
        leading: Set while this manager is the active one.
        waiting: Set while the cluster lacks something that the manager cannot work without.
        metrics_port: The port of the metrics once they are served; None if they are not.
        health_port: The port of health once it is served; None if it is not.
        identity: The name of this replica, which the lease has while it leads.
        visibility: The visibility API; None if it is not served.
        dashboard: The dashboard; None if it is not served. Off means that it is not imported.
    """

    name = "manager"

    def __init__(
        self,
        config: Configuration,
        credentials: Credentials,
        options: ManagerOptions | None = None,
    ) -> None:
        self.config = config
        self.options = options or ManagerOptions()
        self.serving = asyncio.Event()
        self.leading = asyncio.Event()
        self.waiting = asyncio.Event()
        self.metrics_port: int | None = None
        self.health_port: int | None = None
        self._credentials = credentials
        self._fence = WriteFence()
        self.identity = self.options.identity or f"{socket.gethostname()}_{uuid.uuid4()}"
        self._metrics = ManagerMetrics()
        self._health = HealthChecks(
            liveness=config.health.liveness_endpoint_name,
            readiness=config.health.readiness_endpoint_name,
        )
        self._supervisor = Supervisor(
            lambda component: self._metrics.component_restarts_total.child(component).inc()
        )
        self._starting: str | None = "not started"
        self._stopping = False
        self._webhooks: WebhookService | None = None
        self.visibility: VisibilityService | None = None
        self.dashboard: DashboardService | None = None
        self._endpoint: MetricsEndpoint | None = None

    async def run(self) -> None:
        """Work until cancelled; leadership is released on the way out."""
        async with AsyncExitStack() as stack:
            client = await stack.enter_async_context(self._client())
            await stack.enter_async_context(self._observability(client))
            await self._wait_for_kinds(client)
            await ensure_namespace(client, self.config.namespace)
            scope = await stack.enter_async_context(open_scope())
            context = self._context(client)
            await self._work(scope, context)

    async def until_at_work(self) -> None:
        """Return once this manager leads and its webhooks, if it serves any, are registered."""
        await self.leading.wait()
        if self._webhooks is not None:
            await self._webhooks.registered.wait()

    async def _work(self, scope: TaskScope, context: ManagerContext) -> None:
        engine = build_engine(self.config)
        # Connect before the informers run, so that the engine sees everything from the start.
        multikueue = build_multikueue(context, engine, open_transport=self._fence.open)
        declared = DeclaredKinds(context)
        leading_parts = [
            *build_controllers(context, engine, multikueue.gate),
            DeclaredJobs(context, declared, dispatches=True),
            *multikueue.parts,
        ]
        self._keep(scope, Component("events", context.recorder.run))
        self._keep(scope, LoopLag(self._metrics))
        if self._endpoint is not None:
            self._keep(scope, self._endpoint)
        if self._serves_webhooks():
            self._webhooks = build_webhooks(context)
            self._keep(scope, self._webhooks)
        starts = self._start_visibility(scope, context, engine, multikueue)
        if starts is not None:
            namespace, calibration = self.config.namespace, starts.calibration
            leading_parts.append(KeptFactors(context.client, namespace, calibration))
        leading_parts += build_notifications(context, starts.find_start if starts else None)
        self._start_dashboard(scope, context)
        informers = list_informers(context.informers)
        for informer in informers:
            self._keep(scope, Component(f"informer-{informer.resource.plural}", informer.run))
        timeout = self.config.controller.cache_sync_timeout.total_seconds()
        await wait_until_settled(informers, seconds=timeout)
        self._keep(scope, declared)
        await declared.ready.wait()
        tune_garbage_collector()
        self._starting = None
        log.info("ready", server=self._credentials.server, identity=self.identity)
        try:
            await self._lead(context.client, leading_parts)
        finally:
            self._stopping = True  # not ready from now on; the servers drain when the scope ends

    def _start_visibility(
        self,
        scope: TaskScope,
        context: ManagerContext,
        engine: Engine,
        multikueue: MultiKueueParts,
    ) -> ManagerStarts | None:
        """Serve the visibility API, if wanted; return what estimates starts for its readers."""
        if not self.config.gates.enabled(Gate.VISIBILITY_ON_DEMAND):
            return None
        server = self._credentials.server
        address = find_address(self.config, server)
        if address is None:
            log.warning(
                "no visibility API: this manager runs outside of the cluster, whose API server "
                "could not reach it; name an address in visibilityServer.bindAddress",
                server=server,
            )
            return None
        starts = ManagerStarts(
            context, engine, multikueue.forecasts.find_runtime, build_options(self.config)
        )
        self.visibility = build_visibility(
            context,
            engine,
            self._credentials,
            address=address,
            leading=self.leading,
            workers=WorkerAccess(context, multikueue.fleet),
            fleet=multikueue.fleet,
            decision_service=multikueue.workloads.open_decision_service(engine),
            starts=starts,
            whatifs=LiveWhatIfs(context, multikueue.fleet, starts),
        )
        self._keep(scope, self.visibility)
        return starts

    def _start_dashboard(self, scope: TaskScope, context: ManagerContext) -> None:
        address = parse_bind_address(self.config.dashboard.bind_address)
        if address is None:
            return
        if self.visibility is None:
            log.warning(
                "dashboard.bindAddress: no dashboard, because the visibility API that it shows is "
                "not served; switch the feature gate VisibilityOnDemand on"
            )
            return
        from multiqueue.dashboard.service import DashboardService

        self.dashboard = DashboardService(context, self._credentials, self.visibility, address)
        self._keep(scope, self.dashboard)

    def _keep(self, scope: TaskScope, runnable: Runnable) -> None:
        scope.create_task(self._supervisor.keep(runnable), name=runnable.name)

    async def _take_over_webhooks(self) -> None:
        """Register the webhooks anew: an earlier leader's address may be dead."""
        if self._webhooks is None:
            return
        self._webhooks.lead()
        try:
            async with asyncio.timeout(WEBHOOK_SECONDS):
                await self._webhooks.settled.wait()
        except TimeoutError:
            log.warning(
                "webhooks are not registered yet; starting to work without them",
                waited_seconds=WEBHOOK_SECONDS,
            )

    def _check_started(self) -> str | None:
        """Return why the manager is not ready, or None.

        A Service routes to ready pods only. If a manager's own lists need its conversion webhook,
        as after an upgrade, it must be ready before it has listed. Reviews wait until then.
        """
        webhooks = self._webhooks
        if self._stopping:
            return "the manager is stopping"
        return None if webhooks is not None and webhooks.must_convert else self._starting

    def _check_webhooks(self) -> str | None:
        webhooks = self._webhooks
        if webhooks is None:
            return None
        if (problem := self._supervisor.check_running({webhooks.name})) is not None:
            return problem
        if webhooks.registered.is_set():
            return None
        if webhooks.must_convert and not webhooks.server.knowing.is_set():
            return None
        return "webhooks are not registered yet"

    def _serves_webhooks(self) -> bool:
        if self.options.webhooks is not None:
            return self.options.webhooks
        server = self._credentials.server
        if can_reach_webhooks(server, self.config, os.environ):
            return True
        log.warning(
            "no webhooks: this manager runs outside of the cluster, whose API server could not "
            "reach them; name an address that it can reach in webhook.host, or pass --webhooks",
            server=server,
        )
        return False

    async def _lead(self, client: KubeClient, parts: list[Runnable]) -> None:
        election = self.config.leader_election

        async def work() -> None:
            await self._take_over_webhooks()
            self._metrics.change_role("leader" if election.leader_elect else "standalone")
            self.leading.set()
            self._metrics.leading.child().set(1)
            try:
                async with asyncio.TaskGroup() as tasks:
                    scope = TaskScope(tasks)
                    for part in parts:
                        self._keep(scope, part)
            finally:
                self.leading.clear()
                self._metrics.leading.child().set(0)

        if not election.leader_elect:
            await work()
            return
        self._metrics.change_role("follower")
        elector = LeaderElector(
            client,
            election.resource_namespace or self.config.namespace,
            election.resource_name,
            identity=self.identity,
            lease=election.lease_duration,
            renew=election.renew_deadline,
            retry=election.retry_period,
            clock=self.options.clock,
            fence=self._fence,
        )
        self._health.add_live("leader-election", elector.check)
        if await elector.run(work) is LeadershipEnd.LOST:
            raise LeadershipLost(
                f'Lease "{election.resource_name}" could not be renewed within '
                f"{election.renew_deadline.total_seconds():g} s; stopping, so that another manager "
                "can lead"
            )

    @asynccontextmanager
    async def _client(self) -> AsyncIterator[KubeClient]:
        connection = self.config.client_connection
        limiter = RateLimiter(rate=connection.qps, burst=connection.burst)
        self._metrics.watch_limiter(limiter)
        client = KubeClient(
            self._credentials,
            limiter=limiter,
            user_agent="multiqueue",
            field_manager=names.FIELD_MANAGER,
            on_outcome=self._metrics.request_observer(),
            open_transport=self._fence.open,
        )
        async with client:
            yield client

    def _context(self, client: KubeClient) -> ManagerContext:
        integrations = build_registry(self.config)
        informers = build_informers(
            client,
            self.config,
            integrations,
            on_failed_object=lambda kind: self._metrics.object_failures_total.child(kind).inc(),
        )
        return ManagerContext(
            client=client,
            informers=informers,
            writer=WorkloadWriter(client, informers.workloads),
            recorder=EventRecorder(
                client,
                "kueue",
                clock=self.options.clock,
                on_dropped=self._metrics.events_dropped_total.child().inc,
            ),
            clock=self.options.clock,
            metrics=self._metrics,
            config=self.config,
            integrations=integrations,
            drain_seconds=self.options.drain_seconds,
        )

    @asynccontextmanager
    async def _observability(self, client: KubeClient) -> AsyncIterator[None]:
        self._health.add_live("components", self._supervisor.check_live)
        self._health.add_ready("started", self._check_started)
        self._health.add_ready("webhooks", self._check_webhooks)
        async with AsyncExitStack() as stack:
            metrics = parse_bind_address(self.config.metrics.bind_address)
            if metrics is not None:
                self._endpoint = MetricsEndpoint(
                    self.config,
                    metrics,
                    self._metrics.registry,
                    client=client,
                    clock=self.options.clock,
                )
                await _listen(stack, self._endpoint.server, "metrics.bindAddress")
                self.metrics_port = self._endpoint.server.port
            health = parse_bind_address(self.config.health.health_probe_bind_address)
            if health is not None:
                server = ObservabilityServer(host=health[0], port=health[1], health=self._health)
                await _listen(stack, server, "health.healthProbeBindAddress")
                self.health_port = server.port
            self.serving.set()
            log.info("serving", metrics_port=self.metrics_port, health_port=self.health_port)
            yield

    async def _wait_for_kinds(self, client: KubeClient) -> None:
        """Return once the cluster serves the required kinds; log the missing ones until then."""
        told: str | None = None

        async def is_complete() -> bool:
            nonlocal told
            problem = await find_missing_kinds(client)
            if problem is None:
                return True
            self._starting = problem
            self.waiting.set()
            if problem != told:
                log.warning("waiting for the cluster", problem=problem)
                told = problem
            return False

        await KINDS.run(is_complete, until=bool)
        self._starting = NOT_SYNCED
        self.waiting.clear()


async def _listen(stack: AsyncExitStack, server: ObservabilityServer, setting: str) -> None:
    try:
        await stack.enter_async_context(server)
    except OSError as error:
        raise OSError(
            f"{setting}: cannot listen on {server.host}:{server.port}: {error.strerror}"
        ) from error
