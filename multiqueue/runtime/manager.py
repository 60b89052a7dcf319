"""The manager: from a configuration to a working queue, in one process.

Order of a start: client, health, kinds present, informers (fed to the engine), webhooks,
leadership, controllers. A standby does all but the last and so takes over at once. A part that
fails ends the whole: a manager is never half alive.
"""

from __future__ import annotations

import asyncio
import gc
import ipaddress
import os
import socket
import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, fields
from typing import Any
from urllib.parse import urlsplit

import orjson
import structlog

from multiqueue.api import names
from multiqueue.api.config import Configuration
from multiqueue.controllers.engine_setup import build_engine
from multiqueue.controllers.setup import build_controllers
from multiqueue.jobs.context import Informers, ManagerContext, Runnable
from multiqueue.jobs.informers import build_informers
from multiqueue.jobs.setup import build_registry
from multiqueue.jobs.workload_writer import WorkloadWriter
from multiqueue.kube import resources
from multiqueue.kube.client import KubeClient
from multiqueue.kube.clock import Clock, SystemClock
from multiqueue.kube.credentials import Credentials
from multiqueue.kube.errors import AlreadyExists, Forbidden, KubeError, NotFound
from multiqueue.kube.events import EventRecorder
from multiqueue.kube.informer import Informer
from multiqueue.kube.leader_election import LeaderElector, LeadershipEnd
from multiqueue.kube.limiter import RateLimiter
from multiqueue.multikueue.setup import build_multikueue
from multiqueue.observability.metrics import Metrics
from multiqueue.observability.server import HealthChecks, ObservabilityServer
from multiqueue.runtime.addresses import parse_bind_address
from multiqueue.runtime.components import Scope, open_scope
from multiqueue.webhooks.setup import build_webhooks, is_reached_by_url

REQUIRED_KINDS = frozenset(
    {"Workload", "ClusterQueue", "LocalQueue", "ResourceFlavor", "AdmissionCheck"}
)
"""Without these nothing can be queued; other kinds are used as they appear."""
CRD_RETRY_SECONDS = 1.0
NOT_SYNCED = "informers are not synced"
WEBHOOK_SECONDS = 10.0
"""How long a new leader waits for its webhooks; a wrong registration fails its own writes."""
GC_THRESHOLDS = (50_000, 20, 100)
"""Informers hold what lives long; young garbage is collected less often than by default."""

log = structlog.get_logger("multiqueue.runtime")


class LeadershipLost(Exception):  # noqa: N818 - a fact, which ends the process
    """Another manager may lead now; this one must stop at once and start anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagerOptions:
    """What a manager is besides its configuration.

    Attributes:
        identity: Tells it from its competitors; made up by default.
        webhooks: Serve and register admission webhooks; None: where the API server can reach them.
        clock: For times in objects.
    """

    identity: str = ""
    webhooks: bool | None = None
    clock: Clock = field(default_factory=SystemClock)


class Manager:
    """Runs until cancelled, or until a part of it fails.

    Attributes:
        serving: Set once metrics and health are served.
        leading: Set while this manager is the active one.
        waiting: Set while the cluster lacks something without which there is nothing to do.
        metrics_port: Where metrics are served, once they are; None where they are not.
        health_port: Likewise for health.
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
        self._identity = self.options.identity or f"{socket.gethostname()}_{uuid.uuid4()}"
        self._metrics = Metrics()
        self._health = HealthChecks()
        self._starting: str | None = "not started"
        self._registered: asyncio.Event | None = None
        self._webhooks_settled: asyncio.Event | None = None

    async def run(self) -> None:
        """Work until cancelled; leadership is released on the way out."""
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self._observability())
            client = await stack.enter_async_context(self._client())
            await self._wait_for_kinds(client)
            await self._ensure_namespace(client)
            scope = await stack.enter_async_context(open_scope())
            context = self._context(client)
            await self._work(scope, context)

    async def until_at_work(self) -> None:
        """Return once this manager leads and, where it serves webhooks, is asked by the server."""
        await self.leading.wait()
        if self._registered is not None:
            await self._registered.wait()

    async def _work(self, scope: Scope, context: ManagerContext) -> None:
        engine = build_engine(self.config)
        # Connected before the informers run, so that the engine sees everything from the start.
        leading_parts = [*build_controllers(context, engine), *build_multikueue(context)]
        scope.create_task(context.recorder.run(), name="events")
        if self._serves_webhooks():
            webhooks = build_webhooks(context)
            self._registered = webhooks.registered
            self._webhooks_settled = webhooks.settled
            scope.start(webhooks)
        informers = list_informers(context.informers)
        for informer in informers:
            scope.create_task(informer.run(), name=f"informer {informer.resource.plural}")
        await self._wait_until_settled(informers)
        tune_garbage_collector()
        self._starting = None
        log.info("ready", server=self._credentials.server, identity=self._identity)
        await self._lead(context.client, leading_parts)

    async def _wait_for_webhooks(self) -> None:
        """An earlier run may have registered an address at which nobody listens any more."""
        if self._webhooks_settled is None:
            return
        try:
            async with asyncio.timeout(WEBHOOK_SECONDS):
                await self._webhooks_settled.wait()
        except TimeoutError:
            log.warning(
                "webhooks are not registered yet; starting to work without them",
                waited_seconds=WEBHOOK_SECONDS,
            )

    def _check_webhooks(self) -> str | None:
        if self._registered is None or self._registered.is_set():
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
            await self._wait_for_webhooks()
            self._metrics.change_role("leader" if election.leader_elect else "standalone")
            self.leading.set()
            try:
                async with asyncio.TaskGroup() as tasks:
                    scope = Scope(tasks)
                    for part in parts:
                        scope.start(part)
            finally:
                self.leading.clear()

        if not election.leader_elect:
            await work()
            return
        self._metrics.change_role("follower")
        elector = LeaderElector(
            client,
            election.resource_namespace or self.config.namespace,
            election.resource_name,
            identity=self._identity,
            lease=election.lease_duration,
            renew=election.renew_deadline,
            retry=election.retry_period,
            clock=self.options.clock,
        )
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
        )
        async with client:
            yield client

    def _context(self, client: KubeClient) -> ManagerContext:
        integrations = build_registry(self.config)
        informers = build_informers(client, self.config, integrations)
        return ManagerContext(
            client=client,
            informers=informers,
            writer=WorkloadWriter(client, informers.workloads),
            recorder=EventRecorder(client, "kueue", clock=self.options.clock),
            clock=self.options.clock,
            metrics=self._metrics,
            config=self.config,
            integrations=integrations,
        )

    @asynccontextmanager
    async def _observability(self) -> AsyncIterator[None]:
        self._health.add_ready("started", lambda: self._starting)
        self._health.add_ready("webhooks", self._check_webhooks)
        async with AsyncExitStack() as stack:
            metrics = parse_bind_address(self.config.metrics.bind_address)
            if metrics is not None:
                server = ObservabilityServer(
                    host=metrics[0], port=metrics[1], registry=self._metrics.registry
                )
                await stack.enter_async_context(server)
                self.metrics_port = server.port
            health = parse_bind_address(self.config.health.health_probe_bind_address)
            if health is not None:
                server = ObservabilityServer(host=health[0], port=health[1], health=self._health)
                await stack.enter_async_context(server)
                self.health_port = server.port
            self.serving.set()
            log.info("serving", metrics_port=self.metrics_port, health_port=self.health_port)
            yield

    async def _wait_for_kinds(self, client: KubeClient) -> None:
        """Return once the cluster serves our kinds; say what is missing until then."""
        told: str | None = None
        while True:
            problem = await _find_missing_kinds(client)
            if problem is None:
                self._starting = NOT_SYNCED
                self.waiting.clear()
                return
            self._starting = problem
            self.waiting.set()
            if problem != told:
                log.warning("waiting for the cluster", problem=problem)
                told = problem
            await asyncio.sleep(CRD_RETRY_SECONDS)

    async def _ensure_namespace(self, client: KubeClient) -> None:
        """Our namespace holds the Lease and the kubeconfigs of workers."""
        namespace = self.config.namespace
        try:
            await client.get(resources.NAMESPACES, namespace)
        except NotFound:
            body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
            try:
                await client.create(resources.NAMESPACES, body)
                log.info("created namespace", namespace=namespace)
            except AlreadyExists:
                return
        except Forbidden:
            # Least privilege: inside a cluster the namespace is where we run, so it exists.
            return

    async def _wait_until_settled(self, informers: list[Informer[Any]]) -> None:
        seconds = self.config.controller.cache_sync_timeout.total_seconds()
        self._starting = NOT_SYNCED
        try:
            async with asyncio.timeout(seconds):
                for informer in informers:
                    await informer.settled.wait()
        except TimeoutError:
            missing = [
                f"{informer.resource.plural} ({informer.last_error or 'no answer'})"
                for informer in informers
                if not informer.settled.is_set()
            ]
            raise TimeoutError(
                f"not synced within {seconds:g} s: {', '.join(missing)}; check the API server and "
                "the permissions of this manager"
            ) from None


def can_reach_webhooks(server: str, config: Configuration, environment: Mapping[str, str]) -> bool:
    """Whether an API server reaches the webhooks of this process, as far as one can tell from here.

    Webhooks that are registered but out of reach refuse every Job with a queue, so where nothing
    speaks for it they stay off; the manager is correct without them.
    """
    if config.webhook.host not in {"", "0.0.0.0", "::"}:  # noqa: S104 - read, not bound
        return True
    if not is_reached_by_url(config, environment):
        return True
    host = urlsplit(server).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def list_informers(informers: Informers) -> list[Informer[Any]]:
    """Return every informer of a manager."""
    found: list[Informer[Any]] = []
    for row in fields(informers):
        value = getattr(informers, row.name)
        found.extend([value] if isinstance(value, Informer) else value.values())
    return found


def tune_garbage_collector() -> None:
    """Keep what was loaded out of every further collection: it lives as long as the process."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)


async def _find_missing_kinds(client: KubeClient) -> str | None:
    """Return what is in the way of a start, or None."""
    try:
        response = await client.request("GET", f"/apis/{names.V1BETA2}")
        served = {row["kind"] for row in orjson.loads(response.body).get("resources") or ()}
    except NotFound:
        served = set()
    except KubeError as error:
        if not error.retryable:
            raise
        return f"cannot reach the cluster: {error}"
    missing = sorted(REQUIRED_KINDS - served)
    if not missing:
        return None
    return (
        f"the cluster does not serve {', '.join(missing)} of {names.V1BETA2}; install the "
        "CustomResourceDefinitions: kubectl apply --server-side -f config/crd"
    )
