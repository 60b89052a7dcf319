"""The HTTPS server of the webhooks. Handlers are synchronous and read memory only.

Conversion needs only the request, so it is served from the start. Reviews need objects which may
themselves need conversion before they can be read, so reviews wait until these are known.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable, Mapping

import structlog
from aiohttp import web

from multiqueue.kube.certified_server import CertifiedServer
from multiqueue.serving.request import HttpRequest
from multiqueue.serving.server import Bounds
from multiqueue.webhooks.conversion import answer_conversion, read_conversion, write_failure
from multiqueue.webhooks.endpoints import CONVERT, Handler
from multiqueue.webhooks.newer_kinds import find_postponement, is_path_of_a_kind
from multiqueue.webhooks.review import (
    MalformedReviewError,
    read_review,
    write_postponement,
    write_refusal,
    write_review,
)

BOUNDS = Bounds(connections=512, body_bytes=16 * 1024 * 1024)
"""The limits of bodies and connections.

A body may be twice the largest request of an API server, because it has the old and the new object.
An API server has at most 200 writing requests in flight, which is fewer than the connections.
"""
JSON = "application/json"
SLOW_SECONDS = 0.1
MAX_UNKNOWN = 32
"""How many unknown paths are logged, once each; anybody may send any."""

log = structlog.get_logger(component="webhooks")


class WebhookServer(CertifiedServer):
    """Answers AdmissionReviews and ConversionReviews.

    The certificate can change while connections are open.
    """

    def __init__(
        self,
        handlers: Mapping[str, Handler],
        *,
        host: str,
        port: int,
        context: ssl.SSLContext,
        drain_seconds: float = 0.0,
    ) -> None:
        super().__init__(
            self._serve,
            host=host,
            port=port,
            context=context,
            bounds=BOUNDS,
            drain_seconds=drain_seconds,
        )
        self._handlers = dict(handlers)
        self._unknown: set[str] = set()
        self.knowing = asyncio.Event()
        """Set by the owner once reviews can be answered."""

    async def _serve(self, request: HttpRequest) -> web.StreamResponse:
        if request.method in {"GET", "HEAD"} and request.path in {"/healthz", "/readyz"}:
            return self._tell_readiness() if request.path == "/readyz" else web.Response(text="ok")
        if request.method != "POST":
            return web.Response(status=405, headers={"Allow": "POST"})
        if request.content_type != JSON:
            return web.Response(status=400, text=f"send {JSON}, not {request.content_type}\n")
        if request.path == CONVERT:
            return await self._convert(request)
        return await self._answer(request)

    def _tell_readiness(self) -> web.Response:
        """Return whether reviews can be answered."""
        if self._server.stopping:
            return web.Response(status=503, text="it is stopping")
        if self.knowing.is_set():
            return web.Response(text="ok")
        return web.Response(status=503, text="what is there is not known yet")

    async def _answer(self, request: HttpRequest) -> web.Response:
        handler = self._handlers.get(request.path)
        if handler is None and is_path_of_a_kind(request.path):
            return await self._postpone(request)
        if handler is None:
            return web.Response(status=404, text=f"no webhook at {request.path}")
        body = await request.read()
        await self.knowing.wait()  # the API server has a timeout
        started = time.perf_counter()
        try:
            review = read_review(body)
            verdict = handler(review)
        except MalformedReviewError as error:
            return _refuse(error, write_refusal)
        except Exception:  # a bug in a rule must not stop the server; the failurePolicy decides
            log.exception("webhook failed", path=request.path, kind=review.kind, name=review.name)
            return web.Response(status=500, text="internal error; see the manager's log")
        answer = write_review(review, verdict)
        seconds = time.perf_counter() - started
        log.debug(
            "reviewed",
            path=request.path,
            operation=review.operation,
            object=f"{review.namespace}/{review.name}",
            allowed=not verdict.errors,
            seconds=round(seconds, 6),
        )
        if seconds > SLOW_SECONDS:
            log.warning("slow webhook", path=request.path, seconds=round(seconds, 3))
        return web.Response(body=answer, content_type="application/json")

    async def _postpone(self, request: HttpRequest) -> web.Response:
        """Answer a review of a kind that only a newer version knows."""
        body = await request.read()
        try:
            review = read_review(body)
        except MalformedReviewError as error:
            return _refuse(error, write_refusal)
        status = find_postponement(review)
        response = web.Response(body=write_postponement(review, status), content_type=JSON)
        if status is not None:
            response.force_close()  # so that the API server chooses a replica anew
            if request.path not in self._unknown and len(self._unknown) < MAX_UNKNOWN:
                self._unknown.add(request.path)
                log.warning(
                    "this version has no such webhook: clients are told to ask again",
                    path=request.path,
                    kind=review.kind,
                    group=review.group,
                )
        return response

    async def _convert(self, request: HttpRequest) -> web.Response:
        body = await request.read()
        started = time.perf_counter()
        try:
            conversion = read_conversion(body)
        except MalformedReviewError as error:
            return _refuse(error, lambda error: write_failure(error.uid, str(error)))
        answer = await answer_conversion(conversion)
        log.debug(
            "converted",
            version=conversion.version,
            objects=len(conversion.objects),
            seconds=round(time.perf_counter() - started, 6),
        )
        return web.Response(body=answer, content_type="application/json")


def _refuse(
    error: MalformedReviewError, write: Callable[[MalformedReviewError], bytes]
) -> web.Response:
    """Return the error, in the protocol's form if the request has a uid."""
    if error.uid:
        return web.Response(body=write(error), content_type=JSON)
    return web.Response(status=400, text=f"{error}\n")
