"""Admission and conversion webhooks whose answers the test writes."""

import base64
import contextlib
import json
import ssl
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from typing import Any

from aiohttp import web

from multiqueue.embedded.server.certificates import create_authority, server_context

Answers = Callable[[dict[str, Any]], dict[str, Any]]


class WebhookServer:
    """Records requests and answers them by path."""

    def __init__(self, url: str, authority: bytes) -> None:
        self.url = url
        self.ca_bundle = base64.b64encode(authority).decode()
        self.requests: list[dict[str, Any]] = []
        self.answers: dict[str, Answers] = {}
        self.runner: web.AppRunner | None = None

    async def handle(self, request: web.Request) -> web.Response:
        if self.runner is None and request.transport is not None:
            request.transport.abort()  # it was amid its handshake when this server stopped
        review = await request.json()
        self.requests.append(review["request"])
        answer = self.answers[request.path](review["request"])
        verdict = {"allowed": True} if review["kind"] == "AdmissionReview" else {}
        response = {"uid": review["request"]["uid"], **verdict, **answer}
        body = {"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response}
        return web.json_response(body)

    async def stop(self) -> None:
        """Answer no more, as in an outage."""
        if self.runner is None:
            return
        for site in list(self.runner.sites):
            await site.stop()  # or who was cut off comes right back
        runner, self.runner = self.runner, None
        connections = runner.server.connections if runner.server else []
        for transport in [each.transport for each in connections if each.transport is not None]:
            transport.abort()  # a real server keeps them, and does not say goodbye in time
        await runner.cleanup()

    def client_config(self, path: str) -> dict[str, Any]:
        return {"url": self.url + path, "caBundle": self.ca_bundle}


@contextlib.asynccontextmanager
async def serve_webhook() -> AsyncIterator[WebhookServer]:
    """Serve on loopback over TLS."""
    now = datetime.now(UTC)
    authority = create_authority(now)
    context: ssl.SSLContext = server_context(authority, ["127.0.0.1", "hooks.test.svc"], now)
    app = web.Application()
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    server = WebhookServer("", authority.certificate)
    app.router.add_post("/{path:.*}", server.handle)
    server.runner = runner
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
    await site.start()
    server.url = f"https://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield server
    finally:
        await server.stop()


def json_patch(*operations: dict[str, Any]) -> dict[str, Any]:
    """The part of a response that carries a patch."""
    encoded = base64.b64encode(json.dumps(operations).encode()).decode()
    return {"patchType": "JSONPatch", "patch": encoded}
