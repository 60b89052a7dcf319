"""The HTTPS server of the webhooks. Handlers are synchronous and read memory only.

Conversion needs nothing but the request, and is answered from the start: the objects that reviews
are judged by may themselves have to be converted before they can be read. Reviews wait until then.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Mapping

import structlog
from aiohttp import web

from multiqueue.kube.certificate_source import Serving
from multiqueue.kube.tls import load_key_pair
from multiqueue.webhooks.conversion import answer_conversion, read_conversion
from multiqueue.webhooks.endpoints import CONVERT, Handler
from multiqueue.webhooks.review import MalformedReviewError, read_review, write_review

MAX_BODY_BYTES = 16 * 1024 * 1024
"""Twice the largest request of an API server, for the old object beside the new one."""
SHUTDOWN_SECONDS = 5.0
SLOW_SECONDS = 0.1

log = structlog.get_logger(component="webhooks")


class WebhookServer:
    """Answers AdmissionReviews and ConversionReviews.

    The certificate can change while connections are open.
    """

    def __init__(
        self, handlers: Mapping[str, Handler], *, host: str, port: int, context: ssl.SSLContext
    ) -> None:
        self._handlers = dict(handlers)
        self._host = host
        self._port = port
        self._context = context
        self._runner: web.AppRunner | None = None
        self._shown = b""
        self.knowing = asyncio.Event()
        """Set by the owner once reviews can be judged."""

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
        if serving.certificate == self._shown:
            return
        load_key_pair(self._context, serving.certificate, serving.key)
        self._shown = serving.certificate

    async def start(self) -> None:
        """Listen.

        Raises:
            OSError: the port is taken.
        """
        app = web.Application(client_max_size=MAX_BODY_BYTES)
        app.router.add_get("/healthz", self._tell_health)
        app.router.add_get("/readyz", self._tell_readiness)
        app.router.add_post(CONVERT, self._convert)
        app.router.add_post("/{path:.*}", self._answer)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=SHUTDOWN_SECONDS)
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

    async def _tell_health(self, request: web.Request) -> web.Response:
        """Answer: the event loop turns."""
        del request
        return web.Response(text="ok")

    async def _tell_readiness(self, request: web.Request) -> web.Response:
        """Say whether reviews can be judged."""
        del request
        if self.knowing.is_set():
            return web.Response(text="ok")
        return web.Response(status=503, text="what is there is not known yet")

    async def _answer(self, request: web.Request) -> web.Response:
        handler = self._handlers.get(request.path)
        if handler is None:
            return web.Response(status=404, text=f"no webhook at {request.path}")
        body = await request.read()
        await self.knowing.wait()  # the API server says how long it waits
        started = time.perf_counter()
        try:
            review = read_review(body)
        except MalformedReviewError as error:
            return web.Response(status=400, text=str(error))
        try:
            verdict = handler(review)
        except Exception:  # a bug in a rule must not take the server down; the policy decides
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

    async def _convert(self, request: web.Request) -> web.Response:
        body = await request.read()
        started = time.perf_counter()
        try:
            conversion = read_conversion(body)
        except MalformedReviewError as error:
            return web.Response(status=400, text=str(error))
        answer = await answer_conversion(conversion)
        log.debug(
            "converted",
            version=conversion.version,
            objects=len(conversion.objects),
            seconds=round(time.perf_counter() - started, 6),
        )
        return web.Response(body=answer, content_type="application/json")
