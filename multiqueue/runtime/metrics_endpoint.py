"""The metrics endpoint: TLS for authorized readers, or plain HTTP on a loopback address.

Deviates: upstream guards a loopback address, too; here everybody on this machine, or in this pod,
may read the metrics.

The API server identifies a token's user and reviews the rights. Parity: controller-runtime's
authentication and authorization filter, which guards upstream's metrics; whoever is bound to the
ClusterRole ``kueue-metrics-reader`` may read them.
"""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

import structlog
from prometheus_client import CollectorRegistry

from multiqueue.api.config import Configuration
from multiqueue.kube.certificates import create_authority, issue_certificate
from multiqueue.kube.client import KubeClient
from multiqueue.kube.clock import Clock
from multiqueue.kube.tls import build_server_context, load_key_pair
from multiqueue.lib.addresses import is_loopback
from multiqueue.observability.server import MetricsRefusal, ObservabilityServer
from multiqueue.visibility.authentication import Authenticator
from multiqueue.visibility.authorization import ApiAction, RightsReviewer
from multiqueue.visibility.front_proxy import FrontProxyTrust
from multiqueue.visibility.refusals import StatusRefusal

CERTIFICATES = Path("/etc/kueue/metrics/certs")
"""The folder of a certificate from elsewhere, such as cert-manager.

It is used if internalCertManagement is off.
"""
SERVICE = "kueue-controller-manager-metrics-service"
RENEW_SECONDS = 24 * 3600.0
"""How often our own certificate is renewed; it is kept in memory and valid for a year."""
REREAD_SECONDS = 60.0

log = structlog.get_logger("multiqueue.runtime")


class MetricsEndpoint:
    """The server of the metrics, and its certificate.

    Args:
        config: The configuration that says where to listen, and how.
        address: Host and port, from ``metrics.bindAddress``.
        registry: The metrics.
        client: The client that checks the bearer tokens of readers.
        clock: The clock for the validity of certificates.
        certificates: The folder with ``tls.crt`` and ``tls.key`` of a certificate from elsewhere.
    """

    name = "metrics"

    def __init__(
        self,
        config: Configuration,
        address: tuple[str, int],
        registry: CollectorRegistry,
        *,
        client: KubeClient,
        clock: Clock,
        certificates: Path = CERTIFICATES,
    ) -> None:
        host, port = address
        self._clock = clock
        self._certificates = certificates
        self._namespace = config.namespace
        self._from_files = (
            not config.internal_cert_management.enable and (certificates / "tls.crt").exists()
        )
        self._context: ssl.SSLContext | None = None
        self._shown = b""
        if is_loopback(host):
            self.server = ObservabilityServer(host=host, port=port, registry=registry)
            return
        self._context = build_server_context(config.tls)
        self._show(self._context)
        self.server = ObservabilityServer(
            host=host,
            port=port,
            registry=registry,
            ssl_context=self._context,
            guard=MetricsAccess(client).check,
        )

    async def run(self) -> None:
        """Keep the certificate fresh until cancelled. The owner of `server` starts that itself."""
        while True:
            await asyncio.sleep(REREAD_SECONDS if self._from_files else RENEW_SECONDS)
            if self._context is None:
                continue
            try:
                self._show(self._context)
            except (OSError, ValueError) as error:
                log.warning("certificate of the metrics not renewed, retrying", error=str(error))

    def _show(self, context: ssl.SSLContext) -> None:
        certificate, key = self._read() if self._from_files else self._make()
        if certificate != self._shown:
            load_key_pair(context, certificate, key)
            self._shown = certificate

    def _read(self) -> tuple[bytes, bytes]:
        folder = self._certificates
        return (folder / "tls.crt").read_bytes(), (folder / "tls.key").read_bytes()

    def _make(self) -> tuple[bytes, bytes]:
        now = self._clock.now()
        service = f"{SERVICE}.{self._namespace}.svc"
        pair = issue_certificate(create_authority(service, now), service, [service], now)
        return pair.certificate, pair.key


MAX_ASKING = 8
"""The limit of concurrent reviews: strangers must not delay the manager's own requests."""
BUSY = MetricsRefusal(503, "Too many tokens to check; try again")
NO_TOKEN = MetricsRefusal(401, "Unauthorized: a bearer token is needed")


class MetricsAccess:
    """Checks bearer tokens by TokenReview and SubjectAccessReview.

    Args:
        client: The client of the cluster that issued the tokens.
    """

    def __init__(self, client: KubeClient) -> None:
        self._authenticator = Authenticator(
            client, FrontProxyTrust
        )  # tokens only: no certificate counts
        self._authorizer = RightsReviewer(client)
        self._asking = 0

    async def check(self, authorization: str, path: str) -> MetricsRefusal | None:
        """Return why this header does not give access to the path, or None if it does."""
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            return NO_TOKEN
        if self._asking >= MAX_ASKING:
            return BUSY
        self._asking += 1
        try:
            user = await self._authenticator.authenticate(None, [("authorization", authorization)])
            await self._authorizer.authorize(user, ApiAction(verb="get", path=path))
        except StatusRefusal as refusal:
            return MetricsRefusal(refusal.code, str(refusal))
        finally:
            self._asking -= 1
        return None
