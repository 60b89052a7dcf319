"""The HTTPS server of the visibility API: authenticate, authorize, answer."""

from __future__ import annotations

import asyncio
import ssl

from aiohttp import web

from multiqueue.kube.certified_server import CertifiedServer
from multiqueue.serving.request import BODY_SECONDS, BodyTimeout, HttpRequest
from multiqueue.serving.server import Bounds
from multiqueue.visibility import refusals
from multiqueue.visibility.answers import Answers, status_response
from multiqueue.visibility.authentication import AuthenticatedUser, Authenticator
from multiqueue.visibility.authorization import (
    OPEN_PATHS,
    WATCH,
    ApiAction,
    RightsReviewer,
    action_of,
)
from multiqueue.visibility.decisions import DecisionAnswers
from multiqueue.visibility.explanations import ExplanationAnswers
from multiqueue.visibility.fleet.service import FleetApi
from multiqueue.visibility.front_proxy import FrontProxyTrust
from multiqueue.visibility.refusals import StatusRefusal
from multiqueue.visibility.remote import RemoteAnswers
from multiqueue.visibility.remote_documents import GROUP
from multiqueue.visibility.slots import Slots

MAX_ANSWERS, MAX_ANSWERS_OF_A_USER = 100, 20
"""The limits of concurrent answers; a dashboard sends a few requests at once."""
ANSWER_SECONDS = 60.0
"""How long an answer may take to be read; API servers end requests after a minute, too."""
BOUNDS = Bounds(connections=1024, body_bytes=64 * 1024)
"""Twice the limit of answers and streams: requests not yet admitted need some, too."""


class VisibilityHttpServer(CertifiedServer):
    """Serves until stopped. Certificate and trust can change while connections are open."""

    def __init__(  # noqa: PLR0913 - what it answers from, and how it is reached
        self,
        answers: Answers,
        authenticator: Authenticator,
        authorizer: RightsReviewer,
        *,
        host: str,
        port: int,
        context: ssl.SSLContext,
        remote: RemoteAnswers | None = None,
        decisions: DecisionAnswers | None = None,
        explanations: ExplanationAnswers | None = None,
        fleet: FleetApi | None = None,
        drain_seconds: float = 0.0,
    ) -> None:
        super().__init__(
            self._answer,
            host=host,
            port=port,
            context=context,
            bounds=BOUNDS,
            drain_seconds=drain_seconds,
        )
        self._answers = answers
        self.remote = remote
        self._decisions = decisions
        self._explanations = explanations
        self.fleet = fleet
        self._authenticator = authenticator
        self._authorizer = authorizer
        self._trusted: set[str] = set()
        self._slots = Slots(MAX_ANSWERS, MAX_ANSWERS_OF_A_USER)

    def trust(self, trust: FrontProxyTrust) -> None:
        """Accept client certificates of these authorities from the next connection on.

        TLS keeps accepting a removed authority; `Authenticator` decides which certificates count.
        """
        if trust.pem and trust.pem not in self._trusted:
            self._context.load_verify_locations(cadata=trust.pem)
            self._context.verify_mode = ssl.CERT_OPTIONAL
            self._trusted.add(trust.pem)

    async def stop(self) -> None:
        """Answer for ``drain_seconds``, finish requests in progress, then close."""
        if self.fleet is not None:
            self.fleet.close()
        await super().stop()

    async def _answer(self, http: HttpRequest) -> web.StreamResponse:
        action = action_of(http.method, http.path, http.query)
        try:
            if action.path.startswith(OPEN_PATHS):  # probes must not wait for other requests
                return await self._answers.answer(http, action)
            user = await self._admit(http, action)
            if http.method == "HEAD":  # as of API servers: answers of any length are streamed
                raise refusals.method_not_allowed()
            is_short = DecisionAnswers.is_asked(action) or ExplanationAnswers.is_asked(action)
            if self.remote is not None and _is_remote(action) and not is_short:
                # Streams have their own limits.
                return await self.remote.answer(http, action, user)
            if self.fleet is not None and FleetApi.is_asked(action) and action.verb == WATCH:
                return await self._stream(http, action, user)
            await self._receive(http)
            async with asyncio.timeout(ANSWER_SECONDS):
                with self._slots.take(user.name):
                    return await self._answer_short(http, action, user)
        except TimeoutError:
            if http.writer.output_size and http.transport is not None:
                http.transport.abort()  # a clean end would mean that the answer is complete
            return status_response(refusals.not_answered_in_time(ANSWER_SECONDS))
        except StatusRefusal as refusal:
            return status_response(refusal)

    async def _answer_short(
        self, http: HttpRequest, action: ApiAction, user: AuthenticatedUser
    ) -> web.StreamResponse:
        if self._decisions is not None and DecisionAnswers.is_asked(action):
            return await self._decisions.answer(http, action)
        if self._explanations is not None and ExplanationAnswers.is_asked(action):
            return await self._explanations.answer(http, action, user)
        if self.fleet is not None and FleetApi.is_asked(action):
            return await self.fleet.answer(http, action, user)
        return await self._answers.answer(http, action)

    async def _stream(
        self, http: HttpRequest, action: ApiAction, user: AuthenticatedUser
    ) -> web.StreamResponse:
        """Serve a feed or a watch of the fleet API, which have limits of their own."""
        assert self.fleet is not None, "the caller has looked"
        certificate = _client_certificate(http)

        async def recheck() -> None:
            await self._authenticator.authenticate(certificate, http.headers.items())

        is_proxied = certificate is not None and "X-Remote-User" in http.headers
        return await self.fleet.stream(http, action, user, recheck, is_proxied=is_proxied)

    async def _receive(self, http: HttpRequest) -> None:
        """Read the body before taking a slot, since a client may send slowly."""
        try:
            await http.read()
        except BodyTimeout as error:
            raise refusals.body_not_in_time(BODY_SECONDS) from error
        except web.HTTPRequestEntityTooLarge as error:
            raise refusals.body_too_large(BOUNDS.body_bytes) from error

    async def _admit(self, http: HttpRequest, action: ApiAction) -> AuthenticatedUser:
        """Return the user who sent the request, if they are authorized."""
        certificate = _client_certificate(http)
        user = await self._authenticator.authenticate(certificate, http.headers.items())
        await self._authorizer.authorize(user, action)
        return user


def _is_remote(action: ApiAction) -> bool:
    return action.group == GROUP and bool(action.resource)


def _client_certificate(http: HttpRequest) -> bytes | None:
    connection = http.transport.get_extra_info("ssl_object") if http.transport else None
    certificate: bytes | None = connection.getpeercert(binary_form=True) if connection else None
    return certificate
