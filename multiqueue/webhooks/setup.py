"""Assembles the webhooks: certificate, server and registration."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import structlog

from multiqueue.api.config import Configuration
from multiqueue.jobs.context import ManagerContext, UnrecoverableError
from multiqueue.jobs.queue_lookup import InformerLookup
from multiqueue.jobs.registry import SupportedKind
from multiqueue.kube.certificate_source import (
    CertificateSource,
    FileCertificates,
    SecretCertificates,
    Serving,
)
from multiqueue.kube.errors import KubeError
from multiqueue.kube.retries import REGISTRATION, RetryPolicy
from multiqueue.kube.tls import build_server_context
from multiqueue.kube.trust import CertificateTrust
from multiqueue.webhooks.addresses import Address
from multiqueue.webhooks.advice import InformerView, advise_by
from multiqueue.webhooks.conversion_registration import ConversionRegistrar
from multiqueue.webhooks.endpoints import Endpoints
from multiqueue.webhooks.registration import WebhookRegistrar, release
from multiqueue.webhooks.server import WebhookServer

CHECK_SECONDS = 300.0
"""How often certificate and registration are checked if nothing else causes a check."""
FILE_SECONDS = 10.0
"""How often certificate files are compared with the served certificate."""
FILE_REGISTRATION_SECONDS = 30.0
"""How often the registration is checked if something else may change the CA in it.

A wrong CA fails writes until it is found.
"""
PROBLEM_SECONDS = 10.0
"""How often the registration is checked while the API server cannot call the webhooks."""
LOOPBACK = "127.0.0.1"
EXPECTED = (KubeError, OSError, ValueError)
"""Expected errors while the sources of certificates and registrations do not exist yet."""
_ANY_HOST = {"", "0.0.0.0", "::"}  # noqa: S104 - compared with, not bound to

log = structlog.get_logger(component="webhooks")


def build_webhooks(
    context: ManagerContext,
    *,
    environment: Mapping[str, str] = os.environ,
    file_seconds: float = FILE_SECONDS,
) -> WebhookService:
    """Build the webhooks of a manager.

    In a cluster the API server reaches them through the configured Service. Elsewhere, or if
    ``webhook.host`` is set, it reaches them through a URL on that host.
    Certificate files are compared with the served certificate every ``file_seconds``.
    """
    config = context.config
    by_url = is_reached_by_url(config, environment)
    host = config.webhook.host
    if by_url and host in _ANY_HOST:
        host = LOOPBACK
    source: CertificateSource
    if config.internal_cert_management.enable:
        source = SecretCertificates(
            context.client,
            context.clock,
            namespace=config.namespace,
            name=config.internal_cert_management.webhook_secret_name,
            hosts=serving_hosts(config, host if by_url else ""),
        )
    else:
        source = FileCertificates(Path(config.webhook.cert_dir))
    return WebhookService(context, source, host=host, by_url=by_url, file_seconds=file_seconds)


def is_reached_by_url(config: Configuration, environment: Mapping[str, str]) -> bool:
    """Whether the API server needs a URL because no Service leads to this process."""
    if config.webhook.host not in _ANY_HOST:
        return True
    return not environment.get("KUBERNETES_SERVICE_HOST")


def serving_hosts(config: Configuration, host: str) -> Sequence[str]:
    """Return the names that the certificate must be valid for, its subject first."""
    service = f"{config.internal_cert_management.webhook_service_name}.{config.namespace}"
    names = [f"{service}.svc", f"{service}.svc.cluster.local", service]
    return [*names, host] if host else names


class WebhookService:
    """Serves reviews, and keeps certificate and registration up to date.

    Every replica serves. Behind a Service all replicas register the same address, so each of them
    may do it. With URLs only the leader registers its own: no request may go to a replica that
    has ended.
    """

    name = "webhooks"

    def __init__(
        self,
        context: ManagerContext,
        source: CertificateSource,
        *,
        host: str,
        by_url: bool,
        retries: RetryPolicy = REGISTRATION,
        file_seconds: float = FILE_SECONDS,
    ) -> None:
        self._context = context
        self._file_seconds = file_seconds
        self._source = source
        self._host = host
        self._by_url = by_url
        self._retries = retries
        self._leads = False
        self._introduced = False
        self._shown: Serving | None = None
        self._problems: dict[str, str | None] = {}
        self._wake = asyncio.Event()
        self._lookup = InformerLookup(context.informers, context.integrations, context.config)
        advise = advise_by(InformerView(context.informers, context.config))
        endpoints = Endpoints(self._lookup, context.config, context.integrations, advise)
        self.server = WebhookServer(
            endpoints.table(),
            host=host,
            port=context.config.webhook.port,
            context=build_server_context(context.config.tls),
            drain_seconds=context.drain_seconds,
        )
        self.registered = asyncio.Event()
        """Set once the API server calls this replica (or the leader), or skips webhooks for now.

        If it calls them, objects are defaulted and checked from then on. Otherwise other work is
        not delayed.
        """
        self.settled = asyncio.Event()
        """Set once the API server calls the webhooks or skips them: writes no longer fail."""
        self.must_convert = False
        """Whether listed objects may need our conversion, and it is registered."""
        context.informers.secrets.add_handler(self._on_secret)
        context.integrations.add_listener(on_added=self._on_kind, on_removed=self._on_kind)

    def lead(self) -> None:
        """Register anew as the new leader: the earlier leader's address may be dead.

        While there is no certificate, there is nothing to register, so nobody waits for it.
        """
        self._leads = True
        self.registered.clear()
        if self._shown is not None:
            self.settled.clear()
        self._wake.set()

    async def run(self) -> None:
        """Serve until cancelled.

        Conversion is served and registered first: objects that the other webhooks need may be
        stored in an old version.
        """
        await self.show_first()
        await self._listen()
        log.info("webhooks listen", host=self._host, port=self.server.port)
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._know(), name="webhooks lookup")
                await self._look_after()
        finally:
            await self.server.stop()

    async def _listen(self) -> None:
        try:
            await self.server.start()
        except OSError as error:
            port = self._context.config.webhook.port
            words = f"webhook.port: cannot listen on {port}: {error.strerror}"
            raise UnrecoverableError(words) from error

    async def _know(self) -> None:
        await self._lookup.wait_until_known()
        self.server.knowing.set()

    async def load_certificate(self) -> Serving:
        """Return the certificate to serve now; renew it if due.

        Raises:
            KubeError: the Secret cannot be read or written.
            OSError: the files cannot be read.
        """
        return await self._source.load()

    async def show_first(self) -> None:
        """Wait for the first certificate; without one nothing can be served."""
        told = ""

        async def show() -> None:
            self._show(await self.load_certificate())

        async def tell(error: BaseException) -> None:
            nonlocal told
            if str(error) != told:
                told = str(error)
                log.warning("webhook certificate not available, retrying", error=told)
            if not isinstance(error, KubeError):
                await self.release()

        await self._retries.run(show, on=EXPECTED, tell=tell)

    async def release(self) -> None:
        """Let the API server skip the webhooks: missing certificate files may never come."""
        if self.settled.is_set() or not self._by_url:
            return
        try:
            released = await release(self._context.client, self._host)
        except KubeError as error:
            log.warning("webhooks not released, retrying", error=str(error))
            return
        if released:
            log.warning(
                "webhooks of an earlier run are ignored: nothing is defaulted or checked until "
                "there is a certificate",
                names=released,
                certificates=self._context.config.webhook.cert_dir,
            )
        self.settled.set()

    async def _look_after(self) -> None:
        """Keep checking after any error, since a registered webhook must be answered."""

        async def look() -> None:
            self._wake.clear()
            await self.look_after_once()

        def tell(error: BaseException) -> None:
            if isinstance(error, EXPECTED):
                log.warning("webhooks not registered, retrying", error=str(error))
                return
            log.error("webhooks not registered, retrying", exc_info=error)
            self._context.metrics.component_restarts_total.child("webhook-registration").inc()

        while True:
            await self._retries.run(look, on=Exception, tell=tell)
            await self._pause()

    async def look_after_once(self) -> None:
        """Renew the certificate if due, and write differences of the registration.

        Raises:
            KubeError: the API server refuses, or cannot be asked.
            OSError: the certificate files cannot be read, or are not a pair.
        """
        client, leads = self._context.client, self._leads
        serving = await self.load_certificate()
        trust = CertificateTrust(serving.certificate, serving.key, self._address().host)
        if any(self._problems.values()):
            self._show(serving)  # no client trusts the current certificate
        # Register the CA before serving a certificate that it signed.
        if leads or not self._by_url or not self._introduced:
            registrar = ConversionRegistrar(client, self._address())
            converting = await registrar.ensure(trust, serving.authority)
            self._tell("conversion", converting.problem)
            self.must_convert = converting.needed
            self._introduced = True
        if leads or not self._by_url:
            await self.server.knowing.wait()
            admission = WebhookRegistrar(
                client, self._context.config, self._context.integrations, self._address()
            )
            self._tell("admission", await admission.ensure(trust, serving.authority))
        self._show(serving)
        if leads == self._leads:
            self.registered.set()
            self.settled.set()

    def _tell(self, registration: str, problem: str | None) -> None:
        gauge = self._context.metrics.webhook_problem.child(registration)
        gauge.set(problem is not None)
        if problem == self._problems.get(registration):
            return
        self._problems[registration] = problem
        if problem is None:
            log.info("the API server can ask the webhooks again", registration=registration)
        else:
            log.warning(
                "the API server cannot ask the webhooks", registration=registration, problem=problem
            )

    def _show(self, serving: Serving) -> None:
        self.server.show(serving)
        self._shown = serving

    async def _pause(self) -> None:
        """Wait until the next check is due, or an event causes one."""
        loop = asyncio.get_running_loop()
        from_files = not self._context.config.internal_cert_management.enable
        seconds = FILE_REGISTRATION_SECONDS if from_files else CHECK_SECONDS
        if any(self._problems.values()):
            seconds = PROBLEM_SECONDS
        end = loop.time() + seconds
        while (left := end - loop.time()) > 0:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(left, self._file_seconds) if from_files else left):
                    await self._wake.wait()
            if self._wake.is_set() or (from_files and await self._files_changed()):
                return

    async def _files_changed(self) -> bool:
        try:
            return await self.load_certificate() != self._shown
        except OSError:
            return True  # the check logs the problem

    def _on_secret(self, old: Mapping[str, Any] | None, new: Mapping[str, Any] | None) -> None:
        """Check when the Secret changes: another replica renewed it, or it was deleted."""
        secret = new or old or {}
        if (
            secret["metadata"]["name"]
            == self._context.config.internal_cert_management.webhook_secret_name
        ):
            self._wake.set()

    def _on_kind(self, _: SupportedKind) -> None:
        """Register the webhooks of a kind that was declared or removed."""
        self._wake.set()

    def _address(self) -> Address:
        config = self._context.config
        if self._by_url:
            host = f"[{self._host}]" if ":" in self._host else self._host
            return Address(url=f"https://{host}:{self.server.port}")
        return Address(
            service_name=config.internal_cert_management.webhook_service_name,
            service_namespace=config.namespace,
        )
