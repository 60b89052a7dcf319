"""The HTTPS server of the visibility API: who asks, may they, then the answer."""

from __future__ import annotations

import ssl

from aiohttp import web

from multiqueue.kube.certificate_source import Serving
from multiqueue.kube.tls import load_key_pair
from multiqueue.visibility.answers import Answers, status_response
from multiqueue.visibility.authentication import Authenticator, User
from multiqueue.visibility.authorization import OPEN_PATHS, Action, Authorizer, action_of
from multiqueue.visibility.decisions import DecisionAnswers
from multiqueue.visibility.front_proxy import Trust
from multiqueue.visibility.refusals import Refusal, too_many_requests
from multiqueue.visibility.remote import RemoteAnswers
from multiqueue.visibility.remote_documents import GROUP

MAX_IN_FLIGHT = 100
MAX_BODY_BYTES = 64 * 1024
SHUTDOWN_SECONDS = 5.0


class VisibilityServer:
    """Serves until stopped. Certificate and trust can change while connections are open."""

    def __init__(
        self,
        answers: Answers,
        authenticator: Authenticator,
        authorizer: Authorizer,
        *,
        host: str,
        port: int,
        context: ssl.SSLContext,
        remote: RemoteAnswers | None = None,
        decisions: DecisionAnswers | None = None,
    ) -> None:
        self._answers = answers
        self.remote = remote
        self._decisions = decisions
        self._authenticator = authenticator
        self._authorizer = authorizer
        self._host = host
        self._port = port
        self._context = context
        self._runner: web.AppRunner | None = None
        self._shown = b""
        self._trusted: set[str] = set()
        self._in_flight = 0

    @property
    def port(self) -> int:
        """The port that is listened on, once started."""
        return self._port

    def show(self, serving: Serving) -> None:
        """Use this certificate from the next connection on.

        Raises:
            ssl.SSLError, ValueError: certificate and key are unusable, or not a pair: the one
                before stays.
        """
        if serving.certificate != self._shown:
            load_key_pair(self._context, serving.certificate, serving.key)
            self._shown = serving.certificate

    def trust(self, trust: Trust) -> None:
        """Let clients show certificates of these authorities from the next connection on.

        An authority that is given up stays known to TLS; what counts is what `Authenticator` makes
        of the certificate.
        """
        if trust.pem and trust.pem not in self._trusted:
            self._context.load_verify_locations(cadata=trust.pem)
            self._context.verify_mode = ssl.CERT_OPTIONAL
            self._trusted.add(trust.pem)

    async def start(self) -> None:
        """Listen.

        Raises:
            OSError: the port is taken.
        """
        app = web.Application(client_max_size=MAX_BODY_BYTES)
        app.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(
            app,
            access_log=None,
            shutdown_timeout=SHUTDOWN_SECONDS,
            handler_cancellation=True,  # whoever leaves a stream ends it on the worker, too
        )
        await self._runner.setup()
        site = web.TCPSite(self._runner, self._host or None, self._port, ssl_context=self._context)
        await site.start()
        if not self._port:
            self._port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        """Answer what is under way, then close."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def _answer(self, http: web.Request) -> web.StreamResponse:
        action = action_of(http.method, http.path)
        try:
            if action.path.startswith(OPEN_PATHS):  # probes must not wait behind others
                return await self._answers.answer(http, action)
            decisions = self._decisions if DecisionAnswers.is_asked(action) else None
            if self.remote is not None and _is_remote(action) and decisions is None:
                # Streams have limits of their own.
                return await self.remote.answer(http, action, await self._admit(http, action))
            if self._in_flight >= MAX_IN_FLIGHT:
                raise too_many_requests()
            self._in_flight += 1
            try:
                await self._admit(http, action)
                if decisions is not None:
                    return await decisions.answer(http, action)
                return await self._answers.answer(http, action)
            finally:
                self._in_flight -= 1
        except Refusal as refusal:
            return status_response(refusal)

    async def _admit(self, http: web.Request, action: Action) -> User:
        """Return who asks, if they may."""
        certificate = _client_certificate(http)
        user = await self._authenticator.authenticate(certificate, http.headers.items())
        await self._authorizer.authorize(user, action)
        return user


def _is_remote(action: Action) -> bool:
    return action.group == GROUP and bool(action.resource)


def _client_certificate(http: web.Request) -> bytes | None:
    connection = http.transport.get_extra_info("ssl_object") if http.transport else None
    certificate: bytes | None = connection.getpeercert(binary_form=True) if connection else None
    return certificate
