"""Assembles the visibility API: trust, certificate, server and registration."""

from __future__ import annotations

import asyncio
import ipaddress
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import structlog

from multiqueue.api.config import Configuration
from multiqueue.engine.engine import Engine
from multiqueue.jobs.context import ManagerContext, UnrecoverableError
from multiqueue.kube.certificate_source import (
    CertificateSource,
    FileCertificates,
    SecretCertificates,
    Serving,
)
from multiqueue.kube.client import KubeClient
from multiqueue.kube.credential_sources import Material
from multiqueue.kube.credentials import Credentials
from multiqueue.kube.errors import KubeError
from multiqueue.kube.informer import Informer
from multiqueue.kube.limiter import RateLimiter
from multiqueue.kube.resources import CONFIG_MAPS
from multiqueue.kube.retries import REGISTRATION
from multiqueue.kube.tls import build_server_context
from multiqueue.lib.addresses import is_loopback
from multiqueue.lib.server_address import parse_server
from multiqueue.visibility import front_proxy
from multiqueue.visibility.answers import Answers
from multiqueue.visibility.authentication import Authenticator
from multiqueue.visibility.authorization import RightsReviewer
from multiqueue.visibility.decisions import DecisionAnswers, DecisionSource
from multiqueue.visibility.explanations import ExplanationAnswers, QuotaStarts
from multiqueue.visibility.fleet.service import FleetApi
from multiqueue.visibility.fleet.whatifs import WhatIfSource
from multiqueue.visibility.front_proxy import FrontProxyTrust, read_trust
from multiqueue.visibility.positions import PositionReader
from multiqueue.visibility.registration import (
    EXTERNAL_SERVICE_NAME,
    SERVICE_NAME,
    ApiServiceRegistrar,
    External,
)
from multiqueue.visibility.remote import RemoteAnswers, WorkerClients
from multiqueue.visibility.server import VisibilityHttpServer
from multiqueue.workers.connections.fleet import Fleet

DASHBOARD_SERVICE = "multiqueue-dashboard"
SECRET_NAME = "kueue-visibility-server-cert"  # noqa: S105 - the name of a Secret
CERTIFICATE_FOLDER = Path("/visibility")
"""The folder where upstream's manifests mount cert-manager's certificate."""
CHECK_SECONDS = 300.0
"""How often certificate and registration are checked."""
REVIEWS_PER_SECOND, REVIEW_BURST = 50.0, 100.0
"""The request budget for reviews, a separate one, so that readers do not slow admission."""
LOOPBACK = "127.0.0.1"
EXPECTED = (KubeError, OSError, ValueError)
"""Expected errors while the sources of certificate and registration do not exist yet."""

log = structlog.get_logger(component="visibility")


def find_address(
    config: Configuration, server: str, environment: Mapping[str, str] = os.environ
) -> tuple[str, int] | None:
    """Return the address of a manager outside of a cluster; None: it cannot be reached.

    Nothing relies on that manager's port, so any free port is used unless an address is configured.
    Several managers may share a machine.
    """
    wanted = config.visibility_server
    if environment.get("KUBERNETES_SERVICE_HOST"):
        return wanted.bind_address, wanted.bind_port
    if wanted.bind_address and not ipaddress.ip_address(wanted.bind_address).is_unspecified:
        return wanted.bind_address, wanted.bind_port
    return (LOOPBACK, 0) if is_loopback(urlsplit(server).hostname or "") else None


def build_visibility(  # noqa: PLR0913 - the parts of the manager that it shows
    context: ManagerContext,
    engine: Engine,
    credentials: Credentials,
    *,
    address: tuple[str, int],
    leading: asyncio.Event,
    workers: WorkerClients,
    fleet: Fleet,
    decision_service: DecisionSource,
    starts: QuotaStarts,
    whatifs: WhatIfSource,
    environment: Mapping[str, str] = os.environ,
) -> VisibilityService:
    """Build the visibility API of a manager.

    Args:
        context: The manager's context.
        engine: The engine, which has the pending Workloads.
        credentials: The credentials of the API server, for a connection of its own.
        address: The result of `find_address`.
        leading: Set while this manager leads. Outside of a cluster only the leader registers
            itself; in a cluster a Service finds all managers.
        workers: Connects to the workers, for requests about jobs there.
        fleet: The workers, for the fleet API.
        decision_service: Keeps the dispatch decisions.
        starts: Estimates when Workloads start.
        whatifs: Tries changes out.
        environment: The environment variables, which show whether this is a cluster.
    """
    config = context.config
    host = address[0]
    is_outside = not environment.get("KUBERNETES_SERVICE_HOST")
    name = EXTERNAL_SERVICE_NAME if is_outside else SERVICE_NAME
    service_names = list_service_names(name, config.namespace)
    source: CertificateSource
    if config.internal_cert_management.enable:
        source = SecretCertificates(
            context.client,
            context.clock,
            namespace=config.namespace,
            name=SECRET_NAME,
            hosts=[
                *service_names,
                *([host] if host else []),
                *list_dashboard_names(config),
            ],
        )
    else:
        source = FileCertificates(CERTIFICATE_FOLDER)
    return VisibilityService(
        context,
        engine,
        credentials,
        source,
        address=address,
        leading=leading,
        registers_leader=is_outside,
        workers=workers,
        fleet=fleet,
        decision_service=decision_service,
        starts=starts,
        whatifs=whatifs,
        own_name=service_names[0],
    )


def list_dashboard_names(config: Configuration) -> list[str]:
    """Return the host names of the dashboard, which has the same certificate; empty: it is off."""
    if config.dashboard.bind_address in {"", "0"}:
        return []
    url = config.dashboard.url
    named = [parse_server(url, schemes=("https",)).host] if url else []
    return [*list_service_names(DASHBOARD_SERVICE, config.namespace), *named]


def list_service_names(service: str, namespace: str) -> list[str]:
    """Return the host names of a Service."""
    return [f"{service}.{namespace}.svc", f"{service}.{namespace}.svc.cluster.local"]


class VisibilityService:
    """Serves the visibility API, and keeps certificate and registration up to date.

    Attributes:
        registered: Set once the API server knows this server's address.
        fleet: The fleet API.
        certificates: Where the certificate comes from.
    """

    name = "visibility"

    def __init__(  # noqa: PLR0913 - the parts of the manager that it shows
        self,
        context: ManagerContext,
        engine: Engine,
        credentials: Credentials,
        source: CertificateSource,
        *,
        address: tuple[str, int],
        leading: asyncio.Event,
        registers_leader: bool,
        workers: WorkerClients,
        fleet: Fleet,
        decision_service: DecisionSource,
        starts: QuotaStarts,
        whatifs: WhatIfSource,
        own_name: str,
    ) -> None:
        self.registered = asyncio.Event()
        self._context = context
        self.certificates = source
        self._host, port = address
        self._own_name = own_name
        self._authority = b""
        self._listening = False
        self._leading = leading if registers_leader else None
        self._trust = FrontProxyTrust()
        self._logged_reason = ""
        self._registrar = ApiServiceRegistrar(context.client, context.config.namespace)
        self._reviews = KubeClient(
            credentials,
            limiter=RateLimiter(rate=REVIEWS_PER_SECOND, burst=REVIEW_BURST),
            user_agent="multiqueue-visibility",
        )
        self._config_map = Informer[dict[str, Any]](
            self._reviews,
            CONFIG_MAPS,
            namespace=front_proxy.NAMESPACE,
            field_selector=f"metadata.name={front_proxy.NAME}",
        )
        self._config_map.add_handler(self._follow_trust)
        authorizer = RightsReviewer(self._reviews)
        find = context.informers.workloads.store.get
        origin = context.config.multi_kueue.origin
        positions = PositionReader(engine)
        self.fleet = FleetApi(
            context,
            engine,
            fleet,
            positions=positions,
            decisions=decision_service,
            reviewer=authorizer,
            leading=leading,
            starts=starts,
            whatifs=whatifs,
        )
        self.server = VisibilityHttpServer(
            Answers(positions, find),
            Authenticator(self._reviews, lambda: self._trust),
            authorizer,
            host=self._host,
            port=port,
            context=build_server_context(context.config.tls),
            remote=RemoteAnswers(workers, authorizer, find, context.integrations, origin),
            decisions=DecisionAnswers(decision_service, leading, lambda key: find(key) is not None),
            explanations=ExplanationAnswers(
                engine, positions, find, leading, authorizer, starts=starts
            ),
            fleet=self.fleet,
            drain_seconds=context.drain_seconds,
        )

    async def run(self) -> None:
        """Serve until cancelled."""
        async with self._reviews, asyncio.TaskGroup() as tasks:
            beside = [
                tasks.create_task(self._config_map.run(), name="visibility trust"),
                tasks.create_task(self.fleet.run(), name="fleet figures"),
            ]
            try:
                await self._serve()
            finally:
                for task in beside:
                    task.cancel()

    async def _serve(self) -> None:
        await self._show_first()
        try:
            await self.server.start()
        except OSError as error:
            setting = "visibilityServer.bindPort"
            raise UnrecoverableError(
                f"{setting}: cannot listen on {self.server.port}: {error.strerror}"
            ) from error
        log.info("visibility listens", host=self._host, port=self.server.port)
        self._listening = True
        try:
            await self._look_after_always()
        finally:
            self._listening = False
            await self.server.stop()

    def find_own_server(self) -> Material | None:
        """Return where this process answers itself; None: only the API server can be asked.

        Outside of a cluster the API server asks the leader, so another replica does not answer.
        """
        follows = self._leading is not None and not self._leading.is_set()
        if follows or not self._listening or not self._authority:
            return None
        everywhere = not self._host or ipaddress.ip_address(self._host).is_unspecified
        host = LOOPBACK if everywhere else self._host
        return Material(
            server=f"https://{f'[{host}]' if ':' in host else host}:{self.server.port}",
            ca=self._authority,
            server_name=self._own_name,
        )

    def _follow_trust(self, _old: dict[str, Any] | None, new: dict[str, Any] | None) -> None:
        self._trust = read_trust(new)
        self.server.trust(self._trust)

    async def _show_first(self) -> None:
        """Wait for the first certificate; without one nothing can be served."""

        async def show() -> None:
            self._show(await self.certificates.load())

        def tell(error: BaseException) -> None:
            self._tell("visibility certificate not available, retrying", str(error))

        await REGISTRATION.run(show, on=EXPECTED, tell=tell)

    def _show(self, serving: Serving) -> None:
        self.server.show(serving)
        self._authority = serving.authority

    async def _look_after_always(self) -> None:
        if self._leading is not None:
            await self._leading.wait()

        def tell(error: BaseException) -> None:
            self._tell("visibility not registered, retrying", str(error))

        while True:
            await REGISTRATION.run(self.look_after_once, on=EXPECTED, tell=tell)
            await asyncio.sleep(CHECK_SECONDS)

    async def look_after_once(self) -> None:
        """Renew the certificate and the registration if due.

        Raises:
            KubeError: the API server refuses, or cannot be asked.
            OSError: the certificate files cannot be read, or are not a pair.
        """
        external = None
        if self._leading is not None:
            external = External(host=self._host, port=self.server.port)
        serving = await self.certificates.load()
        # Register the CA before serving a certificate that it signed.
        missing = await self._registrar.ensure(serving.authority, external)
        self._show(serving)
        if missing:
            self._tell("APIServices are missing: apply config/visibility", ", ".join(missing))
        else:
            self._logged_reason = ""
            self.registered.set()

    def _tell(self, what: str, why: str) -> None:
        """Log a warning once about a step that is tried again and again."""
        if why != self._logged_reason:
            self._logged_reason = why
            log.warning(what, cause=why)
