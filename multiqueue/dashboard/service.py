"""The component of a manager that serves the dashboard, if the configuration has an address."""

from __future__ import annotations

import asyncio

import structlog

from multiqueue.api.config.types import PROXY
from multiqueue.dashboard.login import Login
from multiqueue.dashboard.reader_clients import ReaderClients
from multiqueue.dashboard.server import DashboardServer
from multiqueue.jobs.context import ManagerContext, UnrecoverableError
from multiqueue.kube.client import KubeClient
from multiqueue.kube.credentials import Credentials
from multiqueue.kube.limiter import RateLimiter
from multiqueue.kube.retries import REGISTRATION
from multiqueue.kube.tls import build_server_context
from multiqueue.lib.server_address import parse_server
from multiqueue.visibility.authentication import Authenticator
from multiqueue.visibility.front_proxy import FrontProxyTrust
from multiqueue.visibility.setup import (
    CHECK_SECONDS,
    EXPECTED,
    VisibilityService,
    list_dashboard_names,
)

REVIEWS_PER_SECOND, REVIEW_BURST = 20.0, 40.0
"""The budget for TokenReviews; unknown tokens must not delay anything else."""

log = structlog.get_logger(component="dashboard")


class DashboardService:
    """Serves the dashboard, and keeps its certificate up to date.

    Args:
        context: The manager's context.
        credentials: The manager's credentials: for TokenReviews, and nothing else.
        visibility: The visibility API of this process: its certificate is that of the dashboard,
            feeds are read from it, and actions are noted in its changes.
        address: Host and port to listen on.

    Attributes:
        serving: Set while it listens.
        port: The port of that.
    """

    name = "dashboard"

    def __init__(
        self,
        context: ManagerContext,
        credentials: Credentials,
        visibility: VisibilityService,
        address: tuple[str, int],
    ) -> None:
        self.serving = asyncio.Event()
        self._context = context
        self._credentials = credentials
        self._visibility = visibility
        self._host, self.port = address

    async def run(self) -> None:
        """Serve until cancelled."""
        reviews = KubeClient(
            self._credentials,
            limiter=RateLimiter(rate=REVIEWS_PER_SECOND, burst=REVIEW_BURST),
            user_agent="multiqueue-dashboard-login",
        )
        find_own = self._visibility.find_own_server
        async with reviews, ReaderClients(self._credentials, find_own) as clients:
            context = self._context
            url = context.config.dashboard.url
            address = parse_server(url) if url else None
            server = DashboardServer(
                # Tokens only: without trusted authorities no client certificate counts.
                Login(Authenticator(reviews, FrontProxyTrust), context.clock),
                clients,
                context.clock,
                names=list_dashboard_names(context.config),
                public=address.origin.removesuffix(":443") if address else "",
                base=address.path if address else "",
                host=self._host,
                port=self.port,
                context=build_server_context(context.config.tls),
                drain_seconds=context.drain_seconds,
                system_namespace=context.config.namespace,
                acts=context.config.dashboard.actions,
                proxied=context.config.dashboard.auth.mode == PROXY,
                note_action=self._visibility.fleet.note_action,
            )
            await self._serve(server)

    async def _serve(self, server: DashboardServer) -> None:
        await self._renew(server)
        try:
            await server.start()
        except OSError as error:
            raise UnrecoverableError(
                f"dashboard.bindAddress: cannot listen on {self.port}: {error.strerror}"
            ) from error
        self.port = server.port
        log.info("dashboard listens", port=self.port)
        self.serving.set()
        try:
            while True:
                await asyncio.sleep(CHECK_SECONDS)
                await self._renew(server)
        finally:
            self.serving.clear()
            await server.stop()

    async def _renew(self, server: DashboardServer) -> None:
        async def show() -> None:
            server.show(await self._visibility.certificates.load())

        def tell(error: BaseException) -> None:
            log.warning("certificate of the dashboard not available, retrying", error=str(error))

        await REGISTRATION.run(show, on=EXPECTED, tell=tell)
