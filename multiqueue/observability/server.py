"""Metrics and health over HTTP, for Prometheus and the kubelet.

``/metrics`` serves the metrics; TLS and a guard can restrict it to authorized readers. ``/healthz``
says whether the process must be restarted, ``/readyz`` whether it should get traffic. Both answer
as the API server does: ``ok``, or 500 with a line per check. ``?verbose`` always shows the lines,
and ``/readyz/NAME`` runs one check.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Self

from aiohttp import web
from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4, CollectorRegistry, generate_latest

from multiqueue.serving.request import HttpRequest
from multiqueue.serving.server import Handler, HttpServer

Check = Callable[[], str | None]
"""Returns the problem, or None; must not block."""


@dataclass(frozen=True, slots=True)
class MetricsRefusal:
    """Why a request for the metrics is refused."""

    status: int
    """The HTTP status."""
    reason: str


Guard = Callable[[str, str], Awaitable[MetricsRefusal | None]]
"""Returns why an ``Authorization`` header (or "") does not give access to a path, or None."""


class HealthChecks:
    """The named checks of liveness and readiness.

    Args:
        liveness: The path of the liveness checks, without the slash.
        readiness: The path of the readiness checks, without the slash.
    """

    def __init__(self, *, liveness: str = "healthz", readiness: str = "readyz") -> None:
        self.live_path = f"/{liveness}"
        self.ready_path = f"/{readiness}"
        self._live: dict[str, Check] = {}
        self._ready: dict[str, Check] = {}

    def add_live(self, name: str, check: Check) -> None:
        """Add a liveness check: if it fails for long, the process should be restarted."""
        self._live[name] = check

    def add_ready(self, name: str, check: Check) -> None:
        """Add a readiness check: while it fails, the process should not get traffic."""
        self._ready[name] = check

    def live(self) -> dict[str, str | None]:
        """Return the problem, or None, of each liveness check."""
        return _run(self._live)

    def ready(self) -> dict[str, str | None]:
        """Return the problem, or None, of each readiness check."""
        return _run(self._ready)


class ObservabilityServer:
    """Serves metrics, health, or both, until cancelled.

    Args:
        host: The address to listen on.
        port: The port; 0 takes a free one, which `port` then names.
        registry: The metrics to serve, if any.
        health: The checks to serve, if any.
        ssl_context: The TLS context; None: plain HTTP.
        guard: Checks who may read the metrics; health is not secret and needs no check.
    """

    name = "observability"

    def __init__(
        self,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        registry: CollectorRegistry | None = None,
        health: HealthChecks | None = None,
        ssl_context: ssl.SSLContext | None = None,
        guard: Guard | None = None,
    ) -> None:
        self._server = HttpServer(
            build_handler(registry, health, guard), host=host, port=port, context=ssl_context
        )

    @property
    def host(self) -> str:
        """The address that is listened on."""
        return self._server.host

    @property
    def port(self) -> int:
        """The port that is listened on, once started."""
        return self._server.port

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Start to listen."""
        await self._server.start()

    async def stop(self) -> None:
        """Stop listening."""
        await self._server.stop()

    async def run(self) -> None:
        """Serve until cancelled."""
        async with contextlib.AsyncExitStack() as stack:
            await stack.enter_async_context(self)
            await asyncio.Event().wait()


def build_handler(
    registry: CollectorRegistry | None, health: HealthChecks | None, guard: Guard | None
) -> Handler:
    """Return the handler of all paths."""

    async def handle(request: HttpRequest) -> web.StreamResponse:
        if request.method not in {"GET", "HEAD"}:
            return web.Response(status=405, headers={"Allow": "GET,HEAD"})
        if registry is not None and request.path == "/metrics":
            return await _show_metrics(request, registry, guard)
        if health is not None:
            path, _, name = request.path.removeprefix("/").partition("/")
            if f"/{path}" == health.live_path:
                return _tell_health(request, health.live(), name)
            if f"/{path}" == health.ready_path:
                return _tell_health(request, health.ready(), name)
        return web.Response(status=404, text="404: Not Found")

    return handle


async def _show_metrics(
    request: HttpRequest, registry: CollectorRegistry, guard: Guard | None
) -> web.Response:
    if guard is not None:
        refusal = await guard(request.headers.get("Authorization", ""), request.path)
        if refusal is not None:
            return web.Response(status=refusal.status, text=f"{refusal.reason}\n")
    # Only the text format: in OpenMetrics, a gauge and a counter of one name would be one metric.
    # Thousands of queues make megabytes of text, which would block the event loop.
    body = await asyncio.to_thread(generate_latest, registry)
    return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_PLAIN_0_0_4})


def _tell_health(request: HttpRequest, results: dict[str, str | None], name: str) -> web.Response:
    if name:
        if name not in results:
            return web.Response(status=404, text=f'no check "{name}"\n')
        results = {name: results[name]}
    failed = [problem for problem in results.values() if problem is not None]
    if not failed and "verbose" not in request.query:
        return web.Response(text="ok")
    lines = [
        f"[+]{check} ok" if problem is None else f"[-]{check} failed: {problem}"
        for check, problem in results.items()
    ]
    lines.append("check failed" if failed else "check passed")
    return web.Response(text="\n".join(lines) + "\n", status=500 if failed else 200)


def _run(checks: dict[str, Check]) -> dict[str, str | None]:
    results: dict[str, str | None] = {}
    for name, check in checks.items():
        try:
            results[name] = check()
        except Exception as error:  # noqa: BLE001 - a check that breaks has failed
            results[name] = f"{type(error).__name__}: {error}"
    return results
